//! The decision: how long it takes, what the loaded matrix holds in memory, and how both grow.

use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::workspace;

/// Nothing to choose: the sizes are those of the targets and their neighbours.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

/// Runs the measurement of the library itself, in release mode, whose table goes to stdout.
pub(crate) fn run(_arguments: &Arguments) -> anyhow::Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace::root()).args([
        "run",
        "--quiet",
        "--locked",
        "--release",
        "--package",
        "matrix",
        "--example",
        "decide_speed",
    ]);
    let status = cargo.status().context("start cargo")?;
    ensure!(status.success(), "the measurement did not end well");
    println!("\ntargets at 5000 rows and 1000 builds: one pool under 100 us, 1000 pools under 50000 us");
    Ok(())
}
