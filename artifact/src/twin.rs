//! The mountable twin: an OCI image over the very same tar layers, for container runtimes that mount images.

use serde::Serialize;

use crate::Digest;
use crate::media_type::{OCI_IMAGE_CONFIG, OCI_INDEX, OCI_LAYER_TAR, OCI_MANIFEST};
use crate::oci::{Annotations, Descriptor, Index, Manifest, Platform, to_json};
use crate::package::{Document, Layer};

/// Weights do not depend on the CPU; a runtime asks for its own all the same.
const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];

/// An image for each CPU architecture and the index over them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Twin {
    /// One image per CPU architecture.
    pub images: Vec<TwinImage>,
    /// The index to tag.
    pub index: Document,
}

/// The twin for one CPU architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TwinImage {
    /// CPU architecture as Go spells it.
    pub architecture: &'static str,
    /// Its config blob.
    pub config: Document,
    /// Its manifest.
    pub manifest: Document,
}

#[derive(Serialize)]
struct ImageConfig<'a> {
    architecture: &'a str,
    os: &'a str,
    config: Empty,
    rootfs: RootFs<'a>,
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
struct RootFs<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    diff_ids: Vec<&'a Digest>,
}

pub(crate) fn build_twin(layers: &[Layer], annotations: &Annotations) -> Twin {
    let images: Vec<TwinImage> = ARCHITECTURES
        .into_iter()
        .map(|architecture| image_for(architecture, layers, annotations))
        .collect();
    let manifests = images.iter().map(TwinImage::descriptor).collect();
    Twin {
        index: build_index(manifests, Annotations::new()),
        images,
    }
}

/// An index over manifests, in the order given. For tags that controllers read; a tag of a model itself is a plain manifest,
/// because readers of models see an index as empty.
pub fn build_index(manifests: Vec<Descriptor>, annotations: Annotations) -> Document {
    let index = Index {
        schema_version: 2,
        media_type: Some(OCI_INDEX.to_owned()),
        manifests,
        annotations,
    };
    Document::new(OCI_INDEX, to_json(&index))
}

fn image_for(architecture: &'static str, layers: &[Layer], annotations: &Annotations) -> TwinImage {
    let diff_ids = layers.iter().map(|layer| &layer.digest).collect();
    let rootfs = RootFs {
        kind: "layers",
        diff_ids,
    };
    let config = ImageConfig {
        architecture,
        os: "linux",
        config: Empty {},
        rootfs,
    };
    let config = Document::new(OCI_IMAGE_CONFIG, to_json(&config));
    let mut manifest = Manifest::new(None, config.descriptor());
    manifest.layers = layers.iter().map(|layer| layer.descriptor(OCI_LAYER_TAR)).collect();
    manifest.annotations = annotations.clone();
    TwinImage {
        architecture,
        config,
        manifest: Document::new(OCI_MANIFEST, to_json(&manifest)),
    }
}

impl TwinImage {
    fn descriptor(&self) -> Descriptor {
        let platform = Platform {
            architecture: self.architecture.to_owned(),
            os: "linux".to_owned(),
            os_features: Vec::new(),
        };
        Descriptor {
            platform: Some(platform),
            ..self.manifest.descriptor()
        }
    }
}
