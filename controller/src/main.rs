//! Turns a ModelDeployment into the right engine on the right accelerator, and says why.
fn main() {}
