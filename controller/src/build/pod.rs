//! The pod of a replica: everything that the launch plan says, and the user's additions beside it, never instead of it.

use std::collections::BTreeMap;

use crds::node_weights::{ARTIFACT_ATTRIBUTE, WEIGHTS_DRIVER};
use crds::{EngineSpec, TemplateOverrides, TolerationSpec};
use k8s_openapi::api::core::v1::{
    Affinity, CSIVolumeSource, Capabilities, Container, ContainerPort, EmptyDirVolumeSource, EnvVar, EnvVarSource,
    HTTPGetAction, LocalObjectReference, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    PodResourceClaim, PodSecurityContext, PodSpec, Probe, ResourceClaim, ResourceRequirements, SeccompProfile,
    SecretKeySelector, SecurityContext, Toleration, TopologySpreadConstraint, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use matrix::LaunchPlan;

use super::{Blueprint, CONTAINER, PORT_NAME, selector_labels};
use crate::decide::MODEL_PATH;

/// Name of the weights' volume.
const WEIGHTS: &str = "weights";
/// Name of the shared memory's volume.
const SHARED_MEMORY: &str = "shared-memory";
/// Name of the pod's claim.
const DEVICES: &str = "devices";

pub(super) fn metadata(blueprint: &Blueprint<'_>, ours: BTreeMap<String, String>) -> ObjectMeta {
    let template = template(blueprint);
    let mut labels = template.labels;
    labels.extend(ours);
    let mut annotations = template.annotations;
    annotations.extend(blueprint.plan.launch.annotations.clone());
    ObjectMeta {
        labels: Some(labels),
        annotations: filled(annotations),
        ..ObjectMeta::default()
    }
}

pub(super) fn spec(blueprint: &Blueprint<'_>, claim: Option<&str>) -> PodSpec {
    let template = template(blueprint);
    let launch = &blueprint.plan.launch;
    let secrets: Vec<LocalObjectReference> = blueprint
        .deployment
        .spec
        .model
        .pull_secrets
        .iter()
        .map(|secret| LocalObjectReference {
            name: secret.name.clone(),
        })
        .collect();
    PodSpec {
        affinity: affinity(launch),
        automount_service_account_token: Some(false),
        containers: vec![container(blueprint, claim.is_some())],
        enable_service_links: Some(false),
        host_ipc: launch.host_ipc.then_some(true),
        host_network: launch.host_network.then_some(true),
        image_pull_secrets: some(secrets),
        node_selector: filled(template.node_selector),
        priority_class_name: template.priority_class_name,
        resource_claims: claim.map(|name| {
            vec![PodResourceClaim {
                name: DEVICES.to_owned(),
                resource_claim_template_name: Some(name.to_owned()),
                ..PodResourceClaim::default()
            }]
        }),
        runtime_class_name: launch.runtime_class.clone(),
        security_context: Some(pod_security(launch)),
        service_account_name: template.service_account_name,
        tolerations: some(tolerations(launch, &template.tolerations)),
        topology_spread_constraints: Some(vec![spread(super::name_of(blueprint.deployment))]),
        volumes: Some(volumes(blueprint)),
        ..PodSpec::default()
    }
}

fn template(blueprint: &Blueprint<'_>) -> TemplateOverrides {
    blueprint.deployment.spec.template.clone().unwrap_or_default()
}

fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

fn filled<V>(map: BTreeMap<String, V>) -> Option<BTreeMap<String, V>> {
    (!map.is_empty()).then_some(map)
}

fn container(blueprint: &Blueprint<'_>, by_claim: bool) -> Container {
    let launch = &blueprint.plan.launch;
    Container {
        name: CONTAINER.to_owned(),
        image: Some(blueprint.plan.image.clone()),
        command: some(launch.command.clone()),
        args: some(launch.args.clone()),
        env: some(environment(launch, &blueprint.deployment.spec.engine)),
        ports: Some(ports(launch)),
        startup_probe: Some(probe(launch, &launch.probes.startup)),
        readiness_probe: Some(probe(launch, &launch.probes.readiness)),
        liveness_probe: Some(probe(launch, &launch.probes.liveness)),
        resources: Some(resources(blueprint, by_claim)),
        security_context: Some(container_security(launch)),
        volume_mounts: Some(mounts(launch)),
        ..Container::default()
    }
}

/// The user's variables replace those of the profile that have the same name; the order is that of the names.
fn environment(launch: &LaunchPlan, engine: &EngineSpec) -> Vec<EnvVar> {
    let plain = |(name, value): (&String, &String)| {
        (
            name.clone(),
            EnvVar {
                name: name.clone(),
                value: Some(value.clone()),
                value_from: None,
            },
        )
    };
    let mut all: BTreeMap<String, EnvVar> = launch.env.iter().map(plain).collect();
    for own in &engine.env {
        let value_from = own.secret_key_ref.as_ref().map(|key| EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: key.name.clone(),
                key: key.key.clone(),
                optional: None,
            }),
            ..EnvVarSource::default()
        });
        all.insert(
            own.name.clone(),
            EnvVar {
                name: own.name.clone(),
                value: own.value.clone(),
                value_from,
            },
        );
    }
    all.into_values().collect()
}

fn ports(launch: &LaunchPlan) -> Vec<ContainerPort> {
    let port = |name: &str, number: u16| ContainerPort {
        name: Some(name.to_owned()),
        container_port: i32::from(number),
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    };
    let apart = launch.metrics.as_ref().filter(|metrics| metrics.port != launch.port);
    let metrics = apart.map(|metrics| port("metrics", metrics.port));
    std::iter::once(port(PORT_NAME, launch.port)).chain(metrics).collect()
}

fn probe(launch: &LaunchPlan, probe: &matrix::Probe) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(probe.path.clone()),
            port: IntOrString::Int(i32::from(launch.port)),
            scheme: Some("HTTP".to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(super::seconds(probe.period_seconds)),
        failure_threshold: Some(super::seconds(probe.failure_threshold)),
        timeout_seconds: Some(super::seconds(probe.timeout_seconds)),
        ..Probe::default()
    }
}

/// Devices are limits, which are their own requests. CPU and memory are the user's; where a node's own memory holds the model, the
/// plan's figure is the request unless the user gave one.
fn resources(blueprint: &Blueprint<'_>, by_claim: bool) -> ResourceRequirements {
    let launch = &blueprint.plan.launch;
    let own = template(blueprint).resources.unwrap_or_default();
    let quantities = |map: BTreeMap<String, String>| map.into_iter().map(|(name, amount)| (name, Quantity(amount)));
    let mut limits: BTreeMap<String, Quantity> = quantities(own.limits).collect();
    limits.extend(quantities(launch.resources.clone()));
    let mut requests: BTreeMap<String, Quantity> = quantities(own.requests).collect();
    if let Some(bytes) = launch.memory_request_bytes.filter(|_| !limits.contains_key("memory")) {
        requests
            .entry("memory".to_owned())
            .or_insert_with(|| Quantity(bytes.to_string()));
    }
    let claims = by_claim.then(|| {
        vec![ResourceClaim {
            name: DEVICES.to_owned(),
            request: None,
        }]
    });
    ResourceRequirements {
        limits: filled(limits),
        requests: filled(requests),
        claims,
    }
}

fn mounts(launch: &LaunchPlan) -> Vec<VolumeMount> {
    let mut mounts = vec![VolumeMount {
        name: WEIGHTS.to_owned(),
        mount_path: MODEL_PATH.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    }];
    if launch.shm_bytes.is_some() {
        mounts.push(VolumeMount {
            name: SHARED_MEMORY.to_owned(),
            mount_path: "/dev/shm".to_owned(),
            ..VolumeMount::default()
        });
    }
    mounts
}

/// The artifact is named by digest only: a tag that moves must not change what a restarted pod loads.
fn volumes(blueprint: &Blueprint<'_>) -> Vec<Volume> {
    let secret = blueprint.deployment.spec.model.pull_secrets.first();
    let mut volumes = vec![Volume {
        name: WEIGHTS.to_owned(),
        csi: Some(CSIVolumeSource {
            driver: WEIGHTS_DRIVER.to_owned(),
            read_only: Some(true),
            node_publish_secret_ref: secret.map(|secret| LocalObjectReference {
                name: secret.name.clone(),
            }),
            volume_attributes: Some(BTreeMap::from([(
                ARTIFACT_ATTRIBUTE.to_owned(),
                blueprint.model.reference.clone(),
            )])),
            fs_type: None,
        }),
        ..Volume::default()
    }];
    if let Some(bytes) = blueprint.plan.launch.shm_bytes {
        volumes.push(Volume {
            name: SHARED_MEMORY.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource {
                medium: Some("Memory".to_owned()),
                size_limit: Some(Quantity(bytes.to_string())),
            }),
            ..Volume::default()
        });
    }
    volumes
}

/// The pods stay on nodes that look as the decision saw them.
fn affinity(launch: &LaunchPlan) -> Option<Affinity> {
    let expressions: Vec<NodeSelectorRequirement> = launch
        .node_affinity
        .iter()
        .map(|required| NodeSelectorRequirement {
            key: required.key.clone(),
            operator: if required.values.is_empty() {
                "DoesNotExist"
            } else {
                "In"
            }
            .to_owned(),
            values: some(required.values.clone()),
        })
        .collect();
    let term = NodeSelectorTerm {
        match_expressions: Some(some(expressions)?),
        match_fields: None,
    };
    Some(Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                node_selector_terms: vec![term],
            }),
            preferred_during_scheduling_ignored_during_execution: None,
        }),
        ..Affinity::default()
    })
}

fn tolerations(launch: &LaunchPlan, own: &[TolerationSpec]) -> Vec<Toleration> {
    let from_plan = launch.tolerations.iter().map(|toleration| Toleration {
        key: Some(toleration.key.clone()),
        operator: Some(if toleration.value.is_some() { "Equal" } else { "Exists" }.to_owned()),
        value: toleration.value.clone(),
        effect: toleration.effect.clone(),
        toleration_seconds: None,
    });
    let from_user = own.iter().map(|toleration| Toleration {
        key: toleration.key.clone(),
        operator: toleration.operator.map(|operator| format!("{operator:?}")),
        value: toleration.value.clone(),
        effect: toleration.effect.map(|effect| format!("{effect:?}")),
        toleration_seconds: None,
    });
    from_plan.chain(from_user).collect()
}

/// Replicas go to different nodes when they can.
fn spread(name: &str) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: "kubernetes.io/hostname".to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(LabelSelector {
            match_labels: Some(selector_labels(name)),
            match_expressions: None,
        }),
        ..TopologySpreadConstraint::default()
    }
}

fn pod_security(launch: &LaunchPlan) -> PodSecurityContext {
    PodSecurityContext {
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            localhost_profile: None,
        }),
        supplemental_groups: some(launch.group_ids.iter().map(|&group| i64::from(group)).collect()),
        ..PodSecurityContext::default()
    }
}

/// As little as the engine needs: a profile that asks for more says so in the matrix.
fn container_security(launch: &LaunchPlan) -> SecurityContext {
    let capabilities = Capabilities {
        add: some(launch.capabilities.clone()),
        drop: Some(vec!["ALL".to_owned()]),
    };
    if launch.privileged {
        return SecurityContext {
            privileged: Some(true),
            ..SecurityContext::default()
        };
    }
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(capabilities),
        ..SecurityContext::default()
    }
}
