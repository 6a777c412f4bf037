//! Stage 2: a real control plane, the controller beside it, and nodes that are only recorded.

use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use testbed::{Ring, http};

use super::{Demo, show, tool};
use crate::{binaries, product, workspace};

const CONTROLLER_METRICS: &str = "127.0.0.1:8082";
const RECORDED_NODES: &str = "examples/clusters/demo.yaml";

pub(super) fn run(demo: &Demo) -> anyhow::Result<()> {
    demo.bed.up(Ring::ControlPlane)?;
    binaries::build(&binaries::PRODUCT)?;
    product::apply_definitions(&demo.bed)?;
    ship_matrix(demo)?;
    apply_recorded_nodes(demo)?;
    start_controller(demo)?;
    show::note("Users say which model they want. The controller finds the rest.");
    for deployment in [
        "examples/deployments/smollm2.yaml",
        "examples/deployments/qwen3-8b.yaml",
    ] {
        apply_deployment(demo, deployment)?;
    }
    for name in ["smollm2", "qwen3-8b"] {
        demo.await_condition(name, "EngineSelected", Duration::from_mins(1))?;
    }
    demo.kubectl(&["get", "pmd"])?;
    demo.kubectl(&[
        "get",
        "pmd",
        "qwen3-8b",
        "--output",
        "jsonpath={.status.decision}{\"\\n\"}",
    ])?;
    clear(demo)
}

/// Git is the source; the cluster gets a frozen revision and a channel that points to it.
pub(super) fn ship_matrix(demo: &Demo) -> anyhow::Result<()> {
    let rendered = show::run_quietly(&mut tool("plimsoll", &["matrix", "render", "--channel", "stable"]))?;
    println!("\n$ plimsoll matrix render --channel stable | kubectl apply --server-side -f -");
    print!("{}", demo.bed.apply(&rendered)?);
    Ok(())
}

/// Applies a deployment of the examples, with the bed's registry in place of the example's.
pub(super) fn apply_deployment(demo: &Demo, file: &str) -> anyhow::Result<()> {
    let registry = demo.bed.registry_address();
    let text = std::fs::read_to_string(workspace::root().join(file)).with_context(|| format!("read {file}"))?;
    println!("\n$ sed s/registry.local/{registry}/ {file} | kubectl apply --server-side -f -");
    print!("{}", demo.bed.apply(&text.replace("registry.local", registry))?);
    Ok(())
}

/// Nodes without a kubelet: enough for a decision, and what the decision sees of a real cluster.
fn apply_recorded_nodes(demo: &Demo) -> anyhow::Result<()> {
    show::note("Recorded nodes of a mixed cluster take the place of real ones, for now.");
    let file = workspace::root().join(RECORDED_NODES);
    let file = file.to_str().context("the path of the repository is not UTF-8")?;
    // A recording has fewer fields than the schema asks of a kubelet.
    let apply = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "--validate=false",
        "--filename",
        file,
    ];
    show::run_quietly(&mut demo.bed.kubectl_command(&apply)?)?;
    let status = [&apply[..], &["--subresource", "status"]].concat();
    show::run_quietly(&mut demo.bed.kubectl_command(&status)?)?;
    demo.kubectl(&[
        "get",
        "nodes",
        "--output",
        "custom-columns=NAME:.metadata.name,ARCHITECTURE:.status.nodeInfo.architecture",
    ])?;
    Ok(())
}

fn start_controller(demo: &Demo) -> anyhow::Result<()> {
    let mut controller = Command::new(binaries::path("controller"));
    controller.env("KUBECONFIG", demo.bed.kubeconfig());
    controller.args(["run", "--metrics-address", CONTROLLER_METRICS]);
    controller.args(["--plain-http-registry", demo.bed.registry_address()]);
    let ready = format!("http://{CONTROLLER_METRICS}/readyz");
    show::run_quietly(&mut demo.bed.kubectl_command(&["create", "namespace", product::NAMESPACE])?)?;
    demo.bed
        .start_beside("controller", &mut controller, || http::is_ok(&ready))?;
    Ok(())
}

/// The next stage begins with real nodes, and with the controller that the chart installs.
fn clear(demo: &Demo) -> anyhow::Result<()> {
    // Workloads go before their pods, or they would make new ones; and a recorded node has no kubelet that ends a pod.
    let deletions: [&[&str]; 4] = [
        &["pmd", "--all"],
        &["deployments,replicasets", "--all"],
        &["pods", "--all", "--force", "--grace-period=0"],
        &["nodes", "--all"],
    ];
    for what in deletions {
        let arguments = [&["delete", "--wait", "--timeout=60s"], what].concat();
        show::run_quietly(&mut demo.bed.kubectl_command(&arguments)?)?;
    }
    demo.bed.stop_beside("controller")?;
    Ok(())
}
