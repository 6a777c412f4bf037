//! Writes the status once, only when it says something new, and tells what changed as events.

use crds::{ModelDeployment, ModelDeploymentStatus, Reason, Severity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType};
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::json;

use crate::apply::FIELD_MANAGER;
use crate::reconcile::Context;

/// Longest note of an event; the API server refuses more than a kilobyte.
const NOTE_LIMIT: usize = 1000;

/// Why a status was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The object has changed since it was read.
    #[error("the object has changed since it was read")]
    Outdated,
    /// The API server could not be asked, or failed.
    #[error("the API server did not take it")]
    Failed(#[source] Box<kube::Error>),
}

/// Writes the status, fenced by the version that was read: a decision from an old look at the object is never recorded.
pub async fn write_status(
    context: &Context,
    before: &ModelDeployment,
    status: &ModelDeploymentStatus,
) -> Result<(), WriteError> {
    if before.status.as_ref() == Some(status) {
        return Ok(());
    }
    let (name, namespace) = (before.name_any(), before.namespace().unwrap_or_default());
    let patch = json!({
        "apiVersion": ModelDeployment::api_version(&()),
        "kind": ModelDeployment::kind(&()),
        "metadata": { "name": name, "resourceVersion": before.resource_version() },
        "status": status,
    });
    let api: Api<ModelDeployment> = Api::namespaced(context.client.clone(), &namespace);
    context.metrics.count_write();
    let written = api
        .patch_status(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(patch))
        .await;
    match written {
        Ok(_) => (),
        Err(kube::Error::Api(answer)) if answer.code == 409 => return Err(WriteError::Outdated),
        // It was deleted meanwhile: nothing is left to report on.
        Err(kube::Error::Api(answer)) if answer.code == 404 => return Ok(()),
        Err(error) => return Err(WriteError::Failed(Box::new(error))),
    }
    tell(context, before, status).await;
    Ok(())
}

async fn tell(context: &Context, before: &ModelDeployment, status: &ModelDeploymentStatus) {
    let old = before
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    for condition in news(old, &status.conditions) {
        let event = event(condition);
        if let Err(error) = context.recorder.publish(&event, &before.object_ref(&())).await {
            tracing::warn!(%error, reason = condition.reason, "an event was not published");
        }
    }
}

/// Conditions whose reason is new and worth telling. `Ready` only repeats, so it is told when its status changes.
fn news<'a>(old: &[Condition], new: &'a [Condition]) -> Vec<&'a Condition> {
    let before = |condition: &Condition| old.iter().find(|old| old.type_ == condition.type_);
    new.iter()
        .filter(|condition| {
            let before = before(condition);
            if condition.type_ == "Ready" {
                let was = before.map_or("False", |before| before.status.as_str());
                return (was == "True") != (condition.status == "True");
            }
            let changed = before.is_none_or(|before| before.reason != condition.reason);
            changed && Reason::parse(&condition.reason).is_some_and(|reason| reason.severity() != Severity::Progress)
        })
        .collect()
}

fn event(condition: &Condition) -> Event {
    let bad = Reason::parse(&condition.reason).is_some_and(|reason| reason.severity() >= Severity::Warning);
    let mut note = condition.message.clone();
    if note.len() > NOTE_LIMIT {
        let end = (0..NOTE_LIMIT)
            .rev()
            .find(|&index| note.is_char_boundary(index))
            .unwrap_or(0);
        note.truncate(end);
    }
    Event {
        type_: if bad { EventType::Warning } else { EventType::Normal },
        reason: condition.reason.clone(),
        note: Some(note),
        action: condition.type_.clone(),
        secondary: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crds::{ConditionType, condition};
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn of(reason: Reason) -> Condition {
        condition(
            reason.condition(),
            reason,
            "text",
            Some(1),
            &Time(Timestamp::UNIX_EPOCH),
        )
    }

    fn ready(status: &str, reason: Reason) -> Condition {
        Condition {
            status: status.to_owned(),
            ..condition(
                ConditionType::Ready,
                reason,
                "text",
                Some(1),
                &Time(Timestamp::UNIX_EPOCH),
            )
        }
    }

    #[test]
    fn only_a_new_reason_is_told_and_progress_is_not() {
        let old = vec![
            of(Reason::ModelRead),
            of(Reason::ReplicasStarting),
            ready("False", Reason::ReplicasStarting),
        ];
        let new = vec![
            of(Reason::ModelRead),
            of(Reason::EngineCrashing),
            ready("False", Reason::EngineCrashing),
        ];
        let told: Vec<_> = news(&old, &new)
            .into_iter()
            .map(|condition| condition.reason.as_str())
            .collect();
        assert_eq!(told, ["EngineCrashing"]);
        let starting = vec![of(Reason::ReplicasStarting)];
        assert!(news(&[], &starting).is_empty());
    }

    #[test]
    fn ready_is_told_when_it_flips() {
        let (no, yes) = (
            vec![ready("False", Reason::FactsOnly)],
            vec![ready("True", Reason::Serving)],
        );
        assert_eq!(
            (
                news(&no, &yes).len(),
                news(&yes, &no).len(),
                news(&yes, &yes).len(),
                news(&[], &no).len()
            ),
            (1, 1, 0, 0)
        );
    }
}
