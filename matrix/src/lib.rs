//! The compatibility matrix: products, engine builds, support rows, and the decision.
//!
//! Pure: documents and observations in, a decision out. The same input gives the same bytes.

mod build;
mod decide;
mod decision;
mod decode;
mod document;
mod engine_list;
mod explain;
mod fit;
mod index;
mod launch;
mod lint;
mod matrix;
mod metrics;
mod observation;
mod pool;
mod product;
mod quantity;
mod rank;
mod reading;
mod reason;
mod recognise;
mod request;
mod revision;
mod shipped;
mod support;
mod tree;
mod version;
mod words;

pub use build::{Build, Channel, Image, ModelBinding, Pull};
pub use decide::decide;
pub use decision::{Choice, Counts, Decision, Fit, FitArithmetic, NearMiss, Outcome, Verdict};
pub use document::{Document, LoadError, LoadErrors};
pub use engine_list::{EngineList, Listed};
pub use explain::{ExplainOptions, Explained, explain, unlisted};
pub use launch::{
    Condition, DeviceClaim, LaunchInput, LaunchPlan, LaunchProfile, LaunchRule, MemoryRule, MetricsEndpoint,
    ParallelRule, PodNeeds, Probe, ProbePaths, Probes, StartupRule, Toleration, launch,
};
pub use lint::{Finding, LintOptions, Severity, lint};
pub use matrix::Matrix;
pub use metrics::{Aggregation, MetricsProfile, Semantics, SignalKind, SignalSource};
pub use observation::{
    DeviceClassObservation, DeviceObservation, NodeObservation, Observation, SliceObservation, Taint, observe,
};
pub use pool::{
    Cluster, DeviceMemory, Evidence as PoolEvidence, EvidenceSource, HostStack, LabelRequirement, Note, Offer, Pool,
    PoolNode, Standing,
};
pub use product::{
    AnnotationFormat, AnnotationRule, Capture, DraRule, InjectRule, KeyValue, LabelRules, MemoryLabel, MemoryUnit,
    Product, ProductLabel, ResourceRule, ResourceWay, SharingLabel, StackRule, SuffixMeaning, SuffixRule, UnitRule,
    Vendor, VersionLabel,
};
pub use reason::{Reason, ReasonKind, RowReference};
pub use recognise::recognise;
pub use request::{Demand, Policy, Preference, Quarantine, Request, UnknownPolicy};
pub use revision::{Revision, shorten};
pub use shipped::documents as shipped_documents;
pub use support::{BuildSelector, Level, Limits, ModelMatch, ModelSelector, Statement, SupportRow};
pub use version::{EngineVersion, RangeError, VersionError, VersionRange, VersionScheme};
pub use words::{Confidence, Depth, Evidence, OneOrMany, StackVersions, Words};
