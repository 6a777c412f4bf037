//! Ring D: Dragonfly. One scheduler on the machine, one dfdaemon in each node; no manager, no database.

use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bed::Bed;
use crate::error::Error;
use crate::http::{Request, is_ok};
use crate::network::{self, GATEWAY};

use super::launch::{launch, launch_in_node, write};
use super::nodes::Node;
use super::registry::REGISTRY_ADDRESS;

const SCHEDULER: &str = "dragonfly-scheduler";
const DAEMON: &str = "dfdaemon";
const SCHEDULER_PORT: u16 = 8002;
/// Where a node's clients reach its daemon.
const PROXY_PORT: u16 = 4001;
const METRICS_PORT: u16 = 4002;

/// Bytes that a node's daemon got since it was started, by where they came from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerTraffic {
    /// From the registry.
    pub back_to_source: u64,
    /// From other nodes.
    pub remote_peer: u64,
    /// From its own store.
    pub local_peer: u64,
}

pub(super) fn start(bed: &Bed) -> Result<(), Error> {
    network::check_port("the Dragonfly scheduler", GATEWAY, SCHEDULER_PORT)?;
    let folder = bed.layout().data(SCHEDULER);
    write(&folder.join("scheduler.yaml"), &scheduler(&folder).to_string())?;
    write(&folder.join("dynconfig.yaml"), "{}\n")?;
    let mut command = Command::new(bed.program(SCHEDULER)?);
    command.arg("--config").arg(folder.join("scheduler.yaml"));
    command
        .arg("--dynconfig")
        .arg(folder.join("dynconfig.yaml"))
        .arg("--console");
    let scheduler = launch(bed, SCHEDULER, &mut command)?;
    scheduler.wait_until(|| TcpStream::connect((GATEWAY, SCHEDULER_PORT)).is_ok())?;
    let nodes = bed.nodes();
    std::thread::scope(|scope| {
        let starting: Vec<_> = nodes
            .iter()
            .map(|node| scope.spawn(|| start_daemon(bed, node)))
            .collect();
        let joined = starting
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.collect::<Result<Vec<_>, _>>().map(drop)
    })
}

fn start_daemon(bed: &Bed, node: &Node) -> Result<(), Error> {
    let folder = bed.layout().node(&node.name).join("dragonfly");
    write(&folder.join("dfdaemon.yaml"), &daemon(node, &folder).to_string())?;
    let schedulers = json!({ "scheduler": { "addrs": [format!("{GATEWAY}:{SCHEDULER_PORT}")] } });
    write(&folder.join("dynconfig.yaml"), &schedulers.to_string())?;
    let mut command = node.command(bed.program(DAEMON)?);
    command
        .arg("--config")
        .arg(folder.join("dfdaemon.yaml"))
        .arg("--dynconfig")
        .arg(folder.join("dynconfig.yaml"));
    command.arg("--log-dir").arg(folder.join("logs")).arg("--console");
    let daemon = launch_in_node(bed, DAEMON, &node.name, &mut command)?;
    let (proxy, metrics) = ((node.address, PROXY_PORT), metrics_address(node));
    daemon.wait_until(|| TcpStream::connect(proxy).is_ok() && is_ok(&metrics))
}

fn metrics_address(node: &Node) -> String {
    format!("http://{}:{METRICS_PORT}/metrics", node.address)
}

fn scheduler(folder: &std::path::Path) -> Value {
    json!({
        "server": {
            "advertiseIP": GATEWAY, "advertisePort": SCHEDULER_PORT,
            "listenIP": GATEWAY, "port": SCHEDULER_PORT,
            "host": "testbed",
            "logDir": folder.join("logs"), "pluginDir": folder.join("plugins"),
        },
        // The defaults let two hundred nodes go to the registry, and wait long before the first does.
        "scheduler": { "backToSourceCount": 3, "retryBackToSourceLimit": 3, "retryInterval": "500ms" },
        "job": { "enable": false },
    })
}

fn daemon(node: &Node, folder: &std::path::Path) -> Value {
    json!({
        "host": { "ip": node.address, "hostname": node.name },
        "server": { "pluginDir": folder.join("plugins"), "cacheDir": folder.join("cache") },
        "download": { "server": { "socketPath": "/run/dragonfly/dfdaemon.sock" } },
        "storage": { "dir": folder.join("storage"), "keep": true },
        "proxy": {
            "server": { "port": PROXY_PORT },
            "registryMirror": { "addr": format!("http://{REGISTRY_ADDRESS}"), "enableTaskIdBasedBlobDigest": true },
            "rules": [{ "regex": "blobs/sha256.*" }],
        },
    })
}

impl Bed {
    /// Where a client on a node reaches the node's own Dragonfly daemon.
    pub fn dragonfly_address(&self) -> String {
        format!("http://127.0.0.1:{PROXY_PORT}")
    }

    /// Ends a node's Dragonfly daemon without warning, as a crash would.
    pub fn kill_dfdaemon(&self, node: &str) -> Result<(), Error> {
        let process = self
            .state()
            .component(DAEMON, Some(node))
            .map(|component| component.process);
        let process = process.ok_or_else(|| Error::NotStarted {
            component: DAEMON.into(),
            node: node.into(),
        })?;
        process.stop(Duration::ZERO);
        Ok(())
    }

    /// Starts a node's Dragonfly daemon again, with the store that it left.
    pub fn restart_dfdaemon(&self, node: &str) -> Result<(), Error> {
        // The ports of a killed daemon stay taken until its connections have timed out, which takes the kernel a minute.
        let deadline = Instant::now() + Duration::from_secs(90);
        loop {
            self.kill_dfdaemon(node)?;
            match start_daemon(self, &self.node(node)?) {
                Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_secs(5)),
                outcome => return outcome,
            }
        }
    }

    /// What a node's Dragonfly daemon got, by where it came from.
    pub fn dragonfly_traffic(&self, node: &str) -> Result<PeerTraffic, Error> {
        let url = metrics_address(&self.node(node)?);
        let response = Request::new("GET", &url).send()?;
        if response.status != 200 {
            let status = response.status;
            return Err(Error::Http {
                step: "read dfdaemon's metrics".into(),
                url,
                status,
                body: response.text(),
            });
        }
        Ok(parse_traffic(&response.text()))
    }
}

/// Sums `dragonfly_client_download_traffic` by type over all other labels.
fn parse_traffic(metrics: &str) -> PeerTraffic {
    let mut traffic = PeerTraffic::default();
    for line in metrics
        .lines()
        .filter(|line| line.starts_with("dragonfly_client_download_traffic{"))
    {
        let Some((labels, value)) = line.rsplit_once(' ') else {
            continue;
        };
        let bytes = value.parse().unwrap_or(0);
        if labels.contains(r#"type="BACK_TO_SOURCE""#) {
            traffic.back_to_source += bytes;
        } else if labels.contains(r#"type="REMOTE_PEER""#) {
            traffic.remote_peer += bytes;
        } else if labels.contains(r#"type="LOCAL_PEER""#) {
            traffic.local_peer += bytes;
        }
    }
    traffic
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_summed_by_type_and_other_metrics_are_left_alone() {
        let metrics = "# TYPE dragonfly_client_download_traffic counter\n\
            dragonfly_client_download_traffic{type=\"BACK_TO_SOURCE\"} 67108864\n\
            dragonfly_client_download_traffic{task_type=\"STANDARD\",type=\"REMOTE_PEER\"} 5\n\
            dragonfly_client_download_traffic{task_type=\"PERSISTENT\",type=\"REMOTE_PEER\"} 6\n\
            dragonfly_client_upload_traffic{type=\"REMOTE_PEER\"} 9\n";
        let expected = PeerTraffic {
            back_to_source: 67_108_864,
            remote_peer: 11,
            local_peer: 0,
        };
        assert_eq!(parse_traffic(metrics), expected);
    }
}
