//! What an engine's own releases list: the outer bound of what a build may claim.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    version::{EngineVersion, VersionScheme},
    words::Evidence,
};

/// An `EngineList` document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EngineList {
    /// Always `EngineList`.
    pub kind: String,
    /// The engine.
    pub engine: String,
    /// Its place among engines where nothing else tells candidates apart, first comes first: versions of different engines
    /// cannot be compared. Engines without a list come last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u32>,
    /// Releases that were read, in rising order.
    pub releases: Vec<String>,
    /// Architectures with the releases that list them.
    pub architectures: BTreeMap<String, Listed>,
    /// Quantization methods with the releases that list them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub quantizations: BTreeMap<String, Listed>,
    /// What it rests on.
    #[serde(default)]
    pub evidence: Evidence,
    /// A remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// From which release to which a name is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Listed {
    /// How the engine groups it: `text_generation`, `multimodal`, `embedding`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The first release that lists it, of those that were read.
    pub first: String,
    /// The last one; unset: the newest still does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// Releases in between that do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_in: Vec<String>,
}

impl Listed {
    /// Whether a release lists the name. Releases between two that were read follow the earlier one.
    pub fn holds(&self, version: &EngineVersion) -> bool {
        let read = |text: &str| EngineVersion::parse(text, VersionScheme::Pep440).ok();
        let at_least = read(&self.first)
            .and_then(|first| version.compare(&first))
            .is_some_and(std::cmp::Ordering::is_ge);
        let at_most = match &self.last {
            None => true,
            Some(last) => read(last)
                .and_then(|last| version.compare(&last))
                .is_some_and(std::cmp::Ordering::is_le),
        };
        let missing = self
            .not_in
            .iter()
            .filter_map(|text| read(text))
            .any(|gap| version.compare(&gap) == Some(std::cmp::Ordering::Equal));
        at_least && at_most && !missing
    }
}
