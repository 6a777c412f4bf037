//! What is served: a folder `owner/name/files`, read anew at each request so that tests can change it.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use serde::Deserialize;
use sha1::{Digest as _, Sha1};
use sha2::Sha256;

use crate::fault::Fault;

/// Name of the file that holds the settings of a repository; never served.
pub(crate) const SETTINGS_FILE: &str = ".standin.json";

/// Files from this size on are large files (LFS), whatever their name is.
const LARGE_FROM: u64 = 1 << 20;

/// Names that the hubs keep as large files at any size.
const LARGE_NAMES: [&str; 9] = [
    ".safetensors",
    ".gguf",
    ".bin",
    ".pt",
    ".pth",
    ".onnx",
    ".h5",
    ".msgpack",
    "tokenizer.model",
];

/// How a repository behaves; `.standin.json` in its folder.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RepositorySettings {
    /// Needs a token to be seen at all.
    pub private: bool,
    /// Needs a token of somebody who accepted the terms: `auto` or `manual`.
    pub gated: Option<String>,
    /// Closed by the hub.
    pub disabled: bool,
    /// The canonical id that this one redirects to.
    pub renamed_to: Option<String>,
    /// The commit to report instead of one derived from the files.
    pub commit: Option<String>,
    /// Other names of the commit, besides `main` and `master`.
    pub revisions: Vec<String>,
    /// Files that ModelScope lists without a hash.
    pub unhashed: Vec<String>,
    /// Files that ModelScope lists with size 0.
    pub unsized_files: Vec<String>,
}

/// One file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Path inside the repository.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256, hex.
    pub sha256: String,
    /// Git blob SHA-1, hex.
    pub git_sha1: String,
    /// Kept as a large file, so the listing shows the SHA-256.
    pub large: bool,
}

/// All repositories below one folder.
pub(crate) struct Content {
    root: PathBuf,
    hashes: Mutex<HashMap<PathBuf, Hashed>>,
}

#[derive(Clone)]
struct Hashed {
    size: u64,
    modified: SystemTime,
    sha256: String,
    git_sha1: String,
}

/// One repository, as it is on disk now.
pub(crate) struct Repository {
    pub(crate) id: String,
    pub(crate) root: PathBuf,
    pub(crate) settings: RepositorySettings,
    pub(crate) entries: Vec<Entry>,
    pub(crate) commit: String,
}

impl Content {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self {
            root,
            hashes: Mutex::default(),
        }
    }

    /// Reads a repository; `None` when there is no such folder.
    pub(crate) fn repository(&self, owner: &str, name: &str) -> io::Result<Option<Repository>> {
        let root = self.root.join(owner).join(name);
        if [owner, name]
            .iter()
            .any(|part| part.is_empty() || part.starts_with('.'))
            || !root.is_dir()
        {
            return Ok(None);
        }
        let settings = read_settings(&root)?;
        let mut entries = Vec::new();
        self.collect(&root, "", &mut entries)?;
        entries.sort_by(|left, right| left.path.cmp(&right.path));
        let commit = settings.commit.clone().unwrap_or_else(|| derive_commit(&entries));
        Ok(Some(Repository {
            id: format!("{owner}/{name}"),
            root,
            settings,
            entries,
            commit,
        }))
    }

    fn collect(&self, root: &Path, prefix: &str, entries: &mut Vec<Entry>) -> io::Result<()> {
        for item in fs::read_dir(root.join(prefix))? {
            let item = item?;
            let Ok(name) = item.file_name().into_string() else {
                continue;
            };
            let path = if prefix.is_empty() {
                name.clone()
            } else {
                format!("{prefix}/{name}")
            };
            if item.file_type()?.is_dir() {
                self.collect(root, &path, entries)?;
            } else if name != SETTINGS_FILE && !is_sidecar(&item.path()) {
                entries.push(self.entry(&item.path(), path)?);
            }
        }
        Ok(())
    }

    fn entry(&self, file: &Path, path: String) -> io::Result<Entry> {
        let hashed = self.hashed(file)?;
        let large = hashed.size >= LARGE_FROM || LARGE_NAMES.iter().any(|suffix| path.ends_with(suffix));
        Ok(Entry {
            path,
            size: hashed.size,
            sha256: hashed.sha256,
            git_sha1: hashed.git_sha1,
            large,
        })
    }

    fn hashed(&self, file: &Path) -> io::Result<Hashed> {
        let metadata = fs::metadata(file)?;
        let (size, modified) = (metadata.len(), metadata.modified()?);
        if let Some(known) = self
            .known(file)
            .filter(|known| known.size == size && known.modified == modified)
        {
            return Ok(known);
        }
        let (mut sha256, git_sha1) = match read_sidecar(file)? {
            // A huge sparse file is not worth hashing for a name that nobody checks.
            Some(listed) if size >= LARGE_FROM => (listed, "0".repeat(40)),
            _ => hash_file(file, size)?,
        };
        if let Some(listed) = read_sidecar(file)? {
            sha256 = listed;
        }
        let hashed = Hashed {
            size,
            modified,
            sha256,
            git_sha1,
        };
        if let Ok(mut hashes) = self.hashes.lock() {
            hashes.insert(file.to_owned(), hashed.clone());
        }
        Ok(hashed)
    }

    fn known(&self, file: &Path) -> Option<Hashed> {
        self.hashes.lock().ok()?.get(file).cloned()
    }
}

impl Repository {
    /// For one answer the branch stands at another commit, and the one before is gone.
    pub(crate) fn pretend(&mut self, fault: Option<&Fault>) {
        if let Some(Fault::OtherCommit { commit }) = fault {
            self.commit.clone_from(commit);
        }
    }

    /// Whether `revision` names the commit that is there.
    pub(crate) fn has_revision(&self, revision: &str) -> bool {
        ["main", "master", self.commit.as_str()].contains(&revision)
            || self.settings.revisions.iter().any(|known| known == revision)
    }

    /// The entry with exactly this path.
    pub(crate) fn entry(&self, path: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.path == path)
    }

    /// Directories that hold entries, sorted.
    pub(crate) fn directories(&self) -> Vec<String> {
        let mut directories: Vec<String> = self
            .entries
            .iter()
            .flat_map(|entry| entry.path.match_indices('/').map(|(at, _)| entry.path[..at].to_owned()))
            .collect();
        directories.sort();
        directories.dedup();
        directories
    }
}

fn read_settings(root: &Path) -> io::Result<RepositorySettings> {
    match fs::read_to_string(root.join(SETTINGS_FILE)) {
        Ok(text) => serde_json::from_str(&text).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(RepositorySettings::default()),
        Err(error) => Err(error),
    }
}

fn sidecar_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".sha256");
    PathBuf::from(name)
}

fn is_sidecar(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "sha256") && file.with_extension("").exists()
}

/// The hash that a sidecar claims, which the listing shows whatever the bytes are.
fn read_sidecar(file: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(sidecar_of(file)) {
        Ok(text) => Ok(text.split_whitespace().next().map(str::to_owned)),
        // The longest names leave no room for a sidecar's.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename) => Ok(None),
        Err(error) => Err(error),
    }
}

fn hash_file(file: &Path, size: u64) -> io::Result<(String, String)> {
    let mut sha256 = Sha256::new();
    let mut sha1 = Sha1::new();
    sha1.update(format!("blob {size}\0"));
    let mut reader = fs::File::open(file)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = reader.read(&mut buffer)?;
        if read == 0 {
            return Ok((hex(&sha256.finalize()), hex(&sha1.finalize())));
        }
        sha256.update(&buffer[..read]);
        // Nobody compares the git hash of a large file: the listing shows it as an opaque id.
        if size < LARGE_FROM {
            sha1.update(&buffer[..read]);
        }
    }
}

/// A commit that moves exactly when a path, a size or a listed hash moves.
fn derive_commit(entries: &[Entry]) -> String {
    let mut sha1 = Sha1::new();
    for entry in entries {
        sha1.update(format!("{}\0{}\0{}\0", entry.path, entry.size, entry.sha256));
    }
    hex(&sha1.finalize())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
