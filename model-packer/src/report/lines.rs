//! Plain lines on stderr, JSON lines on stdout, or nothing.

use std::io::Write as _;

use super::{Arrival, Event, Report};
use crate::text;

/// For logs: one line per event that matters.
pub struct Lines {
    verbose: bool,
}

impl Lines {
    /// `verbose` shows details too.
    pub fn new(verbose: bool) -> Self {
        Self { verbose }
    }
}

impl Report for Lines {
    fn tell(&self, event: &Event) {
        if let Some(line) = line_of(event, self.verbose) {
            // Talk that cannot be heard is no reason to stop.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }
}

pub(super) fn line_of(event: &Event, verbose: bool) -> Option<String> {
    Some(match event {
        Event::Phase { what } => what.clone(),
        Event::Planned { files, bytes } => format!("{files} files, {}", text::bytes(*bytes)),
        Event::Started { path, size, offset } if *offset > 0 => {
            format!(
                "  {path}: going on at {} of {}",
                text::bytes(*offset),
                text::bytes(*size)
            )
        }
        Event::Started { path, size, .. } if verbose => format!("  {path}: {}", text::bytes(*size)),
        Event::Finished {
            path, size, arrival, ..
        } => format!("  {path}: {}", arrival_text(arrival, *size)),
        Event::Warning { text } => format!("warning: {text}"),
        Event::Detail { text } if verbose => format!("  {text}"),
        Event::Started { .. } | Event::Progress { .. } | Event::Detail { .. } => return None,
    })
}

pub(super) fn arrival_text(arrival: &Arrival, size: u64) -> String {
    let size = text::bytes(size);
    match arrival {
        Arrival::Present => format!("there already ({size})"),
        Arrival::Mounted(from) => format!("mounted from {from} ({size})"),
        Arrival::Sent(_) => format!("sent {size}"),
        Arrival::Fetched(_) => format!("fetched {size}"),
        Arrival::Reused => format!("reused ({size})"),
    }
}

/// For programs: every event as a JSON object on a line of stdout.
pub struct JsonLines;

impl Report for JsonLines {
    fn tell(&self, event: &Event) {
        if let Ok(line) = serde_json::to_string(event) {
            // A reader that went away wants no more events.
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    }
}

/// Only errors, which are not events.
pub struct Silence;

impl Report for Silence {
    fn tell(&self, event: &Event) {
        if let Event::Warning { text } = event {
            // Talk that cannot be heard is no reason to stop.
            let _ = writeln!(std::io::stderr(), "warning: {text}");
        }
    }
}
