//! What a user asks for: a model, how many replicas, and which accelerators and engines are welcome.
#![expect(
    unreachable_pub,
    reason = "the KubeSchema derive repeats each struct inside a function"
)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::conditions_schema;
use crate::decision::{DecisionRecord, Explanation, ModelSummary, PendingDecision};

/// What the user wants; the controller never writes here.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[kube(
    group = "plimsoll.dev",
    version = "v1alpha1",
    kind = "ModelDeployment",
    namespaced,
    shortname = "pmd",
    category = "plimsoll",
    derive = "PartialEq",
    status = "ModelDeploymentStatus",
    doc = "A model to be served. The controller finds the accelerators of the cluster, asks the compatibility matrix for the engine build that runs this model on them, and keeps the workload; `status` holds the decision and the reasons.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Engine", type_ = "string", json_path = ".status.decision.distribution"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.decision.version"),
    printcolumn(name = "Accelerator", type_ = "string", json_path = ".status.decision.product"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]{0,50}[a-z0-9])?$')").message("the name also names a Service: at most 52 characters, lower case letters, digits and '-', starting with a letter")
)]
#[serde(rename_all = "camelCase")]
pub struct ModelDeploymentSpec {
    /// The model and where its weights are.
    pub model: ModelSource,
    /// How many copies of the model to serve. An autoscaler may own this field through the scale subresource.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,
    /// Accelerators that are welcome, best first. Empty: any accelerator that the matrix knows for this model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub accelerators: Vec<AcceleratorPreference>,
    /// Which engine builds are welcome.
    #[serde(default)]
    pub engine: EngineSpec,
    /// The context and concurrency to make room for. Absent: the model's own context length, one sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextSpec>,
    /// Which state of the compatibility matrix decides.
    #[serde(default)]
    pub matrix: MatrixSource,
    /// What happens when the matrix would choose differently than it did.
    #[serde(default)]
    pub rollout: RolloutSpec,
    /// Additions to the pods. They never replace what the decision needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplateOverrides>,
}

const fn one() -> i32 {
    1
}

/// The model and where its weights are.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ModelSource {
    /// The packed model in a registry: `registry.local/models/qwen3-8b:v1`, or by digest. A tag is resolved when the
    /// deployment changes, and the digest it had then is what runs.
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(validation = Rule::new("!self.contains('://')").message("write the reference without a scheme: registry.local/models/qwen3-8b:v1"))]
    #[x_kube(validation = Rule::new("self.contains('/')").message("name the registry too: registry.local/models/qwen3-8b:v1"))]
    pub artifact: String,
    /// The model name that clients send. Absent: the name of the deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub served_name: Option<String>,
    /// Secrets of this namespace (type `kubernetes.io/dockerconfigjson`) that may read the artifact. The first one also
    /// authorises the mount on the node. All of them are the pull secrets of the engine's image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub pull_secrets: Vec<LocalSecret>,
}

/// A secret in the namespace of the deployment.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LocalSecret {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// One kind of accelerator that is welcome.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.product) != has(self.vendor)").message("name a product (enflame-s60) or a vendor (enflame), not both"))]
#[x_kube(validation = Rule::new("!has(self.partition) || has(self.product)").message("a partition belongs to a product: name the product too"))]
pub struct AcceleratorPreference {
    /// A product of the matrix: `enflame-s60`, `ascend-910b3`, `cpu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub product: Option<String>,
    /// All products of a vendor: `enflame`, `ascend`, `nvidia`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub vendor: Option<String>,
    /// Devices per replica. Absent: the smallest number that fits the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub count: Option<i32>,
    /// A partition of the product, as the matrix names it: `1g.10gb`. Absent: whole devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub partition: Option<String>,
}

/// Which engine builds are welcome.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.policy != 'Pinned' || has(self.name)").message("policy Pinned needs the engine's name: the launch flags come from its profile"))]
#[x_kube(validation = Rule::new("!has(self.image) || self.policy == 'Pinned'").message("an image of your own needs policy Pinned"))]
pub struct EngineSpec {
    /// `Auto`: the matrix decides. `Pinned`: the engine named here is taken even where the matrix has no support row for
    /// the model; only an explicit `no` of the matrix still stops it.
    #[serde(default)]
    pub policy: EnginePolicy,
    /// An engine (`vllm`, `sglang`, `llama.cpp`) or a distribution of it (`vllm-gcu`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub name: Option<String>,
    /// Versions that are welcome, as a comma separated list of bounds: `>=0.9.2, <0.12`, `==0.11.2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub version_range: Option<String>,
    /// The weakest statement of the matrix that is good enough. Absent: `Declared` with policy Auto.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_level: Option<MinimumLevel>,
    /// An image of your own in place of the build's; flags and devices still come from the chosen build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Arguments after those of the launch profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(max = 4096)))]
    pub args: Vec<String>,
    /// Environment beside that of the launch profile; the same name replaces the profile's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvironmentVariable>,
}

/// Who chooses the engine.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EnginePolicy {
    /// The matrix decides.
    #[default]
    Auto,
    /// The engine named in the spec is taken.
    Pinned,
}

/// The weakest statement of the matrix that is good enough.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinimumLevel {
    /// Somebody ran it and says how.
    Verified,
    /// The vendor or project says so.
    Declared,
    /// It is said to work with reservations.
    Experimental,
    /// Nobody says anything about it.
    Untested,
}

/// An environment variable of the engine.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.value) != has(self.secretKeyRef)").message("give a value or a secretKeyRef"))]
pub struct EnvironmentVariable {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub value: Option<String>,
    /// A key of a secret in this namespace that holds the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<SecretKey>,
}

/// A key of a secret.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    /// Name of the secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key in it.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// The context and concurrency to make room for.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct ContextSpec {
    /// Longest context of a request, in tokens. Absent: the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16_777_216))]
    pub max_tokens: Option<i64>,
    /// Sequences of that length to hold in memory at once. Absent: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4096))]
    pub concurrency: Option<i32>,
}

/// Which state of the compatibility matrix decides.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!(has(self.channel) && has(self.revision))").message("follow a channel or pin a revision, not both"))]
pub struct MatrixSource {
    /// The `MatrixChannel` to follow. Absent, with no revision either: `stable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub channel: Option<String>,
    /// The `MatrixRevision` to stay on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub revision: Option<String>,
}

/// What happens when the matrix would choose differently than it did.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct RolloutSpec {
    /// `Manual`: the change waits in `status.pending` until it is approved. `Automatic`: it is rolled out at once.
    #[serde(default)]
    pub policy: RolloutPolicy,
    /// Approves one pending change: the value of `status.pending.revision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub approved_revision: Option<String>,
}

/// Who starts a change of the engine.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RolloutPolicy {
    /// A person, through `approvedRevision`.
    #[default]
    Manual,
    /// The controller.
    Automatic,
}

/// Additions to the pods.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct TemplateOverrides {
    /// Labels for the pods, beside ours.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,
    /// Annotations for the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub annotations: BTreeMap<String, String>,
    /// Only nodes with these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations beside those of the product.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub tolerations: Vec<TolerationSpec>,
    /// CPU and memory of the engine container. Devices come from the decision and cannot be set here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Service account of the pods. Its token is not mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// Priority class of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,
}

/// A toleration of the pods.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct TolerationSpec {
    /// Taint key. Absent with operator `Exists`: every taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub key: Option<String>,
    /// How the value is compared. Absent: `Equal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<TolerationOperator>,
    /// Taint value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub value: Option<String>,
    /// Taint effect. Absent: all effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
}

/// How a toleration's value is compared.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum TolerationOperator {
    /// Any value.
    Exists,
    /// The same value.
    Equal,
}

/// What a taint does.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// New pods stay away.
    NoSchedule,
    /// New pods stay away when they can.
    PreferNoSchedule,
    /// Running pods leave too.
    NoExecute,
}

/// CPU and memory of the engine container, as Kubernetes quantities.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// What the scheduler sets aside.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 3))]
    #[x_kube(validation = Rule::new("self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])").message("only cpu, memory and ephemeral-storage: devices come from the decision"))]
    pub requests: BTreeMap<String, String>,
    /// What the container may use at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 3))]
    #[x_kube(validation = Rule::new("self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])").message("only cpu, memory and ephemeral-storage: devices come from the decision"))]
    pub limits: BTreeMap<String, String>,
}

/// What the controller found, decided and sees.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Default)]
#[serde(rename_all = "camelCase")]
pub struct ModelDeploymentStatus {
    /// The generation of the spec that this status answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What the artifact says about the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelSummary>,
    /// The choice in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<DecisionRecord>,
    /// A choice that the matrix would make now and that waits for the rollout policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingDecision>,
    /// Why this choice, or why none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explain: Option<Explanation>,
    /// The choices before this one, newest first, at most three.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3))]
    pub history: Vec<DecisionRecord>,
    /// Pods that exist.
    #[serde(default)]
    pub replicas: i32,
    /// Pods that answer.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Label selector of the pods, for autoscalers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Where clients inside the cluster find the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The state in the words of `docs/spec/modeldeployment.md`, one entry per type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}
