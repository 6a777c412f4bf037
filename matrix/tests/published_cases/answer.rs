//! A whole decision in few lines: candidates with one verdict stand together, and lines of documents are left out, since every edit
//! of a document moves them.

use std::{collections::BTreeMap, fmt::Write as _};

use matrix::{Choice, Decision, Fit, Outcome, Reason, Request, Verdict};

pub(crate) fn describe(decision: &Decision, request: &Request) -> String {
    let mut text = String::new();
    for pool in &request.pools {
        let _ = writeln!(text, "pool      {}, {}", pool.id, pool.offer.describe());
    }
    match &decision.chosen {
        Some(choice) => chosen(&mut text, choice),
        None => text.push_str("chosen    nothing\n"),
    }
    let (here, elsewhere): (Vec<&Verdict>, Vec<&Verdict>) = decision
        .verdicts
        .iter()
        .map(AsRef::as_ref)
        .partition(|verdict: &&Verdict| verdict.pool.is_some());
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for verdict in here {
        let head = head(verdict);
        match groups.iter_mut().find(|(other, _)| *other == head) {
            Some((_, builds)) => builds.push(&verdict.build),
            None => groups.push((head, vec![&verdict.build])),
        }
    }
    for (head, builds) in groups {
        let _ = writeln!(text, "{head}\n    {}", builds.join(" "));
    }
    let _ = writeln!(text, "elsewhere {} builds of other vendors", elsewhere.len());
    for miss in &decision.nearest {
        let _ = writeln!(text, "nearly    {} on {}: {}", miss.build, miss.pool, miss.fix);
    }
    text
}

fn chosen(text: &mut String, choice: &Choice) {
    let _ = writeln!(text, "chosen    {} on {}, {}", choice.build, choice.pool, choice.image);
    let devices = format!(
        "{} devices on {} nodes, tensor {} pipeline {}",
        choice.devices, choice.nodes, choice.tensor_parallel, choice.pipeline_parallel
    );
    let fit = match &choice.fit {
        Fit::Fits(fit) => format!("{} of {} MiB", fit.needed >> 20, fit.usable >> 20),
        Fit::DoesNotFit(fit) => format!("does not fit: {} of {} MiB", fit.needed >> 20, fit.usable >> 20),
        Fit::Unknown { missing } => format!("fit unknown: {}", missing.join(", ")),
    };
    let _ = writeln!(
        text,
        "    {devices}, {} of {}, {fit}, by {} ({})",
        choice.level.word(),
        choice.row.path,
        choice.evidence,
        serde_json::to_string(&choice.model_match).unwrap().trim_matches('"')
    );
}

fn head(verdict: &Verdict) -> String {
    let caveats = words(&verdict.caveats);
    let but = if caveats.is_empty() {
        String::new()
    } else {
        format!(", but {caveats}")
    };
    if verdict.outcome == Outcome::Rejected {
        return format!("rejected  {}{but}", words(&verdict.reasons));
    }
    let below = verdict.ranked_below.as_ref().map(|why| format!(", below: {why}"));
    format!(
        "{}  {} by {}, {} devices{but}{}",
        if verdict.outcome == Outcome::Chosen {
            "chosen  "
        } else {
            "eligible"
        },
        verdict.level.map_or("", matrix::Level::word),
        verdict.row.as_ref().map_or("", |row| &row.path),
        verdict.devices.unwrap_or(0),
        below.unwrap_or_default()
    )
}

/// Each reason once, with the documents that it comes from.
fn words(reasons: &[Reason]) -> String {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for reason in reasons {
        let paths = all.entry(reason.kind.token()).or_default();
        if !paths.contains(&&*reason.row.path) {
            paths.push(&reason.row.path);
        }
    }
    let words: Vec<String> = all
        .into_iter()
        .map(|(token, paths)| format!("{token} ({})", paths.join(", ")))
        .collect();
    words.join(", ")
}
