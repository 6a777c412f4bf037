//! How far a bed is up.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How much of the world is up. Each ring holds the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ring {
    /// A registry.
    Registry,
    /// etcd, API server, controller-manager and scheduler.
    ControlPlane,
    /// Three nodes with kubelet, containerd, kube-proxy, and a DNS server.
    Nodes,
    /// A Dragonfly scheduler, and a dfdaemon on each node.
    PeerToPeer,
}

impl Ring {
    /// All rings, smallest first.
    pub const ALL: [Self; 4] = [Self::Registry, Self::ControlPlane, Self::Nodes, Self::PeerToPeer];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Registry => "registry",
            Self::ControlPlane => "control-plane",
            Self::Nodes => "nodes",
            Self::PeerToPeer => "peer-to-peer",
        }
    }

    /// The components that this ring adds.
    pub fn components(self) -> &'static [&'static str] {
        match self {
            Self::Registry => &["docker-registry"],
            Self::ControlPlane => &[
                "kube-apiserver",
                "etcd",
                "kube-controller-manager",
                "kube-scheduler",
                "kubectl",
            ],
            Self::Nodes => &[
                "pause",
                "containerd",
                "containerd-shim-runc-v2",
                "kubelet",
                "kube-proxy",
                "cni-bridge",
                "cni-host-local",
                "cni-loopback",
                "coredns",
            ],
            Self::PeerToPeer => &["dragonfly-scheduler", "dfdaemon"],
        }
    }
}

impl fmt::Display for Ring {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Ring {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|ring| ring.name() == text);
        found.ok_or_else(|| format!("unknown ring `{text}`, there are {names}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_parsed_by_their_names_and_a_wrong_one_lists_them() {
        for ring in Ring::ALL {
            assert_eq!(ring.name().parse(), Ok(ring));
        }
        let error = "node".parse::<Ring>().unwrap_err();
        assert_eq!(
            error,
            "unknown ring `node`, there are registry, control-plane, nodes, peer-to-peer"
        );
    }

    #[test]
    fn every_component_of_a_ring_is_pinned() {
        for name in Ring::ALL.into_iter().flat_map(Ring::components) {
            assert!(crate::components::Component::find(name).is_some(), "{name}");
        }
    }
}
