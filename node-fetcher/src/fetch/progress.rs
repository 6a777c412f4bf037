//! How far a fetch is: counters that anybody may read at any time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crds::node_weights::{Demotion, SourceKind};

use crate::metrics::Metrics;

/// Demotions that are kept for the status, the latest ones.
const DEMOTIONS_KEPT: usize = 8;

/// The counters of one blob.
#[derive(Debug, Default)]
pub struct BlobProgress {
    done: AtomicU64,
    by_source: Mutex<BTreeMap<SourceKind, u64>>,
    demotions: Mutex<Vec<Demotion>>,
    verifying: AtomicBool,
    metrics: Option<Arc<Metrics>>,
}

impl BlobProgress {
    pub(crate) fn new(metrics: Option<Arc<Metrics>>) -> Self {
        Self {
            metrics,
            ..Self::default()
        }
    }

    pub(crate) fn delivered(&self, kind: SourceKind, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
        self.count(kind, bytes);
        if let Some(metrics) = &self.metrics {
            metrics.received(kind, bytes);
        }
    }

    /// Bytes that were on the disk already.
    pub(crate) fn found(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
        if bytes > 0 {
            self.count(SourceKind::Local, bytes);
        }
    }

    /// Everything was thrown away.
    pub(crate) fn reset(&self) {
        self.done.store(0, Ordering::Relaxed);
        lock(&self.by_source).remove(&SourceKind::Local);
        self.set_verifying(false);
    }

    pub(crate) fn demoted(&self, demotion: Demotion) {
        let mut demotions = lock(&self.demotions);
        if demotions.len() == DEMOTIONS_KEPT {
            demotions.remove(0);
        }
        demotions.push(demotion);
    }

    pub(crate) fn set_verifying(&self, verifying: bool) {
        self.verifying.store(verifying, Ordering::Relaxed);
    }

    fn count(&self, kind: SourceKind, bytes: u64) {
        *lock(&self.by_source).entry(kind).or_default() += bytes;
    }
}

/// A moment of a fetch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Bytes of all blobs; `None` until the manifest has been read.
    pub total: Option<u64>,
    /// Bytes on disk.
    pub done: u64,
    /// Bytes per kind of source.
    pub by_source: BTreeMap<SourceKind, u64>,
    /// Sources that were given up.
    pub demotions: Vec<Demotion>,
    /// Whether all bytes are here and only the proof is missing.
    pub verifying: bool,
    /// Bytes per second over the last seconds.
    pub rate: Option<u64>,
}

impl Snapshot {
    /// The source that delivered most, apart from what was here before.
    pub fn main_source(&self) -> Option<SourceKind> {
        let remote = self.by_source.iter().filter(|(kind, _)| **kind != SourceKind::Local);
        remote.max_by_key(|(_, bytes)| **bytes).map(|(kind, _)| *kind)
    }
}

/// The counters of one artifact: those of its blobs together.
#[derive(Debug, Default)]
pub struct Progress {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    total: Option<u64>,
    blobs: Vec<Arc<BlobProgress>>,
    pace: Pace,
}

impl Progress {
    pub(crate) fn begin(&self, total: u64) {
        lock(&self.state).total = Some(total);
    }

    pub(crate) fn add(&self, blob: Arc<BlobProgress>) {
        lock(&self.state).blobs.push(blob);
    }

    /// The moment.
    pub fn snapshot(&self) -> Snapshot {
        let mut state = lock(&self.state);
        let mut snapshot = Snapshot {
            total: state.total,
            ..Snapshot::default()
        };
        let mut unfinished = false;
        for blob in &state.blobs {
            snapshot.done += blob.done.load(Ordering::Relaxed);
            for (kind, bytes) in lock(&blob.by_source).iter() {
                *snapshot.by_source.entry(*kind).or_default() += bytes;
            }
            snapshot.demotions.extend(lock(&blob.demotions).iter().cloned());
            unfinished |= blob.verifying.load(Ordering::Relaxed);
        }
        let surplus = snapshot.demotions.len().saturating_sub(DEMOTIONS_KEPT);
        snapshot.demotions.drain(..surplus);
        snapshot.verifying = unfinished && snapshot.total == Some(snapshot.done);
        snapshot.rate = state.pace.rate(Instant::now(), snapshot.done);
        snapshot
    }
}

/// Bytes per second between looks that are at least a second apart.
#[derive(Debug, Default)]
struct Pace {
    last: Option<(Instant, u64)>,
    rate: Option<u64>,
}

impl Pace {
    fn rate(&mut self, now: Instant, done: u64) -> Option<u64> {
        match self.last {
            None => self.last = Some((now, done)),
            Some((then, before)) if now.duration_since(then) >= Duration::from_secs(1) => {
                let millis = u64::try_from(now.duration_since(then).as_millis()).unwrap_or(u64::MAX);
                self.rate = Some(done.saturating_sub(before).saturating_mul(1000) / millis);
                self.last = Some((now, done));
            }
            Some(_) => {}
        }
        self.rate
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_artifact_is_the_sum_of_its_blobs() {
        let progress = Progress::default();
        let [first, second] = [(); 2].map(|()| Arc::new(BlobProgress::default()));
        progress.begin(30);
        progress.add(Arc::clone(&first));
        progress.add(Arc::clone(&second));
        first.found(4);
        first.delivered(SourceKind::Dragonfly, 6);
        second.delivered(SourceKind::Registry, 20);
        second.set_verifying(true);
        let snapshot = progress.snapshot();
        assert_eq!((snapshot.done, snapshot.verifying), (30, true));
        let expected = BTreeMap::from([
            (SourceKind::Local, 4),
            (SourceKind::Dragonfly, 6),
            (SourceKind::Registry, 20),
        ]);
        assert_eq!(snapshot.by_source, expected);
        assert_eq!(snapshot.main_source(), Some(SourceKind::Registry));
    }

    #[test]
    fn a_rate_needs_a_second_between_two_looks() {
        let mut pace = Pace::default();
        let start = Instant::now();
        assert_eq!(pace.rate(start, 0), None);
        assert_eq!(pace.rate(start + Duration::from_millis(10), 10), None);
        assert_eq!(pace.rate(start + Duration::from_secs(2), 4000), Some(2000));
    }
}
