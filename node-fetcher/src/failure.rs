//! Errors at the edge: whose they are, and what to do about them.

use std::fmt;
use std::process::ExitCode;

/// An error with its exit code and advice.
#[derive(Debug)]
pub(crate) struct Failure {
    error: anyhow::Error,
    hint: Option<String>,
    ours: bool,
}

/// The input, or the world around, is wrong: exit code 1.
pub(crate) fn theirs(error: impl Into<anyhow::Error>, hint: Option<impl Into<String>>) -> Failure {
    Failure {
        error: error.into(),
        hint: hint.map(Into::into),
        ours: false,
    }
}

/// This program is wrong: exit code 2.
pub(crate) fn ours(error: impl Into<anyhow::Error>) -> Failure {
    Failure {
        error: error.into(),
        hint: None,
        ours: true,
    }
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(if self.ours { 2 } else { 1 })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "error: {}", self.error)?;
        let mut before = self.error.to_string();
        for cause in self.error.chain().skip(1) {
            let text = cause.to_string();
            // Wrappers that add nothing repeat their cause.
            if text != before {
                write!(formatter, "\n  caused by: {text}")?;
            }
            before = text;
        }
        self.hint
            .iter()
            .try_for_each(|hint| write!(formatter, "\n  fix: {hint}"))
    }
}
