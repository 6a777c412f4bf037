//! What is told while work goes on: typed events, shown as bars, as lines or as JSON.

mod bars;
mod lines;

use std::sync::Arc;

use serde::Serialize;

pub use bars::Bars;
pub use lines::{JsonLines, Lines, Silence};

/// How a blob got to its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// It was there.
    Present,
    /// Taken over from this repository of the same registry.
    Mounted(String),
    /// Sent; the bytes that left, repeats included.
    Sent(u64),
    /// Fetched; the bytes that came.
    Fetched(u64),
    /// Copied from another version that was there.
    Reused,
}

/// Something happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A phase begins.
    Phase {
        /// What it does.
        what: String,
    },
    /// The amount of work is known.
    Planned {
        /// Files to move or check.
        files: usize,
        /// Their bytes.
        bytes: u64,
    },
    /// A file begins to move.
    Started {
        /// Path.
        path: String,
        /// Bytes.
        size: u64,
        /// Bytes that an earlier run moved.
        offset: u64,
    },
    /// A file has come so far.
    Progress {
        /// Path.
        path: String,
        /// Bytes.
        offset: u64,
    },
    /// A file is done.
    Finished {
        /// Path.
        path: String,
        /// Digest.
        digest: String,
        /// Bytes.
        size: u64,
        /// How.
        arrival: Arrival,
    },
    /// Something to know.
    Warning {
        /// Text.
        text: String,
    },
    /// Something to know when asked for details.
    Detail {
        /// Text.
        text: String,
    },
}

/// Whoever shows events.
pub trait Report: Send + Sync {
    /// Shows one.
    fn tell(&self, event: &Event);

    /// Ends what is shown while work goes on.
    fn close(&self) {}
}

/// Shared by all tasks.
pub type Reporter = Arc<dyn Report>;
