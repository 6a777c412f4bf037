//! `cargo xtask bench`: ratios of one run on one machine, never absolute claims.

mod decide;
mod measure;
mod packer;

use std::process::ExitCode;

use clap::Subcommand;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Debug, Subcommand)]
enum Subject {
    /// The decision over generated matrices: time for one pool and for many, memory, growth.
    Decide(decide::Arguments),
    /// model-packer against oras, against parallel curl, and against itself after a change and after a kill.
    Packer(packer::Arguments),
}

/// Runs a benchmark and prints its table on stdout.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.subject {
        Subject::Decide(arguments) => decide::run(arguments)?,
        Subject::Packer(arguments) => packer::run(arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}
