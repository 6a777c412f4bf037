//! Why an artifact did not arrive, in the closed words that statuses and metrics use.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crds::node_weights::FetchReason;

use crate::source::SourceError;
use crate::store::StoreError;

/// A fetch that failed. Cheap to clone, because everybody who waits for the same blob gets it.
#[derive(Debug, Clone)]
pub struct FetchError {
    /// The closed word.
    pub reason: FetchReason,
    subject: String,
    cause: Arc<dyn Error + Send + Sync>,
    hint: Option<String>,
}

impl FetchError {
    /// What failed on which object, and why.
    pub fn new(
        reason: FetchReason,
        subject: impl Into<String>,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self {
            reason,
            subject: subject.into(),
            cause: Arc::from(cause.into()),
            hint: None,
        }
    }

    /// With advice.
    #[must_use]
    pub fn with_hint(mut self, hint: Option<impl Into<String>>) -> Self {
        self.hint = hint.map(Into::into);
        self
    }

    pub(crate) fn store(subject: impl Into<String>, error: StoreError) -> Self {
        // The disk is the fetcher's own engine: there is no other word for it in the closed list.
        let reason = if error.is_disk_full() {
            FetchReason::DiskFull
        } else {
            FetchReason::EngineDown
        };
        let hint = error.hint();
        Self::new(reason, subject, error).with_hint(hint)
    }

    pub(crate) fn source(subject: impl Into<String>, error: SourceError) -> Self {
        Self::new(error.reason, subject, error)
    }

    pub(crate) fn registry(subject: impl Into<String>, error: registry::Error) -> Self {
        let hint = error.hint();
        Self::new(crate::source::reason_of(&error), subject, error).with_hint(hint)
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The whole chain in one line, for a status.
    pub fn message(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            let next = error.to_string();
            // Transparent wrappers repeat their cause.
            if !text.ends_with(&next) {
                text.push_str(": ");
                text.push_str(&next);
            }
            cause = error.source();
        }
        text
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "cannot fetch {}", self.subject)
    }
}

impl Error for FetchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.cause)
    }
}
