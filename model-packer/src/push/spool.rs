//! For registries that cannot take a stream: a file goes to the disk first, is proven there, and is sent from there.

use std::path::{Path, PathBuf};

use artifact::Digest;
use futures::TryStreamExt as _;
use registry::BlobSource as _;
use tokio::io::AsyncWriteExt as _;

use crate::content::HashedFile;
use crate::error::PackError;
use crate::hashing::Sha256Hasher;
use crate::hold;

/// A file on the disk, removed when it has been sent.
pub(super) struct Spooled {
    pub(super) path: PathBuf,
}

impl Spooled {
    /// Takes what an earlier run has left whole, or fetches it.
    pub(super) async fn fetch(file: &HashedFile, digest: &Digest, folder: &Path) -> Result<Self, PackError> {
        let path = folder.join(digest.hex());
        let failed = |source| PackError::File {
            step: "write",
            path: path.clone(),
            source,
        };
        tokio::fs::create_dir_all(folder).await.map_err(failed)?;
        if hash_of(path.clone()).await.is_some_and(|found| found == *digest) {
            return Ok(Self { path });
        }
        // The stream ends only when the hash is right, so a file under its full name is whole.
        let partial = path.with_extension(format!("{}.part", hold::unique_suffix()));
        let mut target = tokio::fs::File::create(&partial).await.map_err(failed)?;
        let mut stream = file.open(0).await.map_err(failed)?;
        while let Some(chunk) = stream.try_next().await.map_err(failed)? {
            target.write_all(&chunk).await.map_err(failed)?;
        }
        target.flush().await.map_err(failed)?;
        tokio::fs::rename(&partial, &path).await.map_err(failed)?;
        Ok(Self { path })
    }

    pub(super) async fn remove(self) {
        // What stays behind is taken by the next run.
        let _ = tokio::fs::remove_file(&self.path).await;
    }
}

async fn hash_of(path: PathBuf) -> Option<Digest> {
    let hashed = tokio::task::spawn_blocking(move || {
        let mut file = std::fs::File::open(path).ok()?;
        let (mut hasher, mut buffer) = (Sha256Hasher::default(), vec![0; 1 << 20]);
        loop {
            match std::io::Read::read(&mut file, &mut buffer).ok()? {
                0 => return Some(hasher.finish()),
                read => hasher.update(&buffer[..read]),
            }
        }
    });
    hashed.await.ok().flatten()
}
