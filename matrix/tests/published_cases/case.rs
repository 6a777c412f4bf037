//! One case: a cluster, a question, and what the claim expects.

use std::fmt::Write as _;

use matrix::{Demand, Level, Matrix, Policy, Pull, Request};
use model_facts::{KvCache, LayerGroup, LayerKind, ModelFacts, Quantization, WeightFormat};
use serde_json::{Value, json};

use super::claim::{Claim, Expectation, Model, Shown};

/// Tokens that every case asks for, where the model has as many.
const CONTEXT: u64 = 4096;

#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) stem: String,
    pub(crate) says: String,
    source: String,
    pub(crate) cluster: String,
    pub(crate) facts: ModelFacts,
    pub(crate) expect: Vec<Expectation>,
    pub(crate) longest_context: Option<u64>,
}

impl Case {
    pub(crate) fn new(
        book: &str,
        source: &str,
        claim: &Claim,
        (model, product, shown): (&Model, &str, &Shown),
        quantization: &str,
    ) -> Self {
        let bare = claim.model.rsplit('/').next().unwrap_or(&claim.model);
        let stem = format!("{book}-{bare}-{quantization}-on-{product}").to_lowercase();
        Self {
            name: stem.clone(),
            stem,
            says: claim.says.clone(),
            source: source.to_owned(),
            cluster: cluster(claim.nodes, shown),
            facts: facts(&claim.model, model, quantization),
            expect: claim.expect.clone(),
            longest_context: claim.longest_context,
        }
    }

    pub(crate) fn request(&self, matrix: &Matrix) -> Request {
        let objects: Vec<Value> = serde_saphyr::from_multiple(&self.cluster).unwrap();
        Request {
            facts: self.facts.clone(),
            pools: matrix::recognise(matrix, &matrix::observe(&objects)).pools,
            demand: Demand {
                context: Some(CONTEXT.min(self.facts.context_length.unwrap_or(CONTEXT))),
                ..Demand::default()
            },
            policy: policy(),
        }
    }

    /// The claim and the model that is asked for.
    pub(crate) fn question(&self) -> String {
        let mut text = format!("source: {}\nsays: {}\nexpect:\n", json!(self.source), json!(self.says));
        for expectation in &self.expect {
            let _ = writeln!(text, "- {}", serde_json::to_string(expectation).unwrap());
        }
        if let Some(tokens) = self.longest_context {
            let _ = writeln!(text, "longestContext: {tokens}");
        }
        let facts = serde_json::to_value(&self.facts).unwrap();
        text.push_str("facts:\n");
        for (key, value) in facts.as_object().unwrap() {
            let _ = writeln!(text, "  {key}: {value}");
        }
        text
    }
}

/// Every level and every way to get an image is welcome: a claim is judged, not a wish.
fn policy() -> Policy {
    Policy {
        minimum_level: Level::Untested,
        pull: [Pull::Public, Pull::Login, Pull::Offline].into(),
        ..Policy::default()
    }
}

fn cluster(nodes: usize, shown: &Shown) -> String {
    let architecture = shown.architecture.as_deref().unwrap_or("amd64");
    let mut text = "apiVersion: v1\nkind: List\nitems:\n".to_owned();
    for index in 1..=nodes {
        let name = format!("node-{index}");
        let _ = write!(
            text,
            "- apiVersion: v1\n  kind: Node\n  metadata:\n    name: {name}\n    labels:\n      kubernetes.io/arch: {architecture}\n      kubernetes.io/hostname: {name}\n"
        );
        for (key, value) in &shown.labels {
            let _ = writeln!(text, "      {key}: {}", json!(value));
        }
        if let Some(registration) = &shown.annotation {
            let devices: Vec<String> = (0..shown.devices)
                .map(|index| registration.device.replace("{index}", &index.to_string()))
                .collect();
            let _ = write!(
                text,
                "    annotations:\n      {}: Requesting_2026-11-20 10:00:00\n      {}: {}\n",
                registration.handshake,
                registration.key,
                json!(devices.concat())
            );
        }
        let devices = shown
            .resource
            .as_ref()
            .map(|resource| format!(", {resource}: \"{}\"", shown.devices))
            .unwrap_or_default();
        let amounts = format!("{{cpu: \"128\", memory: 1055000000Ki{devices}}}");
        let _ = write!(
            text,
            "  status:\n    allocatable: {amounts}\n    capacity: {amounts}\n    conditions: [{{type: Ready, status: \"True\"}}]\n    nodeInfo: {{architecture: {architecture}}}\n"
        );
    }
    text
}

/// Bits of a stored weight. Scales and parts that stay wide are small beside it.
fn bits(quantization: &str) -> u64 {
    match quantization {
        "fp32" => 32,
        "bf16" | "fp16" => 16,
        word if word.starts_with("w4") || word.ends_with("fp4") || word.contains("-w4") || word == "bnb-4bit" => 4,
        "gguf" => 5,
        _ => 8,
    }
}

fn facts(checkpoint: &str, model: &Model, quantization: &str) -> ModelFacts {
    let plain = matches!(quantization, "fp32" | "bf16" | "fp16");
    let layers = model.layers.unwrap_or(0);
    let kind = match (model.latent, model.kv_heads, model.head_width) {
        (Some(width), _, _) => Some(LayerKind::Latent { width }),
        (None, Some(kv_heads), Some(width)) => Some(LayerKind::Full {
            kv_heads,
            key_dim: width,
            value_dim: width,
        }),
        _ if model.task.is_some() => Some(LayerKind::None),
        _ => None,
    };
    ModelFacts {
        checkpoint: Some(checkpoint.to_owned()),
        architectures: model.architecture.iter().cloned().collect(),
        family: model.family.clone(),
        format: if quantization == "gguf" {
            WeightFormat::Gguf
        } else {
            WeightFormat::Safetensors
        },
        dtype: Some(if plain { quantization } else { "bf16" }.to_owned()),
        quantization: Quantization {
            method: Some(if plain { "none" } else { "stated" }.to_owned()),
            label: Some(quantization.to_owned()),
            ..Quantization::default()
        },
        weight_bytes: model
            .millions
            .map(|millions| millions * 1_000_000 * bits(quantization) / 8),
        layers: model.layers,
        attention_heads: model.heads,
        kv_heads: model.kv_heads,
        context_length: Some(model.context),
        kv_cache: KvCache {
            groups: kind.map(|kind| vec![LayerGroup { layers, kind }]),
            lower_bound: false,
        },
        task: Some(model.task.clone().unwrap_or_else(|| "generate".to_owned())),
        ..ModelFacts::default()
    }
}
