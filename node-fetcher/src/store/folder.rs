//! The store's folder: who works in it, which disk it is, what it holds.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::path::Path;

use artifact::Digest;
use rustix::fs::FlockOperation;
use sha2::{Digest as _, Sha256};

use super::error::{At as _, StoreError};
use super::files::{self, Durability};

/// The sha256 of a file.
pub(crate) fn hash_file(path: &Path) -> Result<Digest, StoreError> {
    let mut file = File::open(path).at("open", path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer).at("read", path)?;
        if read == 0 {
            return Ok(Digest::from_raw(&hasher.finalize().into()));
        }
        hasher.update(&buffer[..read]);
    }
}

/// One process at a time.
pub(super) fn lock(root: &Path) -> Result<File, StoreError> {
    let path = root.join("lock");
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .at("open", &path)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(StoreError::InUse { path: root.to_owned() }),
        other => other.at("lock", &path).map(|()| file),
    }
}

/// The store's own name, made once.
pub(super) fn identity(root: &Path) -> Result<String, StoreError> {
    let path = root.join("store-id");
    if let Some(id) = files::read_text(&path)?.filter(|id| !id.trim().is_empty()) {
        return Ok(id.trim().to_owned());
    }
    let source = Path::new("/proc/sys/kernel/random/uuid");
    let id = fs::read_to_string(source).at("read", source)?;
    files::replace(&path, id.trim().as_bytes(), Durability::PowerCut)?;
    Ok(id.trim().to_owned())
}

/// Removes half-made and half-removed views. After an unclean stop whole views too: they are made again from blobs
/// that were hashed again, and no pod that could have mounted them has survived.
pub(super) fn clear_leftovers(views: &Path, unclean: bool) -> Result<(), StoreError> {
    for entry in fs::read_dir(views).at("list", views)? {
        let entry = entry.at("list", views)?;
        let half = entry.file_name().to_string_lossy().starts_with('.');
        if half {
            files::remove_folder(&entry.path())?;
        } else if unclean {
            files::remove_folder(&entry.path().join("files"))?;
        }
    }
    Ok(())
}

/// Entries whose names are digests; everything else in the folder is not ours to judge.
pub(super) fn digests_in(folder: &Path) -> Result<BTreeSet<Digest>, StoreError> {
    let mut digests = BTreeSet::new();
    for entry in fs::read_dir(folder).at("list", folder)? {
        let name = entry.at("list", folder)?.file_name();
        digests.extend(
            name.to_str()
                .and_then(|name| format!("sha256:{name}").parse::<Digest>().ok()),
        );
    }
    Ok(digests)
}

/// Bytes of all files in a folder, by their lengths.
pub(super) fn bytes_in(folder: &Path) -> Result<u64, StoreError> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).at("list", folder)? {
        // A file that disappears while it is counted counts nothing.
        bytes += entry
            .at("list", folder)?
            .metadata()
            .map_or(0, |metadata| metadata.len());
    }
    Ok(bytes)
}
