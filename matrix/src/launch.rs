//! How a chosen build is started: everything that goes into the pod and comes from the matrix.

use std::collections::{BTreeMap, BTreeSet};

use model_facts::ModelFacts;
use serde::{Deserialize, Serialize};

mod join;
mod profile;
mod render;

pub(crate) use join::{Profile, chain, join};
pub use profile::{Condition, LaunchProfile, LaunchRule, MemoryRule, ParallelRule, PodNeeds, ProbePaths, StartupRule};
pub use render::launch;
pub(crate) use render::{PLACEHOLDERS, templates, unknown_placeholder};

use crate::pool::{LabelRequirement, Pool};

/// What a launch needs besides the choice.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchInput {
    /// The model.
    pub facts: ModelFacts,
    /// The chosen pool; `None` when it is gone, and then nothing is pinned to labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Pool>,
    /// Where the weights are mounted.
    pub model_path: String,
    /// Files of the artifact, relative to that path.
    pub files: Vec<String>,
    /// Bytes of all those files, when they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_bytes: Option<u64>,
    /// The name that clients use.
    pub served_name: String,
    /// Runtime classes of the cluster; `None` when they were not read: then none is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_classes: Option<BTreeSet<String>>,
    /// Arguments of the user, after all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_args: Vec<String>,
    /// Whether code from the model repository may run.
    #[serde(default)]
    pub allow_remote_code: bool,
}

/// What goes into the pod.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchPlan {
    /// The image.
    pub image: String,
    /// Its digest, when the matrix knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_digest: Option<String>,
    /// Command; empty: the image's own entry point.
    pub command: Vec<String>,
    /// Arguments.
    pub args: Vec<String>,
    /// Environment.
    pub env: BTreeMap<String, String>,
    /// The port that serves the API.
    pub port: u16,
    /// Where metrics are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsEndpoint>,
    /// Probes.
    pub probes: Probes,
    /// Seconds that the start may take, from bytes and rates.
    pub startup_budget_seconds: u32,
    /// Bytes of `/dev/shm`; `None`: the runtime's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shm_bytes: Option<u64>,
    /// Runtime class to set; only ever one that the cluster has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_class: Option<String>,
    /// Tolerations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Extended resources of each pod, as limits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, String>,
    /// Plain memory that each pod should reserve, on nodes whose own memory holds the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_request_bytes: Option<u64>,
    /// The claim of each pod, where devices come by claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<DeviceClaim>,
    /// Required node labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_affinity: Vec<LabelRequirement>,
    /// Annotations of the pod (`nvidia.com/use-gputype`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Supplemental groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group_ids: Vec<u32>,
    /// Host network.
    #[serde(default)]
    pub host_network: bool,
    /// Host IPC.
    #[serde(default)]
    pub host_ipc: bool,
    /// Privileged.
    #[serde(default)]
    pub privileged: bool,
    /// Capabilities to add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Value of the label `llm-d.ai/engine-type`.
    pub engine_type: String,
    /// What a person should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Where metrics are read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricsEndpoint {
    /// Port.
    pub port: u16,
    /// Path.
    pub path: String,
    /// The metrics profile of the matrix.
    pub profile: String,
}

/// HTTP paths to ask on the port of the API, with their timing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probes {
    /// Until it has started.
    pub startup: Probe,
    /// Whether it may get requests.
    pub readiness: Probe,
    /// Whether it still lives.
    pub liveness: Probe,
}

/// One probe.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// Path.
    pub path: String,
    /// Seconds between two.
    pub period_seconds: u32,
    /// Failures in a row that count.
    pub failure_threshold: u32,
    /// Seconds to wait for an answer.
    pub timeout_seconds: u32,
}

/// A toleration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// Taint key.
    pub key: String,
    /// Value; `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Effect; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
}

/// A claim for devices.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceClaim {
    /// Device class.
    pub device_class: String,
    /// Devices.
    pub count: u32,
    /// CEL selectors; attributes are guarded, for reading an absent one stops the allocation.
    pub selectors: Vec<String>,
}
