//! Packs a model from a hub as an OCI artifact, every byte checked.

pub mod attest;
mod buffers;
mod bundle;
pub mod cli;
pub mod content;
pub mod error;
pub mod gather;
pub mod hashing;
pub mod header;
mod hold;
mod in_order;
pub mod journal;
mod layer_reader;
mod layers;
pub mod licence;
pub mod lock;
pub mod packed;
pub mod prepare;
mod prove;
pub mod pull;
pub mod push;
pub mod report;
pub mod selection;
pub mod signing;
pub mod sources;
pub mod tags;
pub mod text;
pub mod variants;
pub mod versions;

pub use error::PackError;
