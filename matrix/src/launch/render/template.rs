//! Placeholders in arguments and environment.

use model_facts::WeightFormat;

use crate::{
    decision::Choice,
    launch::{LaunchInput, LaunchPlan, LaunchProfile, Profile},
};

/// What may stand in braces.
pub(crate) const PLACEHOLDERS: [&str; 11] = [
    "model",
    "modelFile",
    "servedName",
    "port",
    "context",
    "concurrency",
    "contextTotal",
    "tensorParallel",
    "pipelineParallel",
    "devices",
    "nodes",
];

/// The values of one launch.
pub(super) struct Values(Vec<(&'static str, String)>);

impl Values {
    pub(super) fn new(choice: &Choice, input: &LaunchInput, profile: &Profile) -> Self {
        let context = choice.context.unwrap_or(0);
        let total = context.saturating_mul(choice.concurrency);
        let values = [
            input.model_path.clone(),
            model_file(input),
            input.served_name.clone(),
            profile.port.to_string(),
            context.to_string(),
            choice.concurrency.to_string(),
            total.to_string(),
            choice.tensor_parallel.to_string(),
            choice.pipeline_parallel.to_string(),
            choice.devices.to_string(),
            choice.nodes.to_string(),
        ];
        Self(PLACEHOLDERS.into_iter().zip(values).collect())
    }

    pub(super) fn fill(&self, plan: &mut LaunchPlan) {
        let texts = plan
            .command
            .iter_mut()
            .chain(plan.args.iter_mut())
            .chain(plan.env.values_mut());
        for text in texts {
            *text = self.filled(text);
        }
    }

    /// One pass from left to right: a value that looks like a placeholder is not filled again.
    fn filled(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, name, after)) = next_placeholder(rest) {
            out.push_str(before);
            match self.0.iter().find(|(known, _)| *known == name) {
                Some((_, value)) => out.push_str(value),
                None => out.push_str(&rest[before.len()..rest.len() - after.len()]),
            }
            rest = after;
        }
        out.push_str(rest);
        out
    }
}

/// The next `{word}`; braces around anything but a word (JSON) are left alone.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(open) = text[from..].find('{').map(|index| from + index) {
        let inside = &text[open + 1..];
        let end = inside
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(inside.len());
        if end > 0 && inside[end..].starts_with('}') {
            return Some((&text[..open], &inside[..end], &inside[end + 1..]));
        }
        from = open + 1;
    }
    None
}

/// The GGUF file to load: the only one, or the first part of a split one. Weights of other formats are loaded by their folder.
fn model_file(input: &LaunchInput) -> String {
    if !matches!(input.facts.format, WeightFormat::Gguf | WeightFormat::Unknown) {
        return input.model_path.clone();
    }
    let mut files: Vec<&String> = input
        .files
        .iter()
        .filter(|name| name.to_lowercase().ends_with(".gguf"))
        .collect();
    files.sort();
    let first_part = files.iter().find(|name| name.contains("-00001-of-"));
    let weights = files
        .iter()
        .find(|name| !name.rsplit('/').next().unwrap_or(name).starts_with("mmproj"));
    let chosen = first_part.or(weights).copied();
    let base = input.model_path.trim_end_matches('/');
    chosen.map_or_else(|| input.model_path.clone(), |name| format!("{base}/{name}"))
}

/// Every text of a profile that may hold placeholders.
pub(crate) fn templates(profile: &LaunchProfile) -> Vec<&String> {
    let mut texts: Vec<&String> = profile
        .args
        .iter()
        .chain(profile.env.values())
        .chain(profile.command.iter().flatten())
        .collect();
    for rule in &profile.rules {
        texts.extend(
            rule.args
                .iter()
                .chain(rule.env.values())
                .chain(rule.command.iter().flatten()),
        );
    }
    texts
}

/// The first placeholder of a text that is not known.
pub(crate) fn unknown_placeholder(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some((_, name, after)) = next_placeholder(rest) {
        if !PLACEHOLDERS.contains(&name) {
            return Some(name);
        }
        rest = after;
    }
    None
}
