//! The hubs' globs, as Python's `fnmatch` reads them: `*` also crosses `/`, case counts, a trailing `/` means everything below.

use std::fmt;

/// More alternatives than a person writes.
const MOST_ALTERNATIVES: usize = 1000;

/// A list of patterns.
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    texts: Vec<String>,
    globs: Vec<Glob>,
}

/// A pattern that is none.
#[derive(Debug, thiserror::Error)]
#[error("`{pattern}` stands for more than {MOST_ALTERNATIVES} patterns")]
pub struct PatternError {
    pattern: String,
}

impl Patterns {
    /// Reads the patterns.
    pub fn new<Text: AsRef<str>>(texts: impl IntoIterator<Item = Text>) -> Result<Self, PatternError> {
        let texts: Vec<String> = texts.into_iter().map(|text| text.as_ref().to_owned()).collect();
        let mut globs = Vec::new();
        for text in &texts {
            let below = if text.ends_with('/') { "*" } else { "" };
            let alternatives =
                alternatives(format!("{text}{below}")).ok_or_else(|| PatternError { pattern: text.clone() })?;
            globs.extend(alternatives.iter().map(|text| Glob::parse(text)));
        }
        Ok(Self { texts, globs })
    }

    /// One pattern per line, as [`fmt::Display`] writes them.
    pub fn parse_lines(text: &str) -> Result<Self, PatternError> {
        Self::new(text.lines())
    }

    /// Whether any of them matches.
    pub fn matches(&self, path: &str) -> bool {
        let letters: Vec<char> = path.chars().collect();
        self.globs.iter().any(|glob| glob.matches(&letters))
    }

    /// Whether any of them is this path itself, without a wildcard.
    pub fn names(&self, path: &str) -> bool {
        self.texts.iter().any(|text| text == path)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}

impl fmt::Display for Patterns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.texts.join("\n"))
    }
}

/// `*.{json,txt}` as `*.json` and `*.txt`, which fnmatch does not know; braces without a comma are letters.
fn alternatives(text: String) -> Option<Vec<String>> {
    let (mut open, mut done) = (vec![text], Vec::new());
    while let Some(text) = open.pop() {
        match split_braces(&text) {
            Some((before, inside, after)) => {
                open.extend(inside.split(',').rev().map(|part| format!("{before}{part}{after}")));
            }
            None => done.push(text),
        }
        if open.len() + done.len() > MOST_ALTERNATIVES {
            return None;
        }
    }
    Some(done)
}

/// The innermost braces that hold a comma.
fn split_braces(text: &str) -> Option<(&str, &str, &str)> {
    text.match_indices('{').find_map(|(start, _)| {
        let end = start + text[start..].find('}')?;
        let inside = &text[start + 1..end];
        let innermost = inside.contains(',') && !inside.contains('{');
        innermost.then(|| (&text[..start], inside, &text[end + 1..]))
    })
}

/// A pattern, piece by piece.
#[derive(Debug, Clone)]
struct Glob(Vec<Piece>);

#[derive(Debug, Clone)]
enum Piece {
    Letter(char),
    Any,
    Run,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl Glob {
    fn parse(text: &str) -> Self {
        let letters: Vec<char> = text.chars().collect();
        let (mut pieces, mut at) = (Vec::new(), 0);
        while let Some(letter) = letters.get(at) {
            at += 1;
            pieces.push(match letter {
                '*' => Piece::Run,
                '?' => Piece::Any,
                '[' => match class_end(&letters, at) {
                    Some(end) => {
                        let class = class_of(&letters[at..end]);
                        at = end + 1;
                        class
                    }
                    None => Piece::Letter('['),
                },
                letter => Piece::Letter(*letter),
            });
        }
        pieces.dedup_by(|next, before| matches!((next, before), (Piece::Run, Piece::Run)));
        Self(pieces)
    }

    /// Where the last `*` may have ended is tried from there on; earlier ones need no second try.
    fn matches(&self, letters: &[char]) -> bool {
        let (mut piece, mut at) = (0, 0);
        let mut retry = None;
        while at < letters.len() {
            match self.0.get(piece) {
                Some(Piece::Run) => {
                    retry = Some((piece, at));
                    piece += 1;
                }
                Some(one) if one.takes(letters[at]) => {
                    piece += 1;
                    at += 1;
                }
                _ => {
                    let Some((run, from)) = retry else { return false };
                    retry = Some((run, from + 1));
                    (piece, at) = (run + 1, from + 1);
                }
            }
        }
        self.0[piece..].iter().all(|rest| matches!(rest, Piece::Run))
    }
}

impl Piece {
    fn takes(&self, letter: char) -> bool {
        match self {
            Self::Letter(own) => *own == letter,
            Self::Any => true,
            Self::Run => false,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&letter)) != *negated
            }
        }
    }
}

/// Where the class that starts here ends; a `]` that comes first is a letter of it, and without an end there is no class.
fn class_end(letters: &[char], start: usize) -> Option<usize> {
    let after_mark = start + usize::from(letters.get(start) == Some(&'!'));
    let from = after_mark + usize::from(letters.get(after_mark) == Some(&']'));
    (from..letters.len()).find(|at| letters[*at] == ']')
}

/// Only `!` negates.
fn class_of(inside: &[char]) -> Piece {
    let negated = inside.first() == Some(&'!');
    let mut rest = &inside[usize::from(negated)..];
    let mut ranges = Vec::new();
    while let Some(first) = rest.first() {
        let range = (rest.get(1) == Some(&'-')).then(|| rest.get(2)).flatten();
        ranges.push((*first, *range.unwrap_or(first)));
        rest = &rest[if range.is_some() { 3 } else { 1 }..];
    }
    Piece::Class { negated, ranges }
}

#[cfg(test)]
mod tests;
