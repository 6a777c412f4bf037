//! From a plan to the objects that carry it out. No client: the same plan gives the same objects, to the byte.

mod claim;
mod pod;

use std::collections::BTreeMap;

use crds::{LABEL_DEPLOYMENT, LABEL_ENGINE_TYPE, LABEL_MANAGED_BY, MANAGED_BY, ModelDeployment};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment};
use k8s_openapi::api::core::v1::{PodTemplateSpec, Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Resource as _;
use kube::core::DynamicObject;

pub use claim::claim_template_resource;

use crate::decide::Plan;
use crate::observed::Model;

/// The port of every model's Service, whatever port its engine listens on.
pub const SERVICE_PORT: i32 = 8000;
/// Name of the engine's container.
pub const CONTAINER: &str = "engine";
/// Name of the container's port and of the Service's.
const PORT_NAME: &str = "http";
/// Annotation that says how a change is rolled out, and why that way.
pub const ANNOTATION_STRATEGY: &str = "plimsoll.dev/rollout-strategy";

/// Every object that a deployment needs.
#[derive(Clone, Debug)]
pub struct Children {
    /// The pods.
    pub workload: Deployment,
    /// Where clients find them.
    pub service: Service,
    /// The devices of each pod, where they come by claims.
    pub claim: Option<DynamicObject>,
}

/// What the objects are built from.
pub struct Blueprint<'a> {
    /// The object that owns them.
    pub deployment: &'a ModelDeployment,
    /// The model.
    pub model: &'a Model,
    /// The choice and how it is started.
    pub plan: &'a Plan,
    /// Devices that no pod uses now; `None` when that was not counted.
    pub free_devices: Option<u32>,
}

/// Builds them.
pub fn build(blueprint: &Blueprint<'_>) -> Children {
    let claim = claim::claim_template(blueprint);
    Children {
        workload: workload(blueprint, claim.as_ref()),
        service: service(blueprint),
        claim,
    }
}

/// The labels by which pods are selected. They never change, because a selector is immutable.
pub fn selector_labels(name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (LABEL_MANAGED_BY.to_owned(), MANAGED_BY.to_owned()),
        (LABEL_DEPLOYMENT.to_owned(), name.to_owned()),
    ])
}

fn name_of(deployment: &ModelDeployment) -> &str {
    deployment.metadata.name.as_deref().unwrap_or_default()
}

fn labels(blueprint: &Blueprint<'_>) -> BTreeMap<String, String> {
    let mut labels = selector_labels(name_of(blueprint.deployment));
    labels.insert(
        "app.kubernetes.io/name".to_owned(),
        name_of(blueprint.deployment).to_owned(),
    );
    labels.insert(LABEL_ENGINE_TYPE.to_owned(), blueprint.plan.launch.engine_type.clone());
    labels
}

fn metadata(blueprint: &Blueprint<'_>, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: blueprint.deployment.metadata.namespace.clone(),
        labels: Some(labels(blueprint)),
        owner_references: Some(vec![owner(blueprint.deployment)]),
        ..ObjectMeta::default()
    }
}

/// Deleting the deployment deletes what it owns; no finalizer is needed, because nothing lives outside the cluster.
fn owner(deployment: &ModelDeployment) -> OwnerReference {
    OwnerReference {
        api_version: ModelDeployment::api_version(&()).into_owned(),
        kind: ModelDeployment::kind(&()).into_owned(),
        name: name_of(deployment).to_owned(),
        uid: deployment.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn workload(blueprint: &Blueprint<'_>, claim: Option<&DynamicObject>) -> Deployment {
    let name = name_of(blueprint.deployment);
    let (strategy, why) = strategy(blueprint);
    let mut metadata = metadata(blueprint, name);
    metadata.annotations = Some(BTreeMap::from([(ANNOTATION_STRATEGY.to_owned(), why)]));
    Deployment {
        metadata,
        spec: Some(DeploymentSpec {
            replicas: Some(blueprint.deployment.spec.replicas),
            selector: LabelSelector {
                match_labels: Some(selector_labels(name)),
                match_expressions: None,
            },
            strategy: Some(strategy),
            revision_history_limit: Some(2),
            // Kubernetes calls a rollout stuck when it has not moved for longer than one start may take.
            progress_deadline_seconds: Some(seconds(blueprint.plan.launch.startup_budget_seconds).saturating_add(600)),
            template: PodTemplateSpec {
                metadata: Some(pod::metadata(blueprint, labels(blueprint))),
                spec: Some(pod::spec(
                    blueprint,
                    claim.and_then(|claim| claim.metadata.name.as_deref()),
                )),
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

fn seconds(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// A new pod beside the old ones needs devices of its own. Without a free one the update would wait for ever. The text names no
/// numbers: they change with every pod of the pool, and each change would be a write.
fn strategy(blueprint: &Blueprint<'_>) -> (DeploymentStrategy, String) {
    let needed = blueprint.plan.choice.devices;
    let (surge, why) = match blueprint.free_devices {
        _ if needed == 0 => (true, "surge: the pods need no device"),
        Some(free) if free >= needed => (true, "surge: devices for one more pod are free"),
        Some(_) => (false, "replace: no devices for one more pod are free"),
        None => (
            false,
            "replace: it is unknown whether devices for one more pod are free",
        ),
    };
    let (max_surge, max_unavailable) = if surge { (1, 0) } else { (0, 1) };
    let rolling = RollingUpdateDeployment {
        max_surge: Some(IntOrString::Int(max_surge)),
        max_unavailable: Some(IntOrString::Int(max_unavailable)),
    };
    (
        DeploymentStrategy {
            type_: Some("RollingUpdate".to_owned()),
            rolling_update: Some(rolling),
        },
        why.to_owned(),
    )
}

fn service(blueprint: &Blueprint<'_>) -> Service {
    let name = name_of(blueprint.deployment);
    Service {
        metadata: metadata(blueprint, name),
        spec: Some(ServiceSpec {
            selector: Some(selector_labels(name)),
            ports: Some(vec![ServicePort {
                name: Some(PORT_NAME.to_owned()),
                port: SERVICE_PORT,
                protocol: Some("TCP".to_owned()),
                target_port: Some(IntOrString::String(PORT_NAME.to_owned())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}
