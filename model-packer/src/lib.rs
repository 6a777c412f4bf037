//! Packs a model from a hub as an OCI artifact, every byte checked.

pub mod hashing;
pub mod selection;
pub mod sources;
pub mod text;
