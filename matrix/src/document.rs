//! Documents as they come in, and the errors that say what is wrong with them.

use crate::{
    decode::DecodeError,
    tree::{Node, Place},
};

/// One YAML document of a matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Path inside the matrix, with `/`: `support/vllm-gcu.yaml`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Everything that is wrong with a set of documents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", render(.0))]
pub struct LoadErrors(pub Vec<LoadError>);

fn render(errors: &[LoadError]) -> String {
    let mut text: Vec<String> = errors.iter().map(ToString::to_string).collect();
    if errors.len() > 1 {
        text.push(format!("{} errors", errors.len()));
    }
    text.join("\n")
}

/// One thing that is wrong, with its place and its fix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub struct LoadError {
    /// Path of the document.
    pub path: String,
    /// Line, from 1; 0 when the whole document is meant.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    /// Characters that are meant.
    pub length: u32,
    /// What is wrong.
    pub message: String,
    /// How to mend it.
    pub hint: Option<String>,
    /// The line as it is written.
    pub source_line: Option<String>,
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}:{}:{}: {}", self.path, self.line, self.column, self.message)?;
        if let Some(source) = &self.source_line {
            let number = self.line.to_string();
            let before = self.column.saturating_sub(1) as usize;
            let carets = "^".repeat(self.length.max(1) as usize);
            write!(
                out,
                "\n  {number} | {source}\n  {} | {}{carets}",
                " ".repeat(number.len()),
                " ".repeat(before)
            )?;
        }
        if let Some(hint) = &self.hint {
            write!(out, "\n  fix: {hint}")?;
        }
        Ok(())
    }
}

impl LoadError {
    pub(crate) fn new(document: &Document, place: Place, message: impl Into<String>) -> Self {
        let line = (place.line > 0)
            .then(|| document.text.lines().nth(place.line as usize - 1))
            .flatten();
        let width = line.map_or(0, |text| text.chars().count());
        let room = u32::try_from(width)
            .unwrap_or(u32::MAX)
            .saturating_sub(place.column.saturating_sub(1));
        Self {
            path: document.path.clone(),
            line: place.line,
            column: place.column,
            length: place.length.min(room.max(1)),
            message: message.into(),
            hint: None,
            source_line: line.map(|text| text.replace('\t', " ")),
        }
    }

    /// An error about a whole row: the caret stands under its first word.
    pub(crate) fn at_row(document: &Document, line: u32, message: impl Into<String>) -> Self {
        let text = document
            .text
            .lines()
            .nth(line.saturating_sub(1) as usize)
            .unwrap_or_default();
        let indent = text.len() - text.trim_start_matches([' ', '-']).len();
        let column = u32::try_from(indent + 1).unwrap_or(1);
        Self::new(
            document,
            Place {
                line,
                column,
                length: 1,
            },
            message,
        )
    }

    pub(crate) fn from_decode(document: &Document, error: DecodeError) -> Self {
        let mut load = Self::new(document, error.place.unwrap_or_default(), error.message);
        load.hint = error.hint;
        load
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A document with its tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parsed {
    pub(crate) document: Document,
    pub(crate) root: Node,
}
