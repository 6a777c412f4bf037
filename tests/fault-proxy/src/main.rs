//! A proxy in front of a registry or hub that injects scripted faults.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;
use fault_proxy::{FaultProxy, FaultScript};

/// A proxy in front of a registry or hub that injects scripted faults.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// Address to listen on; port 0 for any, printed on stdout.
    #[arg(long)]
    listen: String,
    /// The server behind, such as `http://127.0.0.1:5000`.
    #[arg(long)]
    upstream: String,
    /// JSON file with the faults, a list such as
    /// `[{"path": "/blobs/", "method": "GET", "times": 3, "fault": {"kind": "wrong-byte", "at": 1000}}]`.
    #[arg(long)]
    script: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments {
        listen,
        upstream,
        script,
    } = Arguments::parse();
    let script = match script {
        None => FaultScript::default(),
        Some(path) => {
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            FaultScript::parse(&text).with_context(|| format!("{} is no list of faults", path.display()))?
        }
    };
    let proxy = FaultProxy::start(&listen, &upstream, script).await?;
    println!("{}", proxy.address());
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => result.context("cannot wait for a signal"),
        _ = terminate.recv() => Ok(()),
    }
}
