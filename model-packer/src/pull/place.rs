//! Where files come to lie, and what lies there already.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use artifact::{Digest, FilePath};

use crate::error::PackError;
use crate::hashing::Sha256Hasher;

pub(super) fn place_of(folder: &Path, path: &FilePath) -> Result<PathBuf, PackError> {
    let mut place = folder.to_owned();
    let segments: Vec<&str> = path.segments().collect();
    for segment in &segments[..segments.len().saturating_sub(1)] {
        place.push(segment);
        // A link in the target folder must not lead the files out of it.
        if place.is_symlink() {
            return Err(PackError::No(format!(
                "{} is a link, and {path} would be written behind it",
                place.display()
            )));
        }
    }
    make_folder(&place)?;
    Ok(place.join(path.name()))
}

pub(super) fn make_folder(folder: &Path) -> Result<(), PackError> {
    std::fs::create_dir_all(folder).map_err(|source| PackError::File {
        step: "make the folder",
        path: folder.to_owned(),
        source,
    })
}

pub(super) fn remove(path: &Path) -> Result<(), PackError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(PackError::File {
            step: "remove",
            path: path.to_owned(),
            source,
        }),
        _ => Ok(()),
    }
}

/// Whether a regular file with this content is there.
pub(super) async fn has_content(place: &Path, size: u64, digest: &Digest) -> Result<bool, PackError> {
    match std::fs::symlink_metadata(place) {
        Ok(metadata) if metadata.is_file() && metadata.len() == size => {}
        _ => return Ok(false),
    }
    let hasher = hash_prefix(place.to_owned(), size).await?;
    Ok(hasher.finish() == *digest)
}

/// The hash of the first bytes of a file, to go on from.
pub(super) async fn hash_prefix(path: PathBuf, length: u64) -> Result<Sha256Hasher, PackError> {
    let failed = path.clone();
    let hashed = tokio::task::spawn_blocking(move || {
        let file = std::fs::File::open(&path)?;
        let mut hasher = Sha256Hasher::default();
        let mut buffer = vec![0; 1 << 20];
        let mut reader = (&file).take(length);
        loop {
            let read = reader.read(&mut buffer)?;
            if read == 0 {
                return Ok(hasher);
            }
            hasher.update(&buffer[..read]);
        }
    });
    let hashed: std::io::Result<_> = hashed.await?;
    hashed.map_err(|source| PackError::File {
        step: "read",
        path: failed,
        source,
    })
}

/// Gives it its name. The content is proven, and a later run proves it again before it relies on it, so nothing waits for the
/// disk here: that would take longer than everything else.
pub(super) fn settle(partial: &Path, place: &Path) -> Result<(), PackError> {
    std::fs::rename(partial, place).map_err(|source| PackError::File {
        step: "rename",
        path: place.to_owned(),
        source,
    })
}
