//! The source lock: what was asked of a hub and what it resolved to. The same lock packs to the same digest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Digest, FilePath};

/// Where the lock lies in a packed model.
pub const SOURCE_LOCK_PATH: &str = "source.lock";

const VERSION: u32 = 1;

/// A frozen listing of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceLock {
    /// Version of this document, 1.
    pub version: u32,
    /// Scheme of the source: `hf`, `ms`, `file`.
    pub hub: String,
    /// Address of the hub that was asked; absent for folders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Canonical name in the hub, `owner/name`; absent for folders, whose place on one machine says nothing on another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Branch, tag or commit that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Commit that it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// What else was asked: include, exclude, quant.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// The files that were selected, in the order of their paths.
    pub files: Vec<LockedFile>,
}

/// A file of the source with what the hub says about its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LockedFile {
    /// Path in the repository.
    pub path: FilePath,
    /// Size in bytes.
    pub size: u64,
    /// sha256 that the hub publishes or that was computed while packing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Digest>,
    /// git's object name (SHA-1 over header and content), which hubs publish for small files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_sha1: Option<String>,
    /// True when no hash of the hub vouches for the content.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
}

/// A lock that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Not the document.
    #[error("source lock cannot be read")]
    Form(#[source] serde_json::Error),
    /// From a newer program.
    #[error("source lock has version {0}, this program reads version {VERSION}")]
    Version(u32),
}

impl SourceLock {
    /// A lock of a hub's repository without files yet.
    pub fn new(hub: &str) -> Self {
        Self {
            version: VERSION,
            hub: hub.to_owned(),
            endpoint: None,
            id: None,
            revision: None,
            commit: None,
            options: BTreeMap::new(),
            files: Vec::new(),
        }
    }

    /// `hf://owner/name`; `None` for a folder.
    pub fn source(&self) -> Option<String> {
        self.id.as_ref().map(|id| format!("{}://{id}", self.hub))
    }

    /// Readable JSON with the files in order, ending in a newline: the same content gives the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut sorted = self.clone();
        sorted.files.sort_by(|left, right| left.path.cmp(&right.path));
        let mut bytes = serde_json::to_vec_pretty(&sorted).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Reads what [`Self::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LockError> {
        let lock: Self = serde_json::from_slice(bytes).map_err(LockError::Form)?;
        if lock.version == VERSION {
            Ok(lock)
        } else {
            Err(LockError::Version(lock.version))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(names: &[&str]) -> SourceLock {
        let file = |name: &&str| LockedFile {
            path: name.parse().unwrap(),
            size: 3,
            sha256: Some(Digest::of(name.as_bytes())),
            git_sha1: None,
            unverified: false,
        };
        SourceLock {
            files: names.iter().map(file).collect(),
            ..SourceLock::new("hf")
        }
    }

    #[test]
    fn the_order_of_a_listing_does_not_change_the_bytes() {
        assert_eq!(lock(&["b", "a"]).to_bytes(), lock(&["a", "b"]).to_bytes());
    }

    #[test]
    fn a_lock_is_read_back_and_a_newer_one_is_refused() {
        let written = lock(&["a"]);
        assert_eq!(SourceLock::from_bytes(&written.to_bytes()).unwrap(), written);
        let newer = SourceLock { version: 2, ..written };
        assert!(matches!(
            SourceLock::from_bytes(&newer.to_bytes()),
            Err(LockError::Version(2))
        ));
    }
}
