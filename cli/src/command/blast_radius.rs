//! `plimsoll blast-radius`: which deployments a change of the matrix would move.

use std::collections::BTreeMap;

use matrix::Choice;
use serde::Serialize;

use crate::{
    arguments::BlastRadius,
    command::explain::ask,
    documents,
    fault::Answer,
    output::{self, Format},
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Moved {
    deployment: String,
    effect: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Place>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Place>,
    why: String,
}

#[derive(Debug, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct Place {
    build: String,
    pool: String,
    image: String,
    devices: u32,
    level: String,
}

fn place(choice: &Choice) -> Place {
    Place {
        build: choice.build.clone(),
        pool: choice.pool.clone(),
        image: choice.image.clone(),
        devices: choice.devices,
        level: choice.level.word().to_owned(),
    }
}

pub(crate) fn run(own: &BlastRadius, format: Format) -> anyhow::Result<Answer> {
    let from = documents::load(Some(&own.from))?;
    let to = documents::load(Some(&own.to))?;
    let (_, before) = ask(&own.question, &from)?;
    let (_, after) = ask(&own.question, &to)?;
    let mut moved = Vec::new();
    for (old, new) in before.iter().zip(&after) {
        let (was, will) = (
            old.decision.chosen.as_ref().map(place),
            new.decision.chosen.as_ref().map(place),
        );
        let effect = effect(was.as_ref(), will.as_ref());
        let why = why(old.decision.chosen.as_ref(), &new.decision);
        moved.push(Moved {
            deployment: old.deployment.clone(),
            effect,
            from: was,
            to: will,
            why,
        });
    }
    output::print(format, &moved, || text(&moved))?;
    let quiet = moved.iter().all(|one| matches!(one.effect, "same" | "level"));
    Ok(if quiet { Answer::Yes } else { Answer::No })
}

fn effect(was: Option<&Place>, will: Option<&Place>) -> &'static str {
    match (was, will) {
        (None, None) => "same",
        (None, Some(_)) => "gains a build",
        (Some(_), None) => "loses its build",
        (Some(was), Some(will)) if was == will => "same",
        (Some(was), Some(will)) if was.pool != will.pool => "other pool",
        (Some(was), Some(will)) if was.build != will.build => "other build",
        (Some(was), Some(will)) if was.image != will.image => "other image",
        (Some(was), Some(will)) if was.devices != will.devices => "other number of devices",
        _ => "level",
    }
}

/// What the new matrix says about the old choice.
fn why(old: Option<&Choice>, decision: &matrix::Decision) -> String {
    let Some(old) = old else {
        return decision
            .chosen
            .as_ref()
            .map_or_else(String::new, |choice| choice.row.to_string());
    };
    let verdict = decision.verdicts.iter().find(|verdict| {
        verdict.build == old.build && verdict.pool.iter().chain(&verdict.also).any(|pool| *pool == old.pool)
    });
    match verdict {
        None => format!("{} is no longer in the matrix{}", old.build, nearest(decision)),
        Some(verdict) if !verdict.reasons.is_empty() => {
            let texts: Vec<String> = verdict
                .reasons
                .iter()
                .map(|reason| format!("{} ({})", reason.kind.text(), reason.row))
                .collect();
            texts.join("; ") + &nearest(decision)
        }
        Some(verdict) => verdict
            .ranked_below
            .as_ref()
            .map_or_else(String::new, |why| format!("{} ranks lower: {why}", old.build)),
    }
}

/// Who loses a build wants to know what comes nearest.
fn nearest(decision: &matrix::Decision) -> String {
    let miss = decision.nearest.first().filter(|_| decision.chosen.is_none());
    miss.map_or_else(String::new, |miss| {
        format!("; nearest is {} on {}: {}", miss.build, miss.pool, miss.fix)
    })
}

/// How many deployments each effect has.
fn summary(moved: &[Moved]) -> String {
    let mut effects: BTreeMap<&str, usize> = BTreeMap::new();
    for one in moved {
        *effects.entry(one.effect).or_default() += 1;
    }
    let parts: Vec<String> = effects
        .iter()
        .map(|(effect, count)| format!("{count} {effect}"))
        .collect();
    let noun = if moved.len() == 1 { "deployment" } else { "deployments" };
    format!("{} {noun}: {}\n", moved.len(), parts.join(", "))
}

fn text(moved: &[Moved]) -> String {
    let describe = |place: &Option<Place>| {
        place.as_ref().map_or_else(
            || "none".to_owned(),
            |place| format!("{} on {}", place.build, place.pool),
        )
    };
    let rows: Vec<Vec<String>> = moved
        .iter()
        .map(|one| {
            vec![
                one.deployment.clone(),
                one.effect.to_owned(),
                describe(&one.from),
                describe(&one.to),
                one.why.clone(),
            ]
        })
        .collect();
    output::columns(&["deployment", "effect", "from", "to", "why"], &rows) + &summary(moved)
}
