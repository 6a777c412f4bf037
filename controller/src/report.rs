//! From what was observed, decided and applied to the status. Everything is derived anew on every pass; nothing is accumulated
//! but the transition times and the history.

mod pods;
mod readiness;

use crds::{
    ConditionType, DecisionRecord, Explanation, ModelDeploymentStatus, ModelSummary, NearMiss, Reason, RejectionCount,
    RunnerUp, condition, merge_conditions,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;
use matrix::{Decision, Outcome};

use crate::build::{SERVICE_PORT, selector_labels};
use crate::decide::Decided;
use crate::finding::Finding;
use crate::observed::{Model, Observed};
use crate::validate::Validated;

/// Longest text of one entry of the explanation.
const TEXT_LIMIT: usize = 300;

/// The status after a pass.
pub fn report(
    observed: &Observed,
    validated: &Validated,
    decided: Option<&Decided>,
    applied: Result<(), Finding>,
) -> ModelDeploymentStatus {
    let before = observed.deployment.status.clone().unwrap_or_default();
    let seen = pods::look(&observed.pods, observed.now);
    let findings = Findings::new(observed, validated, decided, applied, &seen);
    let decision = decided.map_or(before.decision.clone(), |decided| decided.record.clone());
    ModelDeploymentStatus {
        observed_generation: observed.deployment.metadata.generation,
        model: observed
            .model
            .as_ref()
            .ok()
            .map(|model| summarise(model))
            .or(before.model),
        decision: decision.map(|record| with_image_digest(record, &seen)),
        pending: decided.map_or(before.pending, |decided| decided.pending.clone()),
        explain: decided
            .map(|decided| explain(&decided.answer, observed))
            .or(before.explain),
        history: decided.map_or(before.history, |decided| decided.history.clone()),
        replicas: number(seen.total()),
        ready_replicas: number(seen.ready),
        selector: Some(selector(&observed.deployment.name_any())),
        endpoint: observed.workload.as_ref().map(|_| endpoint(observed)),
        conditions: merge_conditions(&before.conditions, findings.conditions(observed)),
    }
}

/// One finding per condition.
struct Findings {
    model: Finding,
    devices: Finding,
    engine: Finding,
    weights: Finding,
    workload: Finding,
    up_to_date: Finding,
    ready: (&'static str, Finding),
}

impl Findings {
    fn new(
        observed: &Observed,
        validated: &Validated,
        decided: Option<&Decided>,
        applied: Result<(), Finding>,
        seen: &pods::Pods,
    ) -> Self {
        let engine = match (&validated.question, decided) {
            (Err(finding), _) => finding.clone(),
            (Ok(_), Some(decided)) => decided.engine.clone(),
            (Ok(_), None) => Finding::new(Reason::WaitingForModel, "the matrix was not asked"),
        };
        let up_to_date = decided.map_or_else(|| not_compared(observed, &engine), |decided| decided.up_to_date.clone());
        let built = decided.is_some_and(|decided| decided.plan.is_some());
        let workload = readiness::workload(observed, applied, built, seen);
        let weights = readiness::weights(observed, built, seen);
        let (model, devices) = (validated.model.clone(), validated.devices.clone());
        let ready = readiness::ready(observed, seen, &[&model, &devices, &engine, &weights, &workload]);
        Self {
            model,
            devices,
            engine,
            weights,
            workload,
            up_to_date,
            ready,
        }
    }

    fn conditions(self, observed: &Observed) -> Vec<Condition> {
        let Self {
            model,
            devices,
            engine,
            weights,
            workload,
            up_to_date,
            ready: (status, ready),
        } = self;
        let generation = observed.deployment.metadata.generation;
        let now = Time(observed.now);
        let plain = |type_, finding: &Finding| condition(type_, finding.reason, &finding.message, generation, &now);
        vec![
            plain(ConditionType::ModelResolved, &model),
            plain(ConditionType::DevicesResolved, &devices),
            plain(ConditionType::EngineSelected, &engine),
            plain(ConditionType::WeightsReady, &weights),
            plain(ConditionType::WorkloadReady, &workload),
            plain(ConditionType::UpToDate, &up_to_date),
            // Ready repeats the reason of whatever holds it, so its status is its own.
            Condition {
                status: status.to_owned(),
                ..plain(ConditionType::Ready, &ready)
            },
        ]
    }
}

fn not_compared(observed: &Observed, engine: &Finding) -> Finding {
    let decided = observed
        .deployment
        .status
        .as_ref()
        .is_some_and(|status| status.decision.is_some());
    if decided {
        Finding::new(
            Reason::NotCompared,
            format!("the matrix was not asked: {}", engine.message),
        )
    } else {
        Finding::new(Reason::NothingToCompare, "nothing has been chosen yet")
    }
}

fn summarise(model: &Model) -> ModelSummary {
    let Model {
        requested,
        reference,
        facts,
        files: _,
        bytes,
        weights_absent: _,
    } = model;
    let format = serde_json::to_value(facts.format)
        .ok()
        .and_then(|format| format.as_str().map(str::to_owned));
    ModelSummary {
        artifact: reference.clone(),
        requested: Some(requested.clone()),
        checkpoint: facts.checkpoint.clone(),
        architecture: facts.architectures.first().or(facts.family.as_ref()).cloned(),
        format,
        quantization: facts.quantization.label.clone(),
        weight_bytes: facts.weight_bytes.and_then(|bytes| i64::try_from(bytes).ok()),
        context_length: facts.context_length.and_then(|tokens| i64::try_from(tokens).ok()),
        artifact_bytes: i64::try_from(*bytes).ok(),
        unknown: facts
            .unknown
            .iter()
            .take(8)
            .map(|unknown| shorten(format!("{}: {}", unknown.fact, unknown.missing)))
            .collect(),
    }
}

/// The digest that the nodes report is the only proof of what runs.
fn with_image_digest(mut record: DecisionRecord, seen: &pods::Pods) -> DecisionRecord {
    if let Some(digest) = seen.image_digest(&record.image) {
        record.image_digest = Some(digest);
    }
    record
}

fn explain(answer: &Decision, observed: &Observed) -> Explanation {
    let mut rejections: Vec<RejectionCount> = answer
        .counts
        .by_heaviest
        .iter()
        .map(|(reason, &count)| RejectionCount {
            reason: reason.clone(),
            count: number(count),
        })
        .collect();
    rejections.sort_by(|left, right| {
        right
            .count
            .cmp(&left.count)
            .then_with(|| left.reason.cmp(&right.reason))
    });
    rejections.truncate(8);
    let notes = observed
        .current
        .as_ref()
        .map(|view| view.cluster.notes.as_slice())
        .unwrap_or_default();
    Explanation {
        candidates: number(answer.counts.candidates),
        eligible: number(answer.counts.eligible),
        rejections,
        runner_up: runner_up(answer),
        nearest: answer.nearest.iter().take(3).map(near_miss).collect(),
        notes: notes.iter().take(8).map(|note| shorten(note.text.clone())).collect(),
    }
}

fn runner_up(answer: &Decision) -> Option<RunnerUp> {
    let second = answer
        .verdicts
        .iter()
        .find(|verdict| verdict.outcome == Outcome::Eligible)?;
    Some(RunnerUp {
        build: second.build.clone(),
        pool: second.pool.clone().unwrap_or_default(),
        because: shorten(
            second
                .ranked_below
                .clone()
                .unwrap_or_else(|| "it ranks second".to_owned()),
        ),
    })
}

fn near_miss(miss: &matrix::NearMiss) -> NearMiss {
    let reasons: Vec<String> = miss.reasons.iter().map(|reason| reason.kind.text()).collect();
    NearMiss {
        build: miss.build.clone(),
        pool: miss.pool.clone(),
        because: shorten(reasons.join("; ")),
        remedy: (!miss.fix.is_empty()).then(|| shorten(miss.fix.clone())),
    }
}

fn shorten(text: String) -> String {
    if text.len() <= TEXT_LIMIT {
        return text;
    }
    let end = (0..TEXT_LIMIT)
        .rev()
        .find(|&index| text.is_char_boundary(index))
        .unwrap_or(0);
    format!("{}...", &text[..end])
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn selector(name: &str) -> String {
    selector_labels(name)
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect::<Vec<_>>()
        .join(",")
}

fn endpoint(observed: &Observed) -> String {
    let name = observed.deployment.name_any();
    let namespace = observed.deployment.namespace().unwrap_or_default();
    format!("http://{name}.{namespace}.svc:{SERVICE_PORT}/v1")
}
