//! How the demo talks: a heading per stage, the commands as a user would type them, and what they print.

use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// Begins a part of the demo.
pub(super) fn heading(text: &str) {
    println!("\n== {text}");
}

/// Says something about what comes next.
pub(super) fn note(text: &str) {
    println!("\n{text}");
}

/// Shows a command as a user would type it, runs it with its progress on the terminal, and prints and returns what it printed.
pub(super) fn run(typed: &str, command: &mut Command) -> anyhow::Result<String> {
    println!("\n$ {typed}");
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("start {}", command.get_program().display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    print!("{text}");
    if !output.status.success() {
        bail!("`{typed}` failed ({})", output.status);
    }
    Ok(text)
}

/// Runs a command that is no part of the story; what it says matters only when it fails.
pub(super) fn run_quietly(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("start {}", command.get_program().display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!(
            "{} failed ({})\n{}",
            command.get_program().display(),
            output.status,
            said.trim_end()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
