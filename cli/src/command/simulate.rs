//! `plimsoll simulate`: the pools of a cluster, and what deployments would get on it.

use std::fmt::Write as _;

use std::collections::BTreeSet;

use matrix::{Cluster, Pool, Standing};
use serde::Serialize;

use crate::{
    arguments::Simulate,
    cluster,
    command::explain::{Answered, answer},
    deployment,
    documents::Loaded,
    fault::Answer,
    model,
    output::{self, Format},
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Simulated {
    cluster: Cluster,
    deployments: Vec<Answered>,
}

pub(crate) fn run(own: &Simulate, loaded: &Loaded, format: Format) -> anyhow::Result<Answer> {
    let cluster = cluster::load(&loaded.matrix, &own.nodes)?;
    let mut deployments = Vec::new();
    for path in &own.deployments {
        for one in deployment::load(path)? {
            let facts = model::load(&own.model, Some(&one.spec.model.artifact))?;
            deployments.push(answer(&one, facts, &cluster, loaded, &BTreeSet::new())?);
        }
    }
    let all = deployments.iter().all(|answered| answered.decision.chosen.is_some());
    let simulated = Simulated { cluster, deployments };
    output::print(format, &simulated, || text(&simulated))?;
    Ok(if all { Answer::Yes } else { Answer::No })
}

fn text(simulated: &Simulated) -> String {
    let rows: Vec<Vec<String>> = simulated.cluster.pools.iter().map(row).collect();
    let mut text = output::columns(
        &[
            "pool", "product", "seen by", "nodes", "devices", "memory", "host", "state",
        ],
        &rows,
    );
    let notes = simulated
        .cluster
        .pools
        .iter()
        .flat_map(|pool| pool.notes.iter().map(move |note| (pool.id.as_str(), note)));
    let notes = notes.chain(simulated.cluster.notes.iter().map(|note| ("cluster", note)));
    for (index, (pool, note)) in notes.enumerate() {
        if index == 0 {
            text.push('\n');
        }
        let _ = writeln!(text, "{pool}: {} [{}: {}]", note.text, note.kind, note.nodes.join(", "));
    }
    if !simulated.deployments.is_empty() {
        let rows: Vec<Vec<String>> = simulated.deployments.iter().map(deployment_row).collect();
        text.push('\n');
        text.push_str(&output::columns(
            &["deployment", "build", "pool", "devices", "level"],
            &rows,
        ));
    }
    text
}

fn row(pool: &Pool) -> Vec<String> {
    let product = pool.product.clone().unwrap_or_else(|| match &pool.raw {
        Some(raw) => format!("unknown ({raw})"),
        None => "unknown".to_owned(),
    });
    let seen = pool
        .evidence
        .as_ref()
        .map_or_else(String::new, |evidence| format!("{}={}", evidence.key, evidence.value));
    let memory = pool
        .memory
        .bytes
        .map_or_else(|| "unknown".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
    let host = match (&pool.host.driver, pool.host.stacks.iter().next()) {
        (Some(driver), _) => format!("driver {driver}"),
        (None, Some((name, version))) => format!("{name} {version}"),
        (None, None) => "unknown".to_owned(),
    };
    let state = match &pool.standing {
        Standing::Usable => pool.offer.describe(),
        Standing::Alternative { to } => format!("{}; the same cards as {to}", pool.offer.describe()),
        Standing::Unusable { why, .. } => format!("not usable: {why}"),
    };
    vec![
        pool.id.clone(),
        product,
        seen,
        pool.nodes.len().to_string(),
        pool.devices().to_string(),
        memory,
        host,
        state,
    ]
}

fn deployment_row(answered: &Answered) -> Vec<String> {
    match &answered.decision.chosen {
        Some(choice) => vec![
            answered.deployment.clone(),
            choice.build.clone(),
            choice.pool.clone(),
            choice.devices.to_string(),
            choice.level.word().to_owned(),
        ],
        None => vec![
            answered.deployment.clone(),
            "none".to_owned(),
            String::new(),
            String::new(),
            String::new(),
        ],
    }
}
