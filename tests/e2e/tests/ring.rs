//! Install, apply, serve, delete: on real nodes, with a real engine.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use e2e::{Scenario, ask};
use serde_json::{Value, json};
use testbed::cluster::condition_status;
use testbed::{Bed, http};

fn registry_gets(bed: &Bed, blob: &str) -> Result<usize> {
    let log = bed.layout().logs().join("docker-registry.log");
    let text = std::fs::read_to_string(&log).with_context(|| format!("read {}", log.display()))?;
    let request = format!("GET /v2/e2e/smollm2/blobs/{blob}");
    Ok(text.lines().filter(|line| line.contains(&request)).count())
}

/// The largest layer of an artifact: its weights.
fn weight_blob(bed: &Bed, repository: &str, tag: &str) -> Result<String> {
    let url = format!("http://{}/v2/{repository}/manifests/{tag}", bed.registry_address());
    let accept = "application/vnd.oci.image.manifest.v1+json";
    let response = http::Request::new("GET", &url).header("Accept", accept).send()?;
    let manifest: Value = serde_json::from_str(&response.text())?;
    let layers = manifest["layers"].as_array().context("a manifest has layers")?;
    let largest = layers.iter().max_by_key(|layer| layer["size"].as_u64());
    Ok(largest
        .and_then(|layer| layer["digest"].as_str())
        .context("a layer has a digest")?
        .to_owned())
}

#[test]
fn a_model_is_served_from_both_cpu_nodes_and_its_deletion_leaves_no_child_and_keeps_the_weights() -> Result<()> {
    let scenario = Scenario::begin("e2e-serve")?;
    let artifact = format!("{}/e2e/smollm2:serve", scenario.bed.registry_address());
    scenario.push_variant('A', &artifact)?;
    let weights = weight_blob(&scenario.bed, "e2e/smollm2", "serve")?;

    scenario.deploy("served", &artifact, 2)?;
    scenario.await_condition("served", "Ready", 240)?;
    let pods = scenario.pods("served")?;
    let nodes: BTreeSet<_> = pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
    assert_eq!(nodes, BTreeSet::from(["cpu-1", "cpu-2"]));
    for pod in &pods {
        assert!(!ask(pod, "served")?.is_empty());
    }

    scenario.delete("served")?;
    let before = registry_gets(&scenario.bed, &weights)?;
    assert!(before > 0, "the registry served {weights} at least once");
    scenario.deploy("served", &artifact, 2)?;
    scenario.await_condition("served", "Ready", 120)?;
    assert_eq!(
        registry_gets(&scenario.bed, &weights)?,
        before,
        "the weights came from the registry again"
    );
    scenario.delete("served")
}

#[test]
fn the_accelerator_pod_holds_one_device_and_is_pinned_to_the_product() -> Result<()> {
    let scenario = Scenario::begin("e2e-accelerator")?;
    let artifact = format!("{}/models/qwen3-8b:v1", scenario.bed.registry_address());
    scenario.deploy("large", &artifact, 1)?;
    scenario.await_condition("large", "WorkloadReady", 180)?;
    let deployment = scenario.get(&["modeldeployments.plimsoll.dev", "large"])?;
    let decision = &deployment["status"]["decision"];
    assert_eq!(
        (decision["product"].as_str(), decision["distribution"].as_str()),
        (Some("enflame-s60"), Some("vllm-gcu"))
    );
    assert_eq!(
        condition_status(&deployment, "WeightsReady"),
        Some("False"),
        "a facts-only artifact has no weights"
    );

    let pods = scenario.pods("large")?;
    let pod = pods.first().context("the accelerator pod runs")?;
    assert_eq!(pod["spec"]["nodeName"], "gcu-1");
    assert_eq!(
        pod["spec"]["containers"][0]["resources"]["limits"]["enflame.com/gcu"],
        "1"
    );
    let affinity = pod["spec"]["affinity"]["nodeAffinity"].to_string();
    assert!(
        affinity.contains("enflame.com/gcu.model") && affinity.contains("S60"),
        "{affinity}"
    );
    scenario.delete("large")
}

#[test]
fn a_byte_flipped_on_its_way_is_never_visible_to_a_pod() -> Result<()> {
    let scenario = Scenario::begin("e2e-flipped")?;
    let registry = scenario.bed.registry_address();
    let digest = scenario.push_variant('F', &format!("{registry}/e2e/flipped:v1"))?;
    let weights = weight_blob(&scenario.bed, "e2e/flipped", "v1")?;
    let flip = json!([{
        "path": format!("/blobs/{weights}"), "method": "GET", "times": u32::MAX,
        "fault": {"kind": "wrong-byte", "at": 50_000_000},
    }]);
    let proxy = scenario.start_proxy(&flip)?;

    scenario.deploy("flipped", &format!("{proxy}/e2e/flipped:v1"), 1)?;
    scenario.await_weights(&digest, "the verdict on the flipped byte", |artifact| {
        artifact["reason"] == "Corrupt"
    })?;
    assert!(
        scenario.pods("flipped")?.is_empty(),
        "a pod runs on bytes that were not proven"
    );
    assert_eq!(
        node_with_blob(&scenario.bed, &weights)?,
        None,
        "a wrong byte has the blob's name"
    );

    scenario.start_proxy(&json!([]))?;
    scenario.await_condition("flipped", "Ready", 300)?;
    let pods = scenario.pods("flipped")?;
    assert!(!ask(pods.first().context("the pod runs")?, "flipped")?.is_empty());
    scenario.stop_proxy()?;
    scenario.delete("flipped")
}

/// The first node whose store has a blob under its name.
fn node_with_blob(bed: &Bed, blob: &str) -> Result<Option<String>> {
    let hexadecimal = blob.trim_start_matches("sha256:");
    for node in bed.nodes() {
        let path = format!("/var/lib/plimsoll/blobs/sha256/{hexadecimal}");
        if node.command("test").args(["-e", &path]).status()?.success() {
            return Ok(Some(node.name.clone()));
        }
    }
    Ok(None)
}
