//! What the store remembers of an artifact: which files it has, and where it came from.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::path::Path;
use std::time::SystemTime;

use artifact::{Digest, FilePath};
use crds::node_weights::{Demotion, SourceKind};
use serde::{Deserialize, Serialize};

use super::error::{At as _, StoreError};
use super::files::{self, Durability};

/// One file of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFile {
    /// Its path in the model's folder.
    pub path: FilePath,
    /// The digest of its bytes.
    pub digest: Digest,
    /// Their number.
    pub size: u64,
}

/// An artifact that is, or was, complete in this store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Digest of its manifest.
    pub digest: Digest,
    /// Where it came from.
    pub reference: String,
    /// Its files.
    pub files: Vec<RecordedFile>,
    /// Bytes that each kind of source delivered.
    #[serde(default)]
    pub sources: BTreeMap<SourceKind, u64>,
    /// Sources that were given up on the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub demotions: Vec<Demotion>,
    /// When it became complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_at: Option<jiff::Timestamp>,
}

impl Record {
    /// Bytes of its files; equal files count once, as on the disk.
    pub fn bytes(&self) -> u64 {
        let by_digest: BTreeMap<_, _> = self.files.iter().map(|file| (&file.digest, file.size)).collect();
        by_digest.values().sum()
    }

    /// All blobs that it needs: its files, and its manifest.
    pub fn blobs(&self) -> impl Iterator<Item = &Digest> {
        self.files.iter().map(|file| &file.digest).chain([&self.digest])
    }

    pub(crate) fn read(path: &Path) -> Result<Option<Self>, StoreError> {
        // A record that does not parse is of another version or damaged: the artifact counts as not there.
        Ok(files::read_text(path)?.and_then(|text| serde_json::from_str(&text).ok()))
    }

    pub(crate) fn write(&self, path: &Path, durability: Durability) -> Result<(), StoreError> {
        let text = serde_json::to_vec_pretty(self)
            .map_err(std::io::Error::other)
            .at("write", path)?;
        files::replace(path, &text, durability)
    }
}

/// Marks an artifact as used now: the order of eviction.
pub(crate) fn touch(path: &Path, now: SystemTime) -> Result<(), StoreError> {
    let times = FileTimes::new().set_modified(now);
    File::options()
        .append(true)
        .open(path)
        .and_then(|file| file.set_times(times))
        .at("mark as used", path)
}

/// When an artifact was last used; unreadable counts as never.
pub(crate) fn last_used(path: &Path) -> SystemTime {
    fs::metadata(path)
        .and_then(|metadata| metadata.modified())
        .unwrap_or(SystemTime::UNIX_EPOCH)
}
