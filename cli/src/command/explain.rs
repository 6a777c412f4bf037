//! `plimsoll explain` and `why-not`.

use std::{fmt::Write as _, sync::Arc};

use std::collections::BTreeSet;

use matrix::{
    Choice, Cluster, Decision, ExplainOptions, Explained, LaunchInput, LaunchPlan, Outcome, Pull, Request, Verdict,
};
use model_facts::ModelFacts;
use serde::Serialize;

use crate::{
    arguments::{Explain, Question, WhyNot},
    cluster, deployment,
    documents::Loaded,
    fault::{Answer, hinted},
    model,
    output::{self, Format},
};

/// One deployment with its answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answered {
    pub(crate) deployment: String,
    pub(crate) facts: ModelFacts,
    pub(crate) decision: Decision,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) launch: Option<LaunchPlan>,
}

pub(crate) fn run(own: &Explain, loaded: &Loaded, format: Format) -> anyhow::Result<Answer> {
    let (cluster, mut answers) = ask(&own.question, loaded)?;
    if own.launch {
        for answer in &mut answers {
            answer.launch = answer
                .decision
                .chosen
                .as_ref()
                .map(|choice| launch(loaded, choice, &cluster, answer));
        }
    }
    let options = ExplainOptions { all: own.all };
    output::print(format, &answers, || {
        let texts: Vec<String> = answers
            .iter()
            .map(|answer| text(answer, &cluster, &loaded.origin, options))
            .collect();
        texts.join("\n")
    })?;
    Ok(if answers.iter().all(|answer| answer.decision.chosen.is_some()) {
        Answer::Yes
    } else {
        Answer::No
    })
}

/// Asks the matrix about every deployment of a question.
pub(crate) fn ask(question: &Question, loaded: &Loaded) -> anyhow::Result<(Cluster, Vec<Answered>)> {
    let cluster = cluster::load(&loaded.matrix, &question.cluster)?;
    let deployments = deployment::load(&question.deployment)?;
    let given = question.model.facts.is_some() || question.model.model.is_some();
    if given && deployments.len() > 1 {
        return Err(hinted(
            "facts of one model for several deployments",
            "give a file with one ModelDeployment",
        ));
    }
    let pull = if question.offline_images {
        BTreeSet::from([Pull::Offline])
    } else {
        BTreeSet::new()
    };
    let mut answers = Vec::new();
    for one in &deployments {
        let facts = model::load(&question.model, Some(&one.spec.model.artifact))?;
        answers.push(answer(one, facts, &cluster, loaded, &pull)?);
    }
    Ok((cluster, answers))
}

/// The answer for one deployment.
pub(crate) fn answer(
    one: &crds::ModelDeployment,
    facts: ModelFacts,
    cluster: &Cluster,
    loaded: &Loaded,
    pull: &BTreeSet<Pull>,
) -> anyhow::Result<Answered> {
    let request = Request {
        facts: facts.clone(),
        pools: cluster.pools.clone(),
        demand: deployment::demand(&one.spec),
        policy: deployment::policy(&one.spec, pull)?,
    };
    let decision = matrix::decide(&loaded.matrix, &request);
    Ok(Answered {
        deployment: deployment::name(one),
        facts,
        decision,
        launch: None,
    })
}

fn launch(loaded: &Loaded, choice: &Choice, cluster: &Cluster, answer: &Answered) -> LaunchPlan {
    let input = LaunchInput {
        facts: answer.facts.clone(),
        pool: cluster.pools.iter().find(|pool| pool.id == choice.pool).cloned(),
        model_path: "/models".to_owned(),
        served_name: answer.deployment.clone(),
        runtime_classes: cluster.runtime_classes.clone(),
        ..LaunchInput::default()
    };
    matrix::launch(&loaded.matrix, choice, &input)
}

fn text(answer: &Answered, cluster: &Cluster, channel: &str, options: ExplainOptions) -> String {
    let explained = Explained {
        name: &answer.deployment,
        facts: &answer.facts,
        cluster,
        decision: &answer.decision,
        channel,
    };
    let mut text = matrix::explain(&explained, options);
    if let Some(plan) = &answer.launch {
        text.push_str(&launch_text(plan));
    }
    text
}

fn launch_text(plan: &LaunchPlan) -> String {
    let mut lines = vec![format!(
        "launch      {} {}",
        plan.command.join(" "),
        plan.args.join(" ")
    )];
    lines.extend(
        plan.env
            .iter()
            .map(|(name, value)| format!("            {name}={value}")),
    );
    lines.extend(
        plan.resources
            .iter()
            .map(|(name, amount)| format!("            {name}: {amount}")),
    );
    for label in &plan.node_affinity {
        lines.push(if label.values.is_empty() {
            format!("            on nodes without {}", label.key)
        } else {
            format!("            on {} in {}", label.key, label.values.join(", "))
        });
    }
    lines.push(format!("            up to {} s to start", plan.startup_budget_seconds));
    lines.extend(plan.notes.iter().map(|note| format!("            note: {note}")));
    lines.join("\n") + "\n"
}

/// The verdict on one build and pool for one deployment.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Judged {
    deployment: String,
    verdict: Verdict,
}

pub(crate) fn why_not(own: &WhyNot, loaded: &Loaded, format: Format) -> anyhow::Result<Answer> {
    if loaded.matrix.build(&own.build).is_none() {
        return Err(hinted(
            format!("no build is called {}", own.build),
            suggestion(loaded, &own.build),
        ));
    }
    let (_, answers) = ask(&own.question, loaded)?;
    let mut verdicts = Vec::new();
    for answer in answers {
        let own = answer
            .decision
            .verdicts
            .into_iter()
            .filter(|verdict| verdict.build == own.build);
        verdicts.extend(own.map(|verdict| Judged {
            deployment: answer.deployment.clone(),
            verdict: Arc::unwrap_or_clone(verdict),
        }));
    }
    output::print(format, &verdicts, || {
        verdicts
            .iter()
            .map(|judged| verdict_text(&judged.deployment, &judged.verdict))
            .collect()
    })?;
    let works = verdicts
        .iter()
        .any(|judged| judged.verdict.outcome != Outcome::Rejected);
    Ok(if works { Answer::Yes } else { Answer::No })
}

fn suggestion(loaded: &Loaded, asked: &str) -> String {
    let front = asked.rsplit_once('-').map_or(asked, |(front, _)| front);
    let near: Vec<&str> = loaded
        .matrix
        .builds()
        .iter()
        .map(|build| build.id.as_str())
        .filter(|id| id.starts_with(front))
        .take(5)
        .collect();
    if near.is_empty() {
        "`plimsoll matrix mirror-list` names the builds".to_owned()
    } else {
        format!("there are {}", near.join(", "))
    }
}

fn verdict_text(name: &str, verdict: &matrix::Verdict) -> String {
    let pool = verdict.pool.as_deref().unwrap_or("any pool");
    let mut text = match verdict.outcome {
        Outcome::Chosen => format!("{name}: {} on {pool} is the choice\n", verdict.build),
        Outcome::Eligible => {
            let why = verdict
                .ranked_below
                .as_deref()
                .unwrap_or("another candidate ranks higher");
            format!(
                "{name}: {} on {pool} would work; it ranks lower because {why}\n",
                verdict.build
            )
        }
        Outcome::Rejected => format!("{name}: {} on {pool} would not work\n", verdict.build),
    };
    for reason in &verdict.reasons {
        let _ = writeln!(
            text,
            "  {:<22} {} ({})",
            reason.kind.token(),
            reason.kind.text(),
            reason.row
        );
        let _ = writeln!(text, "  {:<22} -> {}", "", reason.kind.fix(&verdict.build));
    }
    for caveat in &verdict.caveats {
        let _ = writeln!(text, "  {:<22} {} ({})", "mind", caveat.kind.text(), caveat.row);
    }
    text
}
