//! A `ModelDeployment` as a question to the matrix, the same way that the controller asks it.

use std::{collections::BTreeSet, path::Path};

use anyhow::Context as _;
use crds::{EnginePolicy, MinimumLevel, ModelDeployment, ModelDeploymentSpec};
use matrix::{Demand, Level, Policy, Preference, Pull, VersionRange};

use crate::fault::hinted;

/// All deployments of a file.
pub(crate) fn load(path: &Path) -> anyhow::Result<Vec<ModelDeployment>> {
    let text = crate::cluster::read_text(path)?;
    let objects = crate::cluster::read_objects(&text, &path.display().to_string())?;
    let lists = objects.iter().flat_map(|object| match object["items"].as_array() {
        Some(items) => items.clone(),
        None => vec![object.clone()],
    });
    let mut deployments = Vec::new();
    for object in lists.filter(|object| object["kind"] == "ModelDeployment") {
        let name = object["metadata"]["name"]
            .as_str()
            .unwrap_or("without a name")
            .to_owned();
        let deployment: ModelDeployment = serde_json::from_value(object)
            .with_context(|| format!("reading the ModelDeployment {name} of {}", path.display()))?;
        deployments.push(deployment);
    }
    if deployments.is_empty() {
        return Err(hinted(
            format!("{} holds no ModelDeployment", path.display()),
            "give a file with `apiVersion: plimsoll.dev/v1alpha1` and `kind: ModelDeployment`",
        ));
    }
    Ok(deployments)
}

/// Its name.
pub(crate) fn name(deployment: &ModelDeployment) -> String {
    deployment
        .metadata
        .name
        .clone()
        .unwrap_or_else(|| "deployment".to_owned())
}

/// What it wants served, and on what.
pub(crate) fn demand(spec: &ModelDeploymentSpec) -> Demand {
    let context = spec.context.clone().unwrap_or_default();
    Demand {
        context: context.max_tokens.and_then(|tokens| u64::try_from(tokens).ok()),
        concurrency: context.concurrency.and_then(|sequences| u64::try_from(sequences).ok()),
        // A replica is one pod, so it must fit on one node.
        nodes: Some(1),
        accelerators: spec.accelerators.iter().map(preference).collect(),
        tolerations: spec
            .template
            .iter()
            .flat_map(|template| &template.tolerations)
            .map(toleration)
            .collect(),
    }
}

fn preference(asked: &crds::AcceleratorPreference) -> Preference {
    Preference {
        product: asked.product.clone(),
        vendor: asked.vendor.clone(),
        devices: asked.count.and_then(|devices| u32::try_from(devices).ok()),
        partition: asked.partition.clone(),
    }
}

fn toleration(own: &crds::TolerationSpec) -> matrix::Toleration {
    matrix::Toleration {
        key: own.key.clone().unwrap_or_default(),
        value: own.value.clone(),
        effect: own.effect.map(|effect| format!("{effect:?}")),
    }
}

/// What it allows.
pub(crate) fn policy(spec: &ModelDeploymentSpec, pull: &BTreeSet<Pull>) -> anyhow::Result<Policy> {
    let engine = &spec.engine;
    let explicit = engine.policy == EnginePolicy::Pinned;
    if let Some(text) = &engine.version_range {
        VersionRange::parse(text)
            .map_err(|error| hinted(format!("spec.engine.versionRange: {error}"), error.hint()))?;
    }
    let mut policy = Policy {
        engine: engine.name.clone(),
        version_range: engine.version_range.clone(),
        minimum_level: minimum_level(engine.minimum_level, explicit),
        explicit_engine: explicit,
        ..Policy::default()
    };
    policy.pull.extend(pull);
    if engine.image.is_some() {
        policy.pull.insert(Pull::Offline);
    }
    Ok(policy)
}

fn minimum_level(asked: Option<MinimumLevel>, explicit: bool) -> Level {
    match asked {
        Some(MinimumLevel::Verified) => Level::Verified,
        Some(MinimumLevel::Experimental) => Level::Experimental,
        Some(MinimumLevel::Untested) => Level::Untested,
        None if explicit => Level::Untested,
        Some(MinimumLevel::Declared) | None => Level::Declared,
    }
}
