//! A stand-in for model hubs, with scripted faults.
fn main() {}
