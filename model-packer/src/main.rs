//! Packs a model from a hub as an OCI artifact, every byte checked.
fn main() {}
