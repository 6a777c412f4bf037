//! From prepared layers to a tag: ask what is there, mount or send the rest, put the manifest last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use artifact::{Built, Digest, build_manifest, media_type};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use registry::{BlobSource, Client, PushEvent, PushObserver, PushOptions, Pushed, Reference};
use serde::Serialize;

use crate::content::HashedFile;
use crate::error::PackError;
use crate::journal::{Journal, Resume};
use crate::prepare::{Layer, LayerContent, Prepared};
use crate::report::{Arrival, Event, Reporter};

/// Questions at the same time: some registries lock on each.
const ASK_AT_ONCE: usize = 4;

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
}

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

/// A blob to bring.
#[derive(Clone)]
struct Blob {
    name: String,
    digest: Digest,
    size: u64,
    content: LayerContent,
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
    let blobs = blobs_of(prepared, &build_manifest(&prepared.package)?);
    let present = ask(&blobs, settings).await?;
    let planned = blobs.iter().map(|blob| PlannedBlob {
        path: blob.name.clone(),
        digest: blob.digest.clone(),
        size: blob.size,
        present: present.contains(&blob.digest),
        mountable_from: siblings(settings, &blob.digest),
    });
    Ok(planned.collect())
}

/// Brings everything, and tags at the end.
pub async fn push(prepared: &Prepared, settings: &PushSettings) -> Result<PushSummary, PackError> {
    let built = build_manifest(&prepared.package)?;
    let blobs = blobs_of(prepared, &built);
    let unchanged = tagged_digest(settings)
        .await?
        .is_some_and(|digest| digest == built.manifest_digest.as_str());
    let present = ask(&blobs, settings).await?;
    let bytes = blobs.iter().map(|blob| blob.size).sum();
    settings.reporter.tell(&Event::Planned {
        files: blobs.len(),
        bytes,
    });
    let (there, mut missing): (Vec<Blob>, Vec<Blob>) =
        blobs.iter().cloned().partition(|blob| present.contains(&blob.digest));
    for blob in &there {
        finished(settings, blob, Arrival::Present);
    }
    // The longest first, so that the last one to end is not the largest.
    missing.sort_by(|left, right| right.size.cmp(&left.size).then_with(|| left.name.cmp(&right.name)));
    let arrivals: Vec<(u64, Arrival)> = futures::stream::iter(missing.iter().map(|blob| bring(blob, settings)))
        .buffer_unordered(settings.jobs.max(1))
        .try_collect()
        .await?;
    put_manifests(&built, settings).await?;
    if let Some(journal) = &settings.journal {
        journal.remember(&settings.target, blobs.iter().map(|blob| (&blob.digest, blob.size)))?;
    }
    let mut summary = PushSummary {
        reference: settings.target.with_digest(built.manifest_digest.as_str())?.to_string(),
        digest: built.manifest_digest.clone(),
        image: built.twin.as_ref().and(settings.target.tag()).map(|tag| {
            format!(
                "{}-image",
                settings
                    .target
                    .with_tag(tag)
                    .map_or_else(|_| String::new(), |target| target.to_string())
            )
        }),
        files: prepared.layers.len(),
        sent: 0,
        present: there.iter().map(|blob| blob.size).sum(),
        mounted: 0,
        unchanged,
    };
    for (size, arrival) in arrivals {
        match arrival {
            Arrival::Sent(sent) => summary.sent += sent,
            Arrival::Mounted(_) => summary.mounted += size,
            Arrival::Present | Arrival::Fetched(_) | Arrival::Reused => summary.present += size,
        }
    }
    Ok(summary)
}

/// Every blob once: equal files are one layer.
fn blobs_of(prepared: &Prepared, built: &Built) -> Vec<Blob> {
    let memory = |name: &str, digest: &Digest, bytes: &[u8]| Blob {
        name: name.to_owned(),
        digest: digest.clone(),
        size: bytes.len() as u64,
        content: LayerContent::Memory(Bytes::copy_from_slice(bytes)),
    };
    let layers = prepared.layers.iter().map(|layer: &Layer| Blob {
        name: layer.path.clone(),
        digest: layer.digest.clone(),
        size: layer.size,
        content: layer.content.clone(),
    });
    let mut blobs: Vec<Blob> = layers.collect();
    blobs.extend(
        built
            .documents
            .iter()
            .map(|document| memory(artifact::SOURCE_LOCK_PATH, &document.digest, &document.bytes)),
    );
    blobs.push(memory("(config)", &built.config_digest, &built.config_bytes));
    let images = built.twin.iter().flat_map(|twin| &twin.images);
    blobs.extend(images.map(|image| memory("(image config)", &image.config.digest, &image.config.bytes)));
    let mut seen = BTreeSet::new();
    blobs.retain(|blob| seen.insert(blob.digest.clone()));
    blobs
}

async fn tagged_digest(settings: &PushSettings) -> Result<Option<String>, PackError> {
    match settings.client.resolve(&settings.target).await {
        Ok(descriptor) => Ok(Some(descriptor.digest)),
        Err(error) if matches!(error.kind(), registry::ErrorKind::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn ask(blobs: &[Blob], settings: &PushSettings) -> Result<BTreeSet<Digest>, PackError> {
    let questions = blobs.iter().map(|blob| async move {
        let size = settings
            .client
            .blob_exists(&settings.target, blob.digest.as_str())
            .await;
        match size {
            Ok(size) => Ok::<_, PackError>((size == Some(blob.size)).then(|| blob.digest.clone())),
            // A repository that does not exist yet may be denied to a reader.
            Err(error)
                if matches!(
                    error.kind(),
                    registry::ErrorKind::Denied { .. } | registry::ErrorKind::Unauthorized { .. }
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    });
    let present: Vec<Option<Digest>> = futures::stream::iter(questions)
        .buffer_unordered(ASK_AT_ONCE)
        .try_collect()
        .await?;
    Ok(present.into_iter().flatten().collect())
}

fn siblings(settings: &PushSettings, digest: &Digest) -> Vec<String> {
    let known = settings
        .journal
        .as_ref()
        .map(|journal| journal.repositories_with(&settings.target, digest));
    let mut repositories = settings.mount_from.clone();
    repositories.extend(known.unwrap_or_default());
    let mut seen = BTreeSet::from([settings.target.repository().to_owned()]);
    repositories.retain(|repository| seen.insert(repository.clone()));
    repositories
}

async fn bring(blob: &Blob, settings: &PushSettings) -> Result<(u64, Arrival), PackError> {
    let resume = settings
        .journal
        .as_ref()
        .and_then(|journal| journal.resume(&settings.target, &blob.digest));
    let (source, hashed): (Box<dyn BlobSource>, Option<HashedFile>) = match &blob.content {
        LayerContent::Memory(bytes) => (Box::new(bytes.clone()), None),
        LayerContent::Stream(file) => {
            if let Some(resume) = &resume {
                file.restore(&resume.checkpoint);
            }
            (Box::new(file.clone()), Some(file.clone()))
        }
    };
    let options = PushOptions {
        mount_from: siblings(settings, &blob.digest),
        resume: resume.map(|resume| resume.session),
        known_absent: true,
        observer: Some(observer(blob, settings, hashed)),
        ..PushOptions::default()
    };
    let source = Counted {
        source,
        started: AtomicBool::new(false),
        blob: blob.clone(),
        reporter: Arc::clone(&settings.reporter),
    };
    let pushed = settings
        .client
        .push_blob(&settings.target, blob.digest.as_str(), blob.size, &source, &options)
        .await;
    let pushed = pushed.inspect_err(|error| forget_if_wrong(blob, settings, error))?;
    if let Some(journal) = &settings.journal {
        journal.forget(&settings.target, &blob.digest);
    }
    let arrival = match pushed {
        Pushed::Existed => Arrival::Present,
        Pushed::Mounted(from) => Arrival::Mounted(from),
        Pushed::Uploaded(sent) => Arrival::Sent(sent),
    };
    finished(settings, blob, arrival.clone());
    Ok((blob.size, arrival))
}

/// Wrong bytes are withdrawn at the registry, so there is nothing to go on from.
fn forget_if_wrong(blob: &Blob, settings: &PushSettings, error: &registry::Error) {
    let wrong = match error.kind() {
        registry::ErrorKind::Source(cause) => cause.kind() == std::io::ErrorKind::InvalidData,
        registry::ErrorKind::DigestInvalid { .. } => true,
        _ => false,
    };
    if let Some(journal) = settings.journal.as_ref().filter(|_| wrong) {
        journal.forget(&settings.target, &blob.digest);
    }
}

fn finished(settings: &PushSettings, blob: &Blob, arrival: Arrival) {
    settings.reporter.tell(&Event::Finished {
        path: blob.name.clone(),
        digest: blob.digest.to_string(),
        size: blob.size,
        arrival,
    });
}

/// Writes each confirmed part into the journal, with the state of the hash at or before it.
fn observer(blob: &Blob, settings: &PushSettings, hashed: Option<HashedFile>) -> PushObserver {
    let (journal, target, digest) = (settings.journal.clone(), settings.target.clone(), blob.digest.clone());
    let session = std::sync::Mutex::new(None);
    Arc::new(move |event| {
        let (Some(journal), Some(hashed), Ok(mut session)) = (&journal, &hashed, session.lock()) else {
            return;
        };
        match event {
            PushEvent::Session(saved) => *session = Some(saved),
            PushEvent::Confirmed(offset) => {
                let Some(session) = session.clone() else { return };
                let resume = Resume {
                    session,
                    checkpoint: hashed.checkpoint(offset),
                };
                if let Err(error) = journal.keep(&target, &digest, &resume) {
                    tracing::warn!(%error, "the journal cannot be written; a kill would cost the whole file");
                }
            }
            PushEvent::Restarted => journal.forget(&target, &digest),
            PushEvent::Committing => {}
        }
    })
}

/// Tells progress while bytes leave.
struct Counted {
    source: Box<dyn BlobSource>,
    started: AtomicBool,
    blob: Blob,
    reporter: Reporter,
}

impl BlobSource for Counted {
    fn open(&self, offset: u64) -> futures::future::BoxFuture<'_, std::io::Result<registry::SourceStream>> {
        Box::pin(async move {
            let stream = self.source.open(offset).await?;
            let path = self.blob.name.clone();
            if !self.started.swap(true, Ordering::Relaxed) {
                let (path, size) = (path.clone(), self.blob.size);
                self.reporter.tell(&Event::Started { path, size, offset });
            }
            let (mut sent, reporter) = (offset, Arc::clone(&self.reporter));
            let told = stream.inspect_ok(move |chunk| {
                sent += chunk.len() as u64;
                reporter.tell(&Event::Progress {
                    path: path.clone(),
                    offset: sent,
                });
            });
            Ok(told.boxed())
        })
    }
}

/// Images before their index, the model last: whoever sees the tag sees everything behind it.
async fn put_manifests(built: &Built, settings: &PushSettings) -> Result<(), PackError> {
    let (client, target) = (&settings.client, &settings.target);
    if let Some(twin) = &built.twin {
        for image in &twin.images {
            let by_digest = target.with_digest(image.manifest.digest.as_str())?;
            client
                .put_manifest(&by_digest, &image.manifest.media_type, &image.manifest.bytes)
                .await?;
        }
        let place = match target.tag() {
            Some(tag) => target.with_tag(&format!("{tag}-image"))?,
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

/// How many bytes each blob has that the plan would send.
pub fn bytes_to_send(planned: &[PlannedBlob]) -> u64 {
    let by_digest: BTreeMap<&Digest, u64> = planned
        .iter()
        .filter(|blob| !blob.present)
        .map(|blob| (&blob.digest, blob.size))
        .collect();
    by_digest.values().sum()
}
