//! The mountable twin of a model as an image volume: containerd unpacks what model-packer pushed, and a pod reads it.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::{Scenario, program};
use serde_json::{Value, json};
use testbed::cluster::wait_until;
use testbed::images::{Image, push};
use testbed::{ComponentStore, Reporter, fixture};

const TOOLS: &str = "e2e/busybox";
const MODEL: &str = "e2e/twin";

/// What the pod runs: the sum of every file, and a try to write, as the container's last words.
const LOOK: &str = "cd /model && for file in *; do /bin/busybox sha256sum $file; done > /dev/termination-log; \
    /bin/busybox touch new 2> /dev/null && echo writable >> /dev/termination-log; true";

fn push_tools(scenario: &Scenario) -> Result<String> {
    let busybox = ComponentStore::from_environment(Reporter::stderr()).ensure("busybox")?;
    let registry = scenario.bed.registry_address();
    push(registry, TOOLS, "v1", &Image::of_program(&busybox, "/bin/busybox")?)?;
    Ok(format!("{registry}/{TOOLS}:v1"))
}

/// Packs the model in the tar layout and returns the reference of the image beside it.
fn push_twin(scenario: &Scenario) -> Result<String> {
    let folder = fixture::hub_folder(&Reporter::stderr())?.join(fixture::SMOLLM2);
    let target = format!("{}/{MODEL}:v1", scenario.bed.registry_address());
    let output = Command::new(program("model-packer")?)
        .arg("push")
        .arg(format!("file:{}", folder.display()))
        .args([&target, "--layout", "tar", "--plain-http"])
        .output()
        .context("start model-packer")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "model-packer push: {complaint}");
    Ok(format!("{target}-image"))
}

fn pod(tools: &str, model: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "reader"},
        "spec": {
            "restartPolicy": "Never",
            "nodeName": node,
            "containers": [{
                "name": "reader",
                "image": tools,
                "command": ["/bin/busybox", "sh", "-c", LOOK],
                "volumeMounts": [{"name": "model", "mountPath": "/model", "readOnly": true}],
            }],
            "volumes": [{"name": "model", "image": {"reference": model, "pullPolicy": "Always"}}],
        },
    })
}

/// What the container said last, once it has ended.
fn last_words(scenario: &Scenario) -> Result<String> {
    let words = wait_until("the end of the reading pod", Duration::from_mins(3), || {
        let pod = scenario
            .bed
            .get(&["--namespace", &scenario.namespace, "pods", "reader"])?;
        let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        Ok(ended["message"].as_str().map(str::to_owned))
    });
    words.with_context(|| {
        match scenario
            .bed
            .kubectl(&["--namespace", &scenario.namespace, "describe", "pod", "reader"])
        {
            Ok(description) => description,
            Err(error) => error.to_string(),
        }
    })
}

#[test]
fn a_pod_mounts_the_twin_of_a_model_and_reads_the_bytes_of_the_hub_and_cannot_write() -> Result<()> {
    let scenario = Scenario::begin("e2e-twin")?;
    let (tools, model) = (push_tools(&scenario)?, push_twin(&scenario)?);
    let mut pod = pod(&tools, &model, "cpu-1");
    pod["metadata"]["namespace"] = scenario.namespace.clone().into();
    scenario.bed.apply(&pod.to_string())?;
    let words = last_words(&scenario)?;
    let weights = format!("{}  {}", fixture::SMOLLM2_SHA256, fixture::SMOLLM2_FILE);
    ensure!(
        words.lines().any(|line| line == weights),
        "not in what it read: {weights}\n{words}"
    );
    let names: Vec<&str> = words
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    for name in ["LICENSE", "README.md", "config.json", "source.lock"] {
        ensure!(names.contains(&name), "{name} is not among {names:?}");
    }
    ensure!(!words.contains("writable"), "the model can be written to:\n{words}");
    Ok(())
}
