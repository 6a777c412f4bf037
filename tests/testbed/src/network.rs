//! The bed's network: one bridge on the machine, one address per node, one pod subnet per node.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;

use crate::command::{is_installed, run, succeeds};
use crate::error::Error;
use crate::process::{ProcessId, all_pids};

/// The bridge on the machine.
pub(crate) const BRIDGE: &str = "plimsoll0";
/// The machine's address on the bridge: where the registry, the API server and the DNS server listen.
pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 213, 0, 1);
/// All pods.
pub(crate) const POD_NETWORK: &str = "10.214.0.0/16";
/// All Services.
pub(crate) const SERVICE_NETWORK: &str = "10.215.0.0/16";
/// The API server as a Service: the first address of the service network.
pub(crate) const SERVICE_GATEWAY: &str = "10.215.0.1";

/// The networks a bed takes for itself.
const NETWORKS: &[(&str, Ipv4Addr, u8)] = &[
    ("10.213.0.0/24", Ipv4Addr::new(10, 213, 0, 0), 24),
    (POD_NETWORK, Ipv4Addr::new(10, 214, 0, 0), 16),
    (SERVICE_NETWORK, Ipv4Addr::new(10, 215, 0, 0), 16),
];

/// Marks the one firewall rule that a bed may need.
const RULE_COMMENT: &str = "plimsoll-testbed";

/// Refuses networks that the machine already routes, other than by default.
pub(crate) fn check_free() -> Result<(), Error> {
    let routes = run(
        "read the routes",
        Command::new("ip").args(["-4", "route", "show", "table", "all"]),
    )?;
    match find_collision(&routes) {
        Some((network, route)) => Err(Error::NetworkTaken {
            network: network.into(),
            route: route.into(),
        }),
        None => Ok(()),
    }
}

/// Makes the bridge, and lets its traffic through a firewall that drops by default.
pub(crate) fn make_bridge() -> Result<(), Error> {
    ip(&["link", "add", BRIDGE, "type", "bridge"])?;
    ip(&["address", "add", &format!("{GATEWAY}/24"), "dev", BRIDGE])?;
    ip(&["link", "set", BRIDGE, "up"])?;
    if is_installed("iptables") && forwarding_is_dropped() {
        run(
            "let the bridge's traffic through",
            Command::new("iptables").args(["-I"]).args(RULE),
        )?;
    }
    Ok(())
}

/// Removes the bridge with everything plugged into it. Does nothing when it is not there.
pub(crate) fn remove_bridge() -> Result<(), Error> {
    for link in veths() {
        remove_link(&link)?;
    }
    remove_link(BRIDGE)?;
    if is_installed("iptables") {
        while succeeds(Command::new("iptables").arg("-D").args(RULE)) {}
    }
    Ok(())
}

const RULE: &[&str] = &[
    "FORWARD",
    "-i",
    BRIDGE,
    "-o",
    BRIDGE,
    "-m",
    "comment",
    "--comment",
    RULE_COMMENT,
    "-j",
    "ACCEPT",
];

/// Where docker or a firewall set the policy to drop, bridged frames are dropped too.
fn forwarding_is_dropped() -> bool {
    let rules = run("read the firewall", Command::new("iptables").args(["-S", "FORWARD"])).unwrap_or_default();
    rules.lines().any(|line| line.trim() == "-P FORWARD DROP")
}

/// The machine's end of a node's cable.
pub(crate) fn veth(node: &str) -> String {
    format!("plim-{node}")
}

fn veths() -> Vec<String> {
    let entries = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("plim-")).collect()
}

/// A cable goes away by itself while its node's namespace is taken apart, even between the look and the removal.
fn remove_link(name: &str) -> Result<(), Error> {
    if !link_exists(name) {
        return Ok(());
    }
    match ip(&["link", "delete", name]) {
        Err(error) if link_exists(name) => Err(error),
        _ => Ok(()),
    }
}

fn link_exists(name: &str) -> bool {
    fs::symlink_metadata(format!("/sys/class/net/{name}")).is_ok()
}

/// Runs `ip`.
pub(crate) fn ip(arguments: &[&str]) -> Result<(), Error> {
    run("set up the network", Command::new("ip").args(arguments)).map(drop)
}

/// The first of the bed's networks that a route overlaps. The bed's own bridge is removed before this is asked.
fn find_collision(routes: &str) -> Option<(&'static str, &str)> {
    for route in routes.lines() {
        let mut words = route.split_whitespace();
        let first = words.next().unwrap_or_default();
        let target = if matches!(first, "local" | "broadcast" | "unreachable") {
            words.next().unwrap_or_default()
        } else {
            first
        };
        let Some((address, prefix)) = parse_network(target) else {
            continue;
        };
        if let Some((network, ..)) = NETWORKS
            .iter()
            .find(|(_, own, length)| overlap((*own, *length), (address, prefix)))
        {
            return Some((network, route.trim()));
        }
    }
    None
}

fn parse_network(text: &str) -> Option<(Ipv4Addr, u8)> {
    match text.split_once('/') {
        Some((address, prefix)) => Some((address.parse().ok()?, prefix.parse().ok()?)),
        None => Some((text.parse().ok()?, 32)),
    }
}

fn overlap(one: (Ipv4Addr, u8), other: (Ipv4Addr, u8)) -> bool {
    let shared = one.1.min(other.1);
    let mask = if shared == 0 {
        0
    } else {
        u32::MAX << (32 - u32::from(shared))
    };
    u32::from(one.0) & mask == u32::from(other.0) & mask
}

/// Refuses a port that is in use, and says by whom.
pub(crate) fn check_port(component: &str, address: Ipv4Addr, port: u16) -> Result<(), Error> {
    match TcpListener::bind((address, port)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Err(Error::PortTaken {
            component: component.into(),
            address: format!("{address}:{port}"),
            holder: holder_of_port(port).unwrap_or_else(|| "another program".into()),
        }),
        Err(error) => Err(Error::io("listen on", format!("{address}:{port}"))(error)),
    }
}

/// The usual port on loopback if it is free, else any free one.
pub(crate) fn loopback_port(usual: u16) -> Result<u16, Error> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = bind(usual)
        .or_else(|_| bind(0))
        .map_err(Error::io("listen on", "127.0.0.1"))?;
    listener
        .local_addr()
        .map(|address| address.port())
        .map_err(Error::io("listen on", "127.0.0.1"))
}

/// The process that listens on a TCP port, as "name (process 12)".
pub(crate) fn holder_of_port(port: u16) -> Option<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let inodes: Vec<_> = tables.iter().flat_map(|table| listening_inodes(table, port)).collect();
    let process = all_pids()
        .find(|pid| holds_socket(*pid, &inodes))
        .and_then(ProcessId::of)?;
    Some(format!("{} (process {})", process.name(), process.pid))
}

fn holds_socket(pid: i32, inodes: &[String]) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|target| {
        let target = target.to_string_lossy();
        target
            .strip_prefix("socket:[")
            .is_some_and(|rest| inodes.iter().any(|inode| rest == format!("{inode}]")))
    })
}

/// Inodes of sockets in state LISTEN (0A) on the port, from a `/proc/net/tcp` table.
fn listening_inodes(table: &str, port: u16) -> Vec<String> {
    let wanted = format!(":{port:04X}");
    let rows = table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.len() > 9 && row[3] == "0A" && row[1].ends_with(&wanted))
        .map(|row| row[9].to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_that_overlap_are_found_and_default_routes_are_not() {
        let cases = [
            (
                "default via 192.0.2.1 dev eth0\n192.0.2.0/24 dev eth0 proto kernel",
                None,
            ),
            ("10.0.0.0/8 via 192.0.2.1 dev eth0", Some("10.213.0.0/24")),
            ("10.214.7.0/24 dev cni0", Some("10.214.0.0/16")),
            ("local 10.215.0.1 dev dummy0 table local", Some("10.215.0.0/16")),
            ("10.212.0.0/16 dev eth1\n10.216.0.0/16 dev eth1", None),
            ("broadcast 127.255.255.255 dev lo table local", None),
            ("fe80::/64 dev eth0", None),
        ];
        for (routes, expected) in cases {
            assert_eq!(find_collision(routes).map(|(network, _)| network), expected, "{routes}");
        }
    }

    #[test]
    fn the_holder_of_a_port_is_named() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let holder = holder_of_port(port).unwrap();
        assert!(
            holder.ends_with(&format!("(process {})", std::process::id())),
            "{holder}"
        );
        let error = check_port("registry", Ipv4Addr::LOCALHOST, port).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("127.0.0.1:{port} for registry is taken by {holder}")
        );
        assert_ne!(loopback_port(port).unwrap(), port);
    }
}
