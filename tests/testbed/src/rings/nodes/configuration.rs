//! The configuration files of one node's programs.

use std::path::Path;

use serde_json::{Value, json};

use crate::network::{GATEWAY, POD_NETWORK};
use crate::rings::registry::REGISTRY_ADDRESS;

use super::NodeSpec;

/// The pods' sandbox.
pub(super) const PAUSE_REPOSITORY: &str = "plimsoll/pause";
/// Its tag.
pub(super) const PAUSE_TAG: &str = "1";

/// Where a kubelet tells the machine that it is well.
pub(super) const HEALTH_PORT: u16 = 10248;

/// What the machine dictates to a container runtime.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machine {
    /// Overlay file systems do not stack: on one, layers have to be copied.
    pub(super) overlay: bool,
    /// Without the capability to lower a score, containers must not try.
    pub(super) may_set_scores: bool,
    /// With `br_netfilter`, the answer of a pod on the same bridge is translated back.
    pub(super) filters_bridges: bool,
}

pub(super) fn containerd(programs: &Path, machine: Machine) -> String {
    let snapshotter = if machine.overlay { "native" } else { "overlayfs" };
    let restrict = !machine.may_set_scores;
    let programs = programs.display();
    format!(
        r#"version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "/run/containerd/containerd.sock"

[plugins.'io.containerd.cri.v1.images']
snapshotter = "{snapshotter}"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{REGISTRY_ADDRESS}/{PAUSE_REPOSITORY}:{PAUSE_TAG}"

[plugins.'io.containerd.cri.v1.images'.registry]
config_path = "/etc/containerd/certs.d"

[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = {restrict}

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{programs}"]
conf_dir = "/etc/cni/net.d"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
snapshotter = "{snapshotter}"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
"#
    )
}

/// How containerd reaches the bed's registry: without TLS. A peer-to-peer mirror is one more `host` above.
pub(super) fn registry_hosts() -> String {
    format!(
        "server = \"http://{REGISTRY_ADDRESS}\"\n\n[host.\"http://{REGISTRY_ADDRESS}\"]\ncapabilities = [\"pull\", \"resolve\"]\n"
    )
}

pub(super) fn pod_network(spec: &NodeSpec) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": true,
            // A pod may reach itself through its Service.
            "hairpinMode": true,
            "ipam": {
                "type": "host-local",
                "ranges": [[{ "subnet": spec.pod_network() }]],
                "routes": [{ "dst": "0.0.0.0/0" }],
            },
        }],
    })
}

pub(super) fn kubelet(spec: &NodeSpec, authority: &Path, cgroup_root: &str, resolver: &Path) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": authority },
        },
        "authorization": { "mode": "Webhook" },
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup_root,
        "failCgroupV1": false,
        "clusterDNS": [GATEWAY.to_string()],
        "clusterDomain": "cluster.local",
        "resolvConf": resolver,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "failSwapOn": false,
        "oomScoreAdj": 0,
        "serializeImagePulls": false,
        "localStorageCapacityIsolation": false,
        // The nodes share one disk, which is the machine owner's business.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
        "protectKernelDefaults": false,
        "makeIPTablesUtilChains": false,
        "readOnlyPort": 0,
        "healthzBindAddress": spec.address(),
        "healthzPort": HEALTH_PORT,
    })
}

pub(super) fn proxy(kubeconfig: &Path, node: &str, machine: Machine) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        // Where bridges are not filtered, answers have to come by way of the node.
        "nftables": { "masqueradeAll": !machine.filters_bridges },
        "clientConnection": { "kubeconfig": kubeconfig },
        "clusterCIDR": POD_NETWORK,
        "hostnameOverride": node,
        // Keeps it from writing settings of the whole machine.
        "conntrack": { "maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_masqueraded_only_where_bridges_are_not_filtered() {
        for filters_bridges in [true, false] {
            let machine = Machine {
                overlay: false,
                may_set_scores: true,
                filters_bridges,
            };
            let config = proxy(Path::new("/kubeconfig"), "cpu-1", machine);
            assert_eq!(config["nftables"]["masqueradeAll"], !filters_bridges);
        }
    }

    #[test]
    fn a_machine_without_the_capability_keeps_scores_and_layers_simple() {
        let poor = containerd(
            Path::new("/bed/bin"),
            Machine {
                overlay: true,
                may_set_scores: false,
                filters_bridges: false,
            },
        );
        assert!(poor.contains("restrict_oom_score_adj = true\n"), "{poor}");
        assert_eq!(poor.matches("snapshotter = \"native\"").count(), 2, "{poor}");
        let rich = containerd(
            Path::new("/bed/bin"),
            Machine {
                overlay: false,
                may_set_scores: true,
                filters_bridges: true,
            },
        );
        assert!(rich.contains("restrict_oom_score_adj = false\n"), "{rich}");
        assert!(rich.contains("bin_dirs = [\"/bed/bin\"]\n"), "{rich}");
    }
}
