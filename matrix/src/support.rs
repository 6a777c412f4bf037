//! Support rows: published or measured statements about builds, models and products.

use serde::{Deserialize, Serialize};

use crate::{
    reason::RowReference,
    version::VersionRange,
    words::{Evidence, OneOrMany, Words},
};

/// How strong a statement is, strongest first. `no` is not here: it is a statement of its own kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Somebody ran it and says how.
    Verified,
    /// The vendor or project says so.
    #[default]
    Declared,
    /// It is said to work with reservations.
    Experimental,
    /// Nothing more than "it is on the list of upstream" is known.
    Untested,
}

impl Level {
    /// The word in the documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Declared => "declared",
            Self::Experimental => "experimental",
            Self::Untested => "untested",
        }
    }
}

/// The statement of a row: a level, or `no`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statement {
    /// See [`Level::Verified`].
    Verified,
    /// See [`Level::Declared`].
    Declared,
    /// See [`Level::Experimental`].
    Experimental,
    /// See [`Level::Untested`].
    Untested,
    /// It does not work.
    No,
}

impl Statement {
    /// The level; `None` for `no`.
    pub fn level(self) -> Option<Level> {
        match self {
            Self::Verified => Some(Level::Verified),
            Self::Declared => Some(Level::Declared),
            Self::Experimental => Some(Level::Experimental),
            Self::Untested => Some(Level::Untested),
            Self::No => None,
        }
    }
}

/// How closely a row names a model, closest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelMatch {
    /// By the name of the checkpoint.
    Checkpoint,
    /// By its architecture.
    Architecture,
    /// By its family.
    Family,
    /// By the engine's own list of architectures.
    EngineList,
    /// Any model.
    Any,
}

/// The head of a `Support` document; its `rows` are read one by one.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SupportHead {
    /// Always `Support`; the reader has looked at it already.
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default)]
    pub(crate) evidence: Evidence,
    /// Build selector of the rows that have none of their own.
    #[serde(default)]
    pub(crate) builds: Option<BuildSelector>,
    /// Product selector of the rows that have none of their own.
    #[serde(default)]
    pub(crate) products: Words,
    #[serde(default)]
    pub(crate) note: Option<String>,
}

/// One entry of `rows` as written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SupportEntry {
    #[serde(default)]
    pub(crate) builds: Option<BuildSelector>,
    pub(crate) models: ModelSelector,
    #[serde(default)]
    pub(crate) products: Words,
    #[serde(default)]
    pub(crate) quantizations: Words,
    pub(crate) level: Statement,
    #[serde(default)]
    pub(crate) limits: Limits,
    #[serde(default)]
    pub(crate) since: Option<String>,
    #[serde(default)]
    pub(crate) stable_since: Option<String>,
    #[serde(default)]
    pub(crate) until: Option<String>,
    #[serde(default)]
    pub(crate) evidence: Evidence,
    #[serde(default)]
    pub(crate) note: Option<String>,
}

/// Which builds a row speaks of.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BuildSelector {
    /// Distributions.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub distribution: OneOrMany<String>,
    /// Versions of the build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionRange>,
    /// Versions of upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<VersionRange>,
    /// Flavors.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub flavor: OneOrMany<String>,
    /// Exact builds.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub id: OneOrMany<String>,
}

fn is_empty(list: &OneOrMany<String>) -> bool {
    list.0.is_empty()
}

/// Which models a row speaks of. What is given must all hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelSelector {
    /// Architectures, exactly as config.json spells them; `any`; or `engine-list`: those that the upstream engine lists at
    /// the build's version.
    #[serde(default, skip_serializing_if = "Words::is_unset")]
    pub architectures: Words,
    /// Families (`model_type`, or the architecture of a GGUF file).
    #[serde(default, skip_serializing_if = "Words::is_unset")]
    pub families: Words,
    /// Globs on the checkpoint's name: `Qwen/Qwen3-8B*`.
    #[serde(default, skip_serializing_if = "Words::is_unset")]
    pub checkpoints: Words,
    /// Tasks.
    #[serde(default, skip_serializing_if = "Words::is_unset")]
    pub tasks: Words,
    /// Weight formats.
    #[serde(default, skip_serializing_if = "Words::is_unset")]
    pub formats: Words,
}

/// The word in `architectures` that stands for the engine's own list.
pub(crate) const ENGINE_LIST: &str = "engine-list";

impl ModelSelector {
    /// How closely this selector names a model.
    pub fn closeness(&self) -> ModelMatch {
        if !self.checkpoints.list().is_empty() {
            return ModelMatch::Checkpoint;
        }
        match self.architectures.list() {
            [word] if word == ENGINE_LIST => ModelMatch::EngineList,
            [] if !self.families.list().is_empty() => ModelMatch::Family,
            [] => ModelMatch::Any,
            _ => ModelMatch::Architecture,
        }
    }
}

/// What a row asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Fewest devices of a replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<u32>,
    /// Devices must be a multiple of this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiple_of: Option<u32>,
    /// Fewest nodes of a replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Longest context in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_context: Option<u64>,
    /// Least memory of one device in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
}

/// A support row, complete.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SupportRow {
    /// Builds.
    pub builds: BuildSelector,
    /// Models.
    pub models: ModelSelector,
    /// Products, variants, groups or vendors; unset: all that the builds have images for.
    pub products: Words,
    /// Quantizations.
    pub quantizations: Words,
    /// The statement.
    pub level: Statement,
    /// What it asks for.
    pub limits: Limits,
    /// First upstream version.
    pub since: Option<String>,
    /// First upstream version from which the level holds; before it the row counts as experimental.
    pub stable_since: Option<String>,
    /// Last upstream version.
    pub until: Option<String>,
    /// What it rests on.
    pub evidence: Evidence,
    /// A remark.
    pub note: Option<String>,
    /// Where it is written.
    pub row: RowReference,
}

impl SupportRow {
    /// How closely the row names a model. A project that says of its own list that it runs names each architecture in it; a
    /// list that only bounds what may load names none.
    pub fn closeness(&self) -> ModelMatch {
        match self.models.closeness() {
            ModelMatch::EngineList if self.level <= Statement::Declared => ModelMatch::Architecture,
            closeness => closeness,
        }
    }
}
