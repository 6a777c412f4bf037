//! Brings a packed model's bytes to a node, proves them, and exposes them read-only.

mod command;
mod failure;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Brings packed models to a node, every byte proven
#[derive(Debug, Parser)]
#[command(name = "node-fetcher", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Pull(command::pull::PullArgs),
    Serve(command::serve::ServeArgs),
}

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("PLIMSOLL_LOG");
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let colour = std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt()
        .with_ansi(colour)
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let done = match Arguments::parse().command {
        Command::Pull(arguments) => arguments.run().await,
        Command::Serve(arguments) => arguments.run().await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}
