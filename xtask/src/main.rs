//! Tasks of the repository: generate, testbed, demo, images, bench.
fn main() {}
