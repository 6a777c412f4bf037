//! What the chart renders, and what it refuses.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result};
use testbed::{ComponentStore, Reporter};

/// Helm asks no cluster here, so it is told what it would find.
const KUBERNETES: &str = "1.36.3";

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/plimsoll")
}

fn render(arguments: &[&str]) -> Result<Output> {
    let helm = ComponentStore::from_environment(Reporter::stderr()).ensure("helm")?;
    let mut command = Command::new(helm);
    command
        .args(["template", "plimsoll"])
        .arg(chart())
        .args(["--namespace", "plimsoll-system"]);
    command
        .args(["--kube-version", KUBERNETES])
        .args(arguments)
        .output()
        .context("start helm")
}

fn render_values(name: &str) -> Result<String> {
    let values = chart().join("ci").join(name);
    let output = render(&["--values", values.to_str().context("the path is text")?])?;
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// The rendered manifests without the resource definitions, which are reviewed where they are generated.
fn without_definitions(rendered: &str) -> String {
    let documents = rendered
        .split("---\n")
        .filter(|document| !document.contains("kind: CustomResourceDefinition"));
    documents.collect::<Vec<_>>().join("---\n")
}

#[test]
fn the_least_values_render_as_reviewed() -> Result<()> {
    let rendered = render_values("default-values.yaml")?;
    assert_eq!(
        rendered.matches("helm.sh/resource-policy: keep").count(),
        4,
        "definitions outlive the chart"
    );
    insta::assert_snapshot!("default", without_definitions(&rendered));
    Ok(())
}

#[test]
fn a_mirrored_cluster_renders_as_reviewed() -> Result<()> {
    let rendered = render_values("mirrored-values.yaml")?;
    assert!(
        !rendered.contains("kind: CustomResourceDefinition"),
        "crds.install is false"
    );
    insta::assert_snapshot!("mirrored", rendered);
    Ok(())
}

#[test]
fn the_definitions_in_the_chart_are_those_of_the_types() -> Result<()> {
    let rendered = render_values("default-values.yaml")?;
    for entry in std::fs::read_dir(chart().join("../../crds/yaml")).context("read crds/yaml")? {
        let file = entry?.file_name().into_string().unwrap_or_default();
        let name = file.trim_end_matches(".yaml");
        assert!(
            rendered.contains(&format!("  name: {name}\n")),
            "{name} is missing: cargo xtask generate"
        );
    }
    Ok(())
}

#[test]
fn unknown_and_impossible_values_are_refused_with_their_path() -> Result<()> {
    let cases = [
        ("controler.replicas=2", "additional properties 'controler' not allowed"),
        ("images.repository=x", "additional properties 'repository' not allowed"),
        (
            "nodeFetcher.tolerations[0].operater=Exists",
            "additional properties 'operater' not allowed",
        ),
        ("imageRewrites[0].from=docker.io", "missing property 'to'"),
        ("images.pullPolicy=Sometimes", "at '/images/pullPolicy'"),
        ("controller.metricsPort=0", "at '/controller/metricsPort'"),
        ("nodeFetcher.storePath=var/lib", "at '/nodeFetcher/storePath'"),
        (
            "controller.resources.limits.memory=true",
            "at '/controller/resources/limits/memory'",
        ),
    ];
    for (value, expected) in cases {
        let output = render(&["--set", "images.registry=registry.example.com", "--set", value])?;
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains(expected),
            "{value}: {errors}"
        );
    }
    Ok(())
}

#[test]
fn an_installation_without_a_registry_is_told_what_to_set() -> Result<()> {
    let output = render(&[])?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("images.registry is required"), "{errors}");
    Ok(())
}

#[test]
fn an_old_cluster_is_refused() -> Result<()> {
    let output = render(&[
        "--set",
        "images.registry=registry.example.com",
        "--kube-version",
        "1.29.0",
    ])?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("which is incompatible with Kubernetes v1.29.0"),
        "{errors}"
    );
    Ok(())
}

#[test]
fn every_permission_has_its_reason_beside_it() -> Result<()> {
    for program in ["controller", "node-fetcher"] {
        let file = chart().join("templates").join(program).join("rbac.yaml");
        let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let rules = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line.starts_with("- apiGroups:"));
        let bare: Vec<usize> = rules
            .filter(|(at, _)| !lines[at - 1].starts_with('#'))
            .map(|(at, _)| at + 1)
            .collect();
        assert_eq!(
            bare,
            Vec::<usize>::new(),
            "lines of {} without a reason",
            file.display()
        );
    }
    Ok(())
}

#[test]
fn the_chart_has_the_version_of_the_programs() -> Result<()> {
    let chart = std::fs::read_to_string(chart().join("Chart.yaml")).context("read Chart.yaml")?;
    let version = env!("CARGO_PKG_VERSION");
    for line in [format!("version: {version}"), format!("appVersion: {version}")] {
        assert!(chart.lines().any(|found| found == line), "{line} is not in Chart.yaml");
    }
    Ok(())
}
