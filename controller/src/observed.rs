//! Everything that one pass looks at, as plain data: what comes after it needs no client.

use std::collections::BTreeMap;
use std::sync::Arc;

use crds::ModelDeployment;
use crds::node_weights::ArtifactStatus;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use matrix::{Cluster, Matrix};
use model_facts::ModelFacts;

use crate::device_use::UsedDevices;
use crate::finding::Finding;
use crate::rewrite::ImageRewrite;

/// Everything that one pass looks at.
#[derive(Clone)]
pub struct Observed {
    /// The object of the pass.
    pub deployment: Arc<ModelDeployment>,
    /// What the artifact says, or why it says nothing.
    pub model: Result<Arc<Model>, Finding>,
    /// The matrix that the spec follows now, with the cluster as that matrix recognises it.
    pub current: Result<MatrixView, Finding>,
    /// The matrix that made the decision in force, when it is another one.
    pub deciding: Option<Result<MatrixView, Finding>>,
    /// Pods of this deployment.
    pub pods: Vec<Arc<Pod>>,
    /// Its workload, as last seen.
    pub workload: Option<Arc<Deployment>>,
    /// What the nodes have of its weights, by node.
    pub weights: BTreeMap<String, ArtifactStatus>,
    /// Devices that pods use; `None` when they have not been counted.
    pub used_devices: Option<Arc<UsedDevices>>,
    /// What this controller is told about the cluster.
    pub settings: Arc<Settings>,
    /// The time of the pass.
    pub now: Timestamp,
}

/// The digest of the artifact that pods are to have: while it cannot be read from its registry, the one of the last pass.
pub(crate) fn artifact_digest<'run>(
    deployment: &'run ModelDeployment,
    model: Option<&'run Model>,
) -> Option<&'run str> {
    if let Some(model) = model {
        return Some(model.digest());
    }
    let settled = deployment.status.as_ref()?.model.as_ref()?;
    settled.artifact.rsplit_once('@').map(|(_, digest)| digest)
}

impl Observed {
    /// The digest of the artifact that pods are to have.
    pub(crate) fn artifact_digest(&self) -> Option<&str> {
        artifact_digest(&self.deployment, self.model.as_deref().ok())
    }

    /// Devices of a pool that no pod uses; `None` when they were not counted.
    pub fn free_devices(&self, pool: &str) -> Option<u32> {
        let view = self.current.as_ref().ok()?;
        self.used_devices.as_ref()?.free(view.pool(pool)?)
    }
}

/// What this controller is told about the cluster.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where images really come from.
    pub rewrite: ImageRewrite,
}

/// A matrix, and the cluster as this matrix recognises it.
#[derive(Clone)]
pub struct MatrixView {
    /// The matrix.
    pub matrix: Arc<Matrix>,
    /// Its digest.
    pub revision: String,
    /// The pools that it sees.
    pub cluster: Arc<Cluster>,
}

/// A packed model, read from its registry.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The reference in the spec.
    pub requested: String,
    /// The same artifact by digest: `registry/repository@sha256:…`.
    pub reference: String,
    /// What its files say.
    pub facts: ModelFacts,
    /// Its files, relative to the mount.
    pub files: Vec<String>,
    /// Bytes of all files.
    pub bytes: u64,
    /// True when the artifact holds facts only.
    pub weights_absent: bool,
}

impl Model {
    /// Digest of the artifact's manifest.
    pub fn digest(&self) -> &str {
        self.reference.rsplit('@').next().unwrap_or_default()
    }
}

impl MatrixView {
    /// The pool with this id.
    pub fn pool(&self, id: &str) -> Option<&matrix::Pool> {
        self.cluster.pools.iter().find(|pool| pool.id == id)
    }
}
