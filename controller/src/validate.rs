//! From what was observed to one question that can be answered: everything that can be wrong with the inputs is found here.

use std::collections::BTreeSet;
use std::sync::Arc;

use crds::{
    AcceleratorPreference, DecisionRecord, EnginePolicy, MinimumLevel, ModelDeploymentSpec, Reason, RolloutPolicy,
    TolerationSpec,
};
use jiff::Timestamp;
use matrix::{Demand, Level, Policy, Preference, Pull, Request, VersionRange};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::finding::Finding;
use crate::observed::{MatrixView, Model, Observed, Settings};

/// What is known before the matrix is asked.
pub struct Validated {
    /// Is the model known?
    pub model: Finding,
    /// Are there accelerators?
    pub devices: Finding,
    /// The question, or why it cannot be asked.
    pub question: Result<Question, Finding>,
}

/// Everything that a decision is made from.
pub struct Question {
    /// The model.
    pub model: Arc<Model>,
    /// The question to the matrix, on the pools that the current matrix recognises.
    pub request: Request,
    /// Digest of what the choice depends on, besides matrix and pools.
    pub inputs_digest: String,
    /// The matrix that the spec follows.
    pub current: MatrixView,
    /// The matrix of the decision in force, when it is another.
    pub deciding: Option<Result<MatrixView, Finding>>,
    /// The decision in force.
    pub previous: Option<DecisionRecord>,
    /// Decisions before it.
    pub history: Vec<DecisionRecord>,
    /// Whether changes are taken without asking.
    pub automatic: bool,
    /// The revision that a person approved.
    pub approved: Option<String>,
    /// The name that clients use.
    pub served_name: String,
    /// Arguments of the user.
    pub extra_args: Vec<String>,
    /// An image of the user's own.
    pub image: Option<String>,
    /// What the controller is told.
    pub settings: Arc<Settings>,
    /// The time of the pass.
    pub now: Timestamp,
}

/// Checks everything that was observed.
pub fn validate(observed: &Observed) -> Validated {
    let spec = &observed.deployment.spec;
    let model = match &observed.model {
        Ok(model) => Finding::new(Reason::ModelRead, describe_model(model)),
        Err(finding) => finding.clone(),
    };
    let devices = match &observed.current {
        Ok(view) => find_devices(view, &spec.accelerators),
        // Without a matrix no chip has a name.
        Err(finding) => Finding::new(Reason::DevicesNotRead, finding.message.clone()),
    };
    Validated {
        model,
        devices,
        question: ask(observed, spec),
    }
}

fn ask(observed: &Observed, spec: &ModelDeploymentSpec) -> Result<Question, Finding> {
    let current = observed.current.clone()?;
    let policy = policy(spec, !observed.settings.rewrite.is_empty())?;
    let demand = demand(spec);
    let model = observed.model.clone().map_err(|finding| {
        Finding::new(
            Reason::WaitingForModel,
            format!("the model is not known: {}", finding.message),
        )
    })?;
    let status = observed.deployment.status.clone().unwrap_or_default();
    let name = observed.deployment.metadata.name.clone().unwrap_or_default();
    Ok(Question {
        inputs_digest: digest_of_inputs(&model, &demand, &policy),
        request: Request {
            facts: model.facts.clone(),
            pools: current.cluster.pools.clone(),
            demand,
            policy,
        },
        model,
        current,
        deciding: observed.deciding.clone(),
        previous: status.decision,
        history: status.history,
        automatic: spec.rollout.policy == RolloutPolicy::Automatic,
        approved: spec.rollout.approved_revision.clone(),
        served_name: spec.model.served_name.clone().unwrap_or(name),
        extra_args: spec.engine.args.clone(),
        image: spec.engine.image.clone(),
        settings: Arc::clone(&observed.settings),
        now: observed.now,
    })
}

fn describe_model(model: &Model) -> String {
    let facts = &model.facts;
    let kind = facts
        .architectures
        .first()
        .or(facts.family.as_ref())
        .map_or("an unnamed architecture", String::as_str);
    let quantization = facts.quantization.label.as_deref().unwrap_or("of unknown quantization");
    format!("{kind}, {quantization}, {}", model.reference)
}

/// Whether the cluster has anything that the spec welcomes.
fn find_devices(view: &MatrixView, welcome: &[AcceleratorPreference]) -> Finding {
    if view.cluster.nodes == 0 {
        return Finding::new(Reason::NoNodes, "the cluster has no node");
    }
    let matching = view.cluster.pools.iter().filter(|pool| welcomes(view, pool, welcome));
    let found: Vec<String> = matching
        .map(|pool| format!("{} ({})", pool.id, count(pool.nodes.len(), "node")))
        .collect();
    if found.is_empty() {
        let wanted = if welcome.is_empty() {
            "the matrix knows"
        } else {
            "spec.accelerators names"
        };
        let text = format!("no node offers an accelerator that {wanted}; {}", seen(view));
        return Finding::new(Reason::NoMatchingPool, text);
    }
    Finding::new(Reason::PoolsFound, found.join(", "))
}

/// What was seen instead, unknown chips by the name that their node gives them.
fn seen(view: &MatrixView) -> String {
    let name = |pool: &matrix::Pool| match (&pool.product, &pool.raw) {
        (Some(product), _) => product.clone(),
        (None, Some(raw)) => format!("`{raw}`, which the matrix does not know"),
        (None, None) => format!("unknown devices ({})", pool.offer.describe()),
    };
    let names: BTreeSet<String> = view.cluster.pools.iter().map(name).collect();
    let names: Vec<String> = names.into_iter().take(8).collect();
    let nodes = count(view.cluster.nodes, "node");
    if names.is_empty() {
        format!("{nodes} seen, none with an accelerator")
    } else {
        format!("{nodes} seen, with {}", names.join(", "))
    }
}

fn welcomes(view: &MatrixView, pool: &matrix::Pool, welcome: &[AcceleratorPreference]) -> bool {
    let Some(product) = &pool.product else { return false };
    welcome.is_empty()
        || welcome
            .iter()
            .any(|preference| match (&preference.product, &preference.vendor) {
                (Some(asked), _) => view.matrix.products_for(asked).contains(product.as_str()),
                (None, Some(vendor)) => pool.vendor.as_ref() == Some(vendor),
                (None, None) => false,
            })
}

/// `1 node`, `2 nodes`.
pub fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

fn demand(spec: &ModelDeploymentSpec) -> Demand {
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

/// An absent key tolerates every taint, which the matrix writes as an empty one.
fn toleration(own: &TolerationSpec) -> matrix::Toleration {
    matrix::Toleration {
        key: own.key.clone().unwrap_or_default(),
        value: own.value.clone(),
        effect: own.effect.map(|effect| format!("{effect:?}")),
    }
}

fn preference(asked: &AcceleratorPreference) -> Preference {
    let AcceleratorPreference {
        product,
        vendor,
        count,
        partition,
    } = asked.clone();
    Preference {
        product,
        vendor,
        devices: count.and_then(|devices| u32::try_from(devices).ok()),
        partition,
    }
}

fn policy(spec: &ModelDeploymentSpec, has_mirror: bool) -> Result<Policy, Finding> {
    let engine = &spec.engine;
    let explicit = engine.policy == EnginePolicy::Pinned;
    if let Some(text) = &engine.version_range {
        VersionRange::parse(text).map_err(|error| {
            Finding::new(
                Reason::EngineInvalid,
                format!("spec.engine.versionRange: {error}; {}", error.hint()),
            )
        })?;
    }
    let mut policy = Policy {
        engine: engine.name.clone(),
        version_range: engine.version_range.clone(),
        minimum_level: minimum_level(engine.minimum_level, explicit),
        explicit_engine: explicit,
        ..Policy::default()
    };
    // An image that vendors hand out as a file can be pulled where a mirror has it; an image of the user's own is no matter of the
    // build's at all.
    if has_mirror || engine.image.is_some() {
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

/// What a choice depends on, in a form of its own: a new version of this program must not change the digest of an old choice.
#[derive(Serialize)]
struct Inputs<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<u64>,
    accelerators: Vec<[Option<String>; 4]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    versions: Option<&'a str>,
    level: &'a str,
    explicit: bool,
}

fn digest_of_inputs(model: &Model, demand: &Demand, policy: &Policy) -> String {
    let accelerator = |asked: &Preference| {
        let devices = asked.devices.map(|devices| devices.to_string());
        [
            asked.product.clone(),
            asked.vendor.clone(),
            devices,
            asked.partition.clone(),
        ]
    };
    let inputs = Inputs {
        model: model.digest(),
        context: demand.context,
        concurrency: demand.concurrency,
        accelerators: demand.accelerators.iter().map(accelerator).collect(),
        engine: policy.engine.as_deref(),
        versions: policy.version_range.as_deref(),
        level: policy.minimum_level.word(),
        explicit: policy.explicit_engine,
    };
    digest_json(&inputs)
}

/// sha256 of a value's JSON, as `sha256:…`. The types that come here serialise in a fixed order and cannot fail.
pub fn digest_json(value: &impl Serialize) -> String {
    use std::fmt::Write as _;
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    Sha256::digest(bytes)
        .iter()
        .fold(String::from("sha256:"), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}
