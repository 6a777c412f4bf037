//! Blobs on their way into a repository.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use artifact::{Built, Digest, SOURCE_LOCK_PATH};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use registry::{BlobSource, FileSource, PushEvent, PushObserver, PushOptions, Pushed, Reference};

use super::PushSettings;
use super::spool::Spooled;
use crate::buffers::{PART, PARTS_IN_MEMORY};
use crate::content::HashedFile;
use crate::error::PackError;
use crate::journal::{HeldUpload, Journal, Resume};
use crate::prepare::{Layer, LayerContent, Prepared};
use crate::report::{Arrival, Event, Reporter};

/// Questions at the same time: some registries lock on each.
const ASK_AT_ONCE: usize = 4;

/// A blob to bring.
#[derive(Clone)]
pub(super) struct Blob {
    pub(super) name: String,
    pub(super) digest: Digest,
    pub(super) size: u64,
    content: LayerContent,
}

impl Blob {
    /// The same, read from a hub by so many requests at once.
    fn by_requests(&self, requests: usize) -> Self {
        let content = match &self.content {
            LayerContent::Stream(file) => LayerContent::Stream(file.clone().by_requests(requests)),
            LayerContent::Memory(bytes) => LayerContent::Memory(bytes.clone()),
        };
        Self {
            content,
            ..self.clone()
        }
    }

    /// Whether it comes from a hub, and is long enough to come in parts.
    fn is_far_and_large(&self) -> bool {
        let is_far = matches!(&self.content, LayerContent::Stream(file) if !file.is_hashed_here());
        is_far && self.size > 2 * PART as u64
    }
}

pub(super) fn memory(name: &str, bytes: &[u8]) -> Blob {
    Blob {
        name: name.to_owned(),
        digest: Digest::of(bytes),
        size: bytes.len() as u64,
        content: LayerContent::Memory(Bytes::copy_from_slice(bytes)),
    }
}

pub(super) fn of_layer(layer: &Layer) -> Blob {
    Blob {
        name: layer.path.clone(),
        digest: layer.digest.clone(),
        size: layer.size,
        content: layer.content.clone(),
    }
}

pub(super) fn of_layers(prepared: &Prepared) -> Vec<Blob> {
    prepared.layers.iter().map(of_layer).collect()
}

pub(super) fn of_documents(built: &Built) -> Vec<Blob> {
    let mut blobs: Vec<Blob> = built
        .documents
        .iter()
        .map(|document| memory(SOURCE_LOCK_PATH, &document.bytes))
        .collect();
    blobs.push(memory("(config)", &built.config_bytes));
    let images = built.twin.iter().flat_map(|twin| &twin.images);
    blobs.extend(images.map(|image| memory("(image config)", &image.config.bytes)));
    blobs
}

/// Equal files are one blob.
pub(super) fn once_each(mut blobs: Vec<Blob>) -> Vec<Blob> {
    let mut seen = BTreeSet::new();
    blobs.retain(|blob| seen.insert(blob.digest.clone()));
    blobs
}

/// Whether the repository has it.
pub(super) async fn is_there(blob: &Blob, settings: &PushSettings) -> Result<bool, PackError> {
    let asked = settings
        .client
        .blob_exists(&settings.target, blob.digest.as_str())
        .await;
    match asked {
        Ok(size) => Ok(size == Some(blob.size)),
        // A repository that does not exist yet may be denied to a reader.
        Err(error) if error.is_unauthorized() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn ask(blobs: &[Blob], settings: &PushSettings) -> Result<BTreeSet<Digest>, PackError> {
    let questions = blobs.iter().map(|blob| async move {
        let there = is_there(blob, settings).await?;
        Ok::<_, PackError>(there.then(|| blob.digest.clone()))
    });
    let present: Vec<Option<Digest>> = futures::stream::iter(questions)
        .buffer_unordered(ASK_AT_ONCE)
        .try_collect()
        .await?;
    Ok(present.into_iter().flatten().collect())
}

/// Repositories that may have it, by the user's word and by what earlier pushes have seen.
pub(super) fn siblings(settings: &PushSettings, digest: &Digest) -> Vec<String> {
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

/// Brings what is missing, several at a time, the longest first, so that the last one to end is not the largest.
pub(super) async fn bring_all(blobs: &[Blob], settings: &PushSettings) -> Result<Vec<(u64, Arrival)>, PackError> {
    let present = ask(blobs, settings).await?;
    let (there, mut missing): (Vec<&Blob>, Vec<&Blob>) = blobs.iter().partition(|blob| present.contains(&blob.digest));
    for blob in &there {
        finished(settings, blob, Arrival::Present);
    }
    missing.sort_by(|left, right| right.size.cmp(&left.size).then_with(|| left.name.cmp(&right.name)));
    let requests = requests_of_each(&missing, settings.jobs);
    let tasks = missing.into_iter().map(|blob| {
        let blob = blob.by_requests(requests);
        async move { bring(&blob, settings).await }
    });
    let mut arrivals: Vec<(u64, Arrival)> = futures::stream::iter(tasks)
        .buffer_unordered(settings.jobs.max(1))
        .try_collect()
        .await?;
    arrivals.extend(there.iter().map(|blob| (blob.size, Arrival::Present)));
    Ok(arrivals)
}

/// Asks for one, and brings it when it is missing.
pub(super) async fn bring_one(blob: &Blob, settings: &PushSettings) -> Result<(u64, Arrival), PackError> {
    if is_there(blob, settings).await? {
        finished(settings, blob, Arrival::Present);
        return Ok((blob.size, Arrival::Present));
    }
    bring(blob, settings).await
}

/// Where fewer large files than jobs come from a hub, the connections that would be idle bring parts of them. One part more is on
/// its way out.
fn requests_of_each(blobs: &[&Blob], jobs: usize) -> usize {
    match blobs.iter().filter(|blob| blob.is_far_and_large()).count() {
        0 => 1,
        large => jobs.min(PARTS_IN_MEMORY - 1) / large,
    }
}

async fn bring(blob: &Blob, settings: &PushSettings) -> Result<(u64, Arrival), PackError> {
    // Two runs that go on with one upload would spoil it for each other.
    let held = hold(blob, settings);
    let journal = settings.journal.as_ref().filter(|_| held.is_some());
    let resume = journal.and_then(|journal| journal.resume(&settings.target, &blob.digest));
    let spooled = spool(blob, settings).await?;
    let (source, hashed): (Box<dyn BlobSource>, Option<HashedFile>) = match (&blob.content, &spooled) {
        (LayerContent::Memory(bytes), _) => (Box::new(bytes.clone()), None),
        (LayerContent::Stream(_), Some(spooled)) => (Box::new(FileSource(spooled.path.clone())), None),
        (LayerContent::Stream(file), None) => {
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
        observer: Some(observer(blob, &settings.target, journal.cloned(), hashed)),
        ..PushOptions::default()
    };
    let started = AtomicBool::new(false);
    let source = Told {
        source,
        started,
        blob: blob.clone(),
        reporter: Arc::clone(&settings.reporter),
    };
    let pushed = settings
        .client
        .push_blob(&settings.target, blob.digest.as_str(), blob.size, &source, &options)
        .await;
    let pushed = pushed.inspect_err(|error| forget_if_wrong(blob, settings, journal, error))?;
    if let Some(spooled) = spooled {
        spooled.remove().await;
    }
    if let Some(journal) = journal {
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

/// What is in memory needs no journal.
fn hold(blob: &Blob, settings: &PushSettings) -> Option<HeldUpload> {
    let streamed = matches!(blob.content, LayerContent::Stream(_));
    let journal = settings.journal.as_ref().filter(|_| streamed)?;
    journal.hold(&settings.target, &blob.digest)
}

async fn spool(blob: &Blob, settings: &PushSettings) -> Result<Option<Spooled>, PackError> {
    match (&blob.content, &settings.spool) {
        (LayerContent::Stream(file), Some(folder)) if !file.is_hashed_here() => {
            Spooled::fetch(file, &blob.digest, folder).await.map(Some)
        }
        _ => Ok(None),
    }
}

/// Wrong bytes are withdrawn at the registry, so there is nothing to go on from.
fn forget_if_wrong(blob: &Blob, settings: &PushSettings, journal: Option<&Arc<Journal>>, error: &registry::Error) {
    let wrong = match error.kind() {
        registry::ErrorKind::Source(cause) => cause.kind() == std::io::ErrorKind::InvalidData,
        registry::ErrorKind::DigestInvalid { .. } => true,
        _ => false,
    };
    if let Some(journal) = journal.filter(|_| wrong) {
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

/// Writes the session into the journal as soon as it is open, for registries that keep the start of a part that broke, and each
/// confirmed part with the state of the hash at or before it.
fn observer(
    blob: &Blob,
    target: &Reference,
    journal: Option<Arc<Journal>>,
    hashed: Option<HashedFile>,
) -> PushObserver {
    let (target, digest) = (target.clone(), blob.digest.clone());
    // What an earlier process hashed counts until this one gets further.
    let hashed_before = hashed.as_ref().map_or(0, |hashed| hashed.checkpoint(u64::MAX).offset);
    let known = std::sync::Mutex::new((None, hashed_before));
    Arc::new(move |event| {
        let (Some(journal), Some(hashed), Ok(mut known)) = (&journal, &hashed, known.lock()) else {
            return;
        };
        match event {
            PushEvent::Session(saved) => known.0 = Some(saved),
            PushEvent::Confirmed(offset) => known.1 = offset,
            PushEvent::Restarted => {
                *known = (None, 0);
                journal.forget(&target, &digest);
            }
            PushEvent::Committing => {}
        }
        let (Some(session), offset) = known.clone() else {
            return;
        };
        let resume = Resume {
            session,
            checkpoint: hashed.checkpoint(offset),
        };
        if let Err(error) = journal.keep(&target, &digest, &resume) {
            tracing::warn!(%error, "the journal cannot be written; a kill would cost the whole file");
        }
    })
}

/// Tells how far the bytes are that leave.
struct Told {
    source: Box<dyn BlobSource>,
    started: AtomicBool,
    blob: Blob,
    reporter: Reporter,
}

impl BlobSource for Told {
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
