//! Dotted numbers with suffixes.

use super::{Development, LocalPart, SortKey, Stage, significant};

/// Numbers up to the first word are the release. `rc`, `alpha`, `beta` and `dev` come before it, every other word after it;
/// a final `x` says "any" and sorts with the number it stands for left out.
pub(super) fn read(text: &str) -> Option<SortKey> {
    let parts = split_words(&text.to_ascii_lowercase());
    let leading = parts
        .iter()
        .take_while(|part| matches!(part, LocalPart::Number(_)))
        .count();
    let mut release: Vec<u64> = Vec::new();
    for part in &parts[..leading] {
        if let LocalPart::Number(number) = part {
            release.push(*number);
        }
    }
    let mut rest = &parts[leading..];
    if release.is_empty() {
        // A stage may lead the numbers: rc4.3.0.
        return read_leading_stage(&parts);
    }
    let mut pre = Stage::Final;
    if let Some(LocalPart::Word(word)) = rest.first() {
        let number = match rest.get(1) {
            Some(LocalPart::Number(number)) => *number,
            _ => 0,
        };
        let stage = stage_of(word, number);
        if let Some(stage) = stage {
            pre = stage;
            rest = &rest[rest.len().min(2)..];
        } else if word == "x" {
            rest = &rest[1..];
        }
    }
    Some(SortKey {
        epoch: 0,
        release: significant(release),
        pre,
        post: None,
        dev: Development::Not,
        local: rest.to_vec(),
    })
}

fn read_leading_stage(parts: &[LocalPart]) -> Option<SortKey> {
    let Some((LocalPart::Word(word), numbers)) = parts.split_first() else {
        return None;
    };
    let stage = stage_of(word, 0)?;
    let release: Vec<u64> = numbers
        .iter()
        .filter_map(|part| {
            if let LocalPart::Number(n) = part {
                Some(*n)
            } else {
                None
            }
        })
        .collect();
    if release.is_empty() || release.len() != numbers.len() {
        return None;
    }
    Some(SortKey {
        epoch: 0,
        release: significant(release),
        pre: stage,
        post: None,
        dev: Development::Not,
        local: Vec::new(),
    })
}

fn stage_of(word: &str, number: u64) -> Option<Stage> {
    match word {
        "rc" | "pre" | "preview" => Some(Stage::Candidate(number)),
        "b" | "beta" => Some(Stage::Beta(number)),
        "a" | "alpha" => Some(Stage::Alpha(number)),
        "dev" => Some(Stage::DevelopmentOnly),
        _ => None,
    }
}

/// Splits at separators and where digits meet letters.
fn split_words(text: &str) -> Vec<LocalPart> {
    let mut parts = Vec::new();
    for chunk in text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|chunk| !chunk.is_empty())
    {
        let mut rest = chunk;
        while !rest.is_empty() {
            let digits = rest.starts_with(|c: char| c.is_ascii_digit());
            let end = rest.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            parts.push(
                word.parse()
                    .map_or_else(|_| LocalPart::Word(word.to_owned()), LocalPart::Number),
            );
            rest = after;
        }
    }
    parts
}
