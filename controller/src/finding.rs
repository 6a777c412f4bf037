//! What was found about one condition: a reason of the closed list, and the words for it.

use crds::Reason;

/// The answer to one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The reason, which also fixes the condition and its status.
    pub reason: Reason,
    /// The reason in words, with what would help.
    pub message: String,
}

impl Finding {
    /// A finding in words of its own.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }

    /// Whether the condition is met.
    pub fn holds(&self) -> bool {
        self.reason.status() == "True"
    }
}
