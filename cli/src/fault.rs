//! Errors at the edge: printed once, with their causes and a hint, and turned into an exit code.

use std::process::ExitCode;

/// What a command answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Yes.
    Yes,
    /// No.
    No,
}

impl Answer {
    pub(crate) fn code(self) -> ExitCode {
        match self {
            Self::Yes => ExitCode::SUCCESS,
            Self::No => ExitCode::from(1),
        }
    }
}

/// Our own fault, not the user's: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Ours(pub(crate) String);

/// An error of the user's input with a way out.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Hinted {
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// An input error with a hint.
pub(crate) fn hinted(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    Hinted {
        message: message.into(),
        hint: hint.into(),
    }
    .into()
}

pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    // A reader that has seen enough is no fault of anybody.
    if error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
    {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("  because: {cause}");
    }
    for hint in error.chain().filter_map(|cause| cause.downcast_ref::<Hinted>()) {
        eprintln!("  fix: {}", hint.hint);
    }
    if error.chain().any(<dyn std::error::Error>::is::<Ours>) {
        ExitCode::from(2)
    } else {
        ExitCode::from(1)
    }
}
