//! Small file steps that survive a power cut.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use super::error::{At as _, StoreError};

/// What the names of a store survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// A power cut: every step waits for the disk.
    PowerCut,
    /// The death of the process, at the speed of memory. After a power cut everything is hashed again before it is
    /// used, and fetched again where the disk did not get it in time.
    ProcessDeath,
}

impl Durability {
    /// Waits for the disk where that is asked for.
    pub(crate) fn sync_file(self, file: &File, path: &Path) -> Result<(), StoreError> {
        if self == Self::PowerCut {
            file.sync_all().at("sync", path)
        } else {
            Ok(())
        }
    }

    /// Makes the names in a folder durable where that is asked for.
    pub(crate) fn sync_folder(self, folder: &Path) -> Result<(), StoreError> {
        if self == Self::PowerCut {
            sync_folder(folder)
        } else {
            Ok(())
        }
    }
}

fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    File::open(folder)
        .and_then(|handle| handle.sync_all())
        .at("sync", folder)
}

/// Writes a small file so that readers see the old content or the new one, never a part.
pub(crate) fn replace(path: &Path, content: &[u8], durability: Durability) -> Result<(), StoreError> {
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary).at("create", &temporary)?;
    file.write_all(content).at("write", &temporary)?;
    durability.sync_file(&file, &temporary)?;
    fs::rename(&temporary, path).at("rename into place", path)?;
    path.parent().map_or(Ok(()), |parent| durability.sync_folder(parent))
}

/// Removes a file; one that is not there is no error.
pub(crate) fn remove_file(path: &Path) -> Result<(), StoreError> {
    ignore_missing(fs::remove_file(path)).at("remove", path)
}

/// Removes a folder with everything in it; one that is not there is no error.
pub(crate) fn remove_folder(path: &Path) -> Result<(), StoreError> {
    ignore_missing(fs::remove_dir_all(path)).at("remove", path)
}

/// Reads a small text file; `None` when it is not there.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, StoreError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).at("read", path),
    }
}

fn ignore_missing(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
