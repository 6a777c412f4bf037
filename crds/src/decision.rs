//! What a status says about a decision: bounded summaries of what the matrix answered.
#![expect(
    unreachable_pub,
    reason = "the KubeSchema derive repeats each struct inside a function"
)]

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// What the artifact says about the model.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct ModelSummary {
    /// The artifact by digest: this is what runs.
    pub artifact: String,
    /// The reference in the spec that this digest was found for. While the spec keeps it, the digest stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<String>,
    /// Where the bytes came from: `Qwen/Qwen3-8B`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// Architecture, or family where the files name no architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Format of the weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Quantization in the words of the matrix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantization: Option<String>,
    /// Bytes of the weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_bytes: Option<i64>,
    /// Longest context of the model, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_length: Option<i64>,
    /// Bytes of all files of the artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_bytes: Option<i64>,
    /// Facts that the files do not give, with what is missing; at most eight.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub unknown: Vec<String>,
}

/// One choice of the matrix, with what it was made from.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct DecisionRecord {
    /// The pool of nodes.
    pub pool: String,
    /// The accelerator.
    pub product: String,
    /// The build, as the matrix names it.
    pub build: String,
    /// The distribution of the engine: `vllm-gcu`.
    pub distribution: String,
    /// The engine: `vllm`.
    pub engine: String,
    /// The version of the build.
    pub version: String,
    /// The image that runs.
    pub image: String,
    /// The image that the matrix names, when a rewrite rule of the controller or an image of the spec replaced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_image: Option<String>,
    /// Digest of the image that runs, once a node has reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_digest: Option<String>,
    /// Devices per replica; 0 on plain CPU nodes.
    pub devices: i32,
    /// How strong the matrix's statement is: `verified`, `declared`, `experimental`, `untested`.
    pub level: String,
    /// The support row: file and line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
    /// The `MatrixRevision` that decided, by digest.
    pub revision: String,
    /// Digest of everything from the spec and the model that the choice was made from. While it stays the same, so does the choice.
    pub inputs_digest: String,
    /// When it was decided (RFC 3339).
    pub decided_at: String,
}

/// A choice that waits.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct PendingDecision {
    /// The `MatrixRevision` that would choose it, by digest. Write it to `spec.rollout.approvedRevision` to take it.
    pub revision: String,
    /// The pool of nodes it would use.
    pub pool: String,
    /// The accelerator it would use.
    pub product: String,
    /// The build it would use.
    pub build: String,
    /// The image it would use, as the matrix names it.
    pub image: String,
    /// How strong the matrix's statement for it is.
    pub level: String,
}

/// Why this choice, or why none.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Pairs of build and pool that were looked at.
    pub candidates: i32,
    /// Pairs that would work.
    pub eligible: i32,
    /// Rejected pairs by the heaviest reason against them, most frequent first, at most eight.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub rejections: Vec<RejectionCount>,
    /// What came second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<RunnerUp>,
    /// The candidates that failed by the least, with what would help; at most three.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3))]
    pub nearest: Vec<NearMiss>,
    /// What was seen of the cluster and not understood; at most eight.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub notes: Vec<String>,
}

/// How often a reason spoke against a candidate.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct RejectionCount {
    /// The reason.
    pub reason: String,
    /// How many candidates.
    pub count: i32,
}

/// The eligible candidate that ranked second.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct RunnerUp {
    /// Its build.
    pub build: String,
    /// Its pool.
    pub pool: String,
    /// Why it ranked lower.
    pub because: String,
}

/// A candidate that failed by little.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct NearMiss {
    /// Its build.
    pub build: String,
    /// Its pool.
    pub pool: String,
    /// What speaks against it.
    pub because: String,
    /// What would help, when something would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}
