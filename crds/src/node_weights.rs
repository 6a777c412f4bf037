//! `NodeWeights`: which artifacts a node should hold, and what it has of them.
//!
//! One object per node, named as the node. The controller writes `spec`, the node's fetcher writes `status`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The field manager under which a node's fetcher applies the status of its own object.
pub const NODE_FETCHER_FIELD_MANAGER: &str = "plimsoll-node-fetcher";

/// The name of the node fetcher's CSI driver, in `CSIDriver` objects and in the volumes of pods.
pub const WEIGHTS_DRIVER: &str = "weights.plimsoll.dev";
/// The attribute of its volumes that names the artifact, by digest.
pub const ARTIFACT_ATTRIBUTE: &str = "artifact";

/// What a node should hold. Weights that pods mount are fetched without being listed here.
#[expect(clippy::duplicated_attributes, reason = "several printed columns have the same type")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "plimsoll.dev",
    version = "v1alpha1",
    kind = "NodeWeights",
    plural = "nodeweights",
    singular = "nodeweights",
    shortname = "pnw",
    category = "plimsoll",
    status = "NodeWeightsStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#
    ),
    printcolumn(
        name = "Free",
        type_ = "integer",
        description = "Bytes free on the store's file system",
        json_path = ".status.capacity.freeBytes"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct NodeWeightsSpec {
    /// Artifacts to fetch ahead of the pods that will use them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["digest"]))]
    pub wanted: Vec<WantedWeights>,
}

/// One artifact that a node should hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WantedWeights {
    /// Digest of the artifact's manifest.
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub digest: String,
    /// Where the artifact lives: `registry/repository@sha256:...`, with the same digest.
    #[schemars(length(min = 1, max = 1024))]
    pub reference: String,
    /// Larger comes first.
    #[serde(default)]
    pub priority: i32,
}

/// What a node holds, as its fetcher sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeWeightsStatus {
    /// Made once per store and kept on its disk: another value means that everything below is about another disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_id: Option<String>,
    /// Disk space of the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<StoreCapacity>,
    /// Every artifact that is held, being fetched or has failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["digest"]))]
    pub artifacts: Vec<ArtifactStatus>,
    /// `Ready`: every wanted artifact is here and verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Disk space of a node's store, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreCapacity {
    /// Size of the file system.
    pub total_bytes: i64,
    /// What the file system has free.
    pub free_bytes: i64,
    /// What the store never takes, so that the kubelet sees no disk pressure.
    pub floor_bytes: i64,
    /// Bytes of verified blobs.
    pub stored_bytes: i64,
    /// Bytes promised to fetches that run, and not yet allocated.
    pub reserved_bytes: i64,
}

/// One artifact on a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactStatus {
    /// Digest of the artifact's manifest.
    pub digest: String,
    /// Where the artifact came from.
    pub reference: String,
    /// How far it is.
    pub state: ArtifactState,
    /// Bytes of all blobs; absent until the manifest has been read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_total: Option<i64>,
    /// Bytes on disk.
    #[serde(default)]
    pub bytes_done: i64,
    /// Bytes per second over the last seconds, while fetching.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<i64>,
    /// Where the bytes came from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind"]))]
    pub sources: Vec<SourceBytes>,
    /// Sources that were given up on the way, oldest first; at most eight are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub demotions: Vec<Demotion>,
    /// Why it failed or waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<FetchReason>,
    /// The reason in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Volumes of pods that hold it now.
    #[serde(default)]
    pub mounts: i32,
    /// When it became ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_at: Option<Time>,
}

/// How far an artifact is on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ArtifactState {
    /// Known, and waiting for its turn or for the next attempt.
    #[default]
    Pending,
    /// Bytes are moving.
    Fetching,
    /// All bytes are here, the proof runs.
    Verifying,
    /// Proven, and ready to be mounted.
    Ready,
    /// Given up; `reason` says why.
    Failed,
}

/// Bytes of one artifact that came from one kind of source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceBytes {
    /// The kind of source.
    pub kind: SourceKind,
    /// Bytes it delivered.
    pub bytes: i64,
}

/// Kinds of sources of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// Already in the node's store.
    Local,
    /// A Dragonfly daemon on the node, and through it other nodes.
    Dragonfly,
    /// A mirror of the registry.
    Mirror,
    /// The registry that the reference names.
    Registry,
}

impl SourceKind {
    /// The word used in statuses, metrics and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Dragonfly => "dragonfly",
            Self::Mirror => "mirror",
            Self::Registry => "registry",
        }
    }
}

/// A source that was given up while an artifact was fetched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Demotion {
    /// The source that was given up.
    pub kind: SourceKind,
    /// Why.
    pub reason: FetchReason,
    /// The blob that was being fetched.
    pub blob: String,
    /// The first byte that the source did not deliver.
    pub at_byte: i64,
    /// The whole story in one sentence.
    pub message: String,
}

/// Why a fetch failed, waits, or left a source. The list is closed: dashboards and alerts may rely on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum FetchReason {
    /// The registry refuses these credentials, or none were given.
    Unauthorized,
    /// The registry asks to slow down.
    RateLimited,
    /// The registry does not have the manifest or the blob.
    NotFound,
    /// The bytes are not what the digest promises.
    Corrupt,
    /// The artifact is not a packed model that this version can place.
    InvalidArtifact,
    /// The store has no room, even after evicting what nobody uses.
    DiskFull,
    /// No byte arrived for too long, or far too few.
    Stalled,
    /// The source does not answer or fails by its own fault.
    EngineDown,
    /// The work was not done in the time that was given.
    DeadlineExceeded,
}

impl FetchReason {
    /// All reasons, for metrics that list every label from the start.
    pub const ALL: [Self; 9] = [
        Self::Unauthorized,
        Self::RateLimited,
        Self::NotFound,
        Self::Corrupt,
        Self::InvalidArtifact,
        Self::DiskFull,
        Self::Stalled,
        Self::EngineDown,
        Self::DeadlineExceeded,
    ];

    /// The token, as it appears in conditions, events and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unauthorized => "Unauthorized",
            Self::RateLimited => "RateLimited",
            Self::NotFound => "NotFound",
            Self::Corrupt => "Corrupt",
            Self::InvalidArtifact => "InvalidArtifact",
            Self::DiskFull => "DiskFull",
            Self::Stalled => "Stalled",
            Self::EngineDown => "EngineDown",
            Self::DeadlineExceeded => "DeadlineExceeded",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::CustomResourceExt;

    #[test]
    fn a_reason_is_the_same_token_everywhere() {
        for reason in FetchReason::ALL {
            let json = serde_json::to_value(reason).unwrap();
            assert_eq!(json, serde_json::json!(reason.as_str()));
        }
    }

    #[test]
    fn a_kind_of_source_is_the_same_token_everywhere() {
        for kind in [
            SourceKind::Local,
            SourceKind::Dragonfly,
            SourceKind::Mirror,
            SourceKind::Registry,
        ] {
            assert_eq!(serde_json::to_value(kind).unwrap(), serde_json::json!(kind.as_str()));
        }
    }

    #[test]
    fn there_is_one_object_per_node_and_lists_merge_by_digest() {
        let crd = serde_json::to_value(NodeWeights::crd()).unwrap();
        assert_eq!(crd["spec"]["scope"], "Cluster");
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        let wanted = &schema["spec"]["properties"]["wanted"];
        assert_eq!(wanted["x-kubernetes-list-map-keys"], serde_json::json!(["digest"]));
        let artifacts = &schema["status"]["properties"]["artifacts"];
        assert_eq!(artifacts["x-kubernetes-list-type"], "map");
    }
}
