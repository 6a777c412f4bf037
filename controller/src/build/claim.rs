//! Devices by claims (DRA, `resource.k8s.io/v1`). A dynamic object, because only clusters that serve the group get one.

use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use super::Blueprint;
use crate::validate::digest_json;

/// The kind of the claims' templates.
pub fn claim_template_resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("resource.k8s.io", "v1", "ResourceClaimTemplate"))
}

/// A template is immutable, so its name carries a digest of its content: a change is a new template, and the old one is pruned.
pub(super) fn claim_template(blueprint: &Blueprint<'_>) -> Option<DynamicObject> {
    let claim = blueprint.plan.launch.claim.as_ref()?;
    let selectors: Vec<Value> = claim
        .selectors
        .iter()
        .map(|expression| json!({"cel": {"expression": expression}}))
        .collect();
    let mut exactly = json!({
        "deviceClassName": claim.device_class,
        "allocationMode": "ExactCount",
        "count": claim.count,
    });
    if !selectors.is_empty() {
        exactly["selectors"] = Value::from(selectors);
    }
    let spec = json!({"spec": {"devices": {"requests": [{"name": "devices", "exactly": exactly}]}}});
    let digest = digest_json(&spec);
    let name = format!(
        "{}-{}",
        super::name_of(blueprint.deployment),
        &digest["sha256:".len()..][..8]
    );
    let mut template = DynamicObject::new(&name, &claim_template_resource()).data(json!({"spec": spec}));
    template.metadata = super::metadata(blueprint, &name);
    Some(template)
}
