//! The choice, and whether it is taken: asks the matrix, keeps what was decided while its inputs stay the same, and lets a new
//! matrix wait for the rollout policy. No client, no clock.

use jiff::Timestamp;

use crds::{DecisionRecord, PendingDecision, Reason};
use matrix::{Choice, Decision, LaunchInput, LaunchPlan, Pool, Pull, Quarantine, Request};

use model_facts::ModelFacts;

use crate::finding::Finding;
use crate::metrics::DecisionOutcome;
use crate::observed::MatrixView;
use crate::validate::Question;

/// Where the weights are mounted in the engine's container.
pub const MODEL_PATH: &str = "/models";
/// Choices before the one in force that a status remembers.
const HISTORY: usize = 3;

/// The answer to a question.
pub struct Decided {
    /// Is there an engine?
    pub engine: Finding,
    /// Is the choice still what the matrix would choose?
    pub up_to_date: Finding,
    /// What the current matrix answers, with all verdicts.
    pub answer: Decision,
    /// The choice in force.
    pub record: Option<DecisionRecord>,
    /// Choices before it.
    pub history: Vec<DecisionRecord>,
    /// A choice that waits.
    pub pending: Option<PendingDecision>,
    /// What to build; `None`: what runs is left as it is.
    pub plan: Option<Plan>,
    /// For the metrics.
    pub outcome: DecisionOutcome,
}

/// A choice with everything that a pod needs of it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The choice.
    pub choice: Choice,
    /// How it is started.
    pub launch: LaunchPlan,
    /// The image that runs.
    pub image: String,
    /// The image of the matrix, when another one runs.
    pub original_image: Option<String>,
}

/// Asks and weighs.
pub fn decide(question: &Question) -> Decided {
    let answer = ask(&question.current, question.request.clone(), question);
    let fresh = answer
        .chosen
        .as_ref()
        .map(|choice| plan(&question.current, choice, question));
    let same_inputs = question
        .previous
        .as_ref()
        .filter(|previous| previous.inputs_digest == question.inputs_digest);
    match (same_inputs, fresh) {
        (Some(previous), fresh) => weigh(question, answer, previous.clone(), fresh),
        (None, Some(fresh)) => take(question, answer, fresh),
        (None, None) => {
            let finding = no_candidate(&answer, &question.model.facts);
            leave(question, answer, finding, None)
        }
    }
}

/// The inputs are those of the decision in force: it stays unless it cannot, or a change is welcome.
fn weigh(question: &Question, answer: Decision, previous: DecisionRecord, fresh: Option<Plan>) -> Decided {
    let kept = keep(question, &previous);
    let welcome = question.automatic || question.approved.as_deref() == Some(answer.revision.as_str());
    match (kept, fresh) {
        (Ok(kept), Some(fresh)) if kept.launch == fresh.launch && kept.choice.build == fresh.choice.build => {
            stay(question, answer, previous, fresh, None)
        }
        (Ok(kept), Some(_)) if previous.revision == answer.revision => stay(question, answer, previous, kept, None),
        (_, Some(fresh)) if welcome => take(question, answer, fresh),
        (Ok(kept), Some(fresh)) => {
            let pending = pending(&fresh, &answer);
            let text = format!(
                "matrix {} would choose {} on {}",
                short(&answer.revision),
                pending.build,
                pending.pool
            );
            let held = Finding::new(Reason::ChangePending, format!("{text}; {}", how_to_approve(&answer)));
            stay(question, answer, previous, kept, Some((held, Some(pending))))
        }
        (Ok(kept), None) => {
            let text = format!(
                "matrix {} has no choice any more: {}",
                short(&answer.revision),
                no_candidate(&answer, &question.model.facts).message
            );
            stay(
                question,
                answer,
                previous,
                kept,
                Some((Finding::new(Reason::ChoiceWithdrawn, text), None)),
            )
        }
        (Err(why), fresh) => strand(question, answer, &previous, &why, fresh.as_ref()),
    }
}

/// The decision in force cannot be carried out any more, and nobody approved another: what runs is left alone.
fn strand(
    question: &Question,
    answer: Decision,
    previous: &DecisionRecord,
    why: &str,
    fresh: Option<&Plan>,
) -> Decided {
    let text = format!("{} on {} cannot be kept: {why}", previous.build, previous.pool);
    let Some(fresh) = fresh else {
        let mut finding = no_candidate(&answer, &question.model.facts);
        finding.message = format!("{text}; {}", finding.message);
        let mut decided = leave(question, answer, finding, None);
        decided.up_to_date = Finding::new(Reason::ChoiceWithdrawn, format!("{text}, and there is no other choice"));
        return decided;
    };
    let pending = pending(fresh, &answer);
    let text = format!(
        "{text}; {} on {} would be taken: {}",
        pending.build,
        pending.pool,
        how_to_approve(&answer)
    );
    let mut decided = leave(
        question,
        answer,
        Finding::new(Reason::Kept, describe(previous)),
        Some(pending),
    );
    decided.up_to_date = Finding::new(Reason::ChangePending, text);
    decided.outcome = DecisionOutcome::Pending;
    decided
}

fn how_to_approve(answer: &Decision) -> String {
    format!("set spec.rollout.approvedRevision to {} to take it", answer.revision)
}

fn short(digest: &str) -> &str {
    digest.get(..19).unwrap_or(digest)
}

/// Takes the fresh choice; what was in force becomes history.
fn take(question: &Question, answer: Decision, plan: Plan) -> Decided {
    let record = record(question, &plan, &answer.revision);
    let mut history = question.history.clone();
    if let Some(previous) = question
        .previous
        .clone()
        .filter(|previous| !same_choice(previous, &record))
    {
        history.insert(0, previous);
        history.truncate(HISTORY);
    }
    Decided {
        engine: Finding::new(Reason::Selected, describe_plan(&plan, &record)),
        up_to_date: in_step(&answer),
        answer,
        record: Some(record),
        history,
        pending: None,
        plan: Some(plan),
        outcome: DecisionOutcome::Selected,
    }
}

/// Keeps the choice in force; its record follows images and arguments that the user may have changed.
fn stay(
    question: &Question,
    answer: Decision,
    previous: DecisionRecord,
    plan: Plan,
    held: Option<(Finding, Option<PendingDecision>)>,
) -> Decided {
    let revision = if held.is_none() {
        answer.revision.clone()
    } else {
        previous.revision.clone()
    };
    let record = DecisionRecord {
        decided_at: previous.decided_at.clone(),
        image_digest: previous.image_digest.filter(|_| previous.image == plan.image),
        ..record(question, &plan, &revision)
    };
    let outcome = if held.is_some() {
        DecisionOutcome::Pending
    } else {
        DecisionOutcome::Kept
    };
    let (up_to_date, pending) = held.unwrap_or_else(|| (in_step(&answer), None));
    Decided {
        engine: Finding::new(Reason::Selected, describe_plan(&plan, &record)),
        up_to_date,
        answer,
        record: Some(record),
        history: question.history.clone(),
        pending,
        plan: Some(plan),
        outcome,
    }
}

/// Leaves everything as it is.
fn leave(question: &Question, answer: Decision, engine: Finding, pending: Option<PendingDecision>) -> Decided {
    let up_to_date = match &question.previous {
        Some(_) => Finding::new(
            Reason::NotCompared,
            "what runs is left as it is, because there is no new choice",
        ),
        None => Finding::new(Reason::NothingToCompare, "nothing has been chosen yet"),
    };
    Decided {
        engine,
        up_to_date,
        answer,
        record: question.previous.clone(),
        history: question.history.clone(),
        pending,
        plan: None,
        outcome: DecisionOutcome::Nothing,
    }
}

fn in_step(answer: &Decision) -> Finding {
    Finding::new(
        Reason::InStep,
        format!("matrix {} chooses this", short(&answer.revision)),
    )
}

fn describe_plan(plan: &Plan, record: &DecisionRecord) -> String {
    let notes = if plan.launch.notes.is_empty() {
        String::new()
    } else {
        format!("; {}", plan.launch.notes.join("; "))
    };
    format!("{}{notes}", describe(record))
}

fn describe(record: &DecisionRecord) -> String {
    let row = record.row.as_ref().map_or(String::new(), |row| format!(" by {row}"));
    format!(
        "{} {} on {}, {}{row}",
        record.distribution, record.version, record.product, record.level
    )
}

fn same_choice(left: &DecisionRecord, right: &DecisionRecord) -> bool {
    (&left.build, &left.pool, &left.image, left.devices) == (&right.build, &right.pool, &right.image, right.devices)
}

/// Asks until the choice is one whose image can be had. An image that its vendor hands out as a file can be pulled only where
/// a rewrite rule points to a copy.
fn ask(view: &MatrixView, mut request: Request, question: &Question) -> Decision {
    loop {
        let answer = matrix::decide(&view.matrix, &request);
        let Some(choice) = &answer.chosen else { return answer };
        let reachable = choice.pull != Pull::Offline
            || question.image.is_some()
            || question.settings.rewrite.rewrite(&choice.image).is_some();
        let known = request
            .policy
            .quarantine
            .iter()
            .any(|entry| entry.build == choice.build && entry.pool.is_none());
        if reachable || known {
            return answer;
        }
        request.policy.quarantine.push(Quarantine {
            build: choice.build.clone(),
            pool: None,
            why: format!(
                "{} is handed out as a file, and no image rewrite rule covers it",
                choice.image
            ),
        });
    }
}

/// The choice in force, asked again from the matrix that made it, on the pool that it was made for.
fn keep(question: &Question, previous: &DecisionRecord) -> Result<Plan, String> {
    let view = match &question.deciding {
        Some(Ok(view)) if view.revision == previous.revision => view,
        Some(Err(finding)) => return Err(finding.message.clone()),
        _ if question.current.revision == previous.revision => &question.current,
        _ => return Err(format!("matrix revision {} is gone", short(&previous.revision))),
    };
    let pool = view
        .pool(&previous.pool)
        .ok_or_else(|| format!("the cluster has no pool {} any more", previous.pool))?;
    let mut request = Request {
        pools: vec![pool.clone()],
        ..question.request.clone()
    };
    request.policy.pin = Some(previous.build.clone());
    let answer = ask(view, request, question);
    let Some(choice) = &answer.chosen else {
        return Err(no_candidate(&answer, &question.model.facts).message);
    };
    Ok(plan(view, choice, question))
}

/// How a choice is started.
fn plan(view: &MatrixView, choice: &Choice, question: &Question) -> Plan {
    let pool: Option<Pool> = view.pool(&choice.pool).cloned();
    let input = LaunchInput {
        facts: question.model.facts.clone(),
        pool,
        model_path: MODEL_PATH.to_owned(),
        files: question.model.files.clone(),
        artifact_bytes: Some(question.model.bytes),
        served_name: question.served_name.clone(),
        runtime_classes: view.cluster.runtime_classes.clone(),
        extra_args: question.extra_args.clone(),
        allow_remote_code: false,
    };
    let launch = matrix::launch(&view.matrix, choice, &input);
    let (image, original_image) = image(&launch, question);
    Plan {
        choice: choice.clone(),
        launch,
        image,
        original_image,
    }
}

/// The image that runs: the user's own, a mirror's, or the matrix's, by digest where it is known. A mirror may have packed the
/// image anew, so the digest does not follow it.
fn image(launch: &LaunchPlan, question: &Question) -> (String, Option<String>) {
    if let Some(own) = &question.image {
        return (own.clone(), Some(launch.image.clone()));
    }
    if let Some(mirrored) = question.settings.rewrite.rewrite(&launch.image) {
        return (mirrored, Some(launch.image.clone()));
    }
    let pinned = launch.image_digest.as_ref().filter(|_| !launch.image.contains('@'));
    (
        pinned.map_or_else(|| launch.image.clone(), |digest| format!("{}@{digest}", launch.image)),
        None,
    )
}

fn record(question: &Question, plan: &Plan, revision: &str) -> DecisionRecord {
    let choice = &plan.choice;
    DecisionRecord {
        pool: choice.pool.clone(),
        product: choice.product.clone(),
        build: choice.build.clone(),
        distribution: choice.distribution.clone(),
        engine: choice.engine.clone(),
        version: choice.version.clone(),
        image: plan.image.clone(),
        original_image: plan.original_image.clone(),
        image_digest: None,
        devices: i32::try_from(choice.devices).unwrap_or(i32::MAX),
        level: choice.level.word().to_owned(),
        row: Some(choice.row.to_string()),
        revision: revision.to_owned(),
        inputs_digest: question.inputs_digest.clone(),
        decided_at: Timestamp::from_second(question.now.as_second())
            .unwrap_or(question.now)
            .to_string(),
    }
}

fn pending(fresh: &Plan, answer: &Decision) -> PendingDecision {
    let choice = &fresh.choice;
    PendingDecision {
        revision: answer.revision.clone(),
        pool: choice.pool.clone(),
        product: choice.product.clone(),
        build: choice.build.clone(),
        image: choice.image.clone(),
        level: choice.level.word().to_owned(),
    }
}

/// Why there is nothing: counts, and the nearest miss with what would help.
fn no_candidate(answer: &Decision, facts: &ModelFacts) -> Finding {
    let mut counted: Vec<_> = answer.counts.by_heaviest.iter().collect();
    counted.sort_by_key(|(reason, number)| (std::cmp::Reverse(**number), (*reason).clone()));
    let counted: Vec<String> = counted
        .iter()
        .take(5)
        .map(|(reason, number)| format!("{number} {reason}"))
        .collect();
    let nearest = answer
        .nearest
        .first()
        .map(|miss| format!("; nearest: {} on {}: {}", miss.build, miss.pool, miss.fix))
        .or_else(|| matrix::unlisted(answer, facts).map(|hint| format!("; {hint}")))
        .unwrap_or_default();
    let text = format!(
        "0 of {} candidates: {}{nearest}",
        answer.counts.candidates,
        counted.join(", ")
    );
    Finding::new(Reason::NoCandidate, text)
}
