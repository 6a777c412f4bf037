//! Weights, workload and the sum of all.

use std::collections::BTreeMap;

use crds::Reason;
use crds::node_weights::{ArtifactState, ArtifactStatus};
use k8s_openapi::api::apps::v1::Deployment;

use super::pods::{Pods, has_started, mounts_another};
use crate::build::ANNOTATION_STRATEGY;
use crate::finding::Finding;
use crate::observed::{Model, Observed};
use crate::validate::count;

fn wanted(observed: &Observed) -> usize {
    usize::try_from(observed.deployment.spec.replicas).unwrap_or(0)
}

/// Are the weights on the nodes of all pods?
pub(super) fn weights(observed: &Observed, built: bool, seen: &Pods) -> Finding {
    match &observed.model {
        Ok(model) if model.weights_absent => return facts_only(model),
        _ if observed.workload.is_none() && !built => {
            return Finding::new(Reason::WeightsNotWanted, "nothing has been decided yet");
        }
        _ if wanted(observed) == 0 => return Finding::new(Reason::WeightsNotNeeded, "no replica is wanted"),
        _ => (),
    }
    let digest = observed.artifact_digest();
    let places: BTreeMap<&str, bool> = seen
        .staying
        .iter()
        .filter(|pod| digest.is_none_or(|digest| !mounts_another(pod, digest)))
        .filter_map(|pod| Some((pod.spec.as_ref()?.node_name.as_deref()?, has_started(pod))))
        .fold(BTreeMap::new(), |mut places, (node, started)| {
            *places.entry(node).or_insert(false) |= started;
            places
        });
    if places.is_empty() {
        return Finding::new(Reason::WeightsNotReported, "no pod of this version has a node yet");
    }
    on_nodes(observed, &places)
}

fn facts_only(model: &Model) -> Finding {
    let source = model
        .facts
        .checkpoint
        .as_ref()
        .map_or_else(|| "SOURCE".to_owned(), |name| format!("hf://{name}"));
    let text = format!(
        "{} holds facts and no weights; push them with `model-packer push {source} TARGET` and name that target in spec.model.artifact",
        model.reference
    );
    Finding::new(Reason::FactsOnly, text)
}

fn on_nodes(observed: &Observed, places: &BTreeMap<&str, bool>) -> Finding {
    let status = |node: &str| observed.weights.get(node);
    let failed = places.keys().find_map(|node| {
        let artifact = status(node).filter(|artifact| artifact.state == ArtifactState::Failed)?;
        Some(Finding::new(
            Reason::WeightsFailed,
            format!("{node}: {}", failure(artifact)),
        ))
    });
    if let Some(failed) = failed {
        return failed;
    }
    let here = |(node, started): &(&&str, &bool)| {
        **started || status(node).is_some_and(|artifact| artifact.state == ArtifactState::Ready)
    };
    let (present, missing): (Vec<_>, Vec<_>) = places.iter().partition(here);
    let Some((first, _)) = missing.first() else {
        return Finding::new(Reason::WeightsPresent, format!("on {}", count(present.len(), "node")));
    };
    let share = format!("{} of {} have them", present.len(), count(places.len(), "node"));
    match missing.iter().find_map(|(node, _)| Some((node, status(node)?))) {
        Some((node, artifact)) => Finding::new(
            Reason::WeightsFetching,
            format!("{share}; {node}: {}", progress(artifact)),
        ),
        None => Finding::new(
            Reason::WeightsNotReported,
            format!("{share}; {first} says nothing about them"),
        ),
    }
}

fn failure(artifact: &ArtifactStatus) -> String {
    let reason = artifact.reason.map_or("Failed", |reason| reason.as_str());
    artifact
        .message
        .as_ref()
        .map_or_else(|| reason.to_owned(), |message| format!("{reason}: {message}"))
}

/// In steps of ten percent: a status that moves with every byte would be written all the time.
fn progress(artifact: &ArtifactStatus) -> String {
    let total = artifact.bytes_total.filter(|total| *total > 0);
    match (artifact.state, total) {
        (ArtifactState::Verifying, _) => "all bytes are there and being verified".to_owned(),
        (ArtifactState::Fetching, Some(total)) => {
            format!(
                "{} % of {} MiB",
                artifact.bytes_done.saturating_mul(10) / total * 10,
                total >> 20
            )
        }
        (ArtifactState::Fetching, None) => "the fetch has begun".to_owned(),
        _ => "waits for its turn".to_owned(),
    }
}

/// Do all pods run and answer?
pub(super) fn workload(observed: &Observed, applied: Result<(), Finding>, built: bool, seen: &Pods) -> Finding {
    match (applied, &observed.workload, built) {
        (Err(refused), ..) => refused,
        (Ok(()), Some(workload), _) => of_workload(observed, workload, seen),
        (Ok(()), None, true) => Finding::new(Reason::ReplicasStarting, "the workload was made"),
        (Ok(()), None, false) => Finding::new(Reason::NotDecided, "nothing has been built yet"),
    }
}

fn of_workload(observed: &Observed, workload: &Deployment, seen: &Pods) -> Finding {
    let wanted = wanted(observed);
    if let Some((number, trouble)) = &seen.trouble {
        let whose = format!("{number} of {}", count(seen.staying.len(), "replica"));
        return Finding::new(trouble.reason, format!("{whose}: {}", trouble.message));
    }
    let status = workload.status.clone().unwrap_or_default();
    if status.observed_generation < workload.metadata.generation {
        return Finding::new(Reason::RollingOut, "Kubernetes has not looked at the new version yet");
    }
    let (all, updated) = (status.replicas.unwrap_or(0), status.updated_replicas.unwrap_or(0));
    if all > updated {
        let how = workload
            .metadata
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(ANNOTATION_STRATEGY));
        let how = how.map_or(String::new(), |how| format!(" ({how})"));
        return Finding::new(
            Reason::RollingOut,
            format!("{updated} of {} have the new version{how}", count(wanted, "replica")),
        );
    }
    if wanted == 0 && seen.total() == 0 {
        return Finding::new(Reason::ScaledToZero, "no replica is wanted, and none runs");
    }
    if seen.ready < wanted || seen.staying.len() != wanted {
        return Finding::new(
            Reason::ReplicasStarting,
            format!("{} of {} answer", seen.ready, count(wanted, "replica")),
        );
    }
    Finding::new(Reason::ReplicasReady, format!("{} answer", count(wanted, "replica")))
}

/// The sum: the status of Ready, and the finding that holds it.
pub(super) fn ready(observed: &Observed, seen: &Pods, steps: &[&Finding; 5]) -> (&'static str, Finding) {
    let wanted = wanted(observed);
    let [.., weights, workload] = steps;
    // Pods that answer serve, whatever the registry or the matrix say meanwhile; but an engine without weights serves nothing.
    let answers = if weights.reason == Reason::FactsOnly {
        0
    } else {
        seen.ready
    };
    if wanted > 0 && answers >= wanted {
        return (
            "True",
            Finding::new(Reason::Serving, format!("{} answer", count(answers, "replica"))),
        );
    }
    let held = worst(steps).unwrap_or(workload);
    if wanted > 0 && answers > 0 {
        let text = format!(
            "{answers} of {} answer; {}: {}",
            count(wanted, "replica"),
            held.reason,
            held.message
        );
        return ("False", Finding::new(Reason::ServingPartly, text));
    }
    let status = if held.reason.status() == "Unknown" {
        "Unknown"
    } else {
        "False"
    };
    (status, held.clone())
}

/// What a person should read: the gravest of what does not hold, and the earliest of those.
fn worst<'a>(steps: &[&'a Finding; 5]) -> Option<&'a Finding> {
    let open = steps.iter().copied().filter(|finding| !finding.holds());
    open.rev().max_by_key(|finding| finding.reason.severity())
}
