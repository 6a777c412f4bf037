//! A simulated accelerator: a real device plugin that owns no hardware.
fn main() {}
