//! Where the repository is, and which files belong to it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

/// The root of the repository: this crate is one folder below it.
pub(crate) fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

/// The files that git tracks or would track, relative to the root, that still exist.
pub(crate) fn tracked_files() -> anyhow::Result<Vec<PathBuf>> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root())
        .output()
        .context("run git ls-files")?;
    ensure!(
        output.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let names = String::from_utf8(output.stdout).context("read git ls-files")?;
    let mut files: Vec<PathBuf> = names.split_terminator('\0').map(PathBuf::from).collect();
    files.retain(|file| root().join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}
