//! A folder of the Hugging Face cache: `models--owner--name/{blobs,refs,snapshots/<commit>}`. Its blobs are named after
//! their hash, so that even a cache is proven; its links are followed inside `models--owner--name` only.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::folder::open_file;
use super::walk::{Walk, canonical};
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
        let Some(repository) = repository_around(&whole) else {
            return Ok(None);
        };
        let below = whole.strip_prefix(repository).unwrap_or(Path::new(""));
        let parts: Vec<&str> = below.iter().filter_map(|part| part.to_str()).collect();
        let commit = match parts.as_slice() {
            [] | ["snapshots"] => current_commit(repository)?,
            ["snapshots", commit] if whole.is_dir() => (*commit).to_owned(),
            _ => return Ok(None),
        };
        let id = id_of(repository).unwrap_or_default();
        Ok(Some(Self {
            repository: repository.to_owned(),
            id,
            commit,
        }))
    }

    /// The cached snapshot of a repository, or what is missing, in words.
    pub(crate) fn find(cache: &Path, id: &str, revision: &str) -> Result<Self, String> {
        let place = cache.display();
        let repository = canonical(&cache.join(format!("models--{}", id.replace('/', "--"))))
            .map_err(|_| format!("the cache {place} has no {id}"))?;
        let snapshots = snapshots_of(&repository);
        let commit = commit_of(&repository, revision).filter(|commit| snapshots.contains(commit));
        let commit = commit.ok_or_else(|| {
            format!(
                "the cache {place} has {id}, but not its revision `{revision}`{}",
                among(&snapshots)
            )
        })?;
        Ok(Self {
            repository,
            id: id.to_owned(),
            commit,
        })
    }

    fn snapshot_folder(&self) -> PathBuf {
        self.repository.join("snapshots").join(&self.commit)
    }

    fn list(&self) -> Result<Snapshot, SourceError> {
        let walk = Walk::over(&self.snapshot_folder(), &self.repository)?;
        Ok(Snapshot {
            hub: "hf",
            endpoint: None,
            id: Some(self.id.clone()),
            revision: None,
            commit: Some(self.commit.clone()),
            files: walk.files,
            unfit: walk.unfit,
        })
    }
}

/// The folder `models--owner--name` that holds this place, or is it.
pub(crate) fn repository_around(place: &Path) -> Option<&Path> {
    place.ancestors().find(|folder| id_of(folder).is_some())
}

/// `models--owner--name` -> `owner/name`; ids hold no `--` of their own.
fn id_of(folder: &Path) -> Option<String> {
    let name = folder.file_name()?.to_str()?.strip_prefix("models--")?;
    folder.join("snapshots").is_dir().then(|| name.replacen("--", "/", 1))
}

/// A reference names a commit; a commit names itself.
fn commit_of(repository: &Path, revision: &str) -> Option<String> {
    if super::hugging_face::is_hex(revision, 40) {
        return Some(revision.to_owned());
    }
    let text = fs::read_to_string(repository.join("refs").join(revision)).ok()?;
    Some(text.trim().to_owned())
}

/// The commit of `main`. A model that was fetched by its commit has no such reference: then the only snapshot is meant.
fn current_commit(repository: &Path) -> Result<String, SourceError> {
    let snapshots = snapshots_of(repository);
    let problem = match (commit_of(repository, "main"), snapshots.as_slice()) {
        (Some(commit), _) if snapshots.contains(&commit) => return Ok(commit),
        (None, [only]) => return Ok(only.clone()),
        (Some(commit), _) => format!("refs/main names commit {commit}, of which there is no snapshot"),
        (None, []) => "it has no snapshot".into(),
        (None, _) => "it has no refs/main and several snapshots".into(),
    };
    Err(SourceError::Cache {
        path: repository.to_owned(),
        problem: problem + &among(&snapshots),
    })
}

/// The commits that are there, in order.
fn snapshots_of(repository: &Path) -> Vec<String> {
    let items = fs::read_dir(repository.join("snapshots"))
        .into_iter()
        .flatten()
        .flatten();
    let folders = items.filter(|item| item.path().is_dir());
    let mut commits: Vec<String> = folders.filter_map(|item| item.file_name().into_string().ok()).collect();
    commits.sort();
    commits
}

fn among(snapshots: &[String]) -> String {
    match snapshots {
        [] => String::new(),
        snapshots => format!("; there are: {}", snapshots.join(", ")),
    }
}

impl ModelSource for CacheSource {
    fn snapshot(&self) -> BoxFuture<'_, Result<Snapshot, SourceError>> {
        std::future::ready(self.list()).boxed()
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
