//! Engine builds: released images of a distribution.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    reason::RowReference,
    version::{EngineVersion, VersionScheme},
    words::{Evidence, OneOrMany, StackVersions, Words},
};

/// The head of a `Builds` document; its `builds` are read one by one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BuildsHead {
    /// Always `Builds`; the reader has looked at it already.
    #[serde(rename = "kind")]
    _kind: String,
    pub(crate) distribution: String,
    pub(crate) engine: String,
    /// Vendors whose devices the images serve; the image keys decide in the end.
    #[serde(default)]
    pub(crate) vendor: OneOrMany<String>,
    #[serde(default)]
    pub(crate) scheme: VersionScheme,
    /// The engine whose releases `upstream` names, when it is not `engine` itself.
    #[serde(default)]
    pub(crate) upstream_engine: Option<String>,
    /// Launch profile.
    #[serde(default)]
    pub(crate) launch: Option<String>,
    /// Metrics profile.
    #[serde(default)]
    pub(crate) metrics: Option<String>,
    /// Weight formats that the engine reads.
    #[serde(default)]
    pub(crate) loads: Words,
    #[serde(default)]
    pub(crate) pull: Option<Pull>,
    #[serde(default)]
    pub(crate) architectures: Words,
    #[serde(default)]
    pub(crate) evidence: Evidence,
    #[serde(default)]
    pub(crate) note: Option<String>,
}

/// One entry of `builds` as written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BuildEntry {
    pub(crate) version: String,
    /// Tells builds of one version apart: `cu129`.
    #[serde(default)]
    pub(crate) flavor: Option<String>,
    #[serde(default)]
    pub(crate) scheme: Option<VersionScheme>,
    #[serde(default)]
    pub(crate) upstream: Option<String>,
    #[serde(default)]
    pub(crate) channel: Channel,
    /// Only for these models; required by the channel `model-specific`.
    #[serde(default)]
    pub(crate) models: Option<ModelBinding>,
    #[serde(default)]
    pub(crate) stack: StackVersions,
    /// Lowest host driver, when the release names one.
    #[serde(default)]
    pub(crate) driver: Option<String>,
    #[serde(default)]
    pub(crate) images: BTreeMap<String, OneOrMany<ImageEntry>>,
    #[serde(default)]
    pub(crate) pull: Option<Pull>,
    #[serde(default)]
    pub(crate) architectures: Words,
    #[serde(default)]
    pub(crate) launch: Option<String>,
    #[serde(default)]
    pub(crate) metrics: Option<String>,
    #[serde(default)]
    pub(crate) loads: Words,
    #[serde(default)]
    pub(crate) released: Option<String>,
    #[serde(default)]
    pub(crate) evidence: Evidence,
    #[serde(default)]
    pub(crate) note: Option<String>,
}

/// One image as written: a name, or a name with what is known about it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ImageEntry {
    pub(crate) image: String,
    pub(crate) architectures: Words,
    pub(crate) digest: Option<String>,
    pub(crate) pull: Option<Pull>,
}

impl<'de> Deserialize<'de> for ImageEntry {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        struct Full {
            image: String,
            #[serde(default)]
            architectures: Words,
            #[serde(default)]
            digest: Option<String>,
            #[serde(default)]
            pull: Option<Pull>,
        }
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = ImageEntry;
            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("an image name, or a map with `image`")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ImageEntry, E> {
                Ok(ImageEntry {
                    image: text.to_owned(),
                    ..ImageEntry::default()
                })
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<ImageEntry, A::Error> {
                let full = Full::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                Ok(ImageEntry {
                    image: full.image,
                    architectures: full.architectures,
                    digest: full.digest,
                    pull: full.pull,
                })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// The models that an image was made for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelBinding {
    /// Globs on the checkpoint's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<String>,
    /// Architectures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<String>,
    /// Families.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub families: Vec<String>,
}

/// How far a release has come. The order is the order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Channel {
    /// A final release.
    #[default]
    Final,
    /// A release candidate.
    Candidate,
    /// An image made for one model.
    ModelSpecific,
}

impl Channel {
    /// The word in the documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Final => "final",
            Self::Candidate => "candidate",
            Self::ModelSpecific => "model-specific",
        }
    }
}

/// How an image is had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pull {
    /// Anybody can pull it.
    #[default]
    Public,
    /// The registry asks for a login.
    Login,
    /// It comes as a file, or is built on site.
    Offline,
}

impl Pull {
    /// The word in the documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Login => "login",
            Self::Offline => "offline",
        }
    }
}

/// A build, complete.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Build {
    /// `distribution-version[-flavor]`.
    pub id: String,
    /// Who builds it.
    pub distribution: String,
    /// The engine.
    pub engine: String,
    /// The version.
    pub version: EngineVersion,
    /// The upstream release that it follows; `None` when that is not known.
    pub upstream: Option<EngineVersion>,
    /// The engine whose releases `upstream` names.
    pub upstream_engine: String,
    /// Release channel.
    pub channel: Channel,
    /// Models that the image was made for.
    pub models: Option<ModelBinding>,
    /// Stack versions inside the image.
    pub stack: StackVersions,
    /// Lowest host driver, when the release names one.
    pub driver: Option<String>,
    /// Images by product, variant or vendor.
    pub images: BTreeMap<String, Vec<Image>>,
    /// Vendors that its images serve.
    pub vendors: Vec<String>,
    /// Launch profile.
    pub launch: Option<String>,
    /// Metrics profile.
    pub metrics: Option<String>,
    /// Weight formats that it reads.
    pub loads: Words,
    /// Release day.
    pub released: Option<String>,
    /// What the entry rests on.
    pub evidence: Evidence,
    /// A remark.
    pub note: Option<String>,
    /// Where it is written.
    pub row: RowReference,
}

/// One image of a build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// Its name.
    pub image: String,
    /// CPU architectures.
    pub architectures: Words,
    /// Digest of its index or manifest.
    pub digest: Option<String>,
    /// How it is had.
    pub pull: Pull,
}
