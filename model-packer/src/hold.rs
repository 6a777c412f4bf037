//! Files that one run has for itself. The lock is the kernel's, which takes it back when the run ends, however that is.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Times that the file is looked for again because another run has just renamed or removed it.
const TRIES: usize = 4;

/// Opens the file, which is made when it is not there, and locks it; `None` where another run has it, or where the file system
/// has no locks.
pub(crate) fn hold(path: &Path) -> io::Result<Option<File>> {
    for _ in 0..TRIES {
        let file = open(path)?;
        if file.try_lock().is_err() {
            return Ok(None);
        }
        // Another run may have moved it between the opening and the lock.
        if is_at(&file, path) {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// Opens the file as it is, or makes it.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
}

pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let there = std::fs::symlink_metadata(path).map(identity).ok();
    there.is_some() && there == file.metadata().map(identity).ok()
}

/// A suffix that no other run has, also none that shares the folder from another container, where process numbers repeat.
pub(crate) fn unique_suffix() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    let random = RandomState::new().hash_one(std::process::id());
    format!("{}-{random:016x}", std::process::id())
}
