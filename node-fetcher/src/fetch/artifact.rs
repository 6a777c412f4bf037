//! An artifact: its manifest, room for it, its blobs in parallel, then its view.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use ::registry::Reference;
use artifact::{Digest, Encoding, PackedModel};
use crds::node_weights::FetchReason;
use futures::FutureExt as _;
use futures::future::try_join_all;
use tokio::sync::{AcquireError, SemaphorePermit};

use super::blob::BlobJob;
use super::error::FetchError;
use super::progress::{BlobProgress, Progress, Snapshot};
use super::{Fetcher, Flight, Haste};
use crate::source::Access;
use crate::store::{BlobState, Record, RecordedFile, Reservation, Store, StoreError};

impl Fetcher {
    /// Brings the artifact with this manifest digest into the store and makes its view.
    pub async fn fetch(
        self: &Arc<Self>,
        reference: &Reference,
        digest: &Digest,
        access: &Access,
        haste: &Haste,
        progress: &Progress,
    ) -> Result<Record, FetchError> {
        let subject = reference.to_string();
        let _manifest = self.store.hold([digest.clone()]);
        if let Some(record) = self
            .complete(digest)
            .await
            .map_err(|error| FetchError::store(&subject, error))?
        {
            progress.begin(record.bytes());
            let found = Arc::new(BlobProgress::new(None));
            found.found(record.bytes());
            progress.add(found);
            return Ok(record);
        }
        let model = self.model(reference, digest, access).await?;
        let blobs: BTreeMap<Digest, u64> = model
            .files
            .iter()
            .map(|file| (file.digest.clone(), file.size))
            .collect();
        let _blobs = self.store.hold(blobs.keys().cloned());
        let reservation = self
            .reserve(&blobs)
            .await
            .map_err(|error| FetchError::store(&subject, error))?;
        progress.begin(blobs.values().sum());
        let flights = blobs.into_iter().map(|(digest, size)| {
            let job = BlobJob {
                reference: reference.clone(),
                digest,
                size,
                access: access.clone(),
                haste: haste.clone(),
                reservation: Arc::clone(&reservation),
            };
            self.join(job, progress)
        });
        try_join_all(flights.collect::<Vec<_>>()).await?;
        let record = record_of(reference, &model, progress.snapshot());
        let view = record.clone();
        self.blocking(move |store| store.make_view(&view))
            .await
            .map_err(|error| FetchError::store(subject, error))?;
        Ok(record)
    }

    /// The record of an artifact that needs nothing more.
    async fn complete(&self, digest: &Digest) -> Result<Option<Record>, StoreError> {
        let digest = digest.clone();
        self.blocking(move |store| {
            if store.open_view(&digest)?.is_some() {
                store.record(&digest)
            } else {
                Ok(None)
            }
        })
        .await
    }

    /// The manifest from the store, else from the registry, read and checked.
    async fn model(&self, reference: &Reference, digest: &Digest, access: &Access) -> Result<PackedModel, FetchError> {
        let subject = reference.to_string();
        let on_disk = |error| FetchError::store(&subject, error);
        let wanted = digest.clone();
        let stored = self
            .blocking(move |store| store.read_small(&wanted))
            .await
            .map_err(on_disk)?;
        let bytes = match stored {
            Some(bytes) => bytes,
            None => self.manifest(reference, digest, access).await?,
        };
        let model = PackedModel::read(&bytes, None).map_err(|error| {
            let hint = error.hint();
            FetchError::new(FetchReason::InvalidArtifact, &subject, error).with_hint(hint)
        })?;
        refuse_packed_layers(&model, &subject)?;
        self.blocking(move |store| store.write_small(&bytes))
            .await
            .map_err(on_disk)?;
        Ok(model)
    }

    async fn manifest(&self, reference: &Reference, digest: &Digest, access: &Access) -> Result<Vec<u8>, FetchError> {
        let subject = reference.to_string();
        let by_digest = reference
            .with_digest(digest.as_str())
            .map_err(|error| FetchError::new(FetchReason::InvalidArtifact, &subject, error))?;
        let manifest = access
            .manifest(&by_digest)
            .await
            .map_err(|error| FetchError::registry(&subject, error))?;
        if Digest::of(&manifest) == *digest {
            return Ok(manifest);
        }
        let cause = format!(
            "the registry's manifest has digest {}, not {digest}",
            Digest::of(&manifest)
        );
        Err(FetchError::new(FetchReason::Corrupt, subject, cause))
    }

    async fn reserve(&self, blobs: &BTreeMap<Digest, u64>) -> Result<Arc<Reservation>, StoreError> {
        let blobs = blobs.clone();
        self.blocking(move |store| store.reserve(missing_bytes(store, &blobs)))
            .await
            .map(Arc::new)
    }

    /// Waits for a blob that is under way, or sends it on its way.
    fn join(
        self: &Arc<Self>,
        job: BlobJob,
        progress: &Progress,
    ) -> impl Future<Output = Result<(), FetchError>> + use<> {
        let (flight, ours) = self.flight(job.clone());
        progress.add(Arc::clone(&flight.progress));
        let fetcher = Arc::clone(self);
        async move {
            match flight.outcome.await {
                // Somebody else's credentials are no answer to us.
                Err(error) if !ours && error.reason == FetchReason::Unauthorized => fetcher.flight(job).0.outcome.await,
                outcome => outcome,
            }
        }
    }

    fn flight(self: &Arc<Self>, job: BlobJob) -> (Flight, bool) {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flight) = flights.get(&job.digest) {
            if job.haste.is_urgent() {
                flight.haste.hurry();
            }
            return (flight.clone(), false);
        }
        let progress = Arc::new(BlobProgress::new(Some(Arc::clone(&self.metrics))));
        let (digest, haste) = (job.digest.clone(), job.haste.clone());
        // A task of its own: whoever asked may stop waiting, the bytes come all the same.
        let task = tokio::spawn(Arc::clone(self).fly(job, Arc::clone(&progress)));
        let subject = digest.to_string();
        let outcome = task
            .map(|joined| joined.unwrap_or_else(|join| Err(FetchError::new(FetchReason::EngineDown, subject, join))))
            .boxed()
            .shared();
        let flight = Flight {
            haste,
            progress,
            outcome,
        };
        flights.insert(digest, flight.clone());
        (flight, true)
    }

    async fn fly(self: Arc<Self>, job: BlobJob, progress: Arc<BlobProgress>) -> Result<(), FetchError> {
        // Held here too: whoever asked may have given up, and its hold with it.
        let _hold = self.store.hold([job.digest.clone()]);
        let permit = self.turn(&job.haste).await;
        let started = std::time::Instant::now();
        let outcome = self.fetch_blob(&job, &progress).await;
        drop(permit);
        self.metrics
            .fetched(started.elapsed(), outcome.as_ref().err().map(|error| error.reason));
        self.flights
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&job.digest);
        outcome
    }

    /// Waits among what is fetched ahead, until somebody waits for it.
    async fn turn(&self, haste: &Haste) -> Result<SemaphorePermit<'_>, AcquireError> {
        tokio::select! {
            biased;
            () = haste.urgent() => self.serving.acquire().await,
            permit = self.prefetch.acquire() => permit,
        }
    }
}

fn missing_bytes(store: &Store, blobs: &BTreeMap<Digest, u64>) -> u64 {
    let missing = blobs
        .iter()
        .filter(|(digest, _)| store.blob_state(digest) == BlobState::Missing);
    missing
        .map(|(digest, size)| size.saturating_sub(store.allocated(digest)))
        .sum()
}

fn refuse_packed_layers(model: &PackedModel, subject: &str) -> Result<(), FetchError> {
    let Some(file) = model.files.iter().find(|file| file.encoding != Encoding::Raw) else {
        return Ok(());
    };
    let cause = format!(
        "its file {:?} is a layer of type {}, not the file itself",
        file.path.as_str(),
        file.media_type
    );
    Err(
        FetchError::new(FetchReason::InvalidArtifact, subject, cause).with_hint(Some(
            "use the manifest of the raw layout, which the twin's annotation names",
        )),
    )
}

fn record_of(reference: &Reference, model: &PackedModel, snapshot: Snapshot) -> Record {
    let files = model.files.iter().map(|file| RecordedFile {
        path: file.path.clone(),
        digest: file.digest.clone(),
        size: file.size,
    });
    Record {
        digest: model.digest.clone(),
        reference: reference.to_string(),
        files: files.collect(),
        sources: snapshot.by_source,
        demotions: snapshot.demotions,
        ready_at: Some(jiff::Timestamp::now()),
    }
}
