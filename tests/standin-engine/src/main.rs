//! A stand-in for a vendor's engine image: answers health and model list, serves nothing else.
fn main() {}
