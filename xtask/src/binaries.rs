//! Our own programs as static binaries: the ones that run here are the ones that go into the images.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::workspace;

const TARGET: &str = "x86_64-unknown-linux-musl";
const PROFILE: &str = "image";

/// Packages whose programs people run.
pub(crate) const TOOLS: [&str; 4] = ["plimsoll", "model-packer", "node-fetcher", "standin-hub"];
/// Packages whose programs run in the cluster or beside it.
pub(crate) const PRODUCT: [&str; 4] = ["controller", "sim-accelerator", "standin-engine", "fault-proxy"];

/// Builds these packages, with cargo's own progress on standard error.
pub(crate) fn build(packages: &[&str]) -> anyhow::Result<()> {
    add_target()?;
    let status = command(packages).status().context("start cargo")?;
    ensure!(status.success(), "cargo could not build {}", packages.join(", "));
    Ok(())
}

/// The command that builds these packages.
pub(crate) fn command(packages: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace::root());
    command.args(["build", "--locked", "--profile", PROFILE, "--target", TARGET]);
    command.args(packages.iter().flat_map(|package| ["--package", package]));
    command
}

/// Where the program of a package is, once it is built.
pub(crate) fn path(program: &str) -> PathBuf {
    folder().join(program)
}

/// Where all programs are, once they are built.
pub(crate) fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace::root().join("target"), PathBuf::from);
    target.join(TARGET).join(PROFILE)
}

/// Static binaries need Rust's musl target and Debian's musl-gcc.
fn add_target() -> anyhow::Result<()> {
    testbed::ensure_packages(&["musl-tools"])?;
    let installed = Command::new("rustup").args(["target", "list", "--installed"]).output();
    if installed.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .any(|line| line == TARGET)
    }) {
        return Ok(());
    }
    let status = Command::new("rustup")
        .args(["target", "add", TARGET])
        .status()
        .context("start rustup")?;
    ensure!(
        status.success(),
        "rustup could not add {TARGET}; install Rust with rustup, which brings targets"
    );
    Ok(())
}
