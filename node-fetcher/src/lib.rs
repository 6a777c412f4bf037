//! Brings a packed model's bytes to a node, proves them, and exposes them read-only.
//!
//! Transports are other people's (a registry, a mirror, a Dragonfly daemon on the node); the proof and the store are
//! ours: a name appears only after the sha256 of what lies on the disk is right.

pub mod csi;
pub mod daemon;
pub mod extent;
pub mod fetch;
pub mod housekeeping;
pub mod http;
pub mod kubelet;
pub mod metrics;
pub mod place;
pub mod report;
pub mod size;
pub mod source;
pub mod store;
