//! What the matrix answers.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    build::{Channel, Pull},
    reason::{Reason, RowReference},
    support::{Level, ModelMatch},
};

/// The answer to one request: what was chosen and why, and the verdict on every other candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Digest of the revision that answered.
    pub revision: String,
    /// The choice; `None` when no candidate is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Choice>,
    /// One verdict per candidate, best first: eligible ones by rank, then rejected ones by how near they came. Builds of vendors
    /// that the cluster has nothing of share theirs with every other decision.
    #[serde(with = "shared")]
    pub verdicts: Vec<Arc<Verdict>>,
    /// Numbers for people.
    pub counts: Counts,
    /// The rejected candidates that came nearest, at most five, with what would help.
    pub nearest: Vec<NearMiss>,
}

/// The chosen build and pool, with what a launch needs to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    /// The build.
    pub build: String,
    /// Who builds it (`vllm-gcu`).
    pub distribution: String,
    /// The engine (`vllm`).
    pub engine: String,
    /// Version of the build.
    pub version: String,
    /// The upstream version that it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Stack versions that the image carries.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stack: BTreeMap<String, String>,
    /// Release channel.
    pub channel: Channel,
    /// The pool.
    pub pool: String,
    /// The product.
    pub product: String,
    /// The vendor.
    pub vendor: String,
    /// The image, as the matrix names it.
    pub image: String,
    /// Digest of the image, where the matrix knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_digest: Option<String>,
    /// How the image is had.
    pub pull: Pull,
    /// CPU architecture of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// The extended resource that counts the devices; `None` on plain nodes and with claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Devices of one replica, over all its nodes; on plain CPU nodes 0, for there is nothing to ask for.
    pub devices: u32,
    /// Nodes of one replica.
    pub nodes: u32,
    /// Tensor parallel size.
    pub tensor_parallel: u32,
    /// Pipeline parallel size.
    pub pipeline_parallel: u32,
    /// Context to serve, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// Sequences of that length at once.
    pub concurrency: u64,
    /// How strong the statement is.
    pub level: Level,
    /// How closely the support row names the model.
    pub model_match: ModelMatch,
    /// The support row.
    pub row: RowReference,
    /// The evidence of the row in a phrase: `vendor docs, 2026-02-11`.
    pub evidence: String,
    /// The build's own row.
    pub build_row: RowReference,
    /// The arithmetic.
    pub fit: Fit,
}

/// The verdict on one candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The build.
    pub build: String,
    /// The pool; `None` for a build whose vendor has no pool in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// More pools of which the same is true: they differ from it in nothing but their names and nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// What became of it.
    pub outcome: Outcome,
    /// Reasons against it, the heaviest first; empty for the chosen and the eligible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    /// What does not stop it, but should be known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<Reason>,
    /// Level, for the chosen and the eligible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// The support row, for the chosen and the eligible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<RowReference>,
    /// Why it ranked below the candidate before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranked_below: Option<String>,
    /// Devices of one replica, for the chosen and the eligible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<u32>,
}

/// Shared values are written as what they hold.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::Verdict;

    pub(super) fn serialize<S: Serializer>(verdicts: &[Arc<Verdict>], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(verdicts.iter().map(AsRef::as_ref))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Arc<Verdict>>, D::Error> {
        let verdicts = Vec::<Verdict>::deserialize(deserializer)?;
        Ok(verdicts.into_iter().map(Arc::new).collect())
    }
}

/// What became of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It is the answer.
    Chosen,
    /// It would work and ranked lower.
    Eligible,
    /// It would not work.
    Rejected,
}

/// Numbers for people.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Builds of the matrix.
    pub builds: usize,
    /// Pools of the request.
    pub pools: usize,
    /// Candidates: pairs of a build and a pool of its vendor, and builds without such a pool.
    pub candidates: usize,
    /// Candidates that would work, the chosen one among them.
    pub eligible: usize,
    /// Candidates that would not.
    pub rejected: usize,
    /// Rejected candidates by reason token; a candidate counts once for each reason against it.
    pub by_reason: BTreeMap<String, usize>,
    /// Rejected candidates by their heaviest reason; these add up to `rejected`.
    pub by_heaviest: BTreeMap<String, usize>,
}

/// A rejected candidate with what would help.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NearMiss {
    /// The build.
    pub build: String,
    /// The pool.
    pub pool: String,
    /// Reasons against it.
    pub reasons: Vec<Reason>,
    /// What would fix them, in one sentence.
    pub fix: String,
}

/// Whether the model fits on the devices, with the arithmetic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fit", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Fit {
    /// It does.
    Fits(FitArithmetic),
    /// It does not, on any number of devices that may be taken.
    DoesNotFit(FitArithmetic),
    /// It cannot be known.
    Unknown {
        /// What is missing.
        missing: Vec<String>,
    },
}

/// Bytes per device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FitArithmetic {
    /// Weights on one device.
    pub weights: u64,
    /// KV cache on one device.
    pub kv_cache: u64,
    /// What the engine needs besides.
    pub overhead: u64,
    /// Their sum.
    pub needed: u64,
    /// Memory of one device that an engine may use.
    pub usable: u64,
    /// Memory of one device.
    pub memory: u64,
    /// True when the KV cache is only a lower bound.
    pub lower_bound: bool,
}
