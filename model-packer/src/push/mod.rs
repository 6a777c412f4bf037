//! From prepared layers to a tag: ask what is there, mount or send the rest, put the manifest last.

mod attachments;
mod blobs;
mod early;
mod limits;
mod pieces;
mod spool;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use artifact::{Built, Descriptor, Digest, Document, Layout, build_manifest, media_type};
use registry::{Client, Reference};
use serde::Serialize;

use crate::error::PackError;
use crate::journal::Journal;
use crate::prepare::Prepared;
use crate::report::{Arrival, Event, Reporter};
use crate::signing::{self, SigningKey};
use crate::tags;
pub use attachments::Attachment;
pub use early::Early;
pub use limits::check_limits;

/// How to push.
#[derive(Clone)]
pub struct PushSettings {
    /// The registry client.
    pub client: Client,
    /// Where it goes.
    pub target: Reference,
    /// Files at the same time.
    pub jobs: usize,
    /// Repositories of the same registry that may have some of the blobs.
    pub mount_from: Vec<String>,
    /// What survives a kill; none when there is no place for it.
    pub journal: Option<Arc<Journal>>,
    /// Who is told.
    pub reporter: Reporter,
    /// Folder for files on their way, for registries that cannot take a stream.
    pub spool: Option<PathBuf>,
    /// Who signs, before the tag is there.
    pub signer: Option<Arc<SigningKey>>,
}

/// Makes what is attached to a manifest, once its digest is known.
pub type Attach<'a> = &'a (dyn Fn(&Built) -> Result<Vec<Attachment>, PackError> + Send + Sync);

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PushSummary {
    /// The reference with its digest.
    pub reference: String,
    /// Digest of the manifest.
    pub digest: Digest,
    /// The mountable image, for the tar layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Files of the artifact.
    pub files: usize,
    /// Bytes that left this process, repeats included.
    pub sent: u64,
    /// Bytes that were there.
    pub present: u64,
    /// Bytes that the registry took over from a sibling.
    pub mounted: u64,
    /// Whether the tag pointed to this digest before.
    pub unchanged: bool,
}

impl PushSummary {
    fn count(&mut self, size: u64, arrival: &Arrival) {
        match arrival {
            Arrival::Sent(sent) => self.sent += sent,
            Arrival::Mounted(_) => self.mounted += size,
            Arrival::Present | Arrival::Fetched(_) | Arrival::Reused => self.present += size,
        }
    }
}

/// What would have to move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedBlob {
    /// Path of the file.
    pub path: String,
    /// Digest of the layer.
    pub digest: Digest,
    /// Bytes.
    pub size: u64,
    /// Whether the repository has it.
    pub present: bool,
    /// Repositories of the same registry that have had it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mountable_from: Vec<String>,
}

/// Asks which blobs the repository has; moves nothing.
pub async fn plan(prepared: &Prepared, settings: &PushSettings) -> Result<Vec<PlannedBlob>, PackError> {
    check_limits(named(prepared), settings)?;
    let mut blobs = blobs::of_layers(prepared);
    blobs.extend(blobs::of_documents(&build_manifest(&prepared.package)?));
    let blobs = blobs::once_each(blobs);
    let present = blobs::ask(&blobs, settings).await?;
    let planned = blobs.iter().map(|blob| PlannedBlob {
        path: blob.name.clone(),
        digest: blob.digest.clone(),
        size: blob.size,
        present: present.contains(&blob.digest),
        mountable_from: blobs::siblings(settings, &blob.digest),
    });
    Ok(planned.collect())
}

/// Bytes that a plan would send.
pub fn bytes_to_send(planned: &[PlannedBlob]) -> u64 {
    let by_digest: BTreeMap<&Digest, u64> = planned
        .iter()
        .filter(|blob| !blob.present)
        .map(|blob| (&blob.digest, blob.size))
        .collect();
    by_digest.values().sum()
}

/// Brings everything, and tags at the end.
pub async fn push(prepared: &Prepared, settings: &PushSettings) -> Result<PushSummary, PackError> {
    push_with(prepared, settings, &|_| Ok(Vec::new()), None).await
}

/// The same, with attachments that are there before the tag is, and with what is under way already.
pub async fn push_with(
    prepared: &Prepared,
    settings: &PushSettings,
    attach: Attach<'_>,
    early: Option<Early>,
) -> Result<PushSummary, PackError> {
    // What cannot become a manifest there, or has no place for its image, is not sent at all.
    check_limits(named(prepared), settings)?;
    if prepared.package.layout == Layout::Tar {
        tags::image_of(&settings.target)?;
    }
    build_manifest(&prepared.package)?;
    let layers = blobs::once_each(blobs::of_layers(prepared));
    let mut arrivals = bring_layers(&layers, settings, early).await?;

    let mut package = prepared.package.clone();
    let map = pieces::make(prepared, settings).await?;
    package.pieces = map.as_ref().map(|map| map.digest.clone());
    let built = build_manifest(&package)?;
    let mut attachments = attach(&built)?;
    attachments.extend(map.map(|map| Attachment::new(media_type::PIECE_MAP, map)));
    let mut documents = blobs::of_documents(&built);
    documents.extend(attachments::blobs(&attachments));
    let documents = blobs::once_each(documents);
    arrivals.extend(blobs::bring_all(&documents, settings).await?);

    let before = tags::current(&settings.client, &settings.target).await?;
    attachments::put(&attachments, &built, package.omit_artifact_type, settings).await?;
    if let Some(key) = &settings.signer {
        let subject = subject_of(&built);
        signing::sign(
            &settings.client,
            &settings.target,
            &subject,
            key,
            package.omit_artifact_type,
        )
        .await?;
    }
    put_manifests(&built, settings).await?;
    tell_left_image(&built, settings).await?;
    if let Some(journal) = &settings.journal {
        journal.remember(&settings.target, layers.iter().map(|blob| (&blob.digest, blob.size)))?;
    }
    let mut summary = PushSummary {
        reference: settings.target.with_digest(built.manifest_digest.as_str())?.to_string(),
        image: image_reference(&built, settings)?,
        files: prepared.package.files.len(),
        sent: 0,
        present: 0,
        mounted: 0,
        unchanged: before.is_some_and(|digest| digest == built.manifest_digest.as_str()),
        digest: built.manifest_digest,
    };
    for (size, arrival) in &arrivals {
        summary.count(*size, arrival);
    }
    Ok(summary)
}

fn named(prepared: &Prepared) -> impl ExactSizeIterator<Item = (&str, u64)> {
    prepared.layers.iter().map(|layer| (layer.path.as_str(), layer.size))
}

async fn bring_layers(
    layers: &[blobs::Blob],
    settings: &PushSettings,
    early: Option<Early>,
) -> Result<Vec<(u64, Arrival)>, PackError> {
    let Some(early) = early else {
        let (files, bytes) = (layers.len(), layers.iter().map(|blob| blob.size).sum());
        settings.reporter.tell(&Event::Planned { files, bytes });
        return blobs::bring_all(layers, settings).await;
    };
    let rest: Vec<blobs::Blob> = layers.iter().filter(|blob| !early.has(&blob.digest)).cloned().collect();
    let (mut arrivals, others) = futures::try_join!(early.finish(), blobs::bring_all(&rest, settings))?;
    arrivals.extend(others);
    Ok(arrivals)
}

fn image_reference(built: &Built, settings: &PushSettings) -> Result<Option<String>, PackError> {
    let place = built
        .twin
        .as_ref()
        .map(|_| tags::image_of(&settings.target))
        .transpose()?;
    Ok(place.flatten().map(|place| place.to_string()))
}

/// A tag that had an image and is pushed without one.
async fn tell_left_image(built: &Built, settings: &PushSettings) -> Result<(), PackError> {
    if built.twin.is_none()
        && let Some(text) = tags::left_behind(&settings.client, &settings.target).await?.warning()
    {
        settings.reporter.tell(&Event::Warning { text });
    }
    Ok(())
}

/// Images before their index, the model last: whoever sees the tag sees everything behind it.
async fn put_manifests(built: &Built, settings: &PushSettings) -> Result<(), PackError> {
    let (client, target) = (&settings.client, &settings.target);
    if let Some(twin) = &built.twin {
        for image in &twin.images {
            put_by_digest(&image.manifest, settings).await?;
        }
        let place = match tags::image_of(target)? {
            Some(place) => place,
            None => target.with_digest(twin.index.digest.as_str())?,
        };
        client
            .put_manifest(&place, &twin.index.media_type, &twin.index.bytes)
            .await?;
    }
    let stored = client
        .put_manifest(target, media_type::OCI_MANIFEST, &built.manifest_bytes)
        .await?;
    let expected = built.manifest_digest.as_str();
    if stored == expected {
        Ok(())
    } else {
        Err(PackError::Internal(format!(
            "{stored} was stored instead of {expected}"
        )))
    }
}

async fn put_by_digest(manifest: &Document, settings: &PushSettings) -> Result<(), PackError> {
    let place = settings.target.with_digest(manifest.digest.as_str())?;
    settings
        .client
        .put_manifest(&place, &manifest.media_type, &manifest.bytes)
        .await?;
    Ok(())
}

/// Points to the manifest of a model.
pub fn subject_of(built: &Built) -> Descriptor {
    let size = built.manifest_bytes.len() as u64;
    Descriptor::new(media_type::OCI_MANIFEST, built.manifest_digest.clone(), size)
}
