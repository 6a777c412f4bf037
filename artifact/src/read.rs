//! From a manifest to the files that it names. Manifests come from registries that anybody may write to: every name and
//! digest is checked here, before a reader touches a disk.

use std::collections::BTreeMap;

use model_facts::ModelFacts;
use serde::Deserialize;

use crate::bundle::{Bundle, BundledFile};
use crate::config::ModelConfig;
use crate::media_type::{self, Encoding, FileKind, LayerType};
use crate::oci::{Annotations, Descriptor, Manifest};
use crate::path::{PathError, check_collisions};
use crate::{Digest, FilePath, annotation};

/// Registries accept manifests up to 4 MiB; a larger one is an attack or no manifest.
pub const MANIFEST_LIMIT: usize = 4 << 20;

/// A packed model, as its manifest describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedModel {
    /// Digest of the manifest: the identity of the model.
    pub digest: Digest,
    /// `artifactType`, when the manifest has one.
    pub artifact_type: Option<String>,
    /// Points to the config blob.
    pub config_descriptor: Descriptor,
    /// The config, when its bytes were given and are a `ModelPack` config.
    pub config: Option<ModelConfig>,
    /// The files in the order of their paths.
    pub files: Vec<PackedFile>,
    /// What the bytes say about the model, when the packer wrote it.
    pub facts: Option<ModelFacts>,
    /// `hf://owner/name`, when the packer wrote it.
    pub source: Option<String>,
    /// Commit of the source, when the packer wrote it.
    pub revision: Option<String>,
    /// True when the artifact holds facts and metadata only, on purpose.
    pub weights_absent: bool,
    /// Digest of the piece map blob, when there is one.
    pub pieces: Option<Digest>,
    /// Digest of the mountable twin's index, when there is one.
    pub twin: Option<Digest>,
    /// All annotations of the manifest.
    pub annotations: Annotations,
}

/// A file of a packed model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedFile {
    /// Path in the model.
    pub path: FilePath,
    /// Digest of the layer.
    pub digest: Digest,
    /// Size of the layer.
    pub size: u64,
    /// Media type of the layer.
    pub media_type: String,
    /// What the file is for.
    pub kind: FileKind,
    /// How it lies in the layer.
    pub encoding: Encoding,
    /// Where the file lies in a tar layer, when the packer wrote it.
    pub payload: Option<Payload>,
    /// Name of the layer, where other files lie in it too.
    pub shared: Option<FilePath>,
}

/// Where a file lies inside its layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// sha256 of these bytes.
    pub digest: Digest,
}

/// A manifest that is no packed model, or a bad one.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Too large for a manifest.
    #[error("the manifest has {0} bytes, more than {MANIFEST_LIMIT}")]
    TooLarge(usize),
    /// No manifest at all.
    #[error("the manifest cannot be read")]
    Form(#[source] serde_json::Error),
    /// An index, of which one entry would have to be chosen.
    #[error("this is an index of {} manifests, not a model: {}", .choices.len(), .choices.join(", "))]
    Index {
        /// What it offers.
        choices: Vec<String>,
    },
    /// Another kind of manifest.
    #[error("media type `{0}` is not an image manifest")]
    NotManifest(String),
    /// A manifest of something else.
    #[error("this is not a packed model: config type `{config_type}`, and no layer names a file")]
    NotModel {
        /// Media type of its config.
        config_type: String,
    },
    /// A model without files.
    #[error("the manifest has no layers")]
    NoLayers,
    /// A layer without a name.
    #[error("layer {digest} ({media_type}) names no file")]
    NameMissing {
        /// Digest of the layer.
        digest: Digest,
        /// Its media type.
        media_type: String,
    },
    /// A name that is not safe.
    #[error("a file name of the manifest is not safe")]
    Path(#[from] PathError),
    /// An annotation with a value that cannot be used.
    #[error("annotation `{key}` cannot be read: {problem}")]
    Annotation {
        /// Its key.
        key: String,
        /// What is wrong with its value.
        problem: String,
    },
    /// The config's bytes are not those that the manifest names.
    #[error("the config has digest {found}, the manifest names {expected}")]
    ConfigDigest {
        /// By the manifest.
        expected: Digest,
        /// Of the bytes.
        found: Digest,
    },
    /// The config cannot be read.
    #[error("the model config cannot be read")]
    Config(#[source] serde_json::Error),
}

impl ReadError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Index { .. } => Some("name one of its manifests by digest: repository@sha256:…"),
            Self::NotModel { .. } | Self::NotManifest(_) | Self::NoLayers => {
                Some("check the reference; a model is packed with `model-packer push SOURCE TARGET`")
            }
            Self::NameMissing { .. } => {
                Some("its packer set neither org.cncf.model.filepath nor org.opencontainers.image.title; pack it again")
            }
            Self::Path(_) => {
                Some("do not use this artifact; its names would leave the model's folder or overwrite each other")
            }
            Self::ConfigDigest { .. } => Some("fetch the config again; if it stays, the registry is damaged"),
            Self::TooLarge(_) | Self::Form(_) | Self::Annotation { .. } | Self::Config(_) => None,
        }
    }
}

/// The few fields that tell which kind of document it is, before it is read as one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Peek {
    media_type: Option<String>,
    manifests: Option<Vec<Choice>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Choice {
    digest: Option<String>,
    artifact_type: Option<String>,
    platform: Option<crate::oci::Platform>,
}

impl Choice {
    fn text(&self) -> String {
        let digest = self.digest.as_deref().unwrap_or("without digest");
        let platform = self
            .platform
            .as_ref()
            .map(|platform| format!("{}/{}", platform.os, platform.architecture));
        match platform.or_else(|| self.artifact_type.clone()) {
            Some(detail) => format!("{digest} ({detail})"),
            None => digest.to_owned(),
        }
    }
}

impl PackedModel {
    /// Reads a manifest, and the config when its bytes are at hand.
    pub fn read(manifest_bytes: &[u8], config_bytes: Option<&[u8]>) -> Result<Self, ReadError> {
        let manifest = read_manifest(manifest_bytes)?;
        let files = files_of(&manifest)?;
        let config = config_bytes
            .map(|bytes| read_config(&manifest.config, bytes))
            .transpose()?
            .flatten();
        let annotations = manifest.annotations;
        Ok(Self {
            digest: Digest::of(manifest_bytes),
            artifact_type: manifest.artifact_type,
            config,
            config_descriptor: manifest.config,
            files,
            facts: facts_of(&annotations)?,
            source: annotations.get(annotation::SOURCE).cloned(),
            revision: annotations.get(annotation::REVISION).cloned(),
            weights_absent: annotations
                .get(annotation::WEIGHTS)
                .is_some_and(|value| value == annotation::WEIGHTS_ABSENT),
            pieces: digest_of(&annotations, annotation::PIECES)?,
            twin: digest_of(&annotations, annotation::TWIN)?,
            annotations,
        })
    }

    /// Sum of the distinct layers' sizes.
    pub fn total_bytes(&self) -> u64 {
        self.blobs().into_values().fold(0, u64::saturating_add)
    }

    /// The layers that several files share.
    pub fn bundles(&self) -> Vec<Bundle> {
        let mut bundles: BTreeMap<&FilePath, Bundle> = BTreeMap::new();
        for file in &self.files {
            let Some(name) = &file.shared else { continue };
            let bundle = bundles.entry(name).or_insert_with(|| Bundle {
                name: name.clone(),
                paths: Vec::new(),
                digest: file.digest.clone(),
            });
            bundle.paths.push(file.path.clone());
        }
        bundles.into_values().collect()
    }

    /// The file at this path.
    pub fn file(&self, path: &str) -> Option<&PackedFile> {
        self.files.iter().find(|file| file.path.as_str() == path)
    }

    /// Distinct layers with their sizes: what has to be transferred, once each.
    pub fn blobs(&self) -> BTreeMap<&Digest, u64> {
        self.files.iter().map(|file| (&file.digest, file.size)).collect()
    }
}

fn read_manifest(bytes: &[u8]) -> Result<Manifest, ReadError> {
    if bytes.len() > MANIFEST_LIMIT {
        return Err(ReadError::TooLarge(bytes.len()));
    }
    let peek: Peek = serde_json::from_slice(bytes).map_err(ReadError::Form)?;
    let named = peek.media_type.filter(|media_type| !media_type.is_empty());
    let media_type = named.unwrap_or_else(|| media_type::OCI_MANIFEST.to_owned());
    if let Some(manifests) = peek
        .manifests
        .or_else(|| media_type::is_index(&media_type).then(Vec::new))
    {
        return Err(ReadError::Index {
            choices: manifests.iter().map(Choice::text).collect(),
        });
    }
    if media_type != media_type::OCI_MANIFEST && media_type != media_type::DOCKER_MANIFEST {
        return Err(ReadError::NotManifest(media_type));
    }
    serde_json::from_slice(bytes).map_err(ReadError::Form)
}

fn files_of(manifest: &Manifest) -> Result<Vec<PackedFile>, ReadError> {
    let config_type = &manifest.config.media_type;
    let is_model = media_type::is_model_config(config_type)
        || manifest
            .artifact_type
            .as_deref()
            .is_some_and(|kind| kind.contains(".model.manifest.v1"));
    let named = manifest.layers.iter().any(|layer| name_of(layer).is_some());
    if !is_model && !named {
        return Err(ReadError::NotModel {
            config_type: config_type.clone(),
        });
    }
    if manifest.layers.is_empty() {
        return Err(ReadError::NoLayers);
    }
    let mut files = Vec::with_capacity(manifest.layers.len());
    for layer in &manifest.layers {
        match layer.annotations.get(annotation::BUNDLE) {
            None => files.push(file_of(layer)?),
            Some(list) => files.extend(bundled_files(layer, list)?),
        }
    }
    files.sort_by(|left, right| left.path.cmp(&right.path));
    check_collisions(files.iter().map(|file| &file.path))?;
    Ok(files)
}

fn name_of(layer: &Descriptor) -> Option<&String> {
    [annotation::FILE_PATH, annotation::OLD_FILE_PATH, annotation::TITLE]
        .iter()
        .find_map(|key| layer.annotations.get(*key))
}

fn layer_name(layer: &Descriptor) -> Result<&String, ReadError> {
    name_of(layer).ok_or_else(|| ReadError::NameMissing {
        digest: layer.digest.clone(),
        media_type: layer.media_type.clone(),
    })
}

fn file_of(layer: &Descriptor) -> Result<PackedFile, ReadError> {
    let name = layer_name(layer)?;
    let LayerType { kind, encoding } = LayerType::parse(&layer.media_type);
    let payload = payload_of(layer)?;
    let plain = payload.is_none() && is_plain_file(layer);
    Ok(PackedFile {
        path: name.parse()?,
        digest: layer.digest.clone(),
        size: layer.size,
        media_type: layer.media_type.clone(),
        kind,
        encoding: if plain { Encoding::Raw } else { encoding },
        payload,
        shared: None,
    })
}

/// oras calls a file an image layer when it is told no type for it, and unpacks only what it marked when it packed a folder.
fn is_plain_file(layer: &Descriptor) -> bool {
    let titled =
        layer.annotations.contains_key(annotation::TITLE) && !layer.annotations.contains_key(annotation::FILE_PATH);
    let unpacked = layer
        .annotations
        .get(annotation::ORAS_UNPACK)
        .is_some_and(|value| value == "true");
    titled && !unpacked && layer.media_type.starts_with(media_type::IMAGE_LAYER_PREFIX)
}

/// The files of a layer that holds several.
fn bundled_files(layer: &Descriptor, list: &str) -> Result<Vec<PackedFile>, ReadError> {
    let bad = |problem: String| ReadError::Annotation {
        key: annotation::BUNDLE.to_owned(),
        problem,
    };
    let name: FilePath = layer_name(layer)?.parse()?;
    let listed: Vec<BundledFile> = serde_json::from_str(list).map_err(|error| bad(error.to_string()))?;
    let file = |inside: BundledFile| {
        let BundledFile {
            path,
            kind,
            offset,
            size,
            digest,
        } = inside;
        let payload = payload_inside(layer, offset, size, digest).ok_or_else(|| {
            bad(format!(
                "{path} lies outside of a layer of {} bytes: {offset} + {size}",
                layer.size
            ))
        })?;
        Ok(PackedFile {
            path,
            digest: layer.digest.clone(),
            size: layer.size,
            media_type: layer.media_type.clone(),
            kind,
            encoding: LayerType::parse(&layer.media_type).encoding,
            payload: Some(payload),
            shared: Some(name.clone()),
        })
    };
    listed.into_iter().map(file).collect()
}

fn payload_inside(layer: &Descriptor, offset: u64, size: u64, digest: Digest) -> Option<Payload> {
    let inside = offset.checked_add(size).is_some_and(|end| end <= layer.size);
    inside.then_some(Payload { offset, size, digest })
}

fn payload_of(layer: &Descriptor) -> Result<Option<Payload>, ReadError> {
    let Some(digest) = digest_of(&layer.annotations, annotation::PAYLOAD_DIGEST)? else {
        return Ok(None);
    };
    let offset = number_of(&layer.annotations, annotation::PAYLOAD_OFFSET)?;
    let size = number_of(&layer.annotations, annotation::PAYLOAD_SIZE)?;
    if let Some(payload) = payload_inside(layer, offset, size, digest) {
        return Ok(Some(payload));
    }
    let problem = format!("{offset} + {size} bytes lie outside of a layer of {} bytes", layer.size);
    Err(ReadError::Annotation {
        key: annotation::PAYLOAD_SIZE.to_owned(),
        problem,
    })
}

fn number_of(annotations: &Annotations, key: &str) -> Result<u64, ReadError> {
    let value = annotations.get(key).map_or("", String::as_str);
    value.parse().map_err(|_| ReadError::Annotation {
        key: key.to_owned(),
        problem: format!("{value:?} is no number"),
    })
}

fn digest_of(annotations: &Annotations, key: &str) -> Result<Option<Digest>, ReadError> {
    let parse = |value: &String| {
        value
            .parse()
            .map_err(|error: crate::DigestError| ReadError::Annotation {
                key: key.to_owned(),
                problem: error.to_string(),
            })
    };
    annotations.get(key).map(parse).transpose()
}

fn facts_of(annotations: &Annotations) -> Result<Option<ModelFacts>, ReadError> {
    let parse = |text: &String| {
        serde_json::from_str(text).map_err(|error| ReadError::Annotation {
            key: annotation::FACTS.to_owned(),
            problem: error.to_string(),
        })
    };
    annotations.get(annotation::FACTS).map(parse).transpose()
}

/// `None` for a config of another type: its files can be read all the same.
fn read_config(descriptor: &Descriptor, bytes: &[u8]) -> Result<Option<ModelConfig>, ReadError> {
    let found = Digest::of(bytes);
    if found != descriptor.digest {
        return Err(ReadError::ConfigDigest {
            expected: descriptor.digest.clone(),
            found,
        });
    }
    if !media_type::is_model_config(&descriptor.media_type) {
        return Ok(None);
    }
    serde_json::from_slice(bytes).map(Some).map_err(ReadError::Config)
}

#[cfg(test)]
mod tests;
