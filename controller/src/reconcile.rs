//! One pass over one deployment: observe, validate, decide, build, apply, report.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crds::{Move, Reason};
use k8s_openapi::api::apps::v1::Deployment as Workload;
use kube::Client;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use kube::runtime::events::Recorder;
use tokio::sync::watch;

use crate::apply::{Applier, ApplyError};
use crate::build::{Blueprint, build};
use crate::decide::{Decided, decide};
use crate::metrics::Metrics;
use crate::observe::{Sources, observe};
use crate::observed::Observed;
use crate::report::report;
use crate::validate::validate;
use crate::watch::Guarded;
use crate::write::{WriteError, write_status};

/// Everything that a pass uses.
pub struct Context {
    /// The API server.
    pub client: Client,
    /// Where it reads.
    pub sources: Sources,
    /// Where it writes.
    pub applier: Applier,
    /// Where it tells.
    pub recorder: Recorder,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    /// Whether this replica may write.
    pub leads: watch::Receiver<bool>,
    /// Passes in a row that ended with the controller's own move, by object.
    pub attempts: Mutex<HashMap<String, u32>>,
}

/// Why a pass did not end.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// The children could not be written.
    #[error("cannot carry out the decision")]
    Apply(#[from] ApplyError),
    /// The status could not be written.
    #[error("cannot write the status")]
    Status(#[from] WriteError),
}

impl PassError {
    /// The metric label.
    fn token(&self) -> &'static str {
        match self {
            Self::Apply(ApplyError::Refused { .. } | ApplyError::Taken { .. }) => Reason::ApplyRefused.as_str(),
            Self::Apply(ApplyError::Failed { .. }) => "ApplyFailed",
            Self::Status(WriteError::Outdated) => "StatusOutdated",
            Self::Status(WriteError::Failed(_)) => "StatusFailed",
        }
    }
}

/// One pass.
pub async fn reconcile(guarded: Arc<Guarded>, context: Arc<Context>) -> Result<Action, PassError> {
    context.metrics.count_reconcile();
    if !*context.leads.borrow() {
        return Ok(Action::await_change());
    }
    let deployment = match &guarded.0 {
        Ok(deployment) => Arc::new(deployment.clone()),
        Err(error) => {
            tracing::error!(%error, name = ?error.metadata.name, namespace = ?error.metadata.namespace, "a ModelDeployment cannot be read");
            return Ok(Action::await_change());
        }
    };
    if deployment.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let mut observed = observe(&context.sources, deployment).await;
    let validated = validate(&observed);
    let decided = validated.question.as_ref().ok().map(decide);
    let applied = apply(&context, &observed, decided.as_ref()).await;
    let refused = match applied {
        Ok(written) => {
            // What was just written is younger than the cache: a report on the cached one would call an old rollout the new one.
            observed.workload = written.map(Arc::new).or(observed.workload);
            Ok(())
        }
        Err(error) => Err(error.finding().ok_or(error)?),
    };
    if let Some(decided) = &decided {
        context.metrics.count_decision(decided.outcome);
    }
    let status = report(&observed, &validated, decided.as_ref(), refused);
    write_status(&context, &observed.deployment, &status).await?;
    Ok(next_look(&context, &observed, &status.conditions))
}

/// The workload as the server has it, when it was written.
async fn apply(
    context: &Context,
    observed: &Observed,
    decided: Option<&Decided>,
) -> Result<Option<Workload>, ApplyError> {
    let (Some(plan), Ok(model)) = (decided.and_then(|decided| decided.plan.as_ref()), &observed.model) else {
        return Ok(None);
    };
    let free_devices = observed.free_devices(&plan.choice.pool);
    let children = build(&Blueprint {
        deployment: &observed.deployment,
        model,
        plan,
        free_devices,
    });
    context
        .applier
        .apply(
            &observed.deployment,
            &children,
            &context.sources.caches,
            &context.metrics,
        )
        .await
}

/// When to look again although nothing was seen to change: soon when it is our move, later when somebody outside the cluster has to
/// do something that no watch shows.
fn next_look(
    context: &Context,
    observed: &Observed,
    conditions: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition],
) -> Action {
    let key = format!(
        "{}/{}",
        observed.deployment.namespace().unwrap_or_default(),
        observed.deployment.name_any()
    );
    let reasons = || {
        conditions
            .iter()
            .filter_map(|condition| Reason::parse(&condition.reason))
    };
    let ours = reasons().any(|reason| reason.whose_move() == Move::Controller);
    let mut attempts = context.attempts.lock().unwrap_or_else(PoisonError::into_inner);
    if ours {
        let attempt = attempts.entry(key).or_default();
        *attempt += 1;
        return Action::requeue(backoff(*attempt));
    }
    attempts.remove(&key);
    let outside = reasons().any(|reason| {
        matches!(
            reason,
            Reason::ArtifactNotFound
                | Reason::ArtifactUnauthorized
                | Reason::ArtifactInvalid
                | Reason::PullSecretInvalid
        )
    });
    let moving = reasons().any(|reason| reason.whose_move() == Move::Cluster);
    Action::requeue(Duration::from_secs(if outside || moving { 60 } else { 600 }))
}

fn backoff(attempt: u32) -> Duration {
    Duration::from_secs(5 << attempt.saturating_sub(1).min(6))
}

/// What follows an error: whose move it is decides.
#[expect(clippy::needless_pass_by_value, reason = "this is how the runtime hands them over")]
pub fn on_error(guarded: Arc<Guarded>, error: &PassError, context: Arc<Context>) -> Action {
    context.metrics.count_error(error.token());
    let key = format!("{}/{}", guarded.namespace().unwrap_or_default(), guarded.name_any());
    if let PassError::Status(WriteError::Outdated) = error {
        // Somebody changed the object while we looked; the newer one is on its way to the cache.
        return Action::requeue(Duration::from_millis(500));
    }
    tracing::warn!(
        deployment = key,
        error = crate::model::chain(error),
        "a pass did not end"
    );
    let mut attempts = context.attempts.lock().unwrap_or_else(PoisonError::into_inner);
    let attempt = attempts.entry(key).or_default();
    *attempt += 1;
    Action::requeue(backoff(*attempt))
}
