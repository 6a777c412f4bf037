//! Progress lines for people.

use std::sync::Arc;

/// Where progress lines go: talk, never data.
#[derive(Clone)]
pub struct Reporter(Arc<dyn Fn(&str) + Send + Sync>);

impl Reporter {
    /// Sends each line to `sink`.
    pub fn new(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// Writes each line to standard error.
    pub fn stderr() -> Self {
        Self::new(|line| eprintln!("{line}"))
    }

    /// Drops every line.
    pub fn silent() -> Self {
        Self::new(|_| {})
    }

    /// Reports one line.
    pub fn line(&self, text: impl AsRef<str>) {
        (self.0)(text.as_ref());
    }
}
