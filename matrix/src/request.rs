//! What is asked of the matrix.

use std::collections::BTreeSet;

use model_facts::ModelFacts;
use serde::{Deserialize, Serialize};

use crate::{launch::Toleration, pool::Pool, support::Level};

/// One question: this model, on these pools, for this demand, under this policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The model.
    pub facts: ModelFacts,
    /// What the cluster has.
    pub pools: Vec<Pool>,
    /// What is to be served.
    #[serde(default)]
    pub demand: Demand,
    /// What is allowed.
    #[serde(default)]
    pub policy: Policy,
}

/// What one replica has to serve, and on what it may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct Demand {
    /// Longest context in tokens; `None`: the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// Sequences of that length at once; `None`: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u64>,
    /// Nodes per replica; `None`: the smallest number that works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Accelerators in order of preference; empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accelerators: Vec<Preference>,
    /// Tolerations that the pods carry besides those of the product.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// One accepted accelerator. At least one of product and vendor is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct Preference {
    /// A product, a variant or another name that the matrix knows (`enflame-s60`, `S60`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// A vendor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Devices per replica; `None`: the smallest number that fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<u32>,
    /// A partition profile, or `shared`; `None`: whole devices where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
}

/// What is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// An engine or a distribution; `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Versions of the build that are welcome: `>=0.9.2, <0.12`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_range: Option<String>,
    /// The weakest level that is good enough.
    #[serde(default)]
    pub minimum_level: Level,
    /// Release channels that are welcome; empty: all of them, final releases first.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub channels: BTreeSet<String>,
    /// Take exactly this build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<String>,
    /// The engine is the user's own choice: a missing support row is then a caveat, an explicit `no` still stops it.
    #[serde(default)]
    pub explicit_engine: bool,
    /// What to do when the host's driver or stack version is unknown.
    #[serde(default)]
    pub unknown_host: UnknownPolicy,
    /// What to do when it is unknown whether the model fits.
    #[serde(default)]
    pub unknown_fit: UnknownPolicy,
    /// Ways to get an image that work in this cluster.
    #[serde(default = "default_pull")]
    pub pull: BTreeSet<crate::build::Pull>,
    /// Pairs that failed when they were tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quarantine: Vec<Quarantine>,
}

/// A build that failed on a pool when it was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Quarantine {
    /// The build.
    pub build: String,
    /// The pool; `None`: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// What happened.
    pub why: String,
}

/// What to do with something that is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UnknownPolicy {
    /// Go on and say so.
    #[default]
    Allow,
    /// Treat it as a no.
    Refuse,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            engine: None,
            version_range: None,
            minimum_level: Level::Declared,
            channels: BTreeSet::new(),
            pin: None,
            explicit_engine: false,
            unknown_host: UnknownPolicy::Allow,
            unknown_fit: UnknownPolicy::Allow,
            pull: default_pull(),
            quarantine: Vec::new(),
        }
    }
}

/// An offline image is one that somebody carried in; a registry mirror makes it public again.
fn default_pull() -> BTreeSet<crate::build::Pull> {
    BTreeSet::from([crate::build::Pull::Public, crate::build::Pull::Login])
}
