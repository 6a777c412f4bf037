//! Manifests that say something about a model: piece map, provenance, bill of materials, signature.

use crate::media_type::{OCI_EMPTY, OCI_MANIFEST};
use crate::oci::{Annotations, Descriptor, Manifest, to_json};
use crate::package::Document;

/// A manifest that refers to another one, with what has to be pushed before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltReferrer {
    /// The manifest; its subject is the model's manifest.
    pub manifest: Document,
    /// The empty config that the image specification asks for.
    pub config: Document,
}

/// A manifest of this artifact type over one blob, about the subject. The subject is a manifest's media type, digest and size.
/// For registries that refuse `artifactType` it is the config's type, which the image specification takes where there is no other.
pub fn build_referrer(
    subject: Descriptor,
    artifact_type: &str,
    blob: &Document,
    annotations: Annotations,
    omit_artifact_type: bool,
) -> BuiltReferrer {
    let (config_type, written) = if omit_artifact_type {
        (artifact_type, None)
    } else {
        (OCI_EMPTY, Some(artifact_type))
    };
    let config = Document::new(config_type, b"{}".to_vec());
    let mut manifest = Manifest::new(written, config.descriptor());
    manifest.layers = vec![blob.descriptor()];
    manifest.subject = Some(subject);
    manifest.annotations = annotations;
    BuiltReferrer {
        manifest: Document::new(OCI_MANIFEST, to_json(&manifest)),
        config,
    }
}
