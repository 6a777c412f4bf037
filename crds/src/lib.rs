//! The Kubernetes types of Plimsoll and its vocabulary of conditions and reasons.
//!
//! Pure: types, their schemas and their words. Nothing here talks to an API server.

mod condition;
mod decision;
mod matrix_objects;
mod model_deployment;
pub mod node_weights;
mod token;

pub use condition::{condition, conditions_differ, find_condition, merge_conditions};
pub use decision::{DecisionRecord, Explanation, ModelSummary, NearMiss, PendingDecision, RejectionCount, RunnerUp};
pub use matrix_objects::{DocumentEncoding, MatrixChannel, MatrixChannelSpec, MatrixRevision, MatrixRevisionSpec};
pub use model_deployment::{
    AcceleratorPreference, ContextSpec, Effect, EnginePolicy, EngineSpec, EnvironmentVariable, LocalSecret,
    MatrixSource, MinimumLevel, ModelDeployment, ModelDeploymentSpec, ModelDeploymentStatus, ModelSource, Resources,
    RolloutPolicy, RolloutSpec, SecretKey, TemplateOverrides, TolerationOperator, TolerationSpec,
};
pub use node_weights::{NodeWeights, NodeWeightsSpec, NodeWeightsStatus};
pub use token::{ConditionType, Move, Reason, Severity};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

/// The API group of every kind here.
pub const GROUP: &str = "plimsoll.dev";
/// The version of every kind here.
pub const VERSION: &str = "v1alpha1";
/// Label on every child of a deployment, with the deployment's name.
pub const LABEL_DEPLOYMENT: &str = "plimsoll.dev/deployment";
/// Label that says who made an object.
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`LABEL_MANAGED_BY`] on our objects.
pub const MANAGED_BY: &str = "plimsoll";
/// Label that names the engine and its metric profile to an endpoint picker.
pub const LABEL_ENGINE_TYPE: &str = "llm-d.ai/engine-type";

/// Every definition that a cluster needs, in a stable order.
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![
        MatrixChannel::crd(),
        MatrixRevision::crd(),
        ModelDeployment::crd(),
        NodeWeights::crd(),
    ]
}
