//! Folders in which an artifact's files have their names: what pods see, read-only.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::error::{At as _, StoreError};
use super::files::{self, Durability};
use super::record::RecordedFile;

/// How a view's files share their bytes with the blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkMode {
    /// An inode of its own over the same blocks (XFS, btrfs).
    Reflink,
    /// A second name of the same inode.
    HardLink,
}

impl LinkMode {
    /// The word in statuses and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reflink => "reflink",
            Self::HardLink => "hard link",
        }
    }

    /// Tries what the file system of this folder can do; `None` when it can do neither.
    pub(crate) fn probe(folder: &Path) -> Result<Option<Self>, StoreError> {
        let (from, to) = (folder.join(".probe-from"), folder.join(".probe-to"));
        files::remove_file(&to)?;
        fs::write(&from, b"probe").at("write", &from)?;
        let mode = [Self::Reflink, Self::HardLink]
            .into_iter()
            .find(|mode| mode.link(&from, &to).is_ok());
        files::remove_file(&to)?;
        files::remove_file(&from)?;
        Ok(mode)
    }

    pub(crate) fn link(self, from: &Path, to: &Path) -> io::Result<()> {
        match self {
            Self::HardLink => fs::hard_link(from, to),
            Self::Reflink => reflink(from, to),
        }
    }
}

fn reflink(from: &Path, to: &Path) -> io::Result<()> {
    let source = File::open(from)?;
    let target = File::create_new(to)?;
    let cloned = rustix::fs::ioctl_ficlone(&target, &source).map_err(io::Error::from);
    let finished = cloned
        .and_then(|()| target.set_permissions(Permissions::from_mode(0o444)))
        .and_then(|()| target.sync_all());
    if finished.is_err() {
        // An empty file that stays behind would be taken for the model's.
        let _ = fs::remove_file(to);
    }
    finished
}

/// Fills a new folder with an artifact's files. `place` puts one blob at one path.
pub(crate) fn fill(
    folder: &Path,
    durability: Durability,
    recorded: &[RecordedFile],
    mut place: impl FnMut(&RecordedFile, &Path) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    make_folder(folder)?;
    let mut made: Vec<PathBuf> = vec![folder.to_owned()];
    for file in recorded {
        let mut parent = folder.to_owned();
        let mut segments: Vec<&str> = file.path.as_str().split('/').collect();
        let name = segments.pop().unwrap_or_default();
        for segment in segments {
            parent.push(segment);
            if !made.contains(&parent) {
                make_folder(&parent)?;
                made.push(parent.clone());
            }
        }
        place(file, &parent.join(name))?;
    }
    made.iter().try_for_each(|folder| durability.sync_folder(folder))
}

/// Readable by every user of a pod, whatever the umask.
fn make_folder(folder: &Path) -> Result<(), StoreError> {
    DirBuilder::new()
        .mode(0o755)
        .create(folder)
        .at("create folder", folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o755)).at("make readable", folder)
}
