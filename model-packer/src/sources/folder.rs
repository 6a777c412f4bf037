//! A local folder or a single file. Links in a folder are followed inside it only, and what is packed is their content.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};

use super::cache::repository_around;
use super::walk::{Walk, canonical, regular_file, unfit};
use super::{ByteStream, ListedFile, ModelSource, RetryPolicy, Snapshot, SourceError};
use crate::buffers::{CHUNK, CHUNKS};

/// A folder of files, or one file of it.
pub struct FolderSource {
    root: PathBuf,
    only: Option<String>,
}

impl FolderSource {
    /// Nothing is read yet; the path must be there.
    pub fn new(path: PathBuf) -> Result<Self, SourceError> {
        let metadata = fs::metadata(&path).map_err(|source| SourceError::File {
            path: path.clone(),
            source,
        })?;
        if metadata.is_dir() {
            return Ok(Self { root: path, only: None });
        }
        let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        let name = name.ok_or_else(|| unfit(&path, "its name is no UTF-8 text"))?;
        let root = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        Ok(Self {
            root: root.to_owned(),
            only: Some(name),
        })
    }

    fn list(&self) -> Result<Snapshot, SourceError> {
        let (files, unfit) = if let Some(name) = &self.only {
            (vec![self.named(name)?], Vec::new())
        } else {
            let root = canonical(&self.root)?;
            // A folder inside a cache is made of links to the blobs of the same cache.
            let walk = Walk::over(&self.root, repository_around(&root).unwrap_or(&root))?;
            (walk.files, walk.unfit)
        };
        Ok(Snapshot {
            hub: "file",
            endpoint: None,
            id: None,
            revision: None,
            commit: None,
            files,
            unfit,
        })
    }

    /// The one file that the user names is followed wherever it leads: he means what is there.
    fn named(&self, name: &str) -> Result<ListedFile, SourceError> {
        let place = self.root.join(name);
        regular_file(&place, &canonical(&place)?, name)
    }
}

/// Reads a range of a local file in order.
pub(crate) fn open_file(path: &Path, size: u64, range: Range<u64>) -> Result<ByteStream, SourceError> {
    let failed = |source| SourceError::File {
        path: path.to_owned(),
        source,
    };
    let mut file = fs::File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() != size {
        return Err(unfit(path, "its size changed while it was packed"));
    }
    file.seek(SeekFrom::Start(range.start)).map_err(failed)?;
    let place = path.to_owned();
    Ok(
        futures::stream::try_unfold((file, range.end - range.start), move |(mut file, left)| {
            let place = place.clone();
            async move {
                if left == 0 {
                    return Ok(None);
                }
                let read = tokio::task::spawn_blocking(move || read_chunk(&mut file, left).map(|chunk| (file, chunk)));
                let outcome = read.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
                let (file, chunk) = outcome.map_err(|source| SourceError::File {
                    path: place.clone(),
                    source,
                })?;
                if chunk.is_empty() {
                    return Err(unfit(&place, "it became shorter while it was packed"));
                }
                let left = left - chunk.len() as u64;
                Ok(Some((chunk, (file, left))))
            }
        })
        .boxed(),
    )
}

/// The next bytes of the file, at most so many; none at its end.
fn read_chunk(file: &mut fs::File, left: u64) -> std::io::Result<Bytes> {
    let mut buffer = CHUNKS.take();
    let wanted = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
    let mut length = 0;
    while length < wanted {
        match file.read(&mut buffer.space()[length..wanted]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(buffer.filled(length))
}

impl ModelSource for FolderSource {
    fn snapshot(&self) -> BoxFuture<'_, Result<Snapshot, SourceError>> {
        std::future::ready(self.list()).boxed()
    }

    fn open<'a>(
        &'a self,
        _snapshot: &'a Snapshot,
        file: &'a ListedFile,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<ByteStream, SourceError>> {
        let opened = open_file(&self.root.join(&file.path), file.size, range);
        std::future::ready(opened).boxed()
    }

    fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy {
            attempts: 1,
            ..RetryPolicy::default()
        }
    }
}
