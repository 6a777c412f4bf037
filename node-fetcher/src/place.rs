//! Putting an artifact's files into a folder of the user: all of them or none.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use artifact::Digest;
use rustix::fs::{CWD, RenameFlags};
use serde::{Deserialize, Serialize};

use crate::store::stop::boot_id;
use crate::store::{At as _, Durability, LinkMode, Record, RecordedFile, Store, StoreError, files, hash_file, view};

/// The file that says which artifact a folder holds. It is written before the folder gets its name.
pub const MARKER: &str = ".plimsoll-artifact.json";

/// Whether the store's own names of the bytes go away after placing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// They do: the folder gets the inodes.
    HandOver,
    /// They stay: the folder gets inodes of its own, by cloning where the disk can.
    Apart,
}

/// What a folder holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Marker {
    digest: Digest,
    reference: String,
    /// The boot under which the files were placed or last proven, when nobody waited for the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unsynced_since_boot: Option<String>,
    files: Vec<MarkedFile>,
}

/// A file as it was placed; another time or size means that somebody changed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct MarkedFile {
    path: artifact::FilePath,
    digest: Digest,
    size: u64,
    modified: (i64, i64),
}

/// Why files cannot be placed.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// There are files of somebody else.
    #[error("the folder `{}` is not empty and was not made by node-fetcher", .0.display())]
    Foreign(PathBuf),
    /// The disk.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PlaceError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Foreign(_) => Some("name a folder that does not exist yet, or an empty one"),
            Self::Store(error) => error.hint(),
        }
    }
}

/// Whether the folder already holds this artifact, unchanged since it was placed. After a reboot, files that nobody
/// waited for are hashed again.
pub fn holds(folder: &Path, digest: &Digest) -> Result<bool, PlaceError> {
    let Some(marker) = read_marker(folder)? else {
        return Ok(false);
    };
    if marker.digest != *digest || !marker.files.iter().all(|file| is_unchanged(folder, file)) {
        return Ok(false);
    }
    let boot = boot_id()?;
    if marker.unsynced_since_boot.as_ref().is_none_or(|placed| *placed == boot) {
        return Ok(true);
    }
    for file in &marker.files {
        if hash_file(&folder.join(file.path.as_str()))? != file.digest {
            return Ok(false);
        }
    }
    write_marker(
        folder,
        &Marker {
            unsynced_since_boot: None,
            ..marker
        },
        Durability::PowerCut,
    )?;
    Ok(true)
}

/// Refuses a folder whose content would be lost, before any byte is fetched.
pub fn check_target(folder: &Path) -> Result<(), PlaceError> {
    let mut entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.at("list", folder)?,
    };
    if entries.next().is_none() || read_marker(folder)?.is_some() {
        return Ok(());
    }
    Err(PlaceError::Foreign(folder.to_owned()))
}

/// Makes the folder appear with all files of a complete artifact, in the place of an older one of ours.
pub fn place(store: &Store, record: &Record, folder: &Path, sharing: Sharing) -> Result<(), PlaceError> {
    check_target(folder)?;
    let durability = store.durability();
    let new = sibling(folder, "new");
    files::remove_folder(&new)?;
    if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).at("create folder", parent)?;
    }
    let put = |file: &RecordedFile, path: &Path| put(store, &file.digest, path, sharing);
    view::fill(&new, durability, &record.files, put)?;
    write_marker(&new, &marker_of(record, &new, durability)?, durability)?;
    swap(&new, folder, durability)?;
    Ok(())
}

fn write_marker(folder: &Path, marker: &Marker, durability: Durability) -> Result<(), StoreError> {
    let text = serde_json::to_vec_pretty(marker)
        .map_err(io::Error::other)
        .at("describe", folder)?;
    files::replace(&folder.join(MARKER), &text, durability)
}

/// Links where that is right and the disk allows it, and copies with the proof repeated where not.
fn put(store: &Store, digest: &Digest, path: &Path, sharing: Sharing) -> Result<(), StoreError> {
    let blob = store.blob_path(digest);
    let modes: &[LinkMode] = match sharing {
        Sharing::HandOver => &[LinkMode::HardLink],
        Sharing::Apart => &[LinkMode::Reflink],
    };
    if modes.iter().any(|mode| mode.link(&blob, path).is_ok()) {
        return Ok(());
    }
    fs::copy(&blob, path).at("copy to", path)?;
    let file = File::open(path).at("open", path)?;
    file.set_permissions(Permissions::from_mode(0o444))
        .at("make read-only", path)?;
    store.durability().sync_file(&file, path)?;
    if hash_file(path)? == *digest {
        return Ok(());
    }
    Err(io::Error::other("the copy is not what was read")).at("copy to", path)
}

fn marker_of(record: &Record, folder: &Path, durability: Durability) -> Result<Marker, StoreError> {
    let mut marked = Vec::with_capacity(record.files.len());
    for file in &record.files {
        let path = folder.join(file.path.as_str());
        let metadata = fs::metadata(&path).at("look at", &path)?;
        marked.push(MarkedFile {
            path: file.path.clone(),
            digest: file.digest.clone(),
            size: file.size,
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        });
    }
    Ok(Marker {
        digest: record.digest.clone(),
        reference: record.reference.clone(),
        unsynced_since_boot: (durability == Durability::ProcessDeath).then(boot_id).transpose()?,
        files: marked,
    })
}

/// A rename onto an old folder of ours exchanges the two, so that a reader sees one or the other.
fn swap(new: &Path, folder: &Path, durability: Durability) -> Result<(), StoreError> {
    if read_marker(folder)?.is_some() {
        rustix::fs::renameat_with(CWD, new, CWD, folder, RenameFlags::EXCHANGE).at("exchange", folder)?;
        files::remove_folder(new)?;
    } else {
        fs::rename(new, folder).at("rename into place", folder)?;
    }
    folder
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .map_or(Ok(()), |parent| durability.sync_folder(parent))
}

fn is_unchanged(folder: &Path, file: &MarkedFile) -> bool {
    fs::metadata(folder.join(file.path.as_str()))
        .is_ok_and(|metadata| metadata.len() == file.size && (metadata.mtime(), metadata.mtime_nsec()) == file.modified)
}

fn read_marker(folder: &Path) -> Result<Option<Marker>, StoreError> {
    Ok(files::read_text(&folder.join(MARKER))?.and_then(|text| serde_json::from_str(&text).ok()))
}

/// `.NAME.suffix` beside the folder: on the same file system, so that a rename is enough.
pub fn sibling(folder: &Path, suffix: &str) -> PathBuf {
    let name = folder
        .file_name()
        .map_or_else(|| "model".into(), |name| name.to_string_lossy().into_owned());
    folder.with_file_name(format!(".{name}.{suffix}"))
}
