//! Launch profiles: how an engine is started, as ordered rules.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    reason::RowReference,
    version::VersionRange,
    words::{Evidence, Words},
};

/// A `Launch` document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LaunchProfile {
    /// Always `Launch`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The profile that this one adds to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extends: Option<String>,
    /// Value of the label `llm-d.ai/engine-type`; unset: the engine's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_type: Option<String>,
    /// Command; unset: that of the profile it extends; `[]`: the image's own entry point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Arguments that are always given, after those of the profile it extends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment that is always given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The port that serves the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Where metrics are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics_path: Option<String>,
    /// Their port, when it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics_port: Option<u16>,
    /// Probe paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<ProbePaths>,
    /// Needs of the pod that always hold.
    #[serde(default)]
    pub pod: PodNeeds,
    /// Memory constants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryRule>,
    /// Rates for the startup budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup: Option<StartupRule>,
    /// The engine splits a model over devices of one node, and over nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<ParallelRule>,
    /// Rules, applied in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<LaunchRule>,
    /// What it rests on.
    #[serde(default)]
    pub evidence: Evidence,
    /// A remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Where it is written.
    #[serde(skip)]
    pub row: Option<RowReference>,
}

/// HTTP paths of the probes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProbePaths {
    /// Until it has started.
    pub startup: String,
    /// Whether it may get requests.
    pub readiness: String,
    /// Whether it still lives.
    pub liveness: String,
}

/// What the pod needs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodNeeds {
    /// Size of `/dev/shm` as a Kubernetes quantity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shm: Option<String>,
    /// Host network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_network: Option<bool>,
    /// Host IPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_ipc: Option<bool>,
    /// Privileged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privileged: Option<bool>,
    /// Capabilities to add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Supplemental groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group_ids: Vec<u32>,
}

/// How much memory an engine needs besides weights and KV cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryRule {
    /// Thousandths of a device's memory that may be used.
    pub usable_permille: u64,
    /// MiB that are always needed.
    pub base_mib: u64,
    /// Thousandths of the weights on a device that are needed besides.
    pub weights_permille: u64,
    /// Bytes of a KV element; unset: as wide as the model's own type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_element_bytes: Option<u64>,
}

/// Rates for the startup budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartupRule {
    /// MiB of weights that are loaded in a second.
    pub load_mib_per_second: u64,
    /// Seconds for everything else.
    pub warmup_seconds: u64,
}

/// How an engine splits a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ParallelRule {
    /// Over devices by tensors: heads must divide.
    pub tensor: bool,
    /// Over devices by layers, without a rule for heads.
    #[serde(default)]
    pub layers: bool,
    /// Over nodes.
    #[serde(default)]
    pub nodes: bool,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LaunchRule {
    /// When it applies; every condition that is given must hold.
    #[serde(default)]
    pub when: Condition,
    /// Arguments to add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Arguments to take away, each with the values that follow it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// Environment to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Command to use instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Needs of the pod to add.
    #[serde(default)]
    pub pod: PodNeeds,
    /// Why; people see it in `explain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What it rests on.
    #[serde(default)]
    pub evidence: Evidence,
}

/// When a rule applies.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Condition {
    /// Versions of the build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionRange>,
    /// Versions of upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<VersionRange>,
    /// Products, variants, groups or vendors.
    #[serde(default, skip_serializing_if = "Words::is_unset")]
    pub products: Words,
    /// Distributions.
    #[serde(default, skip_serializing_if = "Words::is_unset")]
    pub distributions: Words,
    /// Architectures of the model.
    #[serde(default, skip_serializing_if = "Words::is_unset")]
    pub architectures: Words,
    /// Families of the model.
    #[serde(default, skip_serializing_if = "Words::is_unset")]
    pub families: Words,
    /// Globs on the checkpoint.
    #[serde(default, skip_serializing_if = "Words::is_unset")]
    pub checkpoints: Words,
    /// Quantizations, in the matrix's words.
    #[serde(default, skip_serializing_if = "Words::is_unset")]
    pub quantizations: Words,
    /// Quantization methods, as the files name them.
    #[serde(default, skip_serializing_if = "Words::is_unset")]
    pub methods: Words,
    /// Weight formats.
    #[serde(default, skip_serializing_if = "Words::is_unset")]
    pub formats: Words,
    /// Tasks.
    #[serde(default, skip_serializing_if = "Words::is_unset")]
    pub tasks: Words,
    /// At least so many devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices_at_least: Option<u32>,
    /// At least so many nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes_at_least: Option<u32>,
    /// The model needs code from its repository, and that is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_code: Option<bool>,
    /// The context is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_known: Option<bool>,
}
