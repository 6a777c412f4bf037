//! The test bed: real Kubernetes components, built and started on one machine.
//!
//! Tests, the demo and developers share it. A bed grows in rings, each holding the one before: a registry, a control
//! plane, three nodes, peer-to-peer. Everything it makes carries a name of its own, and [`Bed::down`] removes all of it,
//! even after the program that started the bed was killed.

mod bed;
mod beside;
pub mod cluster;
mod command;
pub mod components;
mod debian;
mod error;
pub mod failure;
pub mod fixture;
pub mod http;
pub mod images;
mod interrupt;
mod layout;
mod network;
mod process;
mod report;
mod ring;
mod rings;
mod state;

pub use bed::{Bed, BedConfig, Environment, guard};
pub use components::ComponentStore;
pub use debian::ensure as ensure_packages;
pub use error::Error;
pub use failure::StartFailure;
pub use interrupt::{down_on_interrupt, wait_if_interrupted};
pub use layout::Layout;
pub use process::{ProcessId, children};
pub use report::Reporter;
pub use ring::Ring;
pub use rings::{Node, PeerTraffic, Traffic};
pub use state::{ComponentState, State};
