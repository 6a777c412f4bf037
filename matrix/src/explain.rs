//! A decision in words: an engineer's answer, not a dump.

use std::fmt::Write as _;

use model_facts::ModelFacts;

use crate::{
    decision::{Choice, Decision, Fit, FitArithmetic, NearMiss, Outcome, Verdict},
    pool::{Cluster, Pool},
    reason::Reason,
    revision::shorten,
};

/// What an explanation is about.
#[derive(Debug, Clone, Copy)]
pub struct Explained<'run> {
    /// The name of the deployment.
    pub name: &'run str,
    /// The model.
    pub facts: &'run ModelFacts,
    /// The cluster.
    pub cluster: &'run Cluster,
    /// The decision.
    pub decision: &'run Decision,
    /// Where the revision comes from: `stable`, `shipped`.
    pub channel: &'run str,
}

/// How much is told.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExplainOptions {
    /// Every verdict, not only counts.
    pub all: bool,
}

/// The explanation of a decision.
pub fn explain(explained: &Explained<'_>, options: ExplainOptions) -> String {
    let mut text = String::new();
    let decision = explained.decision;
    line(
        &mut text,
        &format!("{:<11} {}", explained.name, model_line(explained.facts)),
    );
    text.push('\n');
    match &decision.chosen {
        Some(choice) => chosen(&mut text, explained, choice),
        None => nothing(&mut text, explained),
    }
    for verdict in decision
        .verdicts
        .iter()
        .filter(|verdict| verdict.outcome == Outcome::Eligible)
        .take(3)
    {
        runner_up(&mut text, verdict);
    }
    for (index, miss) in decision.nearest.iter().take(3).enumerate() {
        near_miss(&mut text, miss, index == 0);
    }
    rejected(&mut text, decision, options.all);
    if options.all {
        all(&mut text, decision);
    }
    pool_notes(&mut text, explained);
    text
}

fn line(text: &mut String, content: &str) {
    text.push_str(content.trim_end());
    text.push('\n');
}

/// One labelled line; lines after the first have no label.
fn labelled(text: &mut String, label: &str, content: &str) {
    line(text, &format!("{label:<12}{content}"));
}

fn model_line(facts: &ModelFacts) -> String {
    let architecture = facts.architectures.first().or(facts.family.as_ref()).cloned();
    let quantization = facts.quantization.label.clone().or_else(|| facts.dtype.clone());
    let detail = facts
        .quantization
        .detail
        .as_ref()
        .filter(|detail| Some(*detail) != quantization.as_ref());
    let quantization = match (quantization, detail) {
        (Some(label), Some(detail)) => Some(format!("{label} ({detail})")),
        (label, _) => label,
    };
    let parts = [
        Some(architecture.unwrap_or_else(|| "unknown architecture".to_owned())),
        Some(quantization.unwrap_or_else(|| "unknown quantization".to_owned())),
        Some(facts.weight_bytes.map_or_else(
            || "weights of unknown size".to_owned(),
            |bytes| format!("{} GiB of weights", gibibytes(bytes)),
        )),
        facts.context_length.map(|tokens| format!("context {tokens}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn chosen(text: &mut String, explained: &Explained<'_>, choice: &Choice) {
    let pool = explained.cluster.pools.iter().find(|pool| pool.id == choice.pool);
    let place = pool.map(describe_pool).unwrap_or_default();
    let revision = shorten(&explained.decision.revision);
    let head = format!(
        "{} {} on {}{place}",
        choice.distribution,
        version_of(choice),
        choice.pool
    );
    labelled(
        text,
        "chosen",
        &format!(
            "{head:<64}{}, matrix {}@{}",
            choice.level.word(),
            explained.channel,
            &revision[..6.min(revision.len())]
        ),
    );
    labelled(text, "", &fit_line(choice));
    labelled(text, "", &format!("image {}", choice.image));
    labelled(text, "because", &because(choice, explained.facts));
    let caveats = explained
        .decision
        .verdicts
        .first()
        .map(|verdict| verdict.caveats.as_slice())
        .unwrap_or_default();
    for (index, caveat) in caveats.iter().enumerate() {
        labelled(
            text,
            if index == 0 { "mind" } else { "" },
            &format!("{} ({})", caveat.kind.text(), caveat.row),
        );
    }
}

fn version_of(choice: &Choice) -> &str {
    choice
        .build
        .strip_prefix(&format!("{}-", choice.distribution))
        .unwrap_or(&choice.version)
}

fn describe_pool(pool: &Pool) -> String {
    let nodes = count(pool.nodes.len(), "node");
    match pool.offer {
        crate::pool::Offer::Node => format!(" ({nodes})"),
        _ => format!(" ({nodes}, {})", count(pool.devices() as usize, "device")),
    }
}

fn count(number: usize, noun: &str) -> String {
    if number == 1 {
        format!("1 {noun}")
    } else {
        format!("{number} {noun}s")
    }
}

fn fit_line(choice: &Choice) -> String {
    let devices = match (choice.devices, choice.nodes) {
        (0, _) => "per replica".to_owned(),
        (number, 1) => format!("{} per replica", count(number as usize, "device")),
        (number, nodes) => format!(
            "{} on {} per replica",
            count(number as usize, "device"),
            count(nodes as usize, "node")
        ),
    };
    match &choice.fit {
        Fit::Fits(arithmetic) | Fit::DoesNotFit(arithmetic) => {
            format!("{devices}: {}", arithmetic_line(arithmetic, choice))
        }
        Fit::Unknown { missing } => format!("{devices}; whether it fits is unknown, missing: {}", missing.join(", ")),
    }
}

fn arithmetic_line(arithmetic: &FitArithmetic, choice: &Choice) -> String {
    let tokens = choice
        .context
        .map(|context| format!(" ({} tokens x {})", thousands(context), choice.concurrency))
        .unwrap_or_default();
    let bound = if arithmetic.lower_bound { " at least" } else { "" };
    format!(
        "{} weights + {}{bound} KV cache{tokens} + {} engine = {} of {} usable GiB ({} GiB of memory)",
        gibibytes(arithmetic.weights),
        gibibytes(arithmetic.kv_cache),
        gibibytes(arithmetic.overhead),
        gibibytes(arithmetic.needed),
        gibibytes(arithmetic.usable),
        gibibytes(arithmetic.memory)
    )
}

fn because(choice: &Choice, facts: &ModelFacts) -> String {
    let model = facts
        .architectures
        .first()
        .or(facts.family.as_ref())
        .map_or("the model", String::as_str);
    let quantization = facts
        .quantization
        .label
        .as_deref()
        .or(facts.dtype.as_deref())
        .map(|label| format!(" in {label}"))
        .unwrap_or_default();
    format!(
        "{} lists {model}{quantization} on {} ({})",
        choice.row, choice.product, choice.evidence
    )
}

fn nothing(text: &mut String, explained: &Explained<'_>) {
    let counts = &explained.decision.counts;
    if counts.builds == 0 {
        labelled(text, "nothing", "the matrix has no builds");
    } else if explained.cluster.pools.is_empty() {
        labelled(text, "nothing", "no pool of nodes was recognised in the cluster");
    } else {
        labelled(
            text,
            "nothing",
            &format!("none of {} would work", count(counts.candidates, "candidate")),
        );
    }
    if let Some(hint) = unlisted(explained.decision, explained.facts) {
        labelled(text, "", &format!("-> {hint}"));
    }
}

/// What helps when nothing is chosen because nobody states anything about the model.
pub fn unlisted(decision: &Decision, facts: &ModelFacts) -> Option<String> {
    let unlisted = decision.counts.by_heaviest.contains_key("NotListed");
    if decision.chosen.is_some() || !decision.nearest.is_empty() || !unlisted {
        return None;
    }
    let model = facts.architectures.first().or(facts.family.as_ref());
    let model = model.map_or("a model of unknown architecture", String::as_str);
    Some(format!(
        "no row of the matrix lists {model}: add one with your evidence, or try a build with spec.engine.policy: Pinned"
    ))
}

fn runner_up(text: &mut String, verdict: &Verdict) {
    let pool = verdict.pool.as_deref().unwrap_or("no pool");
    let why = verdict
        .ranked_below
        .as_deref()
        .map(|why| format!(", below because {why}"))
        .unwrap_or_default();
    let level = verdict.level.map(super::support::Level::word).unwrap_or_default();
    labelled(text, "also", &format!("{} on {pool} ({level}){why}", verdict.build));
}

fn near_miss(text: &mut String, miss: &NearMiss, first: bool) {
    let reasons = join_reasons(&miss.reasons);
    labelled(
        text,
        if first { "nearly" } else { "" },
        &format!("{} on {}: {reasons}", miss.build, miss.pool),
    );
    labelled(text, "", &format!("-> {}", miss.fix));
}

fn join_reasons(reasons: &[Reason]) -> String {
    let texts: Vec<String> = reasons.iter().map(|reason| reason.kind.text()).collect();
    texts.join("; ")
}

fn rejected(text: &mut String, decision: &Decision, all: bool) {
    let counts = &decision.counts;
    if counts.rejected == 0 {
        return;
    }
    let mut groups: Vec<(&String, &usize)> = counts.by_heaviest.iter().collect();
    groups.sort_by(|left, right| right.1.cmp(left.1).then_with(|| left.0.cmp(right.0)));
    let parts: Vec<String> = groups
        .iter()
        .take(6)
        .map(|(token, number)| format!("{number} {}", group_words(token)))
        .collect();
    let more = if all { "" } else { "     (--all lists them)" };
    labelled(
        text,
        "rejected",
        &format!("{}: {}{more}", count(counts.rejected, "candidate"), parts.join(", ")),
    );
}

/// What a group of rejected candidates has in common.
fn group_words(token: &str) -> String {
    let words = match token {
        "OtherVendor" => "other vendor",
        "ProductUnknown" => "unknown chip",
        "ProductNotServed" => "no image for the product",
        "ExplicitNo" => "explicit no",
        "OtherModel" => "made for another model",
        "WeightFormat" => "cannot read the weights",
        "NumberFormat" => "number format missing",
        "Quantization" => "quantization not listed",
        "NotListed" => "model not listed",
        "VersionOutsideRow" => "version without the model",
        "CpuArchitecture" => "other CPU architecture",
        "NoImage" => "without an image",
        "NoLaunchProfile" => "without a launch profile",
        "PoolUnusable" => "nodes not usable",
        "AlternativeOffer" => "other way to the same cards",
        "AcceleratorNotAsked" => "accelerator not asked for",
        "StackAboveHost" => "stack above the host",
        "EngineNotAsked" => "other engine",
        "TooLittleMemory" => "too little memory",
        "TooFewDevices" => "too few devices",
        "LevelTooLow" => "level too low",
        "VersionNotAsked" => "version not asked for",
        "ChannelNotAsked" => "channel not asked for",
        "NotPinned" => "not the pinned build",
        "PullNotAllowed" => "image not to be had",
        "ContextTooLong" => "context too long",
        "TooFewNodes" => "too few nodes",
        "Divisibility" => "devices that do not divide",
        "Quarantined" => "failed before",
        "HostUnknown" => "host unknown",
        "FitUnknown" => "fit unknown",
        other => other,
    };
    words.to_owned()
}

fn all(text: &mut String, decision: &Decision) {
    text.push('\n');
    for verdict in &decision.verdicts {
        let more = if verdict.also.is_empty() {
            String::new()
        } else {
            format!(" +{}", verdict.also.len())
        };
        let pool = format!("{}{more}", verdict.pool.as_deref().unwrap_or("-"));
        let outcome = match verdict.outcome {
            Outcome::Chosen => "chosen",
            Outcome::Eligible => "eligible",
            Outcome::Rejected => "rejected",
        };
        let _ = writeln!(
            text,
            "{outcome:<9} {:<36} {pool:<24} {}",
            verdict.build,
            detail(verdict)
        );
    }
}

fn detail(verdict: &Verdict) -> String {
    if verdict.outcome == Outcome::Rejected {
        let texts: Vec<String> = verdict
            .reasons
            .iter()
            .map(|reason| format!("{} ({})", reason.kind.text(), reason.row))
            .collect();
        return texts.join("; ");
    }
    let row = verdict.row.as_ref().map(ToString::to_string).unwrap_or_default();
    format!(
        "{} by {row}",
        verdict.level.map(super::support::Level::word).unwrap_or_default()
    )
}

/// What was noticed about the chosen pool, and about pools that cannot be used.
fn pool_notes(text: &mut String, explained: &Explained<'_>) {
    let chosen = explained.decision.chosen.as_ref().map(|choice| choice.pool.as_str());
    let pools = explained.cluster.pools.iter();
    let mut notes: Vec<String> = pools
        .filter(|pool| chosen.is_none_or(|id| id == pool.id))
        .flat_map(|pool| pool.notes.iter().map(move |note| format!("{}: {}", pool.id, note.text)))
        .collect();
    notes.dedup();
    for (index, note) in notes.iter().take(6).enumerate() {
        labelled(text, if index == 0 { "note" } else { "" }, note);
    }
}

/// GiB with one decimal; small amounts with two.
pub(crate) fn gibibytes(bytes: u64) -> String {
    let hundredths = (u128::from(bytes) * 100 + (1 << 29)) >> 30;
    if hundredths >= 100 || hundredths == 0 {
        let tenths = (u128::from(bytes) * 10 + (1 << 29)) >> 30;
        format!("{}.{}", tenths / 10, tenths % 10)
    } else {
        format!("{}.{:02}", hundredths / 100, hundredths % 100)
    }
}

fn thousands(tokens: u64) -> String {
    if tokens >= 1024 && tokens.is_multiple_of(1024) {
        format!("{}k", tokens / 1024)
    } else {
        tokens.to_string()
    }
}
