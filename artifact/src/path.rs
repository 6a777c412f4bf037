//! Names of files inside a model. They come from hubs, tars and manifests that anybody may have written,
//! so a name is checked before it is ever joined to a folder.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};
use unicode_normalization::UnicodeNormalization;

/// File systems refuse longer names of one segment.
const SEGMENT_LIMIT: usize = 255;
/// What remains of a usual 4096-byte path once a store's own folder is in front of it.
const PATH_LIMIT: usize = 2048;

/// A relative path with `/` between its segments that is safe to join to a folder on any system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct FilePath(String);

/// Why a name is refused. The name is shown escaped, because it may hold control characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("file name {name:?} is refused: {reason}")]
pub struct PathError {
    /// The name as it came.
    pub name: String,
    /// What is wrong with it.
    pub reason: PathProblem,
}

/// What can be wrong with a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// Nothing there, or an empty segment (`a//b`).
    #[error("it has an empty segment")]
    Empty,
    /// Starts at the root or with a drive letter.
    #[error("it is absolute")]
    Absolute,
    /// `.` or `..`.
    #[error("the segment `{0}` steps out of the folder or stays in place")]
    Dots(String),
    /// A separator elsewhere, ordinary here.
    #[error("it holds a backslash, which is a separator on some systems")]
    Backslash,
    /// NUL, other control characters, and invisible ones that change how a name is shown.
    #[error("it holds the control character U+{0:04X}")]
    Control(u32),
    /// Windows drops them, so two names become one.
    #[error("the segment `{0}` ends in a dot or a space")]
    Trailing(String),
    /// A device on Windows, whatever its extension.
    #[error("`{0}` is a reserved device name")]
    Reserved(String),
    /// One segment too long.
    #[error("a segment is {0} bytes long, the limit is {SEGMENT_LIMIT}")]
    SegmentTooLong(usize),
    /// All together too long.
    #[error("it is {0} bytes long, the limit is {PATH_LIMIT}")]
    TooLong(usize),
    /// The same name, or the same for a file system that ignores case or normalises.
    #[error("it is the same as {0:?} where case or accents are folded")]
    SameAs(String),
    /// `a` and `a/b`: one of them cannot be a file.
    #[error("it is a file, and {0:?} needs a folder of that name")]
    FileAndFolder(String),
}

impl FilePath {
    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last segment.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The segments, outermost first.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// A name that this crate itself spells, known to be good by the tests.
    pub(crate) fn of_constant(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// What a file system that ignores case and normalises accents would call it.
    fn folded(&self) -> String {
        fold(&self.0)
    }
}

/// Upper case first, so that `ß` and `SS` meet; normalised on both sides because case mapping can decompose.
fn fold(text: &str) -> String {
    text.nfc()
        .collect::<String>()
        .to_uppercase()
        .to_lowercase()
        .nfc()
        .collect()
}

impl FromStr for FilePath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match problem_of(text) {
            None => Ok(Self(text.to_owned())),
            Some(reason) => Err(PathError {
                name: text.to_owned(),
                reason,
            }),
        }
    }
}

fn problem_of(text: &str) -> Option<PathProblem> {
    if text.len() > PATH_LIMIT {
        return Some(PathProblem::TooLong(text.len()));
    }
    if text.starts_with('/') || has_drive(text) {
        return Some(PathProblem::Absolute);
    }
    if let Some(problem) = text.chars().find_map(problem_of_character) {
        return Some(problem);
    }
    text.split('/').find_map(problem_of_segment)
}

fn has_drive(text: &str) -> bool {
    matches!(text.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic())
}

fn problem_of_character(character: char) -> Option<PathProblem> {
    match character {
        '\\' => Some(PathProblem::Backslash),
        // Besides controls: marks that reorder text, so that a name is not what it looks like.
        '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}' => Some(PathProblem::Control(character as u32)),
        _ if character.is_control() => Some(PathProblem::Control(character as u32)),
        _ => None,
    }
}

fn problem_of_segment(segment: &str) -> Option<PathProblem> {
    if segment.is_empty() {
        return Some(PathProblem::Empty);
    }
    if segment == "." || segment == ".." {
        return Some(PathProblem::Dots(segment.to_owned()));
    }
    if segment.len() > SEGMENT_LIMIT {
        return Some(PathProblem::SegmentTooLong(segment.len()));
    }
    if segment.ends_with(['.', ' ']) {
        return Some(PathProblem::Trailing(segment.to_owned()));
    }
    is_reserved(segment).then(|| PathProblem::Reserved(segment.to_owned()))
}

/// Windows reserves the name with any extension: `nul.txt` is the null device too.
fn is_reserved(segment: &str) -> bool {
    let stem = segment
        .split('.')
        .next()
        .unwrap_or(segment)
        .trim_end()
        .to_ascii_uppercase();
    if matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$") {
        return true;
    }
    let port = stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT"));
    port.is_some_and(|port| {
        matches!(
            port,
            "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" | "¹" | "²" | "³"
        )
    })
}

/// Refuses a set of names of which two would be one file, or one would be a file and a folder, on some file system.
pub fn check_collisions<'a>(paths: impl IntoIterator<Item = &'a FilePath>) -> Result<(), PathError> {
    let mut files: BTreeMap<String, &FilePath> = BTreeMap::new();
    for path in paths {
        if let Some(earlier) = files.insert(path.folded(), path) {
            return Err(refuse(path, PathProblem::SameAs(earlier.0.clone())));
        }
    }
    for (folded, path) in &files {
        let parents = folded.match_indices('/').map(|(at, _)| &folded[..at]);
        for parent in parents {
            if let Some(file) = files.get(parent) {
                return Err(refuse(file, PathProblem::FileAndFolder(path.0.clone())));
            }
        }
    }
    check_folders(files.values().copied())
}

/// `Sub/a` and `sub/b` do not collide as files, but their folders are one where case is ignored.
fn check_folders<'a>(paths: impl Iterator<Item = &'a FilePath>) -> Result<(), PathError> {
    let mut folders: BTreeMap<String, &str> = BTreeMap::new();
    for path in paths {
        for (at, _) in path.0.match_indices('/') {
            let folder = &path.0[..at];
            let earlier = folders.entry(fold(folder)).or_insert(folder);
            if *earlier != folder {
                return Err(refuse(path, PathProblem::SameAs(format!("{earlier}/"))));
            }
        }
    }
    Ok(())
}

fn refuse(path: &FilePath, reason: PathProblem) -> PathError {
    PathError {
        name: path.0.clone(),
        reason,
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl AsRef<str> for FilePath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for FilePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
