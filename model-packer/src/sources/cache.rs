//! A folder of the Hugging Face cache: `models--owner--name/{blobs,refs,snapshots/<commit>}`. Its blobs are named after
//! their hash, so that even a cache is proven; its links are followed inside `models--owner--name` only.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::folder::{Walk, canonical, open_file};
use super::{ByteStream, ListedFile, ModelSource, RetryPolicy, Snapshot, SourceError};

/// One snapshot of a cache.
pub struct CacheSource {
    repository: PathBuf,
    id: String,
    commit: String,
}

impl CacheSource {
    /// A cache when the path is `models--owner--name`, or a snapshot below one; `None` for any other folder.
    pub fn recognise(path: &Path) -> Result<Option<Self>, SourceError> {
        let whole = canonical(path)?;
        let Some(repository) = whole.ancestors().take(3).find(|folder| id_of(folder).is_some()) else {
            return Ok(None);
        };
        let below = whole.strip_prefix(repository).unwrap_or(Path::new(""));
        let parts: Vec<&str> = below.iter().filter_map(|part| part.to_str()).collect();
        let commit = match parts.as_slice() {
            [] => commit_of(repository, "main")?,
            ["snapshots", commit] => (*commit).to_owned(),
            _ => return Ok(None),
        };
        let id = id_of(repository).unwrap_or_default();
        Ok(Some(Self {
            repository: repository.to_owned(),
            id,
            commit,
        }))
    }

    /// The cached snapshot of a repository, when there is one.
    pub(crate) fn find(cache: &Path, id: &str, revision: &str) -> Option<Self> {
        let repository = canonical(&cache.join(format!("models--{}", id.replace('/', "--")))).ok()?;
        let commit = commit_of(&repository, revision).ok()?;
        repository.join("snapshots").join(&commit).is_dir().then(|| Self {
            repository,
            id: id.to_owned(),
            commit,
        })
    }

    fn snapshot_folder(&self) -> PathBuf {
        self.repository.join("snapshots").join(&self.commit)
    }

    fn list(&self) -> Result<Vec<ListedFile>, SourceError> {
        let folder = self.snapshot_folder();
        let mut walk = Walk {
            boundary: &self.repository,
            files: Vec::new(),
        };
        walk.enter(&folder, "", &mut BTreeSet::from([folder.clone()]))?;
        walk.files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(walk.files)
    }
}

/// `models--owner--name` -> `owner/name`; ids hold no `--` of their own.
fn id_of(folder: &Path) -> Option<String> {
    let name = folder.file_name()?.to_str()?.strip_prefix("models--")?;
    folder.join("snapshots").is_dir().then(|| name.replacen("--", "/", 1))
}

/// A reference names a commit; a commit names itself.
fn commit_of(repository: &Path, revision: &str) -> Result<String, SourceError> {
    if super::hugging_face::is_hex(revision, 40) {
        return Ok(revision.to_owned());
    }
    let file = repository.join("refs").join(revision);
    let text = fs::read_to_string(&file).map_err(|source| SourceError::File { path: file, source })?;
    Ok(text.trim().to_owned())
}

impl ModelSource for CacheSource {
    fn snapshot(&self) -> BoxFuture<'_, Result<Snapshot, SourceError>> {
        let listed = self.list();
        async move {
            Ok(Snapshot {
                hub: "hf",
                endpoint: None,
                id: Some(self.id.clone()),
                revision: None,
                commit: Some(self.commit.clone()),
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
        let opened = open_file(&self.snapshot_folder().join(&file.path), file.size, range);
        std::future::ready(opened).boxed()
    }

    fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy {
            attempts: 1,
            ..RetryPolicy::default()
        }
    }
}
