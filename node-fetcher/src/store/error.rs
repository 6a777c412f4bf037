//! What can go wrong on the disk.

use std::io;
use std::path::{Path, PathBuf};

use artifact::Digest;

/// An error of the store. Its cause is in the chain.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A step on one path failed.
    #[error("{step} `{}`", path.display())]
    Io {
        /// What was done, as a verb: `create`, `write`.
        step: &'static str,
        /// To what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Another process works in the same store.
    #[error("the store `{}` is in use by another process", path.display())]
    InUse {
        /// The store.
        path: PathBuf,
    },
    /// No room, even after evicting what nobody uses. Nothing was written.
    #[error(
        "the store needs {need} bytes and may take {available}: {free} free, {floor} kept free for the node, \
         {reserved} promised to running fetches, {pinned} held by pods or wanted"
    )]
    DiskFull {
        /// Bytes asked for.
        need: u64,
        /// What may still be taken.
        available: u64,
        /// Free on the file system.
        free: u64,
        /// Never taken.
        floor: u64,
        /// Promised to others.
        reserved: u64,
        /// In use, so not evictable.
        pinned: u64,
    },
    /// The view cannot be made without doubling the bytes.
    #[error("the file system of `{}` can neither clone nor hard-link files", path.display())]
    NoLinks {
        /// The store.
        path: PathBuf,
    },
    /// The program ends while the disk was worked on.
    #[error("the work on the store was interrupted")]
    Interrupted(#[source] io::Error),
    /// A blob that should be in the store is not.
    #[error("blob {0} is not in the store")]
    Missing(Digest),
}

impl StoreError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::InUse { .. } => Some("let the running node-fetcher do the work, or use another --store"),
            Self::DiskFull { .. } => {
                Some("free space on that file system, remove models nobody needs, or lower --free-space-floor")
            }
            Self::NoLinks { .. } => Some("put the store on ext4, XFS or btrfs"),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("run as root, or use a --store that you may write to")
            }
            Self::Io { .. } | Self::Missing(_) | Self::Interrupted(_) => None,
        }
    }

    /// Whether the disk was full.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::DiskFull { .. } => true,
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }
}

/// Turns an I/O error into one that names the step and the path.
pub(crate) trait At<T> {
    fn at(self, step: &'static str, path: &Path) -> Result<T, StoreError>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, step: &'static str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|error| StoreError::Io {
            step,
            path: path.to_owned(),
            source: error.into(),
        })
    }
}
