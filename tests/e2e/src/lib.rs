//! What scenarios on the real cluster share: a namespace of their own, artifacts of their own, and questions to engines.
//!
//! The scenarios run against a test bed that is up with the product installed; `cargo xtask ring` does both.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testbed::cluster::{post_json, wait_until};
use testbed::{Bed, BedConfig, Reporter, fixture, http};

/// Where scenarios put a proxy in front of the registry; `cargo xtask ring` installs the product so that it may be used.
pub const PROXY: &str = "10.213.0.1:5001";

/// A namespace on the cluster of the test bed, gone when the scenario ends.
pub struct Scenario {
    /// The bed.
    pub bed: Bed,
    /// The scenario's own namespace.
    pub namespace: String,
}

impl Scenario {
    /// Joins the bed and makes a namespace.
    pub fn begin(namespace: &str) -> Result<Self> {
        let bed = Bed::attach(BedConfig::from_environment(Reporter::stderr()))?;
        let scenario = Self {
            bed,
            namespace: namespace.into(),
        };
        scenario.delete_namespace()?;
        scenario.bed.kubectl(&["create", "namespace", namespace])?;
        Ok(scenario)
    }

    /// Packs a version of the model, whose weights differ from every other version's, and returns its manifest's digest.
    pub fn push_variant(&self, letter: char, target: &str) -> Result<String> {
        let folder = fixture::variant(letter, &Reporter::stderr())?;
        let mut push = Command::new(program("model-packer")?);
        push.arg("push")
            .arg(format!("file:{}", folder.display()))
            .arg(target)
            .arg("--plain-http");
        let output = push.output().context("start model-packer")?;
        ensure!(
            output.status.success(),
            "model-packer push: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let start = printed.find("sha256:").context("model-packer prints the digest")?;
        Ok(printed[start..].chars().take("sha256:".len() + 64).collect())
    }

    /// Puts a proxy with these faults in front of the registry and returns its address; ends with
    /// [`Scenario::stop_proxy`] or with the bed.
    pub fn start_proxy(&self, faults: &Value) -> Result<&'static str> {
        let script = self.bed.layout().root().join(format!("{}-faults.json", self.namespace));
        std::fs::write(&script, faults.to_string()).with_context(|| format!("write {}", script.display()))?;
        let mut proxy = Command::new(program("fault-proxy")?);
        proxy.args([
            "--listen",
            PROXY,
            "--upstream",
            &format!("http://{}", self.bed.registry_address()),
            "--script",
        ]);
        let alive = format!("http://{PROXY}/v2/");
        self.bed
            .start_beside("fault-proxy", proxy.arg(&script), || http::is_ok(&alive))?;
        Ok(PROXY)
    }

    /// Ends the proxy.
    pub fn stop_proxy(&self) -> Result<()> {
        Ok(self.bed.stop_beside("fault-proxy")?)
    }

    /// Applies a deployment of `SmolLM2`.
    pub fn deploy(&self, name: &str, artifact: &str, replicas: u32) -> Result<()> {
        let deployment = json!({
            "apiVersion": "plimsoll.dev/v1alpha1",
            "kind": "ModelDeployment",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"model": {"artifact": artifact}, "replicas": replicas, "context": {"maxTokens": 2048}},
        });
        self.bed.apply(&deployment.to_string())?;
        Ok(())
    }

    /// Waits until a condition of a deployment is true.
    pub fn await_condition(&self, name: &str, condition: &str, seconds: u64) -> Result<()> {
        Ok(self
            .bed
            .await_condition(&self.namespace, name, condition, Duration::from_secs(seconds))?)
    }

    /// `kubectl get` in the scenario's namespace.
    pub fn get(&self, arguments: &[&str]) -> Result<Value> {
        Ok(self.bed.get(&[&["--namespace", &self.namespace], arguments].concat())?)
    }

    /// Running pods of a deployment.
    pub fn pods(&self, name: &str) -> Result<Vec<Value>> {
        let selector = format!("plimsoll.dev/deployment={name}");
        let list = self.get(&[
            "pods",
            "--selector",
            &selector,
            "--field-selector",
            "status.phase=Running",
        ])?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Deletes a deployment and waits until nothing with its label is left.
    pub fn delete(&self, name: &str) -> Result<()> {
        self.bed.kubectl(&[
            "--namespace",
            &self.namespace,
            "delete",
            "modeldeployments.plimsoll.dev",
            name,
            "--wait",
        ])?;
        let selector = format!("plimsoll.dev/deployment={name}");
        wait_until("the end of the children", Duration::from_secs(90), || {
            let kinds = "deployments,replicasets,pods,services,resourceclaimtemplates";
            let left = self
                .bed
                .get(&["--namespace", &self.namespace, kinds, "--selector", &selector])?;
            Ok(left["items"].as_array().is_some_and(Vec::is_empty).then_some(()))
        })?;
        Ok(())
    }

    /// Waits until some node's fetcher says this about an artifact, and returns the node's name with it.
    pub fn await_weights(&self, digest: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<(String, Value)> {
        let found = wait_until(what, Duration::from_mins(3), || {
            let nodes = self.bed.get(&["nodeweights"])?;
            let nodes = nodes["items"].as_array().cloned().unwrap_or_default();
            Ok(nodes.iter().find_map(|node| {
                let artifacts = node["status"]["artifacts"].as_array()?;
                let artifact = artifacts
                    .iter()
                    .find(|artifact| artifact["digest"] == digest && is_so(artifact))?;
                Some((node["metadata"]["name"].as_str()?.to_owned(), artifact.clone()))
            }))
        })?;
        Ok(found)
    }

    /// What a node's fetcher says about an artifact.
    pub fn weights(&self, node: &str, digest: &str) -> Result<Value> {
        let weights = self.bed.get(&["nodeweights", node])?;
        let artifacts = weights["status"]["artifacts"].as_array().into_iter().flatten();
        let found = artifacts
            .into_iter()
            .find(|artifact| artifact["digest"] == digest)
            .cloned();
        found.with_context(|| format!("the NodeWeights of {node} do not name {digest}: {weights}"))
    }

    fn delete_namespace(&self) -> Result<()> {
        self.bed.kubectl(&[
            "delete",
            "namespace",
            &self.namespace,
            "--ignore-not-found",
            "--wait",
            "--timeout=120s",
        ])?;
        Ok(())
    }
}

impl Drop for Scenario {
    fn drop(&mut self) {
        if let Err(error) = self.delete_namespace() {
            eprintln!("namespace {} stays: {error}", self.namespace);
        }
    }
}

/// Asks the engine in a pod and returns the text of its answer.
pub fn ask(pod: &Value, model: &str) -> Result<String> {
    let address = pod["status"]["podIP"]
        .as_str()
        .context("a running pod has an address")?;
    let port = pod["spec"]["containers"][0]["ports"][0]["containerPort"]
        .as_u64()
        .context("the engine has a port")?;
    let messages = json!([{"role": "user", "content": "Name one colour."}]);
    let request = json!({"model": model, "max_tokens": 8, "messages": messages});
    let answer = post_json(&format!("http://{address}:{port}/v1/chat/completions"), &request)?;
    let text = answer["choices"][0]["message"]["content"].as_str();
    Ok(text
        .with_context(|| format!("the engine answered {answer}"))?
        .trim()
        .to_owned())
}

/// A program of ours that `cargo xtask ring` built.
pub fn program(name: &str) -> Result<PathBuf> {
    let folder = std::env::var_os("PLIMSOLL_BINARIES").context("run the scenarios with `cargo xtask ring`")?;
    Ok(Path::new(&folder).join(name))
}
