//! Facts on their way, with what could not be derived.

use crate::config::Lookup;
use crate::facts::{ModelFacts, Unknown};

/// Facts under construction.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) facts: ModelFacts,
}

impl Draft {
    /// Names a fact that could not be derived, once.
    pub(crate) fn unknown(&mut self, fact: &str, missing: impl Into<String>) {
        if self.facts.unknown.iter().any(|known| known.fact == fact) {
            return;
        }
        self.facts.unknown.push(Unknown {
            fact: fact.to_owned(),
            missing: missing.into(),
        });
    }

    /// Adds a remark, once.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.facts.notes.contains(&note) {
            self.facts.notes.push(note);
        }
    }

    /// The value of a lookup; when there is none, the fact is named unknown.
    pub(crate) fn take<T>(&mut self, fact: &str, lookup: Lookup<T>, absent: impl FnOnce() -> String) -> Option<T> {
        match lookup {
            Lookup::Found(value, _) => Some(value),
            Lookup::Wrong(reason) => {
                self.unknown(fact, reason);
                None
            }
            Lookup::Absent => {
                self.unknown(fact, absent());
                None
            }
        }
    }

    /// The finished facts, with the unknown ones in a fixed order.
    pub(crate) fn finish(mut self) -> ModelFacts {
        self.facts.unknown.sort_by(|a, b| a.fact.cmp(&b.fact));
        self.facts
    }
}
