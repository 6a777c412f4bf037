//! Stage 3: three real nodes, the product installed through its chart, and an answered prompt.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use testbed::{Ring, cluster::post_json};

use super::stage_control_plane::{apply_deployment, ship_matrix};
use super::{Demo, show};
use crate::{images, product};

pub(super) fn run(demo: &Demo) -> anyhow::Result<()> {
    demo.bed.up(Ring::Nodes)?;
    show::note("Images are made from static binaries, without a container engine.");
    images::push_all(&demo.bed)?;
    show::note("A simulated accelerator: a real device plugin that owns no hardware.");
    product::install_accelerator(&demo.bed)?;
    show::note("The product is installed through its chart.");
    product::install(
        &demo.bed,
        &product::Options {
            dragonfly: false,
            more_plain_http: Vec::new(),
        },
    )?;
    ship_matrix(demo)?;
    for deployment in [
        "examples/deployments/smollm2.yaml",
        "examples/deployments/qwen3-8b.yaml",
    ] {
        apply_deployment(demo, deployment)?;
    }
    show::note("Weights are fetched, proven and mounted; engines start.");
    demo.await_condition("smollm2", "Ready", Duration::from_mins(4))?;
    demo.await_condition("qwen3-8b", "WorkloadReady", Duration::from_mins(2))?;
    demo.kubectl(&["get", "pmd"])?;
    demo.kubectl(&["get", "pods", "--output", "wide"])?;
    show_pinning(demo)?;
    ask_each_replica(demo, "smollm2")
}

/// The pod of the accelerator got one device, and may only run where the decision holds.
fn show_pinning(demo: &Demo) -> anyhow::Result<()> {
    let selector = "plimsoll.dev/deployment=qwen3-8b";
    let path = "jsonpath={.items[0].spec.nodeName}{\"\\n\"}{.items[0].spec.containers[0].resources.limits}{\"\\n\"}{.items[0].spec.affinity.nodeAffinity}{\"\\n\"}";
    demo.kubectl(&["get", "pods", "--selector", selector, "--output", path])?;
    demo.kubectl(&["logs", "--selector", selector, "--tail", "3"])?;
    Ok(())
}

/// A real chat completion from each replica, through the API server's proxy, as anyone with a kubeconfig can.
pub(super) fn ask_each_replica(demo: &Demo, deployment: &str) -> anyhow::Result<()> {
    let selector = format!("plimsoll.dev/deployment={deployment}");
    let list = [
        "get",
        "pods",
        "--selector",
        &selector,
        "--field-selector",
        "status.phase=Running",
        "--output",
        "json",
    ];
    let pods: Value = serde_json::from_str(&show::run_quietly(&mut demo.bed.kubectl_command(&list)?)?)?;
    let pods = pods["items"].as_array().context("kubectl lists pods")?;
    // A pod that ends is still called running.
    let staying = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    let pods: Vec<&Value> = staying.collect();
    ensure!(
        pods.len() >= 2,
        "{deployment} has {} running pods, expected one on each CPU node",
        pods.len()
    );
    for pod in pods {
        let (name, node) = (pod["metadata"]["name"].as_str(), pod["spec"]["nodeName"].as_str());
        let (name, node) = (
            name.context("a pod has a name")?,
            node.context("a running pod has a node")?,
        );
        let answer = ask(pod, deployment)?;
        println!("\n{name} on {node} answers: {answer}");
    }
    Ok(())
}

fn ask(pod: &Value, model: &str) -> anyhow::Result<String> {
    let address = pod["status"]["podIP"]
        .as_str()
        .context("a running pod has an address")?;
    let port = pod["spec"]["containers"][0]["ports"][0]["containerPort"]
        .as_u64()
        .context("the engine has a port")?;
    let question = "In one sentence: what is a Plimsoll line on a ship?";
    let request = json!({"model": model, "max_tokens": 40, "messages": [{"role": "user", "content": question}]});
    let response = post_json(&format!("http://{address}:{port}/v1/chat/completions"), &request)?;
    let text = response["choices"][0]["message"]["content"].as_str();
    let text = text
        .with_context(|| format!("the engine answered {response}"))?
        .trim()
        .to_owned();
    ensure!(!text.is_empty(), "the engine gave an empty answer");
    Ok(text)
}
