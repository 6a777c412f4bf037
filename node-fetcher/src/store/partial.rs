//! A blob on its way: a file of full size without a name that anybody trusts.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use artifact::Digest;
use rustix::fs::FallocateFlags;

use super::error::{At as _, StoreError};
use super::files::{self, Durability};
use super::journal::{Journal, SavedRange, Seal};

/// An unfinished blob. Writing, reading and saving may happen from several threads at once.
#[derive(Debug)]
pub struct Partial {
    digest: Digest,
    size: u64,
    path: PathBuf,
    journal_path: PathBuf,
    file: File,
    journal: Mutex<Journal>,
    kept: Vec<SavedRange>,
    durability: Durability,
}

impl Partial {
    /// Takes up what an earlier run left, or starts anew; the full size is allocated before the first byte.
    pub(crate) fn open(folder: &Path, digest: &Digest, size: u64, seal: &Seal) -> Result<Self, StoreError> {
        let path = folder.join(digest.hex());
        let journal_path = folder.join(format!("{}.journal", digest.hex()));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .at("open", &path)?;
        let length = file.metadata().at("look at", &path)?.len();
        let resumed = if length == size {
            Journal::resume(&journal_path, size, seal)?
        } else {
            None
        };
        let (journal, kept) = match resumed {
            Some(found) => found,
            None => (restart(&file, &path, &journal_path, size, seal)?, Vec::new()),
        };
        let journal = Mutex::new(journal);
        Ok(Self {
            digest: digest.clone(),
            size,
            path,
            journal_path,
            file,
            journal,
            kept,
            durability: seal.durability,
        })
    }

    /// The digest that the bytes must have.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The size that the blob must have.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What an earlier run left on the disk.
    pub fn kept(&self) -> &[SavedRange] {
        &self.kept
    }

    /// Writes bytes at their place.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), StoreError> {
        self.file.write_all_at(bytes, offset).at("write", &self.path)
    }

    /// Reads bytes that were written before.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), StoreError> {
        self.file.read_exact_at(buffer, offset).at("read", &self.path)
    }

    /// Makes ranges durable, then vouches for them.
    pub fn save(&self, ranges: &[SavedRange]) -> Result<(), StoreError> {
        if self.durability == Durability::PowerCut {
            self.file.sync_data().at("sync", &self.path)?;
        }
        self.lock_journal().append(ranges)
    }

    /// Throws everything away, so that the next attempt starts from nothing.
    pub(crate) fn discard(&self) -> Result<(), StoreError> {
        files::remove_file(&self.journal_path)?;
        files::remove_file(&self.path)
    }

    /// Gives proven bytes their name. From here on they are never written again.
    pub(crate) fn publish(&self, target: &Path) -> Result<(), StoreError> {
        self.file
            .set_permissions(Permissions::from_mode(0o444))
            .at("make read-only", &self.path)?;
        self.durability.sync_file(&self.file, &self.path)?;
        fs::rename(&self.path, target).at("rename into place", target)?;
        target
            .parent()
            .map_or(Ok(()), |parent| self.durability.sync_folder(parent))?;
        files::remove_file(&self.journal_path)
    }

    fn lock_journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The journal goes first: a crash in between must not leave a journal that vouches for emptied data.
fn restart(file: &File, path: &Path, journal_path: &Path, size: u64, seal: &Seal) -> Result<Journal, StoreError> {
    let journal = Journal::start(journal_path, size, seal)?;
    file.set_len(0).at("empty", path)?;
    allocate(file, size).at("allocate space for", path)?;
    Ok(journal)
}

/// Reserves the blocks, so that a full disk is found before the first byte and not at the last one.
fn allocate(file: &File, size: u64) -> io::Result<()> {
    if size == 0 {
        return Ok(());
    }
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size) {
        // Some network and overlay file systems cannot; the reservation of the store still counts the bytes.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => file.set_len(size),
        other => Ok(other?),
    }
}
