//! From a list of files to the manifest that names them. No time, no machine, no order of arrival goes into it:
//! the same package gives the same digest everywhere.

use std::collections::BTreeSet;

use model_facts::ModelFacts;
use serde::{Deserialize, Serialize};

use crate::bundle::{Bundle, bundle_layer};
use crate::config::{About, ModelConfig, ModelFs, Technical};
use crate::lock::{SOURCE_LOCK_PATH, SourceLock};
use crate::media_type::{Encoding, FileKind, LayerType, MODEL_CONFIG, MODEL_MANIFEST};
use crate::oci::{Annotations, Descriptor, Manifest, to_json};
use crate::path::{PathError, check_collisions};
use crate::read::MANIFEST_LIMIT;
use crate::tar::{TAR_PAYLOAD_OFFSET, tar_bytes, tar_size};
use crate::twin::{Twin, build_twin};
use crate::{Digest, FilePath, annotation};

/// A runtime stacks the layers that it mounts; more than this is refused or slow somewhere.
pub const MOUNTABLE_LAYER_LIMIT: usize = 100;

/// How files become layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// A layer is a file, byte for byte: its digest is the hub's sha256.
    #[default]
    Raw,
    /// A layer is a tar of one file, so that a container runtime can mount the twin image.
    Tar,
}

/// A file of the package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageFile {
    /// Path in the model.
    pub path: FilePath,
    /// What it is for.
    pub kind: FileKind,
    /// sha256 of the file.
    pub digest: Digest,
    /// Size of the file.
    pub size: u64,
    /// sha256 of the tar layer around it; needed in [`Layout::Tar`], for files that share no layer.
    pub tar_digest: Option<Digest>,
}

/// Everything that goes into an artifact.
#[derive(Debug, Clone, Default)]
pub struct ModelPackage {
    /// How files become layers.
    pub layout: Layout,
    /// The files, in any order.
    pub files: Vec<PackageFile>,
    /// Files that share layers, in [`Layout::Tar`].
    pub bundles: Vec<Bundle>,
    /// What the bytes say about the model.
    pub facts: Option<ModelFacts>,
    /// Where the files come from; becomes the file `source.lock` and annotations.
    pub lock: Option<SourceLock>,
    /// Who made the model.
    pub about: About,
    /// True when the weights are left out on purpose (facts and metadata only).
    pub weights_absent: bool,
    /// Digest of the piece map blob, when there is one.
    pub pieces: Option<Digest>,
    /// Leaves out `artifactType`, for registries that refuse it.
    pub omit_artifact_type: bool,
}

/// Bytes that this crate made and that have to be pushed beside the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Media type to push it under.
    pub media_type: String,
    /// Digest of the bytes.
    pub digest: Digest,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Document {
    /// These bytes under this type.
    pub fn new(media_type: &str, bytes: Vec<u8>) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::of(&bytes),
            bytes,
        }
    }

    /// Points to the bytes.
    pub fn descriptor(&self) -> Descriptor {
        Descriptor::new(&self.media_type, self.digest.clone(), self.bytes.len() as u64)
    }
}

/// A finished manifest with what it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// The manifest, to be put under a tag after everything else is there.
    pub manifest_bytes: Vec<u8>,
    /// Digest of the manifest: the identity of the artifact.
    pub manifest_digest: Digest,
    /// The config blob.
    pub config_bytes: Vec<u8>,
    /// Digest of the config blob.
    pub config_digest: Digest,
    /// Layers that this crate made (`source.lock`), to be pushed as blobs.
    pub documents: Vec<Document>,
    /// The mountable image over the same layers, for [`Layout::Tar`].
    pub twin: Option<Twin>,
}

/// A package that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Two files would be one.
    #[error("the package cannot be built")]
    Path(#[from] PathError),
    /// Nothing to pack.
    #[error("the package has no files")]
    Empty,
    /// Nothing that a server could load, and not said on purpose.
    #[error("the package has no weight file, and is not marked as facts only")]
    WeightsMissing,
    /// Says facts only, and holds weights.
    #[error("the package is marked as facts only and holds the weight file `{0}`")]
    WeightsPresent(FilePath),
    /// The tar layout needs the digest of each layer.
    #[error("the digest of the tar layer of `{0}` is missing")]
    TarDigestMissing(FilePath),
    /// A bundle of files that are not there, or in a layout without bundles.
    #[error("the shared layer `{0}` does not fit the package")]
    Bundle(FilePath),
    /// A kind that is never written.
    #[error("the kind of `{0}` is unknown")]
    KindUnknown(FilePath),
    /// Registries refuse larger manifests.
    #[error("the manifest would have {0} bytes, registries take at most {MANIFEST_LIMIT}")]
    ManifestTooLarge(usize),
    /// More layers than a runtime stacks.
    #[error("the mountable layout would have {0} layers, runtimes mount at most {MOUNTABLE_LAYER_LIMIT}")]
    TooManyLayers(usize),
}

impl BuildError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Path(_) => Some("rename one of the files, or leave one out with an exclude pattern"),
            Self::Empty => Some("check the include and exclude patterns"),
            Self::WeightsMissing => Some("check the include patterns, or pack facts only"),
            Self::ManifestTooLarge(_) => Some("leave files out with exclude patterns"),
            Self::TooManyLayers(_) => {
                Some("let files share layers, use the raw layout, or leave files out with exclude patterns")
            }
            Self::WeightsPresent(_) | Self::TarDigestMissing(_) | Self::Bundle(_) | Self::KindUnknown(_) => None,
        }
    }
}

/// A layer with the name of its file, before it becomes a descriptor.
pub(crate) struct Layer {
    pub(crate) path: FilePath,
    pub(crate) kind: FileKind,
    pub(crate) encoding: Encoding,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    pub(crate) annotations: Annotations,
}

impl Layer {
    pub(crate) fn descriptor(&self, media_type: &str) -> Descriptor {
        let annotations = self.annotations.clone();
        Descriptor {
            annotations,
            ..Descriptor::new(media_type, self.digest.clone(), self.size)
        }
    }
}

/// The manifest, the config and the documents of a package.
pub fn build_manifest(package: &ModelPackage) -> Result<Built, BuildError> {
    check(package)?;
    let lock = package.lock.as_ref().map(|lock| lock_document(lock, package.layout));
    let mut layers = layers_of(package)?;
    layers.extend(lock.as_ref().map(|(layer, _)| layer_copy(layer)));
    layers.sort_by(|left, right| left.path.cmp(&right.path));
    let bundled = package.bundles.iter().flat_map(|bundle| &bundle.paths);
    check_collisions(layers.iter().map(|layer| &layer.path).chain(bundled))?;

    let twin = match package.layout {
        Layout::Raw => None,
        Layout::Tar if layers.len() > MOUNTABLE_LAYER_LIMIT => return Err(BuildError::TooManyLayers(layers.len())),
        Layout::Tar => Some(build_twin(&layers, &provenance(package))),
    };
    let config = Document::new(MODEL_CONFIG, to_json(&config_of(package, &layers)));
    let artifact_type = (!package.omit_artifact_type).then_some(MODEL_MANIFEST);
    let mut manifest = Manifest::new(artifact_type, config.descriptor());
    manifest.layers = layers.iter().map(model_descriptor).collect::<Result<_, _>>()?;
    manifest.annotations = annotations_of(package, twin.as_ref());
    let manifest_bytes = to_json(&manifest);
    if manifest_bytes.len() > MANIFEST_LIMIT {
        return Err(BuildError::ManifestTooLarge(manifest_bytes.len()));
    }
    Ok(Built {
        manifest_digest: Digest::of(&manifest_bytes),
        manifest_bytes,
        config_digest: config.digest,
        config_bytes: config.bytes,
        documents: lock.map(|(_, document)| document).into_iter().collect(),
        twin,
    })
}

fn check(package: &ModelPackage) -> Result<(), BuildError> {
    if package.files.is_empty() {
        return Err(BuildError::Empty);
    }
    let weight = package.files.iter().find(|file| file.kind == FileKind::Weight);
    match (weight, package.weights_absent) {
        (None, false) => Err(BuildError::WeightsMissing),
        (Some(file), true) => Err(BuildError::WeightsPresent(file.path.clone())),
        _ => Ok(()),
    }
}

/// A layer for each file that shares none, and one for each bundle.
fn layers_of(package: &ModelPackage) -> Result<Vec<Layer>, BuildError> {
    let bundled: BTreeSet<&FilePath> = package.bundles.iter().flat_map(|bundle| &bundle.paths).collect();
    let alone = package.files.iter().filter(|file| !bundled.contains(&file.path));
    let mut layers = alone
        .map(|file| layer_of(file, package.layout))
        .collect::<Result<Vec<_>, _>>()?;
    for bundle in &package.bundles {
        let layer = bundle_layer(bundle, &package.files).filter(|_| package.layout == Layout::Tar);
        layers.push(layer.ok_or_else(|| BuildError::Bundle(bundle.name.clone()))?);
    }
    Ok(layers)
}

fn layer_of(file: &PackageFile, layout: Layout) -> Result<Layer, BuildError> {
    let PackageFile {
        path,
        kind,
        digest,
        size,
        tar_digest,
    } = file;
    let mut annotations = name_annotations(path);
    let (encoding, layer_digest, layer_size) = match layout {
        Layout::Raw => (Encoding::Raw, digest.clone(), *size),
        Layout::Tar => {
            let tar_digest = tar_digest
                .clone()
                .ok_or_else(|| BuildError::TarDigestMissing(path.clone()))?;
            annotations.extend(payload_annotations(digest, *size));
            (Encoding::Tar, tar_digest, tar_size(*size))
        }
    };
    Ok(Layer {
        path: path.clone(),
        kind: *kind,
        encoding,
        digest: layer_digest,
        size: layer_size,
        annotations,
    })
}

/// Both keys, because readers of models know one and readers of plain artifacts the other.
pub(crate) fn name_annotations(path: &FilePath) -> Annotations {
    [annotation::FILE_PATH, annotation::TITLE]
        .map(|key| (key.to_owned(), path.to_string()))
        .into()
}

fn payload_annotations(digest: &Digest, size: u64) -> Annotations {
    [
        (annotation::PAYLOAD_OFFSET, TAR_PAYLOAD_OFFSET.to_string()),
        (annotation::PAYLOAD_SIZE, size.to_string()),
        (annotation::PAYLOAD_DIGEST, digest.to_string()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// The lock as a layer of the package's layout.
fn lock_document(lock: &SourceLock, layout: Layout) -> (Layer, Document) {
    let path = lock_path();
    let content = lock.to_bytes();
    let mut annotations = name_annotations(&path);
    let (encoding, bytes) = match layout {
        Layout::Raw => (Encoding::Raw, content),
        Layout::Tar => {
            annotations.extend(payload_annotations(&Digest::of(&content), content.len() as u64));
            (Encoding::Tar, tar_bytes(&path, &content))
        }
    };
    let kind = FileKind::Doc;
    let media_type = LayerType { kind, encoding }.media_type().unwrap_or_default();
    let document = Document::new(&media_type, bytes);
    let (digest, size) = (document.digest.clone(), document.bytes.len() as u64);
    (
        Layer {
            path,
            kind,
            encoding,
            digest,
            size,
            annotations,
        },
        document,
    )
}

fn lock_path() -> FilePath {
    FilePath::of_constant(SOURCE_LOCK_PATH)
}

fn layer_copy(layer: &Layer) -> Layer {
    let Layer {
        path,
        kind,
        encoding,
        digest,
        size,
        annotations,
    } = layer;
    let (path, digest, annotations) = (path.clone(), digest.clone(), annotations.clone());
    Layer {
        path,
        kind: *kind,
        encoding: *encoding,
        digest,
        size: *size,
        annotations,
    }
}

fn model_descriptor(layer: &Layer) -> Result<Descriptor, BuildError> {
    let layer_type = LayerType {
        kind: layer.kind,
        encoding: layer.encoding,
    };
    let media_type = layer_type
        .media_type()
        .ok_or_else(|| BuildError::KindUnknown(layer.path.clone()))?;
    Ok(layer.descriptor(&media_type))
}

fn config_of(package: &ModelPackage, layers: &[Layer]) -> ModelConfig {
    let facts = package.facts.as_ref();
    let lock = package.lock.as_ref();
    let given = package.about.clone();
    let descriptor = About {
        family: given.family.or_else(|| facts?.family.clone()),
        source_url: given.source_url.or_else(|| lock?.source()),
        revision: given.revision.or_else(|| lock?.commit.clone()),
        ..given
    };
    ModelConfig {
        descriptor,
        modelfs: ModelFs::of(layers.iter().map(|layer| &layer.digest)),
        config: facts.map(Technical::of).unwrap_or_default(),
    }
}

/// Where it comes from, in the keys of OCI readers and in our own.
fn provenance(package: &ModelPackage) -> Annotations {
    let lock = package.lock.as_ref();
    let source = lock.and_then(SourceLock::source);
    let commit = lock.and_then(|lock| lock.commit.clone());
    let licenses = (!package.about.licenses.is_empty()).then(|| package.about.licenses.join(" AND "));
    let source_url = package.about.source_url.clone().or_else(|| source.clone());
    [
        (annotation::OCI_SOURCE, source_url),
        (annotation::OCI_REVISION, commit.clone()),
        (annotation::OCI_LICENSES, licenses),
        (annotation::OCI_CREATED, package.about.created_at.clone()),
        (annotation::SOURCE, source),
        (annotation::REVISION, commit),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key.to_owned(), value?)))
    .collect()
}

fn annotations_of(package: &ModelPackage, twin: Option<&Twin>) -> Annotations {
    let facts = package
        .facts
        .as_ref()
        .map(|facts| String::from_utf8_lossy(&to_json(facts)).into_owned());
    let absent = package.weights_absent.then(|| annotation::WEIGHTS_ABSENT.to_owned());
    let own = [
        (annotation::FACTS, facts),
        (annotation::WEIGHTS, absent),
        (annotation::PIECES, package.pieces.as_ref().map(Digest::to_string)),
        (annotation::TWIN, twin.map(|twin| twin.index.digest.to_string())),
    ];
    let mut annotations = provenance(package);
    annotations.extend(
        own.into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?))),
    );
    annotations
}

#[cfg(test)]
mod tests;
