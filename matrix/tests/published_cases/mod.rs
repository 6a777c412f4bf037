//! From published claims to cases.

pub(crate) mod answer;
pub(crate) mod case;
pub(crate) mod claim;
pub(crate) mod expectation;
pub(crate) mod register;
