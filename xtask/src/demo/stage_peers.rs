//! Stage 4: a new version of the model goes to both CPU nodes, and most of its bytes cross the registry's link once.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use testbed::{Ring, fixture};

use super::stage_nodes::ask_each_replica;
use super::{Demo, show, tool};
use crate::product;

pub(super) fn run(demo: &Demo) -> anyhow::Result<()> {
    demo.bed.up(Ring::PeerToPeer)?;
    show::note("The fetchers are told about the Dragonfly daemon of their node.");
    product::install(
        &demo.bed,
        &product::Options {
            dragonfly: true,
            more_plain_http: Vec::new(),
        },
    )?;
    let digest = push_second_version(demo)?;
    show::note("Both replicas move to the new version at once.");
    let patch = format!(
        r#"{{"spec":{{"model":{{"artifact":"{}"}}}}}}"#,
        demo.reference("models/smollm2:v2")
    );
    demo.kubectl(&["patch", "pmd", "smollm2", "--type", "merge", "--patch", &patch])?;
    demo.await_artifact("smollm2", &digest, Duration::from_mins(4))?;
    print_sources(demo, &digest)?;
    ask_each_replica(demo, "smollm2")
}

fn push_second_version(demo: &Demo) -> anyhow::Result<String> {
    let folder = fixture::variant('2', &demo.reporter)?;
    let target = demo.reference("models/smollm2:v2");
    let source = format!("file:{}", folder.display());
    let arguments = ["push", source.as_str(), target.as_str(), "--plain-http"];
    let printed = show::run(
        &format!("model-packer push file:second-version {target}"),
        &mut tool("model-packer", &arguments),
    )?;
    let start = printed.find("sha256:").context("model-packer prints the digest")?;
    Ok(printed[start..].chars().take("sha256:".len() + 64).collect())
}

/// Bytes by source and node, as the fetchers report them.
fn print_sources(demo: &Demo, digest: &str) -> anyhow::Result<()> {
    show::note("Bytes of the new version by source, from the NodeWeights of each node and from its Dragonfly daemon:");
    let list = show::run_quietly(&mut demo.bed.kubectl_command(&["get", "nodeweights", "--output", "json"])?)?;
    let list: Value = serde_json::from_str(&list)?;
    for node in list["items"].as_array().into_iter().flatten() {
        let artifacts = node["status"]["artifacts"].as_array();
        let Some(artifact) = artifacts
            .into_iter()
            .flatten()
            .find(|artifact| artifact["digest"] == digest)
        else {
            continue;
        };
        let name = node["metadata"]["name"].as_str().context("an object has a name")?;
        let sources = artifact["sources"].as_array().into_iter().flatten();
        let sources: Vec<_> = sources
            .map(|source| {
                format!(
                    "{} {}",
                    source["kind"].as_str().unwrap_or("?"),
                    amount(&source["bytes"])
                )
            })
            .collect();
        let traffic = demo.bed.dragonfly_traffic(name)?;
        println!(
            "{name} got {}; its dfdaemon: {} from the registry, {} from peers",
            sources.join(", "),
            amount(&traffic.back_to_source.into()),
            amount(&traffic.remote_peer.into())
        );
    }
    Ok(())
}

const MEBIBYTE: f64 = 1_048_576.0;

fn amount(bytes: &Value) -> String {
    match bytes.as_f64() {
        None => "?".into(),
        Some(bytes) if bytes < MEBIBYTE => format!("{:.1} KiB", bytes / 1024.0),
        Some(bytes) => format!("{:.1} MiB", bytes / MEBIBYTE),
    }
}
