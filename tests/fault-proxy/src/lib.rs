//! A proxy in front of a registry or hub that injects scripted faults, and an in-process registry that injects them itself.

mod apply;
mod fault;
mod proxy;
pub mod registry;
mod server;

pub use fault::{Fault, FaultRule, FaultScript};
pub use proxy::FaultProxy;
