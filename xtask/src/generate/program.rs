//! Our own programs, built and asked: what they print is what users see.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use crate::workspace;

/// The programs that users run, by name.
pub(super) const NAMES: [&str; 4] = ["plimsoll", "model-packer", "node-fetcher", "controller"];

/// Where the built programs are.
pub(super) type Programs = BTreeMap<&'static str, PathBuf>;

/// Builds the programs in the development profile, which the tests build too.
pub(super) fn build() -> anyhow::Result<Programs> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(workspace::root())
        .args(["build", "--quiet", "--bins"]);
    command.arg("--message-format=json-render-diagnostics");
    command.args(NAMES.iter().flat_map(|name| ["--package", name]));
    let output = command.stderr(Stdio::inherit()).output().context("run cargo build")?;
    ensure!(output.status.success(), "the programs do not build");
    let messages = String::from_utf8(output.stdout).context("read cargo's messages")?;
    let executables: Vec<PathBuf> = messages.lines().filter_map(executable).collect();
    let find = |name: &'static str| {
        let found = executables
            .iter()
            .find(|path| path.file_stem().is_some_and(|stem| stem == name));
        found
            .map(|path| (name, path.clone()))
            .with_context(|| format!("cargo built no program {name}"))
    };
    NAMES.into_iter().map(find).collect()
}

/// The programs in a folder.
pub(super) fn find(folder: &Path) -> anyhow::Result<Programs> {
    let find = |name| {
        let path = folder.join(name);
        ensure!(path.is_file(), "{} is not built", path.display());
        Ok((name, path))
    };
    NAMES.into_iter().map(find).collect()
}

fn executable(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    message.get("executable")?.as_str().map(PathBuf::from)
}

/// What a program prints to stdout.
pub(super) fn ask(program: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let name = program.file_name().unwrap_or_default().display();
    let output = Command::new(program)
        .args(arguments)
        // Help texts show the values of variables and fit themselves to the terminal: neither may be in the text.
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {name}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{name} {}: {}",
        arguments.join(" "),
        errors.trim()
    );
    String::from_utf8(output.stdout).with_context(|| format!("read the output of {name}"))
}
