//! The ladder of sources: who is asked, and what happens to one that misbehaves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use artifact::Digest;
use crds::node_weights::{FetchReason, SourceKind};

use super::{Source, SourceError};

/// Attempts at the registry without progress before a blob is given up.
const REGISTRY_TRIES: u32 = 6;
/// A source that asks for more patience than this is left for the next one.
const PATIENCE: Duration = Duration::from_secs(30);
/// The first rest of a source that failed; doubled for every further failure.
const FIRST_REST: Duration = Duration::from_secs(30);
const LONGEST_REST: Duration = Duration::from_mins(10);
/// After wrong bytes for this many blobs a source is not asked again while the program runs.
const POISONED_LIMIT: usize = 2;

/// What to do after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Ask the same source again, after this time.
    Retry(Duration),
    /// Go on with the next source.
    Demote,
    /// No source can help.
    GiveUp,
}

/// The state machine, without its state: what an error of this kind of source means at the `tries`-th time without
/// progress in between, counted from zero.
pub fn decide(kind: SourceKind, error: &SourceError, tries: u32, first_pause: Duration) -> Move {
    // Doubled each time: 250 ms becomes 16 s.
    let pause = error.retry_after.unwrap_or(first_pause * (1 << tries.min(6)));
    match (kind, error.reason) {
        // The registry is the last word on what exists and who may have it.
        (SourceKind::Registry, FetchReason::Unauthorized | FetchReason::NotFound) => Move::GiveUp,
        (SourceKind::Registry, _) if tries < REGISTRY_TRIES => Move::Retry(pause.min(PATIENCE)),
        (SourceKind::Registry, _) => Move::GiveUp,
        // A token may have ended in the middle; the next request brings a new one.
        (_, FetchReason::Unauthorized) if tries == 0 => Move::Retry(Duration::ZERO),
        (_, FetchReason::RateLimited) if tries < 3 && pause <= PATIENCE => Move::Retry(pause),
        _ => Move::Demote,
    }
}

/// The last measured rate of the registry, in bytes per second; what a peer is compared with.
#[derive(Debug, Default)]
pub struct RegistryRate(AtomicU64);

impl RegistryRate {
    /// Remembers a measurement that is long enough to mean something.
    pub fn record(&self, bytes: u64, elapsed: Duration) {
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        if bytes >= 8 << 20 && millis > 0 {
            self.0.store(bytes.saturating_mul(1000) / millis, Ordering::Relaxed);
        }
    }

    /// `None` until something was measured.
    pub fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|rate| *rate > 0)
    }
}

/// How the sources of this node behaved lately, over all blobs.
#[derive(Debug, Default)]
pub struct Standings {
    by_source: Mutex<BTreeMap<usize, Standing>>,
}

#[derive(Debug, Default)]
struct Standing {
    failures: u32,
    rests_until: Option<Instant>,
    quarantined: BTreeSet<Digest>,
}

impl Standings {
    /// The source failed by its own fault: it rests, so that the next blob does not wait for it too.
    pub fn failed(&self, source: usize, now: Instant) {
        let mut standings = self.lock();
        let standing = standings.entry(source).or_default();
        let rest = FIRST_REST * (1 << standing.failures.min(5));
        standing.failures += 1;
        standing.rests_until = Some(now + rest.min(LONGEST_REST));
    }

    /// The source delivered a blob that proved right.
    pub fn delivered(&self, source: usize) {
        let mut standings = self.lock();
        let standing = standings.entry(source).or_default();
        standing.failures = 0;
        standing.rests_until = None;
    }

    /// The source delivered wrong bytes of this blob.
    pub fn poisoned(&self, source: usize, digest: &Digest) {
        self.lock()
            .entry(source)
            .or_default()
            .quarantined
            .insert(digest.clone());
    }

    /// Whether the source may be asked for this blob.
    pub fn allows(&self, source: usize, digest: &Digest, now: Instant) -> bool {
        self.lock().get(&source).is_none_or(|standing| {
            standing.rests_until.is_none_or(|until| until <= now)
                && standing.quarantined.len() < POISONED_LIMIT
                && !standing.quarantined.contains(digest)
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Standing>> {
        self.by_source.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way down the sources for one blob. The last one is the registry and is always allowed.
#[derive(Debug)]
pub struct Ladder<'a> {
    sources: &'a [Arc<dyn Source>],
    standings: &'a Standings,
    digest: &'a Digest,
    position: usize,
    tries: u32,
    first_pause: Duration,
}

impl<'a> Ladder<'a> {
    /// At the first source that may be asked.
    pub fn new(
        sources: &'a [Arc<dyn Source>],
        standings: &'a Standings,
        digest: &'a Digest,
        first_pause: Duration,
    ) -> Self {
        let mut ladder = Self {
            first_pause,
            sources,
            standings,
            digest,
            position: 0,
            tries: 0,
        };
        ladder.skip_forbidden();
        ladder
    }

    /// The source to ask now, with its place; `None` when there are none at all.
    pub fn current(&self) -> Option<(usize, &'a Arc<dyn Source>)> {
        self.sources.get(self.position).map(|source| (self.position, source))
    }

    /// Takes an error of the current source in.
    pub fn react(&mut self, error: &SourceError, progressed: bool) -> Move {
        let Some((position, source)) = self.current() else {
            return Move::GiveUp;
        };
        if progressed {
            self.tries = 0;
        }
        let reaction = decide(source.kind(), error, self.tries, self.first_pause);
        self.tries += 1;
        if reaction == Move::Demote {
            if matches!(
                error.reason,
                FetchReason::EngineDown | FetchReason::Stalled | FetchReason::RateLimited
            ) {
                self.standings.failed(position, Instant::now());
            }
            self.position += 1;
            self.tries = 0;
            self.skip_forbidden();
        }
        reaction
    }

    fn skip_forbidden(&mut self) {
        let now = Instant::now();
        let last = self.sources.len().saturating_sub(1);
        while self.position < last && !self.standings.allows(self.position, self.digest, now) {
            self.position += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_every_source_has_its_move() {
        use FetchReason::{EngineDown, NotFound, RateLimited, Stalled, Unauthorized};
        use SourceKind::{Dragonfly, Registry};
        let soon = Some(Duration::from_secs(2));
        let late = Some(Duration::from_mins(2));
        let cases = [
            (Dragonfly, EngineDown, None, 0, Move::Demote),
            (Dragonfly, Stalled, None, 0, Move::Demote),
            (Dragonfly, NotFound, None, 0, Move::Demote),
            (Dragonfly, Unauthorized, None, 0, Move::Retry(Duration::ZERO)),
            (Dragonfly, Unauthorized, None, 1, Move::Demote),
            (Dragonfly, RateLimited, soon, 0, Move::Retry(Duration::from_secs(2))),
            (Dragonfly, RateLimited, soon, 3, Move::Demote),
            (Dragonfly, RateLimited, late, 0, Move::Demote),
            (Registry, Unauthorized, None, 0, Move::GiveUp),
            (Registry, NotFound, None, 0, Move::GiveUp),
            (Registry, RateLimited, soon, 0, Move::Retry(Duration::from_secs(2))),
            (Registry, RateLimited, late, 0, Move::Retry(PATIENCE)),
            (Registry, EngineDown, None, 1, Move::Retry(Duration::from_millis(500))),
            (Registry, Stalled, None, REGISTRY_TRIES, Move::GiveUp),
        ];
        for (kind, reason, retry_after, tries, expected) in cases {
            let error = SourceError::new(reason, "x").after(retry_after);
            assert_eq!(
                decide(kind, &error, tries, Duration::from_millis(250)),
                expected,
                "{kind:?} {reason:?} {tries}"
            );
        }
    }

    #[test]
    fn a_source_that_fails_again_rests_longer_and_one_that_delivers_is_forgiven() {
        let standings = Standings::default();
        let blob = Digest::of(b"blob");
        let now = Instant::now();
        standings.failed(0, now);
        assert!(!standings.allows(0, &blob, now));
        assert!(standings.allows(0, &blob, now + FIRST_REST));
        standings.failed(0, now);
        assert!(!standings.allows(0, &blob, now + FIRST_REST));
        standings.delivered(0);
        assert!(standings.allows(0, &blob, now));
    }

    #[test]
    fn wrong_bytes_close_a_source_for_that_blob_and_twice_for_all() {
        let standings = Standings::default();
        let [first, second, third] = [b"1", b"2", b"3"].map(|bytes| Digest::of(bytes));
        let now = Instant::now();
        standings.poisoned(0, &first);
        assert!(!standings.allows(0, &first, now));
        assert!(standings.allows(0, &second, now));
        standings.poisoned(0, &second);
        assert!(!standings.allows(0, &third, now));
    }
}
