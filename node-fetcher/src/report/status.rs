//! The status of a node's weights, from the store, the running fetches and the leases.

use std::collections::BTreeMap;
use std::sync::Arc;

use artifact::Digest;
use crds::node_weights::{ArtifactState, ArtifactStatus, NodeWeightsStatus, SourceBytes, SourceKind, StoreCapacity};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::daemon::{Daemon, Outcome, Task, Wanted};
use crate::store::{Record, Store, StoreError};

/// What is on the disk.
struct Inventory {
    records: Vec<(Record, bool)>,
    capacity: StoreCapacity,
}

/// The status of this moment; `None` when the disk cannot be read.
pub(super) async fn of(
    daemon: &Arc<Daemon>,
    generation: Option<i64>,
    last: Option<&NodeWeightsStatus>,
) -> Option<NodeWeightsStatus> {
    let store = Arc::clone(daemon.store());
    let inventory = tokio::task::spawn_blocking(move || take_inventory(&store)).await.ok()?;
    let inventory = inventory
        .inspect_err(|error| tracing::warn!(%error, "cannot look at the store"))
        .ok()?;
    let wanted = daemon.wanted();
    let mut artifacts = collect(&inventory, &daemon.tasks(), &wanted);
    for (digest, artifact) in &mut artifacts {
        let mounts = daemon.store().with_leases(|leases| leases.mounts(digest));
        artifact.mounts = i32::try_from(mounts).unwrap_or(i32::MAX);
    }
    let condition = ready_condition(&artifacts, &wanted, generation, last, Timestamp::now());
    Some(NodeWeightsStatus {
        store_id: Some(daemon.store().id().to_owned()),
        capacity: Some(inventory.capacity),
        artifacts: artifacts.into_values().collect(),
        conditions: vec![condition],
        observed_generation: generation,
    })
}

fn take_inventory(store: &Store) -> Result<Inventory, StoreError> {
    let capacity = store.capacity()?;
    let records = store.records()?.into_iter().map(|record| {
        let complete = store.is_complete(&record.digest)?;
        Ok::<_, StoreError>((record, complete))
    });
    Ok(Inventory {
        records: records.collect::<Result<_, _>>()?,
        capacity: StoreCapacity {
            total_bytes: signed(capacity.total),
            free_bytes: signed(capacity.free),
            floor_bytes: signed(capacity.floor),
            stored_bytes: signed(store.stored_bytes()?),
            reserved_bytes: signed(capacity.reserved),
        },
    })
}

/// What is complete on the disk says so whatever the memory says; then what runs or has failed; then what waits.
fn collect(inventory: &Inventory, tasks: &[Arc<Task>], wanted: &[Wanted]) -> BTreeMap<Digest, ArtifactStatus> {
    let mut artifacts = BTreeMap::new();
    for item in wanted {
        artifacts.insert(item.digest.clone(), pending(&item.digest, &item.reference.to_string()));
    }
    for task in tasks {
        if let Some(status) = of_task(task) {
            artifacts.insert(task.digest.clone(), status);
        }
    }
    for (record, complete) in &inventory.records {
        if *complete {
            artifacts.insert(record.digest.clone(), of_record(record));
        } else {
            let waits = || ArtifactStatus {
                message: Some("proven again after an unclean stop, when it is used or in its turn".to_owned()),
                ..pending(&record.digest, &record.reference)
            };
            artifacts.entry(record.digest.clone()).or_insert_with(waits);
        }
    }
    artifacts
}

fn pending(digest: &Digest, reference: &str) -> ArtifactStatus {
    ArtifactStatus {
        digest: digest.to_string(),
        reference: reference.to_owned(),
        ..ArtifactStatus::default()
    }
}

/// A task that ended well is spoken for by its record; without one it was evicted.
fn of_task(task: &Task) -> Option<ArtifactStatus> {
    let now = task.progress.snapshot();
    let (state, error) = match task.outcome() {
        Outcome::Ready(_) => return None,
        Outcome::Failed(error) => (ArtifactState::Failed, Some(error)),
        Outcome::Running if now.verifying => (ArtifactState::Verifying, None),
        Outcome::Running => (ArtifactState::Fetching, None),
    };
    Some(ArtifactStatus {
        state,
        bytes_total: now.total.map(signed),
        bytes_done: signed(now.done),
        bytes_per_second: now.rate.filter(|_| state == ArtifactState::Fetching).map(signed),
        sources: sources(&now.by_source),
        demotions: now.demotions,
        reason: error.as_ref().map(|error| error.reason),
        message: error.map(|error| error.message()),
        ..pending(&task.digest, &task.reference.to_string())
    })
}

fn of_record(record: &Record) -> ArtifactStatus {
    ArtifactStatus {
        state: ArtifactState::Ready,
        bytes_total: Some(signed(record.bytes())),
        bytes_done: signed(record.bytes()),
        sources: sources(&record.sources),
        demotions: record.demotions.clone(),
        ready_at: record.ready_at.map(Time),
        ..pending(&record.digest, &record.reference)
    }
}

fn sources(by_source: &BTreeMap<SourceKind, u64>) -> Vec<SourceBytes> {
    by_source
        .iter()
        .map(|(kind, bytes)| SourceBytes {
            kind: *kind,
            bytes: signed(*bytes),
        })
        .collect()
}

fn ready_condition(
    artifacts: &BTreeMap<Digest, ArtifactStatus>,
    wanted: &[Wanted],
    generation: Option<i64>,
    last: Option<&NodeWeightsStatus>,
    now: Timestamp,
) -> Condition {
    let missing: Vec<_> = wanted
        .iter()
        .filter_map(|item| artifacts.get(&item.digest))
        .filter(|artifact| artifact.state != ArtifactState::Ready)
        .collect();
    let failed = missing.iter().find_map(|artifact| Some((artifact, artifact.reason?)));
    let (status, reason, message) = match (failed, missing.len()) {
        (Some((artifact, reason)), _) => {
            let message = artifact.message.clone().unwrap_or_else(|| artifact.reference.clone());
            ("False", reason.as_str(), message)
        }
        (None, 0) => (
            "True",
            "AllWantedReady",
            format!("{} wanted artifacts are here and proven", wanted.len()),
        ),
        (None, left) => (
            "False",
            "Fetching",
            format!("{left} of {} wanted artifacts are not here yet", wanted.len()),
        ),
    };
    let before = last.and_then(|last| last.conditions.iter().find(|condition| condition.type_ == "Ready"));
    let since = before
        .filter(|before| before.status == status)
        .map(|before| before.last_transition_time.clone());
    Condition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: generation,
        last_transition_time: since.unwrap_or(Time(now)),
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crds::node_weights::{Demotion, FetchReason};

    fn record(complete: bool) -> (Record, bool) {
        let demotion = Demotion {
            kind: SourceKind::Dragonfly,
            reason: FetchReason::EngineDown,
            blob: Digest::of(b"blob").to_string(),
            at_byte: 5,
            message: "dragonfly stopped answering at byte 5; continued from the registry".to_owned(),
        };
        let record = Record {
            digest: Digest::of(b"m"),
            reference: "r.io/m".to_owned(),
            files: Vec::new(),
            sources: BTreeMap::from([(SourceKind::Registry, 3), (SourceKind::Dragonfly, 5)]),
            demotions: vec![demotion],
            ready_at: None,
        };
        (record, complete)
    }

    fn wanted(bytes: &[u8]) -> Wanted {
        let digest = Digest::of(bytes);
        let reference = format!("r.io/m@{digest}").parse().unwrap();
        Wanted {
            digest,
            reference,
            priority: 0,
        }
    }

    fn inventory(records: Vec<(Record, bool)>) -> Inventory {
        Inventory {
            records,
            capacity: StoreCapacity::default(),
        }
    }

    #[test]
    fn what_is_on_the_disk_tells_where_it_came_from_after_a_restart() {
        let artifacts = collect(&inventory(vec![record(true)]), &[], &[]);
        let status = &artifacts[&Digest::of(b"m")];
        assert_eq!(status.state, ArtifactState::Ready);
        assert_eq!(status.sources.len(), 2);
        assert_eq!(status.demotions[0].at_byte, 5);
    }

    #[test]
    fn doubtful_and_wanted_artifacts_are_pending() {
        let artifacts = collect(&inventory(vec![record(false)]), &[], &[wanted(b"other")]);
        assert!(
            artifacts
                .values()
                .all(|artifact| artifact.state == ArtifactState::Pending)
        );
        assert_eq!(artifacts.len(), 2);
    }

    #[test]
    fn a_condition_keeps_its_time_until_its_status_flips() {
        let [first, second] =
            ["2026-11-30T00:00:00Z", "2026-11-30T01:00:00Z"].map(|text| text.parse::<Timestamp>().unwrap());
        let wanted = [wanted(b"m")];
        let waiting = collect(&inventory(Vec::new()), &[], &wanted);
        let before = ready_condition(&waiting, &wanted, Some(1), None, first);
        assert_eq!((before.status.as_str(), before.reason.as_str()), ("False", "Fetching"));
        let last = NodeWeightsStatus {
            conditions: vec![before],
            ..NodeWeightsStatus::default()
        };
        let still = ready_condition(&waiting, &wanted, Some(1), Some(&last), second);
        assert_eq!(still.last_transition_time, Time(first));
        let ready = collect(&inventory(vec![record(true)]), &[], &wanted);
        let flipped = ready_condition(&ready, &wanted, Some(1), Some(&last), second);
        assert_eq!(
            (flipped.status.as_str(), flipped.last_transition_time),
            ("True", Time(second))
        );
    }
}
