//! Matrices in memory: revisions read when they are needed, and the cluster as each of them recognises it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crds::{DocumentEncoding, MatrixRevision, MatrixRevisionSpec, MatrixSource, Reason};
use kube::core::DynamicObject;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, ResourceExt as _};
use matrix::{Cluster, Matrix};
use serde_json::Value;

use crate::finding::Finding;
use crate::observed::MatrixView;
use crate::watch::Caches;

/// Revisions that are kept in memory. More are in use only while a fleet moves from one to the next.
const REMEMBERED: usize = 4;
/// A revision larger than this after decompression is not one of ours.
const DOCUMENTS_LIMIT: usize = 64 << 20;
/// The channel of deployments that name none.
const DEFAULT_CHANNEL: &str = "stable";

/// Matrices and clusters in memory.
pub struct Matrices {
    client: Client,
    caches: Arc<Caches>,
    loaded: Mutex<BTreeMap<String, Loaded>>,
}

struct Loaded {
    matrix: Arc<Matrix>,
    cluster: Option<(u64, Arc<Cluster>)>,
    used: u64,
}

impl Matrices {
    /// Nothing is loaded yet.
    pub fn new(client: Client, caches: Arc<Caches>) -> Self {
        Self {
            client,
            caches,
            loaded: Mutex::default(),
        }
    }

    /// The matrix that a spec follows.
    pub async fn current(&self, source: &MatrixSource) -> Result<MatrixView, Finding> {
        let name = self.revision_name(source)?;
        let digest = self.digest_of(&name).ok_or_else(|| revision_missing(&name, source))?;
        self.view(&name, &digest).await
    }

    /// The matrix with this digest, whatever its object is called.
    pub async fn by_digest(&self, digest: &str) -> Result<MatrixView, Finding> {
        let found = self
            .caches
            .revisions
            .find(|guarded| matches!(&guarded.0, Ok(revision) if revision.spec.digest == digest));
        let name = found.map(|guarded| guarded.name_any());
        let name = name.ok_or_else(|| {
            Finding::new(
                Reason::RevisionMissing,
                format!("no MatrixRevision has the digest {digest} any more"),
            )
        })?;
        self.view(&name, digest).await
    }

    fn revision_name(&self, source: &MatrixSource) -> Result<String, Finding> {
        if let Some(revision) = &source.revision {
            return Ok(revision.clone());
        }
        let channel = source.channel.as_deref().unwrap_or(DEFAULT_CHANNEL);
        let missing = || {
            let text = format!(
                "there is no MatrixChannel {channel}; make one with `plimsoll matrix render --channel {channel} | kubectl apply -f -`"
            );
            Finding::new(Reason::ChannelMissing, text)
        };
        let guarded = self.caches.channels.get(&ObjectRef::new(channel)).ok_or_else(missing)?;
        match &guarded.0 {
            Ok(channel) => Ok(channel.spec.revision.clone()),
            Err(error) => Err(Finding::new(
                Reason::ChannelMissing,
                format!("MatrixChannel {channel} cannot be read: {error}"),
            )),
        }
    }

    fn digest_of(&self, name: &str) -> Option<String> {
        let guarded = self.caches.revisions.get(&ObjectRef::new(name))?;
        guarded.0.as_ref().ok().map(|revision| revision.spec.digest.clone())
    }

    async fn view(&self, name: &str, digest: &str) -> Result<MatrixView, Finding> {
        let matrix = match self.recall(digest) {
            Some(matrix) => matrix,
            None => self.load(name, digest).await?,
        };
        let cluster = self.cluster(digest, &matrix);
        Ok(MatrixView {
            matrix,
            revision: digest.to_owned(),
            cluster,
        })
    }

    fn recall(&self, digest: &str) -> Option<Arc<Matrix>> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = loaded.values().map(|entry| entry.used).max().unwrap_or(0);
        let entry = loaded.get_mut(digest)?;
        entry.used = newest + 1;
        Some(Arc::clone(&entry.matrix))
    }

    async fn load(&self, name: &str, digest: &str) -> Result<Arc<Matrix>, Finding> {
        let api: Api<MatrixRevision> = Api::all(self.client.clone());
        let revision = api.get(name).await.map_err(|error| {
            Finding::new(
                Reason::RevisionNotRead,
                format!("MatrixRevision {name} cannot be read: {error}"),
            )
        })?;
        let invalid = |text: String| Finding::new(Reason::RevisionInvalid, format!("MatrixRevision {name}: {text}"));
        let documents = decode(revision.spec).map_err(invalid)?;
        let matrix = Matrix::from_revision(&documents).map_err(|errors| invalid(errors.to_string()))?;
        if matrix.revision().digest != digest {
            return Err(invalid(format!(
                "the documents have the digest {}, the object says {digest}",
                matrix.revision().digest
            )));
        }
        let matrix = Arc::new(matrix);
        self.remember(digest, &matrix);
        Ok(matrix)
    }

    fn remember(&self, digest: &str, matrix: &Arc<Matrix>) {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        while loaded.len() >= REMEMBERED {
            let oldest = loaded
                .iter()
                .min_by_key(|(_, entry)| entry.used)
                .map(|(digest, _)| digest.clone());
            oldest.and_then(|digest| loaded.remove(&digest));
        }
        let used = loaded.values().map(|entry| entry.used).max().unwrap_or(0) + 1;
        loaded.insert(
            digest.to_owned(),
            Loaded {
                matrix: Arc::clone(matrix),
                cluster: None,
                used,
            },
        );
    }

    /// The cluster as a matrix recognises it, computed once per change of the cluster.
    fn cluster(&self, digest: &str, matrix: &Matrix) -> Arc<Cluster> {
        let version = *self.caches.cluster_version.borrow();
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let known = loaded.get(digest).and_then(|entry| entry.cluster.as_ref());
        if let Some((_, cluster)) = known.filter(|(seen, _)| *seen == version) {
            return Arc::clone(cluster);
        }
        let mut observation = matrix::observe(&self.objects());
        // They were read; without an object among the input, the reader cannot know that.
        observation.runtime_classes.get_or_insert_default();
        let cluster = Arc::new(matrix::recognise(matrix, &observation));
        if let Some(entry) = loaded.get_mut(digest) {
            entry.cluster = Some((version, Arc::clone(&cluster)));
        }
        cluster
    }

    /// Everything that shows accelerators, as the API server prints it.
    fn objects(&self) -> Vec<Value> {
        let nodes = self.caches.nodes.state();
        let classes = self.caches.runtime_classes.state();
        let mut objects: Vec<Value> = nodes
            .iter()
            .filter_map(|node| serde_json::to_value(&**node).ok())
            .collect();
        objects.extend(classes.iter().filter_map(|class| serde_json::to_value(&**class).ok()));
        if let Some(claims) = &self.caches.claims {
            objects.extend(dynamic(&claims.slices, "ResourceSlice"));
            objects.extend(dynamic(&claims.classes, "DeviceClass"));
        }
        objects
    }
}

fn revision_missing(name: &str, source: &MatrixSource) -> Finding {
    let whose = match (&source.revision, &source.channel) {
        (Some(_), _) => "spec.matrix.revision".to_owned(),
        (None, channel) => format!("MatrixChannel {}", channel.as_deref().unwrap_or(DEFAULT_CHANNEL)),
    };
    Finding::new(
        Reason::RevisionMissing,
        format!("{whose} names MatrixRevision {name}, which is not there"),
    )
}

/// List items carry no kind of their own.
fn dynamic(store: &Store<DynamicObject>, kind: &str) -> Vec<Value> {
    let state = store.state();
    let values = state.iter().filter_map(|object| serde_json::to_value(&**object).ok());
    values
        .map(|mut value| {
            value["kind"] = Value::from(kind);
            value
        })
        .collect()
}

/// The documents of a revision as text.
pub fn decode(spec: MatrixRevisionSpec) -> Result<String, String> {
    match spec.encoding {
        DocumentEncoding::Plain => Ok(spec.documents),
        DocumentEncoding::ZstdBase64 => {
            let packed = STANDARD
                .decode(spec.documents.trim())
                .map_err(|error| format!("spec.documents is no base64: {error}"))?;
            let bytes = zstd::bulk::decompress(&packed, DOCUMENTS_LIMIT)
                .map_err(|error| format!("spec.documents cannot be decompressed: {error}"))?;
            String::from_utf8(bytes).map_err(|_| "the documents are no UTF-8".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(encoding: DocumentEncoding, documents: String) -> MatrixRevisionSpec {
        MatrixRevisionSpec {
            digest: String::new(),
            encoding,
            documents,
        }
    }

    #[test]
    fn both_encodings_give_the_same_text() {
        let packed = STANDARD.encode(zstd::bulk::compress(b"kind: Builds", 3).unwrap());
        for spec in [
            spec(DocumentEncoding::Plain, "kind: Builds".to_owned()),
            spec(DocumentEncoding::ZstdBase64, packed),
        ] {
            assert_eq!(decode(spec).unwrap(), "kind: Builds");
        }
    }

    #[test]
    fn documents_that_cannot_be_unpacked_are_refused_with_the_field_named() {
        for documents in ["not base64!", "AAAA"] {
            let problem = decode(spec(DocumentEncoding::ZstdBase64, documents.to_owned())).unwrap_err();
            assert!(problem.contains("spec.documents"), "{problem}");
        }
    }
}
