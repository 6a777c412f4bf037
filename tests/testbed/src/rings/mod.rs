//! The rings of a bed, each in a file of its own.

mod certificates;
mod cgroups;
mod control_plane;
mod launch;
mod nodes;
mod peers;
mod registry;
mod teardown;

pub(crate) use launch::launch;
pub use nodes::{Node, Traffic};
pub(crate) use nodes::{node, nodes};
pub use peers::PeerTraffic;
pub(crate) use registry::REGISTRY_ADDRESS;
pub(crate) use teardown::stop;

use crate::bed::Bed;
use crate::error::Error;
use crate::ring::Ring;

/// Brings up one ring, when the ones before are up.
pub(crate) fn start(bed: &Bed, ring: Ring) -> Result<(), Error> {
    match ring {
        Ring::Registry => registry::start(bed),
        Ring::ControlPlane => control_plane::start(bed),
        Ring::Nodes => nodes::start(bed),
        Ring::PeerToPeer => peers::start(bed),
    }
}
