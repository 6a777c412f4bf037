//! The chart's admission policy on a real API server: a node fetcher speaks for its own node only.

use std::process::Output;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use testbed::{Bed, BedConfig, Reporter};

const NAMESPACE: &str = "plimsoll-system";

/// The node and the name of a running fetcher.
fn a_fetcher(bed: &Bed) -> Result<(String, String)> {
    let selector = "app.kubernetes.io/component=node-fetcher";
    let list = bed.get(&["--namespace", NAMESPACE, "pods", "--selector", selector])?;
    let pod = list["items"].get(0).context("a node fetcher runs")?;
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    text(&pod["spec"]["nodeName"])
        .zip(text(&pod["metadata"]["name"]))
        .context("the pod has a node and a name")
}

/// Writes the status of a node's weights, changing nothing, with a token of the node fetchers' account. By apply, as the fetcher
/// does: it may not read.
fn write_status(bed: &Bed, token: &str, node: &str) -> Result<Output> {
    let object = json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeWeights", "metadata": {"name": node}, "status": {},
    });
    let file = bed.layout().root().join("policy.json");
    std::fs::write(&file, object.to_string()).with_context(|| format!("write {}", file.display()))?;
    let arguments = [
        "--token",
        token,
        "apply",
        "--server-side",
        "--subresource",
        "status",
        "--validate=false",
        "--dry-run=server",
        "--filename",
    ];
    let mut command = bed.kubectl_command(&arguments)?;
    command.arg(&file).output().context("start kubectl")
}

#[test]
fn a_node_fetcher_writes_the_weights_of_its_own_node_only() -> Result<()> {
    let bed = Bed::attach(BedConfig::from_environment(Reporter::stderr()))?;
    let (node, pod) = a_fetcher(&bed)?;
    let create = ["--namespace", NAMESPACE, "create", "token", "plimsoll-node-fetcher"];
    let bound = bed.kubectl(
        &[
            &create[..],
            &["--bound-object-kind", "Pod", "--bound-object-name", &pod],
        ]
        .concat(),
    )?;
    let own = write_status(&bed, bound.trim(), &node)?;
    ensure!(own.status.success(), "{}", String::from_utf8_lossy(&own.stderr));

    let weights = bed.get(&["nodeweights"])?;
    let names = weights["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item["metadata"]["name"].as_str());
    let other = names
        .into_iter()
        .find(|name| *name != node)
        .context("there are several nodes")?
        .to_owned();
    let refused = write_status(&bed, bound.trim(), &other)?;
    let errors = String::from_utf8_lossy(&refused.stderr);
    let expected = format!("the node fetcher of {node} may not write the NodeWeights {other}");
    assert!(!refused.status.success() && errors.contains(&expected), "{errors}");

    let unbound = bed.kubectl(&create)?;
    let refused = write_status(&bed, unbound.trim(), &node)?;
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && errors.contains("the node fetcher of an unknown node"),
        "{errors}"
    );
    Ok(())
}
