//! The program `sim-accelerator`: announces simulated devices to the kubelet of this node.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use sim_accelerator::devices::{HostMount, ResourceName};
use sim_accelerator::{Simulation, run};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A real kubelet device plugin (v1beta1) whose devices do not exist.
#[derive(Debug, Parser)]
#[command(name = "sim-accelerator", version)]
struct Arguments {
    /// The extended resource to announce, such as enflame.com/gcu.
    #[arg(long)]
    resource: ResourceName,
    /// How many devices to announce.
    #[arg(long, default_value_t = 1)]
    count: u32,
    /// The kubelet's device plugin directory.
    #[arg(long, default_value = "/var/lib/kubelet/device-plugins")]
    plugin_dir: PathBuf,
    /// The variable that carries the allocated ids into a container.
    #[arg(long, default_value = "VISIBLE_DEVICES")]
    env: String,
    /// A host path that each allocation mounts: HOST:CONTAINER[:ro]. May be repeated.
    #[arg(long)]
    mount: Vec<HostMount>,
    /// A file that lists the unhealthy devices, one id a line, or "all".
    #[arg(long)]
    health_file: Option<PathBuf>,
}

impl From<Arguments> for Simulation {
    fn from(arguments: Arguments) -> Self {
        let Arguments {
            resource,
            count,
            plugin_dir,
            env,
            mount,
            health_file,
        } = arguments;
        Self {
            resource,
            count,
            visible_devices_variable: env,
            mounts: mount,
            plugin_directory: plugin_dir,
            health_file,
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    match announce(Arguments::parse().into()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn announce(simulation: Simulation) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
    let on_signal = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        on_signal.cancel();
    });
    match run(simulation, stop).await {
        Ok(()) => Ok(()),
        Err(error) => {
            if let Some(hint) = error.hint() {
                eprintln!("  fix: {hint}");
            }
            Err(error.into())
        }
    }
}
