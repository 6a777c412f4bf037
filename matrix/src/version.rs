//! Versions as engines and stacks really write them: text under a declared scheme, never a number.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

mod dotted;
mod range;

pub use range::{RangeError, VersionRange};

/// How the versions of a distribution or stack are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VersionScheme {
    /// Python's PEP 440: `0.8.5.post1`, `0.9.1rc2`, `0.25.1+corex.4.5.0`.
    #[default]
    Pep440,
    /// Dotted numbers by date: `26.04.1`, `25.08`.
    Calendar,
    /// Dotted numbers with suffixes: `8.3.RC2`, `3.7.1.x`, `6.3.27-V1.2.5`.
    Dotted,
    /// Names: equality only.
    Opaque,
}

/// A version with its scheme.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct EngineVersion {
    text: String,
    scheme: VersionScheme,
    key: Option<SortKey>,
}

impl From<EngineVersion> for String {
    fn from(version: EngineVersion) -> Self {
        version.text
    }
}

/// A comparable form: numbers, then a rank with its number, then a local part.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SortKey {
    epoch: u64,
    release: Vec<u64>,
    pre: Stage,
    post: Option<u64>,
    dev: Development,
    local: Vec<LocalPart>,
}

/// Where a version stands relative to its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// A development release of nothing else sorts before all.
    DevelopmentOnly,
    Alpha(u64),
    Beta(u64),
    Candidate(u64),
    Final,
}

/// A development release sorts before the thing it develops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Development {
    Of(u64),
    Not,
}

/// A part of a local version: words sort before numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum LocalPart {
    Word(String),
    Number(u64),
}

/// A version that its scheme cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {scheme:?} version")]
pub struct VersionError {
    text: String,
    scheme: VersionScheme,
}

impl VersionError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self.scheme {
            VersionScheme::Pep440 => {
                "write it like 0.9.2, 0.9.1rc2 or 0.8.5.post1, or declare `scheme: dotted` or `opaque`".to_owned()
            }
            VersionScheme::Calendar => "write it like 26.04.1, or declare another scheme".to_owned(),
            VersionScheme::Dotted => "write it with at least one number, or declare `scheme: opaque`".to_owned(),
            VersionScheme::Opaque => "give any text that is not empty".to_owned(),
        }
    }
}

impl EngineVersion {
    /// Reads a version under a scheme. A leading `v` before a number is dropped.
    pub fn parse(text: &str, scheme: VersionScheme) -> Result<Self, VersionError> {
        let trimmed = text.trim();
        let bare = strip_v(trimmed);
        let error = || VersionError {
            text: text.to_owned(),
            scheme,
        };
        if trimmed.is_empty() {
            return Err(error());
        }
        let key = match scheme {
            VersionScheme::Opaque => {
                return Ok(Self {
                    text: trimmed.to_owned(),
                    scheme,
                    key: None,
                });
            }
            VersionScheme::Pep440 => read_pep440(bare),
            VersionScheme::Calendar => read_calendar(bare),
            VersionScheme::Dotted => dotted::read(bare),
        };
        Ok(Self {
            text: bare.to_owned(),
            scheme,
            key: Some(key.ok_or_else(error)?),
        })
    }

    /// The version as written, without a leading `v`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its scheme.
    pub fn scheme(&self) -> VersionScheme {
        self.scheme
    }

    /// True for alpha, beta, candidate and development releases.
    pub fn is_prerelease(&self) -> bool {
        self.key
            .as_ref()
            .is_some_and(|key| key.pre != Stage::Final || key.dev != Development::Not)
    }

    /// Orders two versions; `None` when a scheme gives no order, or the two schemes differ.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (&self.key, &other.key) {
            (Some(left), Some(right)) if self.scheme == other.scheme => Some(left.cmp(right)),
            _ if self.text == other.text && self.scheme == other.scheme => Some(Ordering::Equal),
            _ => None,
        }
    }

    /// A total order for ranking: versions without an order come first, then by their text.
    pub fn rank(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key).then_with(|| self.text.cmp(&other.text))
    }

    /// Whether this version starts with the numbers of `prefix` (`0.18` covers `0.18.1`).
    pub fn starts_with(&self, prefix: &Self) -> bool {
        match (&self.key, &prefix.key) {
            (Some(left), Some(right)) => {
                let numbers = trimmed_text_numbers(&prefix.text).unwrap_or(right.release.len());
                let padded = |index: usize| left.release.get(index).copied().unwrap_or(0);
                left.epoch == right.epoch
                    && (0..numbers).all(|index| padded(index) == right.release.get(index).copied().unwrap_or(0))
            }
            _ => self.text == prefix.text,
        }
    }
}

impl std::fmt::Display for EngineVersion {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.text)
    }
}

/// How many dotted numbers a text starts with, trailing zeros included.
fn trimmed_text_numbers(text: &str) -> Option<usize> {
    let count = text
        .split('.')
        .take_while(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
        .count();
    (count > 0).then_some(count)
}

fn strip_v(text: &str) -> &str {
    match text.strip_prefix(['v', 'V']) {
        Some(rest) if rest.starts_with(|first: char| first.is_ascii_digit()) => rest,
        _ => text,
    }
}

/// Trailing zeros do not count: 1.0 is 1.
fn significant(mut release: Vec<u64>) -> Vec<u64> {
    while release.len() > 1 && release.last() == Some(&0) {
        release.pop();
    }
    release
}

fn read_calendar(text: &str) -> Option<SortKey> {
    let release: Option<Vec<u64>> = text.split('.').map(|part| part.parse().ok()).collect();
    Some(SortKey {
        epoch: 0,
        release: significant(release?),
        pre: Stage::Final,
        post: None,
        dev: Development::Not,
        local: Vec::new(),
    })
}

fn read_pep440(text: &str) -> Option<SortKey> {
    let lower = text.to_ascii_lowercase();
    let (public, local) = match lower.split_once('+') {
        Some((public, local)) => (public, local_parts(local)?),
        None => (lower.as_str(), Vec::new()),
    };
    let (epoch, rest) = match public.split_once('!') {
        Some((epoch, rest)) => (epoch.parse().ok()?, rest),
        None => (0, public),
    };
    let (release, mut rest) = take_release(rest)?;
    let mut pre = None;
    let mut post = None;
    let mut dev = Development::Not;
    if let Some((stage, after)) = take_pre(rest) {
        pre = Some(stage);
        rest = after;
    }
    if let Some((number, after)) = take_word(rest, &["post", "rev", "r"]) {
        post = Some(number);
        rest = after;
    } else if let Some(digits) = rest
        .strip_prefix('-')
        .filter(|tail| tail.starts_with(|c: char| c.is_ascii_digit()))
    {
        let (number, after) = take_digits(digits);
        post = Some(number?);
        rest = after;
    }
    if let Some((number, after)) = take_word(rest, &["dev"]) {
        dev = Development::Of(number);
        rest = after;
    }
    if !rest.is_empty() {
        return None;
    }
    let alone = dev != Development::Not && post.is_none();
    let pre = pre.unwrap_or(if alone { Stage::DevelopmentOnly } else { Stage::Final });
    Some(SortKey {
        epoch,
        release: significant(release),
        pre,
        post,
        dev,
        local,
    })
}

fn take_release(text: &str) -> Option<(Vec<u64>, &str)> {
    let mut release = Vec::new();
    let mut rest = text;
    loop {
        let (number, after) = take_digits(rest);
        release.push(number?);
        match after.strip_prefix('.') {
            Some(next) if next.starts_with(|c: char| c.is_ascii_digit()) => rest = next,
            _ => return Some((release, after)),
        }
    }
}

fn take_digits(text: &str) -> (Option<u64>, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (text[..end].parse().ok(), &text[end..])
}

fn take_pre(text: &str) -> Option<(Stage, &str)> {
    if let Some((number, rest)) = take_word(text, &["rc", "preview", "pre", "c"]) {
        return Some((Stage::Candidate(number), rest));
    }
    if let Some((number, rest)) = take_word(text, &["beta", "b"]) {
        return Some((Stage::Beta(number), rest));
    }
    take_word(text, &["alpha", "a"]).map(|(number, rest)| (Stage::Alpha(number), rest))
}

/// A word with optional separators around it and an optional number after it.
fn take_word<'text>(text: &'text str, words: &[&str]) -> Option<(u64, &'text str)> {
    let bare = text.strip_prefix(['.', '-', '_']).unwrap_or(text);
    let rest = words.iter().find_map(|word| bare.strip_prefix(word))?;
    let numbered = rest.strip_prefix(['.', '-', '_']).unwrap_or(rest);
    match take_digits(numbered) {
        (Some(number), after) => Some((number, after)),
        (None, _) => Some((0, rest)),
    }
}

fn local_parts(text: &str) -> Option<Vec<LocalPart>> {
    let parts = text.split(['.', '-', '_']);
    let parts: Vec<LocalPart> = parts
        .map(|part| {
            part.parse()
                .map_or_else(|_| LocalPart::Word(part.to_owned()), LocalPart::Number)
        })
        .collect();
    let valid = !parts
        .iter()
        .any(|part| matches!(part, LocalPart::Word(word) if word.is_empty()));
    valid.then_some(parts)
}

#[cfg(test)]
mod tests;
