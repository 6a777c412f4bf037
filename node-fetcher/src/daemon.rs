//! The owner of all fetches of a node. Callers wait for a task; a task never waits for its callers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use artifact::Digest;
use registry::Reference;
use tokio::sync::{Notify, watch};

use crate::fetch::{FetchError, Fetcher, Haste, Progress, Urgency};
use crate::source::Access;
use crate::store::{Record, Store};

/// Between attempts at something that no pod waits for.
const FIRST_PAUSE: Duration = Duration::from_secs(15);
const LONGEST_PAUSE: Duration = Duration::from_mins(10);
/// Failed tasks that are shown before the oldest is forgotten.
const FAILURES_KEPT: usize = 32;

/// How a task stands.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// Under way.
    Running,
    /// Complete.
    Ready(Arc<Record>),
    /// Given up.
    Failed(FetchError),
}

/// One artifact that is, or was, being fetched.
#[derive(Debug)]
pub struct Task {
    /// Digest of the manifest.
    pub digest: Digest,
    /// Where it comes from.
    pub reference: Reference,
    /// How far it is.
    pub progress: Arc<Progress>,
    haste: Haste,
    outcome: watch::Receiver<Outcome>,
    ended: Mutex<Option<Instant>>,
    failures: u32,
}

impl Task {
    /// How it stands now.
    pub fn outcome(&self) -> Outcome {
        self.outcome.borrow().clone()
    }

    /// Waits until it ends, at most so long; returns how it stands then.
    pub async fn wait(&self, bound: Duration) -> Outcome {
        let mut outcome = self.outcome.clone();
        let ended = outcome.wait_for(|outcome| !matches!(outcome, Outcome::Running));
        // Running out of time is an answer too.
        let _ = tokio::time::timeout(bound, ended).await;
        self.outcome()
    }

    fn is_running(&self) -> bool {
        matches!(*self.outcome.borrow(), Outcome::Running)
    }

    /// How long the next attempt at a failed task waits when no pod asks for it.
    fn rests(&self, now: Instant) -> bool {
        let ended = *self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = (FIRST_PAUSE * (1 << self.failures.min(6))).min(LONGEST_PAUSE);
        ended.is_some_and(|ended| now < ended + pause)
    }
}

/// An artifact that the node should hold without a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Digest of the manifest.
    pub digest: Digest,
    /// Where it is.
    pub reference: Reference,
    /// Larger comes first.
    pub priority: i32,
}

/// All fetches of a node.
#[derive(Debug)]
pub struct Daemon {
    fetcher: Arc<Fetcher>,
    tasks: Mutex<BTreeMap<Digest, Arc<Task>>>,
    wanted: watch::Sender<Vec<Wanted>>,
    changed: Notify,
}

impl Daemon {
    /// A daemon with nothing to do.
    pub fn new(fetcher: Arc<Fetcher>) -> Arc<Self> {
        let (wanted, _) = watch::channel(Vec::new());
        Arc::new(Self {
            fetcher,
            tasks: Mutex::default(),
            wanted,
            changed: Notify::new(),
        })
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        self.fetcher.store()
    }

    /// All tasks of this run of the program.
    pub fn tasks(&self) -> Vec<Arc<Task>> {
        self.lock().values().cloned().collect()
    }

    /// What the controller wants here, best first.
    pub fn wanted(&self) -> Vec<Wanted> {
        self.wanted.borrow().clone()
    }

    /// Returns when a task has begun or ended, or what is wanted has changed.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Says that a status would look different now.
    pub fn notify(&self) {
        self.changed.notify_one();
    }

    /// The task that brings an artifact: the running one, or a new one.
    pub fn ensure(
        self: &Arc<Self>,
        reference: &Reference,
        digest: &Digest,
        access: &Access,
        urgency: Urgency,
    ) -> Arc<Task> {
        let mut tasks = self.lock();
        let known = tasks.get(digest);
        if let Some(task) = known.filter(|task| task.is_running()) {
            if urgency == Urgency::Serving {
                task.haste.hurry();
            }
            return Arc::clone(task);
        }
        let failures = known
            .filter(|task| matches!(task.outcome(), Outcome::Failed(_)))
            .map_or(0, |task| task.failures + 1);
        let (sender, outcome) = watch::channel(Outcome::Running);
        let task = Arc::new(Task {
            digest: digest.clone(),
            reference: reference.clone(),
            progress: Arc::default(),
            haste: Haste::of(urgency),
            outcome,
            ended: Mutex::default(),
            failures,
        });
        tasks.insert(digest.clone(), Arc::clone(&task));
        forget_old_failures(&mut tasks);
        drop(tasks);
        tokio::spawn(Arc::clone(self).run(Arc::clone(&task), access.clone(), sender));
        task
    }

    async fn run(self: Arc<Self>, task: Arc<Task>, access: Access, sender: watch::Sender<Outcome>) {
        self.notify();
        let fetched = self
            .fetcher
            .fetch(&task.reference, &task.digest, &access, &task.haste, &task.progress)
            .await;
        *task.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let outcome = match fetched {
            Ok(record) => Outcome::Ready(Arc::new(record)),
            Err(error) => {
                tracing::warn!(artifact = %task.reference, reason = error.reason.as_str(), "{}", error.message());
                Outcome::Failed(error)
            }
        };
        sender.send_replace(outcome);
        self.notify();
    }

    /// Takes up what the controller wants; it is held from now on, and fetched by [`Self::prefetch`].
    pub fn want(&self, mut wanted: Vec<Wanted>) {
        wanted.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.digest.cmp(&b.digest)));
        let digests: BTreeSet<Digest> = wanted.iter().map(|item| item.digest.clone()).collect();
        let unwanted = self
            .wanted()
            .into_iter()
            .map(|item| item.digest)
            .filter(|digest| !digests.contains(digest));
        let failed = |task: &Arc<Task>| matches!(task.outcome(), Outcome::Failed(_));
        let mut tasks = self.lock();
        for digest in unwanted {
            if tasks.get(&digest).is_some_and(failed) {
                tasks.remove(&digest);
            }
        }
        drop(tasks);
        self.store().with_leases(|leases| leases.want(digests));
        let changed = self.wanted.send_if_modified(|known| {
            let differs = *known != wanted;
            *known = wanted;
            differs
        });
        if changed {
            self.notify();
        }
    }

    /// Fetches what is wanted, one artifact at a time, for ever.
    pub async fn prefetch(self: &Arc<Self>, access: Access) {
        let mut wanted = self.wanted.subscribe();
        loop {
            match self.next_wanted().await {
                Some(item) => {
                    let task = self.ensure(&item.reference, &item.digest, &access, Urgency::Prefetch);
                    // A new list may put something else first, but never stops what has begun.
                    task.wait(Duration::MAX).await;
                }
                None => {
                    let _ = tokio::time::timeout(FIRST_PAUSE, wanted.changed()).await;
                }
            }
        }
    }

    /// The first wanted artifact that is neither here nor resting after a failure.
    async fn next_wanted(&self) -> Option<Wanted> {
        let wanted = self.wanted();
        let complete = self
            .fetcher
            .blocking({
                let digests: Vec<_> = wanted.iter().map(|item| item.digest.clone()).collect();
                move |store| {
                    digests
                        .iter()
                        .map(|digest| store.is_complete(digest))
                        .collect::<Result<Vec<_>, _>>()
                }
            })
            .await;
        let complete = complete
            .inspect_err(|error| tracing::warn!(%error, "cannot look at the store"))
            .ok()?;
        let now = Instant::now();
        let tasks = self.lock();
        let rests = |item: &Wanted| tasks.get(&item.digest).is_some_and(|task| task.rests(now));
        wanted
            .into_iter()
            .zip(complete)
            .find(|(item, complete)| !complete && !rests(item))
            .map(|(item, _)| item)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Digest, Arc<Task>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget_old_failures(tasks: &mut BTreeMap<Digest, Arc<Task>>) {
    let mut ended: Vec<_> = tasks
        .values()
        .filter(|task| matches!(task.outcome(), Outcome::Failed(_)))
        .map(|task| {
            (
                *task.ended.lock().unwrap_or_else(PoisonError::into_inner),
                task.digest.clone(),
            )
        })
        .collect();
    ended.sort();
    let surplus = ended.len().saturating_sub(FAILURES_KEPT);
    for (_, digest) in ended.drain(..surplus) {
        tasks.remove(&digest);
    }
}
