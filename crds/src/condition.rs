//! Conditions: made from reasons, compared without their times, merged so that a time moves only with the status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::{Schema, SchemaGenerator, json_schema};

use crate::token::{ConditionType, Reason};

/// A message longer than this is cut; the API server's own limit is 32 KiB.
const MESSAGE_LIMIT: usize = 1024;

/// A condition of its own type. `now` becomes the transition time only if [`merge_conditions`] finds a changed status.
pub fn condition(
    type_: ConditionType,
    reason: Reason,
    message: &str,
    generation: Option<i64>,
    now: &Time,
) -> Condition {
    Condition {
        type_: type_.as_str().to_owned(),
        status: reason.status().to_owned(),
        reason: reason.as_str().to_owned(),
        message: shorten(message, MESSAGE_LIMIT),
        observed_generation: generation,
        last_transition_time: now.clone(),
    }
}

/// Cuts a text at a character boundary and marks the cut.
fn shorten(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let mark = "...";
    let end = (0..=limit - mark.len())
        .rev()
        .find(|&index| text.is_char_boundary(index))
        .unwrap_or(0);
    format!("{}{mark}", &text[..end])
}

/// The condition of a type.
pub fn find_condition(conditions: &[Condition], type_: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == type_.as_str())
}

/// The next conditions with the times of the previous ones, wherever the status is the same.
pub fn merge_conditions(previous: &[Condition], mut next: Vec<Condition>) -> Vec<Condition> {
    for condition in &mut next {
        let before = previous.iter().find(|before| before.type_ == condition.type_);
        if let Some(before) = before.filter(|before| before.status == condition.status) {
            condition.last_transition_time = before.last_transition_time.clone();
        }
    }
    next
}

/// Whether two sets of conditions say different things; times do not count.
pub fn conditions_differ(left: &[Condition], right: &[Condition]) -> bool {
    left.len() != right.len() || left.iter().zip(right).any(|(left, right)| says(left) != says(right))
}

fn says(condition: &Condition) -> (&str, &str, &str, &str, Option<i64>) {
    let Condition {
        type_,
        status,
        reason,
        message,
        observed_generation,
        last_transition_time: _,
    } = condition;
    (type_, status, reason, message, *observed_generation)
}

/// The schema of metav1.Condition as a map by type, so that several writers could share the list.
pub(crate) fn conditions_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "description": "The state, one entry per type: ModelResolved, DevicesResolved, EngineSelected, WeightsReady, WorkloadReady, UpToDate, Ready.",
        "maxItems": 16,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One aspect of the state.",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {"type": "string", "maxLength": 316, "description": "The question that this condition answers."},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"], "description": "The answer; Unknown where a fact could not be read."},
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024, "description": "The answer's reason, one token of a closed list."},
                "message": {"type": "string", "maxLength": 32768, "description": "The reason in words, with what would help."},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0, "description": "The generation of the spec that this answers."},
                "lastTransitionTime": {"type": "string", "format": "date-time", "description": "When the status last changed."}
            }
        }
    })
}
