//! Brings a packed model's bytes to a node, proves them, and exposes them read-only.
fn main() {}
