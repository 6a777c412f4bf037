//! Leader election over a Lease: whoever holds it writes. Every take and renewal is a PUT with the resourceVersion that was
//! read, so two candidates can never both succeed; a refused PUT means that somebody else was faster.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a holder keeps the lease without renewing it.
const DURATION: Duration = Duration::from_secs(15);
/// A leader that could not renew for this long stops writing, before others may take over.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Time between two attempts.
const PERIOD: Duration = Duration::from_secs(2);

/// What to do about a lease that was read.
#[derive(Debug, PartialEq)]
pub enum Bid {
    /// Write this lease: it renews ours or takes one that is free.
    Write(Box<Lease>),
    /// Another candidate holds it.
    Wait,
}

/// What one candidate remembers of the lease. Clocks of other machines are not trusted: a lease counts as abandoned when it
/// has not changed for its whole duration while we watched.
#[derive(Debug, Default)]
pub struct Sighting {
    version: Option<String>,
    seen_at: Option<Instant>,
}

/// Decides on a lease that was read, from the resourceVersion that it had when it last changed under our eyes.
pub fn bid(lease: Lease, identity: &str, sighting: &mut Sighting, now: Instant, wall: Timestamp) -> Bid {
    if sighting.version != lease.metadata.resource_version {
        *sighting = Sighting {
            version: lease.metadata.resource_version.clone(),
            seen_at: Some(now),
        };
    }
    let spec = lease.spec.clone().unwrap_or_default();
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let length = spec
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
        .map_or(DURATION, Duration::from_secs);
    let abandoned = sighting.seen_at.is_some_and(|seen| now.duration_since(seen) >= length);
    if holder == identity || holder.is_empty() || abandoned {
        Bid::Write(Box::new(claim(lease, &spec, identity, wall)))
    } else {
        Bid::Wait
    }
}

fn claim(mut lease: Lease, before: &LeaseSpec, identity: &str, wall: Timestamp) -> Lease {
    let ours = before.holder_identity.as_deref() == Some(identity);
    let transitions = before.lease_transitions.unwrap_or(0);
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
        acquire_time: if ours {
            before.acquire_time.clone()
        } else {
            Some(MicroTime(wall))
        },
        renew_time: Some(MicroTime(wall)),
        lease_transitions: Some(if ours { transitions } else { transitions + 1 }),
        ..LeaseSpec::default()
    });
    lease
}

/// One candidate for the leadership.
pub struct Candidate {
    api: Api<Lease>,
    name: String,
    identity: String,
}

impl Candidate {
    /// A candidate that is told apart by its identity, usually the pod's name.
    pub fn new(client: Client, namespace: &str, name: &str, identity: String) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity,
        }
    }

    /// Takes part for ever; the channel says whether this candidate leads.
    pub async fn run(self, leads: watch::Sender<bool>) {
        let mut sighting = Sighting::default();
        let mut renewed: Option<Instant> = None;
        loop {
            match tokio::time::timeout(RENEW_DEADLINE, self.attempt(&mut sighting)).await {
                Ok(Ok(true)) => renewed = Some(Instant::now()),
                Ok(Ok(false)) => renewed = None,
                Ok(Err(error)) => tracing::warn!(%error, lease = self.name, "cannot read or write the leader lease"),
                Err(_) => tracing::warn!(
                    lease = self.name,
                    "the API server did not answer about the leader lease"
                ),
            }
            let lead = renewed.is_some_and(|at| at.elapsed() < RENEW_DEADLINE);
            leads.send_if_modified(|before| {
                let changed = *before != lead;
                *before = lead;
                changed
            });
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// Whether we hold the lease after this attempt.
    async fn attempt(&self, sighting: &mut Sighting) -> Result<bool, kube::Error> {
        let Some(lease) = self.api.get_opt(&self.name).await? else {
            let fresh = Lease {
                metadata: ObjectMeta {
                    name: Some(self.name.clone()),
                    ..ObjectMeta::default()
                },
                spec: None,
            };
            let mine = claim(fresh, &LeaseSpec::default(), &self.identity, Timestamp::now());
            return lost_or(self.api.create(&PostParams::default(), &mine).await);
        };
        match bid(lease, &self.identity, sighting, Instant::now(), Timestamp::now()) {
            Bid::Write(mine) => lost_or(self.api.replace(&self.name, &PostParams::default(), &mine).await),
            Bid::Wait => Ok(false),
        }
    }

    /// Gives the lease up, so that a follower need not wait for it to run out.
    pub async fn release(&self) -> Result<(), kube::Error> {
        let Some(mut lease) = self.api.get_opt(&self.name).await? else {
            return Ok(());
        };
        let ours = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()) == Some(self.identity.as_str());
        if let Some(spec) = lease.spec.as_mut().filter(|_| ours) {
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
            lost_or(self.api.replace(&self.name, &PostParams::default(), &lease).await)?;
        }
        Ok(())
    }
}

/// 409 is an answer: another candidate wrote first.
fn lost_or(written: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match written {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: Option<&str>, version: &str) -> Lease {
        Lease {
            metadata: ObjectMeta {
                resource_version: Some(version.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: holder.map(str::to_owned),
                lease_duration_seconds: Some(15),
                lease_transitions: Some(4),
                ..LeaseSpec::default()
            }),
        }
    }

    fn written(bid: Bid) -> LeaseSpec {
        match bid {
            Bid::Write(lease) => lease.spec.unwrap(),
            Bid::Wait => panic!("waits"),
        }
    }

    #[tokio::test]
    async fn a_free_lease_is_taken_and_the_transition_counted() {
        let taken = written(bid(
            lease(None, "1"),
            "a",
            &mut Sighting::default(),
            Instant::now(),
            Timestamp::UNIX_EPOCH,
        ));
        assert_eq!(
            (taken.holder_identity.as_deref(), taken.lease_transitions),
            (Some("a"), Some(5))
        );
        assert_eq!(taken.acquire_time, Some(MicroTime(Timestamp::UNIX_EPOCH)));
    }

    #[tokio::test]
    async fn our_own_lease_is_renewed_without_a_transition() {
        let renewed = written(bid(
            lease(Some("a"), "1"),
            "a",
            &mut Sighting::default(),
            Instant::now(),
            Timestamp::UNIX_EPOCH,
        ));
        assert_eq!((renewed.lease_transitions, renewed.acquire_time), (Some(4), None));
    }

    #[tokio::test]
    async fn a_lease_that_keeps_changing_is_never_taken() {
        let (mut sighting, start) = (Sighting::default(), Instant::now());
        for step in 0..20u32 {
            let now = start + Duration::from_secs(10) * step;
            let answer = bid(
                lease(Some("b"), &step.to_string()),
                "a",
                &mut sighting,
                now,
                Timestamp::UNIX_EPOCH,
            );
            assert_eq!(answer, Bid::Wait);
        }
    }

    #[tokio::test]
    async fn a_lease_that_stands_still_for_its_duration_is_taken() {
        let (mut sighting, start) = (Sighting::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(
            bid(lease(Some("b"), "7"), "a", &mut sighting, at(0), Timestamp::UNIX_EPOCH),
            Bid::Wait
        );
        assert_eq!(
            bid(lease(Some("b"), "7"), "a", &mut sighting, at(14), Timestamp::UNIX_EPOCH),
            Bid::Wait
        );
        let taken = written(bid(
            lease(Some("b"), "7"),
            "a",
            &mut sighting,
            at(15),
            Timestamp::UNIX_EPOCH,
        ));
        assert_eq!(taken.holder_identity.as_deref(), Some("a"));
    }
}
