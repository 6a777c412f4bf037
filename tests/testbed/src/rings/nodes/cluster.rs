//! What the cluster has once: its DNS server, and the nodes' readiness.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bed::Bed;
use crate::command::wait_for;
use crate::error::Error;
use crate::failure::StartFailure;
use crate::network::GATEWAY;
use crate::rings::certificates::kubeconfig_path;
use crate::rings::launch::{launch, write};

/// Where the DNS server says that it has read the cluster.
const DNS_READY: u16 = 8181;

/// It runs on the machine instead of in pods: one process less per node, and nothing waits for the scheduler.
pub(super) fn start_dns(bed: &Bed) -> Result<(), Error> {
    bed.apply(DNS_ROLE)?;
    let ready = crate::network::loopback_port(DNS_READY)?;
    let file = bed.layout().data("coredns").join("Corefile");
    let kubeconfig = kubeconfig_path(&bed.layout().secrets(), "coredns");
    write(&file, &corefile(&kubeconfig.display().to_string(), ready))?;
    let mut command = Command::new(bed.program("coredns")?);
    let dns = launch(bed, "coredns", command.arg("-conf").arg(&file))?;
    dns.wait_until(|| crate::http::is_ok(&format!("http://127.0.0.1:{ready}/ready")))
}

fn corefile(kubeconfig: &str, ready: u16) -> String {
    format!(
        "cluster.local in-addr.arpa:53 {{\n    bind {GATEWAY}\n    errors\n    ready 127.0.0.1:{ready}\n    kubernetes {{\n        \
         kubeconfig {kubeconfig}\n    }}\n}}\n"
    )
}

const DNS_ROLE: &str = r"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: testbed-coredns
rules:
  - apiGroups: ['']
    resources: [services, pods, namespaces]
    verbs: [list, watch]
  - apiGroups: [discovery.k8s.io]
    resources: [endpointslices]
    verbs: [list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: testbed-coredns
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: testbed-coredns
subjects:
  - apiGroup: rbac.authorization.k8s.io
    kind: User
    name: coredns
---
# kube-proxy speaks as the user that Kubernetes has a role for; only the binding is missing.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: testbed-kube-proxy
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: system:node-proxier
subjects:
  - apiGroup: rbac.authorization.k8s.io
    kind: User
    name: system:kube-proxy
";

/// Waits until every node is Ready, and says of each when it is.
pub(super) fn wait_until_ready(bed: &Bed, names: &[&str], started: Instant) -> Result<(), Error> {
    let mut ready = BTreeSet::new();
    let all = wait_for("the nodes to be Ready", Duration::from_mins(2), || {
        if bed.is_stopping() {
            return Err(Error::Stopping);
        }
        let list = bed.kubectl(&["get", "nodes", "--output", "json"])?;
        for name in ready_nodes(&list)? {
            if ready.insert(name.clone()) {
                bed.reporter()
                    .line(format!("{name} Ready after {:.1} s", started.elapsed().as_secs_f32()));
            }
        }
        Ok(names.iter().all(|name| ready.contains(*name)).then_some(()))
    });
    match all {
        Err(Error::Timeout { seconds, .. }) => Err(not_ready(bed, names, &ready, seconds)),
        other => other,
    }
}

fn not_ready(bed: &Bed, names: &[&str], ready: &BTreeSet<String>, seconds: u64) -> Error {
    let late = names
        .iter()
        .find(|name| !ready.contains(**name))
        .copied()
        .unwrap_or_default();
    let log = bed.layout().logs().join(format!("{late}-kubelet.log"));
    StartFailure::examine(
        &format!("node {late}"),
        &format!("it was not Ready after {seconds} s"),
        &log,
    )
    .into()
}

fn ready_nodes(list: &str) -> Result<Vec<String>, Error> {
    let list: Value = serde_json::from_str(list).map_err(|error| Error::Malformed {
        what: "the list of nodes".into(),
        reason: error.to_string(),
    })?;
    let nodes = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ready = nodes.iter().filter(|node| is_ready(node));
    Ok(ready
        .filter_map(|node| node["metadata"]["name"].as_str().map(str::to_owned))
        .collect())
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    conditions
        .iter()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_with_a_true_ready_condition_are_ready() {
        let list = r#"{"items": [
            {"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            {"metadata": {"name": "b"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
            {"metadata": {"name": "c"}, "status": {"conditions": [{"type": "MemoryPressure", "status": "True"}]}},
            {"metadata": {"name": "d"}}
        ]}"#;
        assert_eq!(ready_nodes(list).unwrap(), vec!["a"]);
        assert!(ready_nodes("no").is_err());
    }
}
