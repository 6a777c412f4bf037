//! The product on the test bed: installed through its chart, as a user would.

use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use testbed::Bed;

use crate::workspace;

/// The namespace of the product.
pub(crate) const NAMESPACE: &str = "plimsoll-system";
const RELEASE: &str = "plimsoll";

/// How the product is installed.
pub(crate) struct Options {
    /// Whether the nodes have a Dragonfly daemon.
    pub(crate) dragonfly: bool,
    /// Registries without TLS beside the bed's own.
    pub(crate) more_plain_http: Vec<String>,
}

/// Installs the product, or upgrades it, and waits until its pods are ready.
pub(crate) fn install(bed: &Bed, options: &Options) -> anyhow::Result<()> {
    let arguments = install_arguments(bed.registry_address(), options);
    println!("\n$ helm {}", arguments.join(" "));
    helm(bed, &arguments)?;
    Ok(())
}

fn install_arguments(registry: &str, options: &Options) -> Vec<String> {
    let mut arguments: Vec<String> = [
        "upgrade",
        "--install",
        RELEASE,
        "charts/plimsoll",
        "--namespace",
        NAMESPACE,
    ]
    .map(Into::into)
    .into();
    // The definitions may have been applied by hand before, and the namespace made.
    arguments.extend(["--create-namespace", "--take-ownership", "--wait", "--timeout", "4m"].map(Into::into));
    let mut set = |value: String| arguments.extend(["--set".into(), value]);
    set(format!("images.registry={registry}"));
    set("images.tag=dev".into());
    for (index, host) in ["ghcr.io", "artifact.enflame.cn"].iter().enumerate() {
        set(format!("imageRewrites[{index}].from={host}/"));
        set(format!("imageRewrites[{index}].to={registry}/mirror/{host}/"));
    }
    let plain = std::iter::once(registry).chain(options.more_plain_http.iter().map(String::as_str));
    for (index, host) in plain.enumerate() {
        set(format!("plainHttpRegistries[{index}]={host}"));
    }
    set(format!("dragonfly.enabled={}", options.dragonfly));
    arguments
}

/// Applies the chart's resource definitions alone, for a controller that runs outside the cluster.
pub(crate) fn apply_definitions(bed: &Bed) -> anyhow::Result<()> {
    let registry = format!("images.registry={}", bed.registry_address());
    let mut template = vec![
        "template",
        RELEASE,
        "charts/plimsoll",
        "--show-only",
        "templates/crds.yaml",
    ];
    // Helm asks no cluster here: it would judge the chart by the Kubernetes version it was built with.
    template.extend(["--kube-version", "1.36.3", "--set", &registry]);
    println!("\n$ helm {} | kubectl apply --server-side -f -", template.join(" "));
    print!("{}", bed.apply(&helm(bed, &template)?)?);
    Ok(())
}

/// The device plugin of the simulated accelerator, on the nodes that carry its label.
pub(crate) fn install_accelerator(bed: &Bed) -> anyhow::Result<()> {
    let file = workspace::root().join("tests/e2e/manifests/sim-accelerator.yaml");
    let manifest = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    bed.apply(&manifest.replace("${REGISTRY}", bed.registry_address()))?;
    let rollout = [
        "--namespace",
        "kube-system",
        "rollout",
        "status",
        "daemonset/sim-accelerator",
        "--timeout=120s",
    ];
    print!("{}", bed.kubectl(&rollout)?);
    Ok(())
}

fn helm(bed: &Bed, arguments: &[impl AsRef<std::ffi::OsStr>]) -> anyhow::Result<String> {
    let mut command = Command::new(bed.program("helm")?);
    command
        .args(arguments)
        .env("KUBECONFIG", bed.kubeconfig())
        .current_dir(workspace::root());
    let output = command.stdin(Stdio::null()).output().context("start helm")?;
    ensure!(
        output.status.success(),
        "helm failed: {}",
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_registry_without_tls_and_every_rewrite_has_an_index_of_its_own() {
        let options = Options {
            dragonfly: true,
            more_plain_http: vec!["proxy:5001".into()],
        };
        let arguments = install_arguments("registry:5000", &options).join(" ");
        assert!(
            arguments.contains("--set plainHttpRegistries[0]=registry:5000 --set plainHttpRegistries[1]=proxy:5001")
        );
        assert!(arguments.contains("--set imageRewrites[1].to=registry:5000/mirror/artifact.enflame.cn/"));
        assert!(arguments.contains("--set dragonfly.enabled=true"));
    }
}
