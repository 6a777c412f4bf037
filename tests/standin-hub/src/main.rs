//! A stand-in for model hubs, with scripted faults.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use standin_hub::{FaultScript, HubConfig, StandinHub, write_qwen3_8b};

/// Speaks the HTTP contracts of Hugging Face and ModelScope over a folder owner/name/files.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Subcommand)]
enum Command {
    /// Write the shape of Qwen3-8B (sparse shards, true headers) into a folder.
    MakeQwen3_8b {
        /// The repository's folder, for example ROOT/Qwen/Qwen3-8B.
        folder: PathBuf,
    },
}

#[derive(clap::Args)]
struct Serve {
    /// Folder that holds owner/name/files.
    #[arg(long, required = true)]
    root: Option<PathBuf>,
    /// Address of the hub.
    #[arg(long, default_value = "127.0.0.1:8081")]
    listen: SocketAddr,
    /// Address of the content network behind it; by default a free port of the same host.
    #[arg(long)]
    content_network: Option<SocketAddr>,
    /// Entries of a page of the listing.
    #[arg(long, default_value_t = 3)]
    page_size: usize,
    /// The token that opens private and gated repositories.
    #[arg(long, env = "STANDIN_HUB_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// JSON file with faults.
    #[arg(long)]
    script: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("standin-hub: {error:#}");
            ExitCode::from(1)
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    match arguments.command {
        Some(Command::MakeQwen3_8b { folder }) => {
            let total = write_qwen3_8b(&folder).with_context(|| format!("cannot write {}", folder.display()))?;
            println!("{} ({total} bytes of tensors, none on the disk)", folder.display());
            Ok(())
        }
        None => tokio::runtime::Runtime::new()?.block_on(serve(arguments.serve)),
    }
}

async fn serve(arguments: Serve) -> anyhow::Result<()> {
    let root = arguments.root.context("--root is missing")?;
    anyhow::ensure!(root.is_dir(), "{} is no folder", root.display());
    let mut config = HubConfig::new(root);
    config.page_size = arguments.page_size.max(1);
    config.token = arguments.token;
    if let Some(file) = arguments.script {
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        config.script = FaultScript::parse(&text).with_context(|| format!("{} is no fault script", file.display()))?;
    }
    let beside = SocketAddr::new(arguments.listen.ip(), 0);
    let hub = StandinHub::start_on(arguments.listen, arguments.content_network.unwrap_or(beside), config)
        .await
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    println!("hub {} content-network http://{}", hub.url(), hub.content_network());
    Ok(hub.join().await?)
}
