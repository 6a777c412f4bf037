//! One blob: down the ladder of sources, proven, and only then named.

use std::collections::BTreeSet;
use std::sync::Arc;

use ::registry::Reference;
use artifact::Digest;
use crds::node_weights::{Demotion, FetchReason, SourceKind};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::board::{Board, CloseOnDrop};
use super::error::FetchError;
use super::progress::BlobProgress;
use super::transfer::{Transfer, TransferError};
use super::{Fetcher, Haste, proof};
use crate::source::{Access, BlobRequest, Ladder, Move, Source, SourceError};
use crate::store::{BlobState, Partial, Reservation, SavedRange, StoreError};

/// Wrong bytes from the registry itself are fetched once more, then they are what the registry has.
const REGISTRY_MISMATCHES: usize = 2;
/// Progress that is worth new patience; less would let a server that gives one byte per request run for ever.
const WORTHWHILE: u64 = 1 << 20;

/// What is to be fetched.
#[derive(Debug, Clone)]
pub(crate) struct BlobJob {
    pub(crate) reference: Reference,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    pub(crate) access: Access,
    pub(crate) haste: Haste,
    pub(crate) reservation: Arc<Reservation>,
}

impl BlobJob {
    fn subject(&self) -> String {
        format!(
            "blob {} of {}/{}",
            self.digest,
            self.reference.registry(),
            self.reference.repository()
        )
    }
}

/// The result of one way through all bytes.
struct Attempt {
    found: Digest,
    contributors: BTreeSet<SourceKind>,
    partial: Arc<Partial>,
}

impl Fetcher {
    /// Brings one blob into the store, or says why not.
    pub(crate) async fn fetch_blob(&self, job: &BlobJob, progress: &Arc<BlobProgress>) -> Result<(), FetchError> {
        if self.already_here(job).await? {
            progress.found(job.size);
            return Ok(());
        }
        let mut registry_mismatches = 0;
        loop {
            let attempt = self.attempt(job, progress).await?;
            if attempt.found == job.digest {
                self.on_store(job, move |store| store.publish(&attempt.partial)).await?;
                progress.set_verifying(false);
                return Ok(());
            }
            self.on_store(job, {
                let partial = Arc::clone(&attempt.partial);
                move |store| store.discard(&partial)
            })
            .await?;
            progress.reset();
            if !self.blame(job, &attempt, progress) {
                registry_mismatches += 1;
            }
            if registry_mismatches == REGISTRY_MISMATCHES {
                return Err(corrupt(job, &attempt.found));
            }
        }
    }

    async fn already_here(&self, job: &BlobJob) -> Result<bool, FetchError> {
        let digest = job.digest.clone();
        self.on_store(job, move |store| match store.blob_state(&digest) {
            BlobState::Missing => Ok(false),
            BlobState::Proven => Ok(true),
            BlobState::Suspect => store.prove_again(&digest),
        })
        .await
    }

    /// Fetches what is missing while the hash follows and the journal keeps up.
    async fn attempt(&self, job: &BlobJob, progress: &Arc<BlobProgress>) -> Result<Attempt, FetchError> {
        let (digest, size) = (job.digest.clone(), job.size);
        let before = self.store.allocated(&job.digest);
        let partial = Arc::new(self.on_store(job, move |store| store.begin(&digest, size)).await?);
        job.reservation.redeem(size.saturating_sub(before));
        let board = Arc::new(Board::new(
            size,
            partial.kept().iter().map(|range| range.extent).collect(),
        ));
        progress.found(board.bytes());

        let open = CloseOnDrop(&board);
        let (saver, ranges) = mpsc::unbounded_channel();
        let saving = spawn_blocking({
            let partial = Arc::clone(&partial);
            move || save_all(&partial, ranges)
        });
        let hashing = spawn_blocking({
            let (partial, board) = (Arc::clone(&partial), Arc::clone(&board));
            move || proof::follow(&partial, &board)
        });
        let descent = Descent {
            fetcher: self,
            job,
            partial: &partial,
            board: &board,
            progress,
            saver: &saver,
        };
        let descended = descent.run().await;
        drop(saver);
        progress.set_verifying(descended.is_ok());
        drop(open);
        let kept_up = saving
            .await
            .unwrap_or_else(|join| Err(StoreError::Interrupted(join.into())));
        let hashed = hashing
            .await
            .unwrap_or_else(|join| Err(StoreError::Interrupted(join.into())));
        let mut contributors = descended?;
        contributors.extend(partial.kept().iter().map(|range| range.source));
        let found = kept_up
            .and(hashed)
            .map_err(|error| FetchError::store(job.subject(), error))?;
        let found = found
            .ok_or_else(|| FetchError::new(FetchReason::EngineDown, job.subject(), "the proof was not finished"))?;
        Ok(Attempt {
            found,
            contributors,
            partial,
        })
    }

    /// Closes the peers that took part in a wrong blob for it; `false` when only the registry did.
    fn blame(&self, job: &BlobJob, attempt: &Attempt, progress: &BlobProgress) -> bool {
        let mut peers = false;
        for kind in &attempt.contributors {
            self.metrics.wrong_blob(*kind);
            if *kind == SourceKind::Registry {
                continue;
            }
            peers = true;
            for index in self.sources_of(*kind) {
                self.standings.poisoned(index, &job.digest);
            }
            let message = format!(
                "{} delivered wrong bytes; fetched again from the next source",
                kind.as_str()
            );
            tracing::warn!(blob = %job.digest, found = %attempt.found, "{message}");
            self.metrics.demoted(*kind, FetchReason::Corrupt);
            progress.demoted(Demotion {
                kind: *kind,
                reason: FetchReason::Corrupt,
                blob: job.digest.to_string(),
                at_byte: 0,
                message,
            });
        }
        if !peers {
            tracing::warn!(blob = %job.digest, found = %attempt.found, "the registry delivered wrong bytes");
        }
        peers
    }

    fn sources_of(&self, kind: SourceKind) -> impl Iterator<Item = usize> + '_ {
        self.sources
            .iter()
            .enumerate()
            .filter(move |(_, source)| source.kind() == kind)
            .map(|(index, _)| index)
    }

    async fn on_store<T: Send + 'static>(
        &self,
        job: &BlobJob,
        work: impl FnOnce(&crate::store::Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, FetchError> {
        self.blocking(work)
            .await
            .map_err(|error| FetchError::store(job.subject(), error))
    }
}

/// The way down the ladder for one attempt.
struct Descent<'a> {
    fetcher: &'a Fetcher,
    job: &'a BlobJob,
    partial: &'a Arc<Partial>,
    board: &'a Arc<Board>,
    progress: &'a Arc<BlobProgress>,
    saver: &'a mpsc::UnboundedSender<SavedRange>,
}

impl Descent<'_> {
    /// Returns who delivered bytes.
    async fn run(&self) -> Result<BTreeSet<SourceKind>, FetchError> {
        let fetcher = self.fetcher;
        let mut ladder = Ladder::new(
            &fetcher.sources,
            &fetcher.standings,
            &self.job.digest,
            fetcher.limits.pause,
        );
        let mut contributors = BTreeSet::new();
        while !self.board.is_complete() {
            let Some((index, source)) = ladder.current() else {
                return Err(FetchError::new(
                    FetchReason::EngineDown,
                    self.job.subject(),
                    "no source is configured",
                ));
            };
            let before = self.board.bytes();
            let result = self.transfer().run(source).await;
            let gained = self.board.bytes() - before;
            if gained > 0 {
                contributors.insert(source.kind());
            }
            match result {
                Ok(()) => self.fetcher.standings.delivered(index),
                Err(TransferError::Store(error)) => return Err(FetchError::store(self.job.subject(), error)),
                Err(TransferError::Source(error)) => {
                    self.react(&mut ladder, source, error, gained >= WORTHWHILE).await?;
                }
            }
        }
        Ok(contributors)
    }

    fn transfer(&self) -> Transfer<'_> {
        let request = BlobRequest {
            reference: &self.job.reference,
            digest: &self.job.digest,
            extent: crate::extent::Extent::new(0, self.job.size),
            size: self.job.size,
            access: &self.job.access,
        };
        Transfer {
            request,
            partial: self.partial,
            board: self.board,
            progress: self.progress,
            saver: self.saver,
            rate: &self.fetcher.rate,
            limits: &self.fetcher.limits,
        }
    }

    async fn react(
        &self,
        ladder: &mut Ladder<'_>,
        source: &Arc<dyn Source>,
        error: SourceError,
        progressed: bool,
    ) -> Result<(), FetchError> {
        let at_byte = self.board.first_missing();
        match ladder.react(&error, progressed) {
            Move::Retry(pause) => {
                tracing::warn!(blob = %self.job.digest, source = source.kind().as_str(), at_byte, %error, ?pause, "asking again");
                tokio::time::sleep(pause).await;
            }
            Move::Demote => {
                let next = ladder.current().map_or(SourceKind::Registry, |(_, next)| next.kind());
                let message = demotion_text(source.kind(), error.reason, at_byte, next);
                tracing::warn!(blob = %self.job.digest, %error, "{message}");
                self.fetcher.metrics.demoted(source.kind(), error.reason);
                self.progress.demoted(Demotion {
                    kind: source.kind(),
                    reason: error.reason,
                    blob: self.job.digest.to_string(),
                    at_byte: i64::try_from(at_byte).unwrap_or(i64::MAX),
                    message,
                });
            }
            Move::GiveUp => return Err(FetchError::source(self.job.subject(), error)),
        }
        Ok(())
    }
}

fn demotion_text(kind: SourceKind, reason: FetchReason, at_byte: u64, next: SourceKind) -> String {
    let what = match reason {
        FetchReason::Unauthorized => "refused the credentials",
        FetchReason::RateLimited => "asked to slow down",
        FetchReason::NotFound => "did not have the blob",
        FetchReason::Corrupt => "delivered wrong bytes",
        FetchReason::Stalled => "stalled",
        _ => "stopped answering",
    };
    format!(
        "{} {what} at byte {at_byte}; continued from the {}",
        kind.as_str(),
        next.as_str()
    )
}

/// Makes ranges durable as they come, all that wait at once, and vouches for them in the journal. Blocks.
fn save_all(partial: &Partial, mut saved: mpsc::UnboundedReceiver<SavedRange>) -> Result<(), StoreError> {
    while let Some(first) = saved.blocking_recv() {
        let mut ranges = vec![first];
        while let Ok(range) = saved.try_recv() {
            ranges.push(range);
        }
        partial.save(&ranges)?;
    }
    Ok(())
}

fn corrupt(job: &BlobJob, found: &Digest) -> FetchError {
    let cause = format!("the registry's bytes hash to {found}, twice");
    FetchError::new(FetchReason::Corrupt, job.subject(), cause).with_hint(Some(
        "the registry's storage or a proxy before it is damaged: push the artifact again",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demotion_is_told_in_one_sentence() {
        let text = demotion_text(
            SourceKind::Dragonfly,
            FetchReason::EngineDown,
            41_943_040,
            SourceKind::Registry,
        );
        assert_eq!(
            text,
            "dragonfly stopped answering at byte 41943040; continued from the registry"
        );
    }
}
