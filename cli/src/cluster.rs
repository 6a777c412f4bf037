//! A recorded cluster: what `kubectl get nodes,resourceslices,deviceclasses,runtimeclasses -o yaml` prints.

use std::path::Path;

use anyhow::Context as _;
use matrix::{Cluster, Matrix};
use serde_json::Value;

use crate::fault::hinted;

/// Reads a recorded cluster and recognises its pools.
pub(crate) fn load(matrix: &Matrix, path: &Path) -> anyhow::Result<Cluster> {
    let text = read_text(path)?;
    let objects = read_objects(&text, &path.display().to_string())?;
    let observation = matrix::observe(&objects);
    if observation.nodes.is_empty() && observation.slices.is_empty() {
        return Err(hinted(
            format!("{} holds no Node and no ResourceSlice", path.display()),
            "record the cluster with `kubectl get nodes,resourceslices,deviceclasses,runtimeclasses -o yaml`",
        ));
    }
    Ok(matrix::recognise(matrix, &observation))
}

/// The text of a file; `-` is stdin.
pub(crate) fn read_text(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        return std::io::read_to_string(std::io::stdin()).context("reading stdin");
    }
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// Kubernetes objects of a text: JSON, or any number of YAML documents.
pub(crate) fn read_objects(text: &str, name: &str) -> anyhow::Result<Vec<Value>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with(['{', '[']) {
        let value: Value = serde_json::from_str(text).with_context(|| format!("reading {name} as JSON"))?;
        return Ok(match value {
            Value::Array(items) => items,
            other => vec![other],
        });
    }
    let options = serde_saphyr::options! { budget: None };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options).with_context(|| format!("reading {name} as YAML"))?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}
