//! What the pods of a deployment show: readiness, restarts, and what stops them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crds::Reason;
use crds::node_weights::{ARTIFACT_ATTRIBUTE, WEIGHTS_DRIVER};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};
use kube::ResourceExt as _;

use crate::build::CONTAINER;
use crate::finding::Finding;

/// So many restarts make a habit.
const HABIT: i32 = 3;
/// A restart that is this long ago is forgiven, in seconds.
const FORGIVEN: i64 = 300;
/// A pod may take this long to get its volumes and devices before it counts as held up, in seconds.
const PREPARATION: i64 = 120;

/// All pods, looked at.
pub(super) struct Pods {
    /// Pods that answer and are to stay.
    pub(super) ready: usize,
    /// Pods that are to stay.
    pub(super) staying: Vec<Arc<Pod>>,
    /// Pods that are on their way out.
    pub(super) leaving: usize,
    /// The worst of what stops pods, and how many it stops.
    pub(super) trouble: Option<(usize, Finding)>,
}

impl Pods {
    /// Pods that exist.
    pub(super) fn total(&self) -> usize {
        self.staying.len() + self.leaving
    }

    /// The one digest that all ready pods run for this image.
    pub(super) fn image_digest(&self, image: &str) -> Option<String> {
        let running = self
            .staying
            .iter()
            .filter(|pod| is_ready(pod) && asks_for(pod, image))
            .filter_map(|pod| engine(pod));
        let digests: BTreeSet<&str> = running
            .filter_map(|status| status.image_id.rsplit_once('@'))
            .map(|(_, digest)| digest)
            .collect();
        let one = if digests.len() == 1 {
            digests.into_iter().next()
        } else {
            None
        };
        one.map(str::to_owned)
    }
}

fn asks_for(pod: &Pod, image: &str) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .filter(|container| container.name == CONTAINER)
        .any(|container| container.image.as_deref() == Some(image))
}

/// Looks at all pods.
pub(super) fn look(pods: &[Arc<Pod>], now: Timestamp) -> Pods {
    let (leaving, staying): (Vec<_>, Vec<_>) = pods.iter().cloned().partition(|pod| is_leaving(pod));
    let ready = staying.iter().filter(|pod| is_ready(pod)).count();
    let mut troubles: Vec<Finding> = staying.iter().filter_map(|pod| trouble(pod, now)).collect();
    troubles.sort_by_key(|finding| weight(finding.reason));
    let worst = troubles.first().cloned();
    let trouble = worst.map(|worst| {
        (
            troubles.iter().filter(|finding| finding.reason == worst.reason).count(),
            worst,
        )
    });
    Pods {
        ready,
        staying,
        leaving: leaving.len(),
        trouble,
    }
}

/// What a person should see first.
fn weight(reason: Reason) -> u8 {
    match reason {
        Reason::EngineCrashing => 0,
        Reason::ImagePullFailed => 1,
        Reason::Unschedulable => 2,
        _ => 3,
    }
}

/// Deleted, or evicted and only kept for its message.
fn is_leaving(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_some() || phase == Some("Failed")
}

/// Whether the pod answers.
pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .filter(|condition| condition.type_ == "Ready")
        .any(|condition| condition.status == "True")
}

/// Whether the engine's container has ever started, which it cannot without its weights' volume.
pub(super) fn has_started(pod: &Pod) -> bool {
    engine(pod).is_some_and(|status| status.container_id.as_ref().is_some_and(|id| !id.is_empty()))
}

/// Whether the pod is of another version: it mounts weights, and not these.
pub(super) fn mounts_another(pod: &Pod, digest: &str) -> bool {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let artifacts = volumes
        .filter_map(|volume| volume.csi.as_ref().filter(|csi| csi.driver == WEIGHTS_DRIVER))
        .filter_map(|csi| csi.volume_attributes.as_ref()?.get(ARTIFACT_ATTRIBUTE));
    let mut artifacts = artifacts.peekable();
    artifacts.peek().is_some() && artifacts.all(|artifact| !artifact.ends_with(digest))
}

fn engine(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status
        .as_ref()?
        .container_statuses
        .iter()
        .flatten()
        .find(|status| status.name == CONTAINER)
}

fn trouble(pod: &Pod, now: Timestamp) -> Option<Finding> {
    unschedulable(pod).or_else(|| {
        let status = engine(pod)?;
        crash(pod, status, now).or_else(|| waits(pod, status, now))
    })
}

fn unschedulable(pod: &Pod) -> Option<Finding> {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let unplaced = conditions.rfind(|condition| condition.type_ == "PodScheduled" && condition.status == "False")?;
    let why = unplaced
        .message
        .as_deref()
        .or(unplaced.reason.as_deref())
        .unwrap_or("the scheduler gives no reason");
    Some(Finding::new(
        Reason::Unschedulable,
        format!("{}: {why}", pod.name_any()),
    ))
}

fn crash(pod: &Pod, status: &ContainerStatus, now: Timestamp) -> Option<Finding> {
    let waiting = status
        .state
        .as_ref()
        .and_then(|state| state.waiting.as_ref())
        .and_then(|waiting| waiting.reason.as_deref());
    let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let recent = last
        .and_then(|terminated| terminated.finished_at.as_ref())
        .is_some_and(|finished| now.as_second() - finished.0.as_second() < FORGIVEN);
    let crashes = waiting == Some("CrashLoopBackOff") || (status.restart_count >= HABIT && recent);
    crashes.then(|| {
        let how = last.map_or_else(|| "it stops again and again".to_owned(), describe_end);
        let text = format!(
            "{}: {how}, {} restarts; see `kubectl logs --previous`",
            pod.name_any(),
            status.restart_count
        );
        Finding::new(Reason::EngineCrashing, text)
    })
}

fn describe_end(ended: &ContainerStateTerminated) -> String {
    match ended.reason.as_deref() {
        Some("OOMKilled") => "the engine was killed for using more memory than its limit".to_owned(),
        _ => format!("the engine ended with code {}", ended.exit_code),
    }
}

fn waits(pod: &Pod, status: &ContainerStatus, now: Timestamp) -> Option<Finding> {
    let waiting = status.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref()?;
    let why = waiting.message.as_deref().unwrap_or(reason);
    let text = format!("{}: {why}", pod.name_any());
    match reason {
        "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => {
            Some(Finding::new(Reason::ImagePullFailed, text))
        }
        "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
            Some(Finding::new(Reason::PodNotPrepared, text))
        }
        _ => {
            let created = pod.metadata.creation_timestamp.as_ref()?;
            let age = now.as_second() - created.0.as_second();
            let text = format!("{}: {why} for {} minutes; see its events", pod.name_any(), age / 60);
            (age > PREPARATION).then(|| Finding::new(Reason::PodNotPrepared, text))
        }
    }
}
