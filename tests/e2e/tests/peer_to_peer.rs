//! Peer to peer, on real Dragonfly daemons: bytes cross the registry's link once, and a dead daemon only costs its speed.

use anyhow::{Context as _, Result, ensure};
use e2e::{Scenario, ask};
use serde_json::{Value, json};

fn bytes_from(artifact: &Value, kind: &str) -> i64 {
    let sources = artifact["sources"].as_array().into_iter().flatten();
    sources
        .filter(|source| source["kind"] == kind)
        .filter_map(|source| source["bytes"].as_i64())
        .sum()
}

#[test]
fn a_version_that_goes_to_two_nodes_at_once_leaves_the_registry_about_once() -> Result<()> {
    let scenario = Scenario::begin("e2e-peers")?;
    let artifact = format!("{}/e2e/peers:v1", scenario.bed.registry_address());
    let digest = scenario.push_variant('P', &artifact)?;
    let before = [
        scenario.bed.dragonfly_traffic("cpu-1")?,
        scenario.bed.dragonfly_traffic("cpu-2")?,
    ];
    scenario.deploy("peers", &artifact, 2)?;
    scenario.await_condition("peers", "Ready", 240)?;

    let after = [
        scenario.bed.dragonfly_traffic("cpu-1")?,
        scenario.bed.dragonfly_traffic("cpu-2")?,
    ];
    let origin: u64 = before
        .iter()
        .zip(&after)
        .map(|(before, after)| after.back_to_source - before.back_to_source)
        .sum();
    let total = scenario.weights("cpu-1", &digest)?["bytesTotal"]
        .as_u64()
        .context("the artifact's size is known")?;
    assert!(
        origin * 10 <= total * 11,
        "{origin} bytes left the registry for an artifact of {total}"
    );
    for node in ["cpu-1", "cpu-2"] {
        let weights = scenario.weights(node, &digest)?;
        assert!(
            bytes_from(&weights, "dragonfly") * 10 >= i64::try_from(total)? * 9,
            "{node}: {weights}"
        );
    }
    scenario.delete("peers")
}

/// Last by name: the fetcher leaves a daemon alone for a while after it failed, which the other scenario must not meet.
#[test]
fn when_dfdaemon_is_killed_a_pull_goes_on_from_the_registry_at_the_first_unverified_byte() -> Result<()> {
    let scenario = Scenario::begin("e2e-killed")?;
    let digest = scenario.push_variant('K', &format!("{}/e2e/killed:v1", scenario.bed.registry_address()))?;
    // Slow enough that the daemon can be killed in the middle.
    let slow =
        json!([{"path": "/blobs/", "method": "GET", "times": u32::MAX, "fault": {"kind": "slow", "rate": 1_500_000}}]);
    let proxy = scenario.start_proxy(&slow)?;
    scenario.deploy("killed", &format!("{proxy}/e2e/killed:v1"), 1)?;
    let (node, seen) = scenario.await_weights(&digest, "the first megabytes through Dragonfly", |artifact| {
        artifact["state"] == "Fetching" && bytes_from(artifact, "dragonfly") > 4 << 20
    })?;
    scenario.bed.kill_dfdaemon(&node)?;
    scenario.start_proxy(&json!([]))?;
    scenario.await_condition("killed", "Ready", 240)?;

    let weights = scenario.weights(&node, &digest)?;
    scenario.bed.restart_dfdaemon(&node)?;
    scenario.stop_proxy()?;
    let (peers, registry) = (bytes_from(&weights, "dragonfly"), bytes_from(&weights, "registry"));
    let total = weights["bytesTotal"].as_i64().context("the artifact's size is known")?;
    ensure!(peers >= bytes_from(&seen, "dragonfly") && registry > 0, "{weights}");
    ensure!(
        peers + registry <= total + (64 << 20),
        "more was fetched again than one range: {weights}"
    );
    let demotion = &weights["demotions"][0];
    assert_eq!(demotion["kind"], "dragonfly");
    assert!(demotion["atByte"].as_i64().is_some_and(|byte| byte > 0), "{demotion}");
    assert!(
        demotion["message"]
            .as_str()
            .is_some_and(|text| text.contains("registry")),
        "{demotion}"
    );
    let pods = scenario.pods("killed")?;
    assert!(!ask(pods.first().context("the pod runs")?, "killed")?.is_empty());
    scenario.delete("killed")
}
