//! Ring C: three nodes, each in network, mount and process namespaces of its own.

mod cluster;
mod configuration;
mod namespaces;
mod runtime;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use crate::bed::Bed;
use crate::command::run;
use crate::debian;
use crate::error::Error;
use crate::process::ProcessId;
use crate::state::State;

/// The names of all nodes.
pub(super) const NODE_NAMES: [&str; 3] = ["cpu-1", "cpu-2", "gcu-1"];

/// The process that holds a node's namespaces.
const HOLDER: &str = "node";

/// What a node is before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NodeSpec {
    name: &'static str,
    index: u8,
    labels: &'static [(&'static str, &'static str)],
}

/// The labels that Enflame's feature discovery sets on a machine with two S60.
const S60_LABELS: &[(&str, &str)] = &[
    ("enflame.com/gcu.count", "2"),
    ("enflame.com/gcu.driverVer", "1.8.7"),
    ("enflame.com/gcu.family", "SCORPIO"),
    ("enflame.com/gcu.memory", "49120"),
    ("enflame.com/gcu.model", "S60"),
    ("enflame.com/gcu.present", "true"),
    ("enflame.com/gcu.product", "scorpio"),
];

const SPECS: [NodeSpec; 3] = [
    NodeSpec {
        name: NODE_NAMES[0],
        index: 1,
        labels: &[],
    },
    NodeSpec {
        name: NODE_NAMES[1],
        index: 2,
        labels: &[],
    },
    NodeSpec {
        name: NODE_NAMES[2],
        index: 3,
        labels: S60_LABELS,
    },
];

impl NodeSpec {
    fn address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, 0, 10 + self.index)
    }

    fn pod_network(&self) -> String {
        format!("10.214.{}.0/24", self.index)
    }
}

/// A node that is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name in the cluster.
    pub name: String,
    /// Its address on the bridge.
    pub address: Ipv4Addr,
    holder: ProcessId,
}

impl Node {
    /// A command inside the node's namespaces.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg("--target")
            .arg(self.holder.pid.to_string())
            .args(["--mount", "--net", "--pid", "--"])
            .arg(program);
        command
    }

    /// Runs a program inside the node and returns its standard output.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String, Error> {
        run(&format!("on node {}", self.name), self.command(program).args(arguments))
    }

    /// The process that holds the node's namespaces.
    pub fn holder(&self) -> ProcessId {
        self.holder
    }

    /// The machine's end of the node's cable, whose counters under `/sys/class/net` tell what went over it.
    pub fn interface(&self) -> String {
        crate::network::veth(&self.name)
    }

    /// Bytes that came to the node over its cable, and bytes that it sent.
    pub fn traffic(&self) -> Result<Traffic, Error> {
        // The machine's end sends what the node receives.
        Ok(Traffic {
            received: self.counter("tx_bytes")?,
            sent: self.counter("rx_bytes")?,
        })
    }

    fn counter(&self, name: &str) -> Result<u64, Error> {
        let path = PathBuf::from(format!("/sys/class/net/{}/statistics/{name}", self.interface()));
        let text = std::fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        let parsed = text.trim().parse();
        parsed.map_err(|_| Error::Malformed {
            what: path.display().to_string(),
            reason: format!("`{}`", text.trim()),
        })
    }
}

/// Bytes over a node's cable since it was plugged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// To the node.
    pub received: u64,
    /// From the node.
    pub sent: u64,
}

/// The node of this name, if it is up.
pub(crate) fn node(state: &State, name: &str) -> Result<Node, Error> {
    let up = nodes(state);
    let names = up.iter().map(|node| node.name.clone()).collect();
    let found = up.into_iter().find(|node| node.name == name);
    found.ok_or_else(|| Error::UnknownNode {
        name: name.into(),
        up: names,
    })
}

/// All nodes that are up.
pub(crate) fn nodes(state: &State) -> Vec<Node> {
    let up = |spec: &NodeSpec| {
        let holder = state.component(HOLDER, Some(spec.name))?.process;
        Some(Node {
            name: spec.name.into(),
            address: spec.address(),
            holder,
        })
    };
    SPECS.iter().filter_map(up).collect()
}

pub(super) fn start(bed: &Bed) -> Result<(), Error> {
    let started = Instant::now();
    debian::ensure(&["runc", "nftables"])?;
    runtime::push_pause_image(bed)?;
    runtime::link_programs(bed)?;
    namespaces::make_mount_points(bed)?;
    for spec in &SPECS {
        namespaces::start(bed, spec)?;
    }
    namespaces::connect(bed, &SPECS)?;
    std::thread::scope(|scope| {
        let running: Vec<_> = SPECS
            .iter()
            .map(|spec| scope.spawn(|| runtime::start(bed, spec)))
            .collect();
        let dns = cluster::start_dns(bed);
        let joined = running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.collect::<Result<Vec<_>, _>>().and(dns)
    })?;
    cluster::wait_until_ready(bed, &NODE_NAMES, started)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::ComponentState;

    #[test]
    fn a_node_that_is_not_up_is_told_from_those_that_are() {
        let holder = ProcessId { pid: 7, start_time: 1 };
        let component = ComponentState {
            name: HOLDER.into(),
            node: Some("cpu-2".into()),
            process: holder,
            log: PathBuf::new(),
            started: 0,
        };
        let state = State {
            components: vec![component],
            ..State::default()
        };
        let expected = Node {
            name: "cpu-2".into(),
            address: Ipv4Addr::new(10, 213, 0, 12),
            holder,
        };
        assert_eq!(nodes(&state), vec![expected]);
        let error = node(&state, "cpu-1").unwrap_err();
        assert_eq!(error.to_string(), "no node cpu-1 is up (up: cpu-2)");
    }
}
