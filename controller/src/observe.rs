//! Reads everything that one pass looks at. After this, nothing asks a server before the results are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use crds::node_weights::ArtifactStatus;
use crds::{LABEL_DEPLOYMENT, ModelDeployment};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;

use crate::finding::Finding;
use crate::matrices::Matrices;
use crate::model::ModelReader;
use crate::observed::{MatrixView, Model, Observed, Settings, artifact_digest};
use crate::watch::Caches;

/// Where a pass reads from.
pub struct Sources {
    /// The cluster in memory.
    pub caches: Arc<Caches>,
    /// Matrices.
    pub matrices: Matrices,
    /// Registries.
    pub models: ModelReader,
    /// What the controller is told.
    pub settings: Arc<Settings>,
}

/// Reads everything about one deployment.
pub async fn observe(sources: &Sources, deployment: Arc<ModelDeployment>) -> Observed {
    let model = sources.models.read(&deployment).await;
    let current = sources.matrices.current(&deployment.spec.matrix).await;
    let deciding = deciding(&sources.matrices, &deployment, &current).await;
    let pods = pods(&sources.caches, &deployment);
    let name = ObjectRef::new(&deployment.name_any()).within(&deployment.namespace().unwrap_or_default());
    Observed {
        weights: weights(&sources.caches, &pods, &deployment, model.as_deref().ok()),
        used_devices: sources.caches.device_use.sum(),
        workload: sources.caches.workloads.get(&name),
        settings: Arc::clone(&sources.settings),
        now: Timestamp::now(),
        deployment,
        model,
        current,
        deciding,
        pods,
    }
}

/// The matrix of the decision in force, when it is another than the current one.
async fn deciding(
    matrices: &Matrices,
    deployment: &ModelDeployment,
    current: &Result<MatrixView, Finding>,
) -> Option<Result<MatrixView, Finding>> {
    let decision = deployment.status.as_ref()?.decision.as_ref()?;
    if matches!(current, Ok(view) if view.revision == decision.revision) {
        return None;
    }
    Some(matrices.by_digest(&decision.revision).await)
}

fn pods(caches: &Caches, deployment: &ModelDeployment) -> Vec<Arc<Pod>> {
    let (name, namespace) = (deployment.name_any(), deployment.namespace());
    let mut pods = caches
        .pods
        .state_filter(|pod| pod.namespace() == namespace && pod.labels().get(LABEL_DEPLOYMENT) == Some(&name));
    pods.sort_by_key(|pod| pod.name_any());
    pods
}

/// What the pods' nodes have of the artifact.
fn weights(
    caches: &Caches,
    pods: &[Arc<Pod>],
    deployment: &ModelDeployment,
    model: Option<&Model>,
) -> BTreeMap<String, ArtifactStatus> {
    let Some(digest) = artifact_digest(deployment, model) else {
        return BTreeMap::new();
    };
    let nodes = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone());
    nodes
        .filter_map(|node| {
            let guarded = caches.node_weights.get(&ObjectRef::new(&node))?;
            let status = guarded.0.as_ref().ok()?.status.as_ref()?;
            let artifact = status.artifacts.iter().find(|artifact| artifact.digest == digest)?;
            Some((node, artifact.clone()))
        })
        .collect()
}
