//! What is said about a model beside it: each is a manifest that names the model as its subject.

use artifact::{Built, Document, build_referrer};

use super::blobs::{Blob, memory};
use super::{PushSettings, subject_of};
use crate::error::PackError;

/// A document about a model.
#[derive(Debug, Clone)]
pub struct Attachment {
    /// What it is.
    pub artifact_type: String,
    /// Its bytes under their own media type.
    pub document: Document,
    /// Annotations of the manifest around it.
    pub annotations: artifact::Annotations,
}

impl Attachment {
    /// Without annotations.
    pub fn new(artifact_type: &str, document: Document) -> Self {
        Self {
            artifact_type: artifact_type.to_owned(),
            document,
            annotations: artifact::Annotations::new(),
        }
    }
}

/// The blobs that the manifests around attachments name.
pub(super) fn blobs(attachments: &[Attachment]) -> Vec<Blob> {
    let mut blobs: Vec<Blob> = attachments
        .iter()
        .map(|attachment| memory(&attachment.artifact_type, &attachment.document.bytes))
        .collect();
    if !attachments.is_empty() {
        blobs.push(memory("(empty config)", b"{}"));
    }
    blobs
}

/// Before the model is tagged, so that whoever sees the tag finds them.
pub(super) async fn put(
    attachments: &[Attachment],
    built: &Built,
    omit_artifact_type: bool,
    settings: &PushSettings,
) -> Result<(), PackError> {
    let subject = subject_of(built);
    for attachment in attachments {
        let Attachment {
            artifact_type,
            document,
            annotations,
        } = attachment;
        let annotations = annotations.clone();
        let built = build_referrer(
            subject.clone(),
            artifact_type,
            document,
            annotations,
            omit_artifact_type,
        );
        settings
            .client
            .put_referrer(&settings.target, &built.manifest.bytes)
            .await?;
    }
    Ok(())
}
