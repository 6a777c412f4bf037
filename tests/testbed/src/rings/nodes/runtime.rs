//! A node's programs: containerd, kubelet, kube-proxy.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::bed::Bed;
use crate::error::Error;
use crate::http::is_ok;
use crate::images::{Image, push};
use crate::rings::certificates::kubeconfig_path;
use crate::rings::cgroups;
use crate::rings::launch::{launch_in_node, write};
use crate::rings::registry::REGISTRY_ADDRESS;

use super::configuration::{self, HEALTH_PORT, Machine, PAUSE_REPOSITORY, PAUSE_TAG};
use super::{Node, NodeSpec};

/// Components under the names that others look for.
const NAMES: &[(&str, &str)] = &[
    ("containerd-shim-runc-v2", "containerd-shim-runc-v2"),
    ("bridge", "cni-bridge"),
    ("host-local", "cni-host-local"),
    ("loopback", "cni-loopback"),
];

/// Debian puts `runc`, `nft` and `ip` into sbin, which is not in every search path.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(super) fn push_pause_image(bed: &Bed) -> Result<(), Error> {
    let image = Image::of_program(&bed.program("pause")?, "/pause")?;
    push(REGISTRY_ADDRESS, PAUSE_REPOSITORY, PAUSE_TAG, &image).map(drop)
}

pub(super) fn link_programs(bed: &Bed) -> Result<(), Error> {
    for (name, component) in NAMES {
        let link = bed.layout().programs().join(name);
        if !link.exists() {
            symlink(bed.program(component)?, &link).map_err(Error::io("link", &link))?;
        }
    }
    Ok(())
}

pub(super) fn start(bed: &Bed, spec: &NodeSpec) -> Result<(), Error> {
    let node = bed.node(spec.name)?;
    let folder = bed.layout().node(spec.name);
    write_files(bed, spec, &folder)?;
    start_containerd(bed, &node, &folder)?;
    start_kubelet(bed, spec, &node, &folder)?;
    start_proxy(bed, &node, &folder)
}

fn write_files(bed: &Bed, spec: &NodeSpec, folder: &Path) -> Result<(), Error> {
    let secrets = bed.layout().secrets();
    let programs = bed.layout().programs();
    let resolver = folder.join("resolv.conf");
    let kubelet = configuration::kubelet(spec, &secrets.join("ca.crt"), &cgroups::root_of(spec.name), &resolver);
    let machine = inspect(folder)?;
    let proxy = configuration::proxy(&kubeconfig_path(&secrets, "kube-proxy"), spec.name, machine);
    write(
        &folder.join("containerd.toml"),
        &configuration::containerd(&programs, machine),
    )?;
    let hosts = folder
        .join("etc-containerd/certs.d")
        .join(REGISTRY_ADDRESS)
        .join("hosts.toml");
    write(&hosts, &configuration::registry_hosts())?;
    write(
        &folder.join("etc-cni-net.d/10-pods.conflist"),
        &format!("{:#}\n", configuration::pod_network(spec)),
    )?;
    write(&folder.join("kubelet.json"), &format!("{kubelet:#}\n"))?;
    write(&folder.join("kube-proxy.json"), &format!("{proxy:#}\n"))?;
    // Names outside the cluster are not looked up: pods get the cluster's DNS server.
    write(&resolver, "options ndots:1\n")
}

fn start_containerd(bed: &Bed, node: &Node, folder: &Path) -> Result<(), Error> {
    let path = format!("{}:{SYSTEM_PATH}", bed.layout().programs().display());
    let mut command = node.command(bed.program("containerd")?);
    command
        .arg("--config")
        .arg(folder.join("containerd.toml"))
        .env("PATH", path);
    let containerd = launch_in_node(bed, "containerd", &node.name, &mut command)?;
    // The node's /run is seen through its holder.
    let socket = format!("/proc/{}/root/run/containerd/containerd.sock", node.holder().pid);
    containerd.wait_until(|| Path::new(&socket).exists())
}

fn start_kubelet(bed: &Bed, spec: &NodeSpec, node: &Node, folder: &Path) -> Result<(), Error> {
    let labels: Vec<_> = spec
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let mut command = node.command(bed.program("kubelet")?);
    command.arg("--config").arg(folder.join("kubelet.json"));
    command
        .arg("--kubeconfig")
        .arg(kubeconfig_path(&bed.layout().secrets(), spec.name));
    command.args([
        format!("--hostname-override={}", spec.name),
        format!("--node-ip={}", spec.address()),
    ]);
    command.arg(format!("--node-labels={}", labels.join(",")));
    let kubelet = launch_in_node(bed, "kubelet", spec.name, command.env("PATH", SYSTEM_PATH))?;
    let health = format!("http://{}:{HEALTH_PORT}/healthz", spec.address());
    kubelet.wait_until(|| is_ok(&health))
}

fn start_proxy(bed: &Bed, node: &Node, folder: &Path) -> Result<(), Error> {
    let mut command = node.command(bed.program("kube-proxy")?);
    command
        .arg("--config")
        .arg(folder.join("kube-proxy.json"))
        .env("PATH", SYSTEM_PATH);
    let proxy = launch_in_node(bed, "kube-proxy", &node.name, &mut command)?;
    let table = || node.run("nft", &["list", "table", "ip", "kube-proxy"]).is_ok();
    proxy.wait_until(table)
}

fn inspect(folder: &Path) -> Result<Machine, Error> {
    /// `f_type` of an overlay file system.
    const OVERLAY: u64 = 0x794c_7630;
    /// The bit of `CAP_SYS_RESOURCE`.
    const RESOURCE: u64 = 1 << 24;
    let kind = rustix::fs::statfs(folder)
        .map_err(|error| Error::io("look at the disk of", folder)(error.into()))?
        .f_type;
    let status = fs::read_to_string("/proc/self/status").map_err(Error::io("read", "/proc/self/status"))?;
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = capabilities
        .and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
        .unwrap_or(0);
    Ok(Machine {
        overlay: u64::try_from(kind) == Ok(OVERLAY),
        may_set_scores: capabilities & RESOURCE != 0,
        filters_bridges: Path::new("/proc/sys/net/bridge").exists(),
    })
}
