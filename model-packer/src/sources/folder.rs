//! A local folder or a single file. Links are followed inside the folder only, and what is packed is their content.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};

use super::{ByteStream, HubHash, ListedFile, ModelSource, RetryPolicy, Snapshot, SourceError};
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

    fn list(&self) -> Result<Vec<ListedFile>, SourceError> {
        let boundary = canonical(&self.root)?;
        let mut walk = Walk {
            boundary: &boundary,
            files: Vec::new(),
        };
        match &self.only {
            Some(name) => walk.visit(&self.root.join(name), name, &mut BTreeSet::new())?,
            None => walk.enter(&self.root, "", &mut BTreeSet::from([boundary.clone()]))?,
        }
        walk.files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(walk.files)
    }
}

/// A walk that never leaves the boundary.
pub(crate) struct Walk<'a> {
    pub(crate) boundary: &'a Path,
    pub(crate) files: Vec<ListedFile>,
}

impl Walk<'_> {
    /// `above` holds the folders on the way down, so that a link to one of them does not go round for ever.
    pub(crate) fn enter(
        &mut self,
        folder: &Path,
        prefix: &str,
        above: &mut BTreeSet<PathBuf>,
    ) -> Result<(), SourceError> {
        let items = fs::read_dir(folder).map_err(|source| SourceError::File {
            path: folder.to_owned(),
            source,
        })?;
        for item in items {
            let item = item.map_err(|source| SourceError::File {
                path: folder.to_owned(),
                source,
            })?;
            let name = item
                .file_name()
                .into_string()
                .map_err(|_| unfit(&item.path(), "its name is no UTF-8 text"))?;
            if name == ".git" {
                continue;
            }
            let path = if prefix.is_empty() {
                name
            } else {
                format!("{prefix}/{name}")
            };
            self.visit(&item.path(), &path, above)?;
        }
        Ok(())
    }

    fn visit(&mut self, place: &Path, path: &str, above: &mut BTreeSet<PathBuf>) -> Result<(), SourceError> {
        let target = canonical(place)?;
        if !target.starts_with(self.boundary) {
            return Err(unfit(place, "the link leads out of the folder"));
        }
        let metadata = fs::metadata(&target).map_err(|source| SourceError::File {
            path: place.to_owned(),
            source,
        })?;
        if metadata.is_dir() {
            if !above.insert(target.clone()) {
                return Err(unfit(place, "the link leads to a folder that holds it"));
            }
            self.enter(place, path, above)?;
            above.remove(&target);
        } else if metadata.is_file() {
            self.files.push(ListedFile {
                path: path.to_owned(),
                size: metadata.len(),
                hash: hash_of_name(&target),
            });
        } else {
            return Err(unfit(place, "it is neither a file nor a folder"));
        }
        Ok(())
    }
}

/// Files of a Hugging Face cache are named after their hash; elsewhere a name proves nothing and is not read.
fn hash_of_name(target: &Path) -> HubHash {
    let in_cache = target.parent().is_some_and(|parent| {
        parent.ends_with("blobs")
            && parent
                .parent()
                .and_then(Path::file_name)
                .is_some_and(|name| name.to_string_lossy().starts_with("models--"))
    });
    let name = target
        .file_name()
        .and_then(|name| name.to_str())
        .filter(|_| in_cache)
        .unwrap_or_default();
    match artifact::Digest::from_hex(name) {
        Ok(digest) => HubHash::Sha256(digest),
        Err(_) if super::hugging_face::is_hex(name, 40) => HubHash::GitSha1(name.to_owned()),
        Err(_) => HubHash::Unknown,
    }
}

pub(crate) fn canonical(path: &Path) -> Result<PathBuf, SourceError> {
    fs::canonicalize(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound if path.is_symlink() => unfit(path, "the link leads nowhere"),
        _ => SourceError::File {
            path: path.to_owned(),
            source,
        },
    })
}

fn unfit(path: &Path, problem: &'static str) -> SourceError {
    SourceError::Unfit {
        path: path.to_owned(),
        problem,
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
        let listed = self.list();
        async move {
            Ok(Snapshot {
                hub: "file",
                endpoint: None,
                id: None,
                revision: None,
                commit: None,
                files: listed?,
            })
        }
        .boxed()
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
