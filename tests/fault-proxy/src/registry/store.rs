//! What the registry holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

/// `sha256:…` of these bytes.
pub fn sha256(bytes: &[u8]) -> String {
    let mut text = "sha256:".to_owned();
    for byte in Sha256::digest(bytes) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[derive(Debug, Default)]
pub(crate) struct Store {
    content: BTreeMap<String, Bytes>,
    linked: BTreeSet<(String, String)>,
    manifests: BTreeMap<(String, String), Manifest>,
    tags: BTreeMap<(String, String), String>,
    pub(crate) uploads: BTreeMap<String, Upload>,
    pub(crate) next_upload: u64,
    pub(crate) received: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Manifest {
    pub(crate) media_type: String,
    pub(crate) bytes: Bytes,
}

#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) repository: String,
    pub(crate) data: Vec<u8>,
    /// Changes with each part; a stale address is refused, as real registries do.
    pub(crate) state: u64,
}

impl Store {
    pub(crate) fn add_blob(&mut self, repository: &str, bytes: Bytes) -> String {
        let digest = sha256(&bytes);
        self.content.insert(digest.clone(), bytes);
        self.linked.insert((repository.to_owned(), digest.clone()));
        digest
    }

    pub(crate) fn blob(&self, repository: &str, digest: &str) -> Option<Bytes> {
        let linked = self.linked.contains(&(repository.to_owned(), digest.to_owned()));
        linked.then(|| self.content.get(digest).cloned()).flatten()
    }

    pub(crate) fn content(&self, digest: &str) -> Option<Bytes> {
        self.content.get(digest).cloned()
    }

    pub(crate) fn mount(&mut self, repository: &str, from: &str, digest: &str) -> bool {
        let there = self.blob(from, digest).is_some();
        if there {
            self.linked.insert((repository.to_owned(), digest.to_owned()));
        }
        there
    }

    pub(crate) fn add_manifest(
        &mut self,
        repository: &str,
        tag: Option<&str>,
        media_type: &str,
        bytes: Bytes,
    ) -> String {
        let digest = sha256(&bytes);
        let manifest = Manifest {
            media_type: media_type.to_owned(),
            bytes,
        };
        self.manifests.insert((repository.to_owned(), digest.clone()), manifest);
        if let Some(tag) = tag {
            self.tags
                .insert((repository.to_owned(), tag.to_owned()), digest.clone());
        }
        digest
    }

    /// By tag or digest.
    pub(crate) fn manifest(&self, repository: &str, reference: &str) -> Option<(String, &Manifest)> {
        let key = |text: &str| (repository.to_owned(), text.to_owned());
        let digest = self
            .tags
            .get(&key(reference))
            .cloned()
            .unwrap_or_else(|| reference.to_owned());
        self.manifests.get(&key(&digest)).map(|manifest| (digest, manifest))
    }

    pub(crate) fn manifests_of<'a>(&'a self, repository: &'a str) -> impl Iterator<Item = (&'a String, &'a Manifest)> {
        self.manifests
            .iter()
            .filter(move |((owner, _), _)| owner == repository)
            .map(|((_, digest), manifest)| (digest, manifest))
    }

    pub(crate) fn delete(&mut self, repository: &str, reference: &str) -> bool {
        let key = (repository.to_owned(), reference.to_owned());
        let removed = self.tags.remove(&key).is_some() || self.manifests.remove(&key).is_some();
        self.tags
            .retain(|(owner, _), digest| owner != repository || digest != reference);
        removed
    }

    pub(crate) fn tags(&self, repository: &str) -> Vec<String> {
        self.tags
            .keys()
            .filter(|(owner, _)| owner == repository)
            .map(|(_, tag)| tag.clone())
            .collect()
    }
}
