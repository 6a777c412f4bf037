//! Who holds an artifact: volumes of pods, pods that wait for it, and what the controller wants here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use artifact::Digest;

/// A pod that waits asks again every two minutes at the latest; one that does not is gone.
const WAITING: Duration = Duration::from_mins(10);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Lease {
    artifact: Digest,
    /// A mounted lease has no end, a waiting one ends when nobody asks again.
    until: Option<Instant>,
}

/// The holders of artifacts. Kept in memory only: the mount table knows the rest after a restart.
#[derive(Debug, Default)]
pub struct Leases {
    by_volume: BTreeMap<String, Lease>,
    wanted: BTreeSet<Digest>,
}

impl Leases {
    /// A pod waits for an artifact at this place.
    pub fn wait(&mut self, volume: &str, artifact: &Digest, now: Instant) {
        let mounted = self.by_volume.get(volume).is_some_and(|lease| lease.until.is_none());
        if !mounted {
            let lease = Lease {
                artifact: artifact.clone(),
                until: Some(now + WAITING),
            };
            self.by_volume.insert(volume.to_owned(), lease);
        }
    }

    /// The artifact is mounted there.
    pub fn mount(&mut self, volume: &str, artifact: &Digest) {
        self.by_volume.insert(
            volume.to_owned(),
            Lease {
                artifact: artifact.clone(),
                until: None,
            },
        );
    }

    /// Nothing is mounted there any more.
    pub fn release(&mut self, volume: &str) {
        self.by_volume.remove(volume);
    }

    /// What should stay here although no pod holds it.
    pub fn want(&mut self, wanted: BTreeSet<Digest>) {
        self.wanted = wanted;
    }

    /// Whether the artifact may not be evicted.
    pub fn is_held(&self, artifact: &Digest, now: Instant) -> bool {
        self.wanted.contains(artifact)
            || self
                .by_volume
                .values()
                .any(|lease| lease.artifact == *artifact && lease.until.is_none_or(|until| until > now))
    }

    /// How many volumes have anything mounted.
    pub fn all_mounts(&self) -> usize {
        self.by_volume.values().filter(|lease| lease.until.is_none()).count()
    }

    /// How many volumes have it mounted.
    pub fn mounts(&self, artifact: &Digest) -> usize {
        self.by_volume
            .values()
            .filter(|lease| lease.artifact == *artifact && lease.until.is_none())
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_pod_holds_for_a_while_and_a_mount_until_it_is_released() {
        let artifact = Digest::of(b"m");
        let start = Instant::now();
        let later = start + WAITING + Duration::from_secs(1);
        let mut leases = Leases::default();
        leases.wait("/pod/a", &artifact, start);
        assert!(leases.is_held(&artifact, start));
        assert!(!leases.is_held(&artifact, later));
        assert_eq!(leases.mounts(&artifact), 0);
        leases.mount("/pod/a", &artifact);
        leases.wait("/pod/a", &artifact, start);
        assert!(leases.is_held(&artifact, later));
        assert_eq!(leases.mounts(&artifact), 1);
        leases.release("/pod/a");
        assert!(!leases.is_held(&artifact, start));
    }

    #[test]
    fn what_the_controller_wants_is_held_without_a_pod() {
        let artifact = Digest::of(b"m");
        let mut leases = Leases::default();
        leases.want(BTreeSet::from([artifact.clone()]));
        assert!(leases.is_held(&artifact, Instant::now()));
        leases.want(BTreeSet::new());
        assert!(!leases.is_held(&artifact, Instant::now()));
    }
}
