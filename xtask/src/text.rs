//! `cargo xtask lint-text`: leftovers that no compiler sees.

mod files;
mod leftovers;
mod links;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::workspace;

/// Something that should not be there.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: PathBuf,
    line: usize,
    message: String,
}

/// Lints all tracked text files. Exit code 1 when something is found.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let mut findings = Vec::new();
    for path in workspace::tracked_files()? {
        // Not text, or gone since it was listed: nothing to lint.
        let Ok(text) = std::fs::read_to_string(workspace::root().join(&path)) else {
            continue;
        };
        findings.extend(leftovers::lint(&path, &text));
        findings.extend(files::lint(&path, &text));
        findings.extend(links::lint(&path, &text, |target| {
            workspace::root().join(target).exists()
        }));
    }
    for Finding { path, line, message } in &findings {
        eprintln!("{}:{line}: {message}", path.display());
    }
    Ok(if findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}
