//! The plimsoll command: explain, why-not, simulate and matrix tools, all offline.
fn main() {}
