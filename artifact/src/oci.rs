//! The parts of the OCI image specification that an artifact uses.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Digest;
use crate::{empty, media_type};

/// Annotations in key order, so that the same content gives the same bytes.
pub type Annotations = BTreeMap<String, String>;

/// Points to content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Media type of the content.
    pub media_type: String,
    /// Digest of the content.
    pub digest: Digest,
    /// Size of the content in bytes.
    pub size: u64,
    /// Type of the artifact that the content is a manifest of; in indexes and referrer lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// Platform that the content is for; in indexes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Free text by key.
    #[serde(
        default,
        deserialize_with = "empty::texts",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub annotations: Annotations,
}

impl Descriptor {
    /// A descriptor of these bytes.
    pub fn of(media_type: &str, bytes: &[u8]) -> Self {
        Self::new(media_type, Digest::of(bytes), bytes.len() as u64)
    }

    /// A descriptor of content whose digest is known.
    pub fn new(media_type: &str, digest: Digest, size: u64) -> Self {
        let media_type = media_type.to_owned();
        Self {
            media_type,
            digest,
            size,
            artifact_type: None,
            platform: None,
            annotations: Annotations::new(),
        }
    }
}

/// What a node must be to run an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// CPU architecture as Go spells it, `unknown` for what no runtime should pick.
    pub architecture: String,
    /// Operating system, `unknown` for what no runtime should pick.
    pub os: String,
    /// Features that a runtime must have.
    #[serde(
        default,
        rename = "os.features",
        deserialize_with = "empty::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub os_features: Vec<String>,
}

/// An image manifest: the envelope of models, piece maps and mountable twins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Always 2.
    pub schema_version: u32,
    /// Media type of this document; old writers leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// What the artifact is, when it is no image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// The config blob.
    pub config: Descriptor,
    /// The layers.
    #[serde(default, deserialize_with = "empty::null_as_default")]
    pub layers: Vec<Descriptor>,
    /// The manifest that this one says something about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Descriptor>,
    /// Free text by key.
    #[serde(
        default,
        deserialize_with = "empty::texts",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub annotations: Annotations,
}

impl Manifest {
    /// A manifest with nothing but its config.
    pub(crate) fn new(artifact_type: Option<&str>, config: Descriptor) -> Self {
        Self {
            schema_version: 2,
            media_type: Some(media_type::OCI_MANIFEST.to_owned()),
            artifact_type: artifact_type.map(str::to_owned),
            config,
            layers: Vec::new(),
            subject: None,
            annotations: Annotations::new(),
        }
    }
}

/// An image index: manifests to choose from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// Always 2.
    pub schema_version: u32,
    /// Media type of this document; other writers may leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The manifests.
    #[serde(default, deserialize_with = "empty::null_as_default")]
    pub manifests: Vec<Descriptor>,
    /// Free text by key.
    #[serde(
        default,
        deserialize_with = "empty::texts",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub annotations: Annotations,
}

/// The one serialisation: compact JSON, fields in the order of the types, keys of maps sorted.
pub(crate) fn to_json(value: &impl Serialize) -> Vec<u8> {
    // Only maps with keys that are no strings, and failing Serialize implementations, make this fail; none are here.
    serde_json::to_vec(value).unwrap_or_default()
}
