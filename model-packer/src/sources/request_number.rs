//! The number that a request carries, by which the people of a hub find it in their logs.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};

use reqwest::Response;

pub(crate) const HEADER: &str = "x-request-id";

/// A number of its own for each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestNumber(String);

impl RequestNumber {
    /// Unlike any other: hashers with a random state are all the randomness that this needs.
    pub(crate) fn fresh() -> Self {
        let random = || RandomState::new().hash_one(std::process::id());
        Self(format!("{:016x}{:016x}", random(), random()))
    }

    /// The one that was sent for this answer.
    pub(crate) fn of(response: &Response) -> Option<Self> {
        response.extensions().get().cloned()
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What went wrong, and the number where there is one.
pub(crate) fn with_number(problem: String, number: Option<&RequestNumber>) -> String {
    match number {
        Some(number) => format!("{problem}, request {number}"),
        None => problem,
    }
}
