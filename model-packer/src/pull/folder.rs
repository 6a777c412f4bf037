//! The target folder: which model it is being filled with, and the mark that names the model whose files are all in it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use artifact::Digest;

use super::PARTIAL;
use super::place::make_folder;
use crate::error::PackError;
use crate::hold;

/// Names the model whose files are all here; written last, and gone as long as one of them is not.
const COMPLETE: &str = ".plimsoll-complete";
/// Beside unfinished files: says which model a run is bringing. Several runs may bring the same one.
const PULLING: &str = ".pulling-";
const TRIES: usize = 4;

/// A folder that no run brings another model into.
pub(super) struct TargetFolder {
    folder: PathBuf,
    digest: Digest,
    lock: Option<(PathBuf, File)>,
}

impl TargetFolder {
    /// Fails where a run is bringing another model into it. A folder that cannot be written to has no lock: what is there can
    /// still be proven.
    pub(super) fn take(folder: &Path, digest: &Digest) -> Result<Self, PackError> {
        let partial = folder.join(PARTIAL);
        if partial.is_symlink() {
            return Err(PackError::No(format!(
                "{} is a link, and unfinished files would be written behind it",
                partial.display()
            )));
        }
        let mut taken = Self {
            folder: folder.to_owned(),
            digest: digest.clone(),
            lock: None,
        };
        match make_folder(&partial) {
            Err(PackError::File { source, .. }) if is_read_only(&source) && folder.is_dir() => return Ok(taken),
            made => made?,
        }
        taken.lock = lock_own(&partial, digest);
        match other_run(&partial, digest) {
            None => Ok(taken),
            Some(other) => Err(PackError::No(format!(
                "{} is being filled with sha256:{other} by another pull; wait for it, or pull into another folder",
                folder.display()
            ))),
        }
    }

    /// Whether this very model was completed here before.
    pub(super) fn is_marked(&self) -> bool {
        std::fs::read_to_string(self.folder.join(COMPLETE)).is_ok_and(|text| text.trim() == self.digest.as_str())
    }

    /// Everything is in its place. What killed runs left unfinished is of no use any more; what another run is at is locked.
    pub(super) fn mark(&self) -> Result<(), PackError> {
        let left = std::fs::read_dir(self.folder.join(PARTIAL))
            .into_iter()
            .flatten()
            .flatten();
        for entry in left {
            remove_unless_held(&entry.path());
        }
        let text = format!("{}\n", self.digest);
        match crate::journal::write_whole(&self.folder.join(COMPLETE), text.as_bytes()) {
            Err(PackError::File { source, .. }) if is_read_only(&source) => Ok(()),
            written => written,
        }
    }
}

impl Drop for TargetFolder {
    fn drop(&mut self) {
        if let Some((path, file)) = self.lock.take() {
            drop(file);
            remove_unless_held(&path);
        }
        // Empty again when everything is in its place; anything else in it belongs to another run.
        let _ = std::fs::remove_dir(self.folder.join(PARTIAL));
    }
}

/// Something is about to change.
pub(super) fn unmark(folder: &Path) -> Result<(), PackError> {
    super::place::remove(&folder.join(COMPLETE))
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
    )
}

/// `None` where the file system has no locks.
fn lock_own(partial: &Path, digest: &Digest) -> Option<(PathBuf, File)> {
    let path = partial.join(format!("{PULLING}{}", digest.hex()));
    // A run that ends may remove the file between the opening and the lock.
    for _ in 0..TRIES {
        let file = hold::open(&path).ok()?;
        if file.try_lock_shared().is_ok() && hold::is_at(&file, &path) {
            return Some((path, file));
        }
    }
    None
}

/// The model that another run is bringing; what a killed run left of its lock is removed.
fn other_run(partial: &Path, digest: &Digest) -> Option<String> {
    let entries = std::fs::read_dir(partial).ok()?;
    let others = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let other = name.strip_prefix(PULLING)?.to_owned();
        (other != digest.hex()).then(|| (other, entry.path()))
    });
    others
        .filter(|(_, path)| !remove_unless_held(path))
        .map(|(other, _)| other)
        .next()
}

/// Whether nobody has it.
fn remove_unless_held(path: &Path) -> bool {
    let free = File::open(path).is_ok_and(|file| file.try_lock().is_ok());
    if free {
        // It may be gone already.
        let _ = std::fs::remove_file(path);
    }
    free || !path.exists()
}
