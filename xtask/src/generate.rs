//! `cargo xtask generate`: one command for everything that is generated and committed.

mod chart;
mod definitions;
mod program;
mod reference;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

use crate::workspace;

/// How to generate.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Write nothing; fail when a file differs from what would be written.
    #[arg(long)]
    check: bool,
    /// Ask the programs in this folder, which were built just now, instead of building them.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

/// A file that is generated, relative to the root of the repository.
#[derive(Debug, PartialEq, Eq)]
struct Generated {
    path: PathBuf,
    content: String,
}

/// Folders in which every file is generated, so that one that is no longer generated is stale.
const OWNED_FOLDERS: [&str; 2] = ["crds/yaml", "charts/plimsoll/crds-src"];

/// Writes or checks all generated files. Exit code 1 when `--check` finds a difference.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let programs = match &arguments.programs {
        Some(folder) => program::find(folder)?,
        None => program::build()?,
    };
    let mut files = definitions::generate(&programs)?;
    files.push(reference::generate(&programs)?);
    files.push(chart::generate()?);
    let stale = stale_files(&files)?;
    if arguments.check {
        check(&files, &stale)
    } else {
        write(&files, &stale)
    }
}

fn write(files: &[Generated], stale: &[PathBuf]) -> anyhow::Result<ExitCode> {
    for file in differing(files)? {
        let path = workspace::root().join(&file.path);
        let folder = path.parent().context("a generated file has a folder")?;
        std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        std::fs::write(&path, &file.content).with_context(|| format!("write {}", path.display()))?;
        eprintln!("wrote {}", file.path.display());
    }
    for path in stale {
        std::fs::remove_file(workspace::root().join(path)).with_context(|| format!("remove {}", path.display()))?;
        eprintln!("removed {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn check(files: &[Generated], stale: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let differing = differing(files)?;
    for file in &differing {
        eprintln!("{} differs from what is generated", file.path.display());
    }
    for path in stale {
        eprintln!("{} is no longer generated", path.display());
    }
    if differing.is_empty() && stale.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("fix: cargo xtask generate");
    Ok(ExitCode::from(1))
}

fn differing(files: &[Generated]) -> anyhow::Result<Vec<&Generated>> {
    let mut differing = Vec::new();
    for file in files {
        if read(&file.path)?.as_deref() != Some(&file.content) {
            differing.push(file);
        }
    }
    Ok(differing)
}

/// The text of a file of the repository, or `None` when there is no such file.
fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::read_to_string(workspace::root().join(path)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
    }
}

fn stale_files(files: &[Generated]) -> anyhow::Result<Vec<PathBuf>> {
    let generated: BTreeSet<&Path> = files.iter().map(|file| file.path.as_path()).collect();
    let owned = |file: &PathBuf| OWNED_FOLDERS.iter().any(|folder| file.starts_with(folder));
    let tracked = workspace::tracked_files()?;
    Ok(tracked
        .into_iter()
        .filter(|file| owned(file) && !generated.contains(file.as_path()))
        .collect())
}
