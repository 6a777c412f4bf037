//! Variants of a model under one tag: an index for controllers, beside the tags of the models themselves, which stay plain
//! manifests because readers of models see an index as empty.

use artifact::{Annotations, Descriptor, Document, Platform, build_index, media_type};

use crate::error::PackError;
use crate::packed::Remote;

/// The end of such a tag.
pub const INDEX_SUFFIX: &str = "-index";
/// How the variant is quantised, in the matrix's word for it.
pub const QUANTIZATION: &str = "dev.plimsoll.quantization";
/// The format of its weights.
pub const FORMAT: &str = "dev.plimsoll.format";
/// Bytes of its weights.
pub const WEIGHT_BYTES: &str = "dev.plimsoll.weight-bytes";
/// `raw` or `tar`.
pub const LAYOUT: &str = "dev.plimsoll.layout";

/// The tag of the variant.
pub const TAG: &str = "org.opencontainers.image.ref.name";

/// The index over these models, in the order given.
pub fn index_of(models: &[(Remote, u64)]) -> Result<Document, PackError> {
    let manifests = models
        .iter()
        .map(|(remote, size)| descriptor_of(remote, *size))
        .collect();
    Ok(build_index(manifests, Annotations::new()))
}

/// The platform is one that no runtime picks by itself.
fn descriptor_of(remote: &Remote, size: u64) -> Descriptor {
    let model = &remote.model;
    let facts = model.facts.as_ref();
    let format = facts
        .and_then(|facts| serde_json::to_value(facts.format).ok())
        .and_then(|format| format.as_str().map(str::to_owned));
    let pairs = [
        (
            QUANTIZATION,
            facts.and_then(|facts| facts.quantization.label.clone().or_else(|| facts.dtype.clone())),
        ),
        (FORMAT, format.filter(|format| format != "unknown")),
        (
            WEIGHT_BYTES,
            facts
                .and_then(|facts| facts.weight_bytes)
                .map(|bytes| bytes.to_string()),
        ),
        (
            LAYOUT,
            Some(if model.twin.is_some() { "tar" } else { "raw" }.to_owned()),
        ),
        (TAG, remote.reference.tag().map(str::to_owned)),
    ];
    let unknown = || "unknown".to_owned();
    Descriptor {
        artifact_type: Some(media_type::MODEL_MANIFEST.to_owned()),
        platform: Some(Platform {
            architecture: unknown(),
            os: unknown(),
            os_features: Vec::new(),
        }),
        annotations: pairs
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect(),
        ..Descriptor::new(media_type::OCI_MANIFEST, model.digest.clone(), size)
    }
}
