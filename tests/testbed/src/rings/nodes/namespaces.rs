//! A node's namespaces, and the cable to the bridge.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bed::Bed;
use crate::error::Error;
use crate::network::{BRIDGE, GATEWAY, ip, veth};
use crate::rings::cgroups;
use crate::rings::launch::{launch_in_node, write};

use super::{HOLDER, Node, NodeSpec};

/// Folders with fixed names that each node has for itself, so that charts and plugins find the paths they expect.
const OWN_FOLDERS: &[&str] = &[
    "/etc/cdi",
    "/etc/cni/net.d",
    "/etc/containerd",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/lib/plimsoll",
    "/var/log/containers",
    "/var/log/pods",
];

/// Makes the folders to mount on; those that were not there go away with the bed.
pub(super) fn make_mount_points(bed: &Bed) -> Result<(), Error> {
    for folder in OWN_FOLDERS {
        let missing: Vec<PathBuf> = Path::new(folder)
            .ancestors()
            .take_while(|path| !path.exists())
            .map(Into::into)
            .collect();
        bed.change(|state| state.mount_points.extend(missing.into_iter().rev()))?;
        fs::create_dir_all(folder).map_err(Error::io("make folder", folder))?;
    }
    Ok(())
}

/// Starts the process that holds a node's namespaces, after it mounted the node's own folders.
pub(super) fn start(bed: &Bed, spec: &NodeSpec) -> Result<(), Error> {
    cgroups::make(spec.name)?;
    let folder = bed.layout().node(spec.name);
    for own in OWN_FOLDERS {
        let place = place_of(&folder, own);
        fs::create_dir_all(&place).map_err(Error::io("make folder", &place))?;
    }
    let (script, ready) = (folder.join("set-up.sh"), folder.join("is-set-up"));
    write(&script, &set_up(&folder, &ready))?;
    let mut command = Command::new("unshare");
    // The holder is the first process of its process namespace: when it ends, so does everything in the node.
    command.args(["--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]);
    command.arg(bed.program("pause")?).arg("sh").arg(&script);
    launch_in_node(bed, HOLDER, spec.name, &mut command)?.wait_until(|| ready.exists())
}

fn place_of(folder: &Path, own: &str) -> PathBuf {
    folder.join(own.trim_start_matches('/').replace('/', "-"))
}

fn set_up(folder: &Path, ready: &Path) -> String {
    let mut script = String::from("set -e\nmount --make-rprivate /\n");
    for own in OWN_FOLDERS {
        let _ = writeln!(script, "mount --bind '{}' {own}", place_of(folder, own).display());
    }
    // /run holds sockets, the runtime's state and the pods' network namespaces.
    script.push_str("mount -t tmpfs -o mode=755 tmpfs /run\nmkdir -p /run/lock\n");
    // Volumes that a driver mounts have to reach the kubelet and the pods.
    script.push_str("mount --make-rshared /\n");
    script.push_str("ip link set lo up\necho 1 > /proc/sys/net/ipv4/ip_forward\n");
    let _ = writeln!(script, "touch '{}'", ready.display());
    script
}

/// Plugs each node into the bridge, and teaches everybody where each node's pods are.
pub(super) fn connect(bed: &Bed, specs: &[NodeSpec]) -> Result<(), Error> {
    for spec in specs {
        let node = bed.node(spec.name)?;
        plug_in(&node, spec)?;
        ip(&["route", "add", &spec.pod_network(), "via", &spec.address().to_string()])?;
        for other in specs.iter().filter(|other| other.index != spec.index) {
            let (network, gateway) = (other.pod_network(), other.address().to_string());
            node.run(
                "ip",
                &["route", "add", &network, "via", &gateway, "dev", "eth0", "onlink"],
            )?;
        }
    }
    Ok(())
}

fn plug_in(node: &Node, spec: &NodeSpec) -> Result<(), Error> {
    let (cable, holder) = (veth(spec.name), node.holder().pid.to_string());
    ip(&[
        "link", "add", &cable, "master", BRIDGE, "type", "veth", "peer", "name", "eth0", "netns", &holder,
    ])?;
    ip(&["link", "set", &cable, "up"])?;
    node.run(
        "ip",
        &["address", "add", &format!("{}/24", spec.address()), "dev", "eth0"],
    )?;
    node.run("ip", &["link", "set", "eth0", "up"])?;
    node.run("ip", &["route", "add", "default", "via", &GATEWAY.to_string()])
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_up_script_reads_as_it_should() {
        let script = set_up(Path::new("/bed/nodes/cpu-1"), Path::new("/bed/nodes/cpu-1/is-set-up"));
        let binds = script.lines().filter(|line| line.starts_with("mount --bind ")).count();
        assert_eq!(binds, OWN_FOLDERS.len());
        assert!(
            script.contains("mount --bind '/bed/nodes/cpu-1/var-lib-kubelet' /var/lib/kubelet\n"),
            "{script}"
        );
        let (private, shared) = (
            script.find("--make-rprivate").unwrap(),
            script.find("--make-rshared").unwrap(),
        );
        let last_mount = script.rfind("tmpfs /run").unwrap();
        assert!(
            private < last_mount && last_mount < shared,
            "nothing may reach the machine: {script}"
        );
    }
}
