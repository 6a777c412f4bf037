//! Metrics profiles: how the signals of an engine are named, by upstream version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{version::VersionRange, words::Evidence};

/// A `Metrics` document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MetricsProfile {
    /// Always `Metrics`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Signals by their standard name (`requests_waiting`), each with sources in order: the first whose range holds counts.
    pub signals: BTreeMap<String, Vec<SignalSource>>,
    /// What it rests on.
    #[serde(default)]
    pub evidence: Evidence,
    /// A remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One source of a signal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignalSource {
    /// Upstream versions; unset: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<VersionRange>,
    /// Name on the wire; unset for an absent signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Labels that it must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Kind on the wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<SignalKind>,
    /// How several series become one.
    #[serde(default)]
    pub aggregation: Aggregation,
    /// Thousandths that a value is multiplied by, so that seconds and ratios come out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_permille: Option<u64>,
    /// How well it means the signal.
    #[serde(default)]
    pub semantics: Semantics,
    /// A remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SignalKind {
    /// A gauge.
    Gauge,
    /// A counter.
    Counter,
    /// A histogram.
    Histogram,
}

/// How several series become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregation {
    /// There is only one.
    #[default]
    First,
    /// Their sum.
    Sum,
    /// The largest.
    Max,
    /// Their mean.
    Average,
}

/// How well a source means the signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Semantics {
    /// It is the signal.
    #[default]
    Exact,
    /// It is near it.
    Approximate,
    /// The engine has no such signal: nothing is emitted, never a zero.
    Absent,
}
