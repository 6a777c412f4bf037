//! The config of a `ModelPack` artifact, as its specification (v0.0.7) writes it.

use model_facts::{ModelFacts, WeightFormat};
use serde::{Deserialize, Serialize};

use crate::Digest;
use crate::empty::null_as_default;

/// The config blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct ModelConfig {
    /// Who made the model and where it comes from.
    #[serde(default, deserialize_with = "null_as_default")]
    pub descriptor: About,
    /// The layers' contents.
    #[serde(default, deserialize_with = "null_as_default")]
    pub modelfs: ModelFs,
    /// What the model is.
    #[serde(default, deserialize_with = "null_as_default")]
    pub config: Technical,
}

/// Who made the model, and where it comes from. Everything is optional; nothing is guessed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// RFC 3339 time; left out unless the caller names one, because it changes the digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// People or organisations.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub authors: Vec<String>,
    /// Model family, `qwen3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Name of the model, `Qwen3-8B`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it is documented.
    #[serde(default, rename = "docURL", skip_serializing_if = "Option::is_none")]
    pub doc_url: Option<String>,
    /// Where the files come from.
    #[serde(default, rename = "sourceURL", skip_serializing_if = "Option::is_none")]
    pub source_url: Option<String>,
    /// What it was trained on.
    #[serde(
        default,
        rename = "datasetsURL",
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub datasets_url: Vec<String>,
    /// Version of the packaged model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Commit of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Organisation that distributes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// SPDX expressions.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub licenses: Vec<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The layers' contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelFs {
    /// Always `layers`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Digest of each layer's uncompressed content, in the order of the layers.
    #[serde(default, deserialize_with = "null_as_default")]
    pub diff_ids: Vec<String>,
}

impl Default for ModelFs {
    fn default() -> Self {
        Self {
            kind: "layers".to_owned(),
            diff_ids: Vec::new(),
        }
    }
}

impl ModelFs {
    /// Of uncompressed layers, whose digests are those of their content.
    pub(crate) fn of<'a>(layers: impl Iterator<Item = &'a Digest>) -> Self {
        Self {
            diff_ids: layers.map(ToString::to_string).collect(),
            ..Self::default()
        }
    }
}

/// What the model is, in the words of the specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct Technical {
    /// Architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Format of the weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Number of parameters, rounded: `8.2B`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub param_size: Option<String>,
    /// Number format of the weights: `bfloat16`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    /// Quantisation method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantization: Option<String>,
}

impl Technical {
    /// From facts; what they do not know stays out.
    pub fn of(facts: &ModelFacts) -> Self {
        let quantization = facts.quantization.method.clone().filter(|method| method != "none");
        Self {
            architecture: facts.architectures.first().cloned(),
            format: format_word(facts.format).map(str::to_owned),
            param_size: facts.parameters.map(parameter_size),
            precision: facts.dtype.as_deref().map(|dtype| precision_word(dtype).to_owned()),
            quantization,
        }
    }
}

fn format_word(format: WeightFormat) -> Option<&'static str> {
    match format {
        WeightFormat::Safetensors | WeightFormat::Mistral => Some("safetensors"),
        WeightFormat::Gguf => Some("gguf"),
        WeightFormat::Pytorch => Some("pytorch"),
        WeightFormat::Unknown => None,
    }
}

fn precision_word(dtype: &str) -> &str {
    match dtype {
        "bf16" => "bfloat16",
        "fp16" => "float16",
        "fp32" => "float32",
        other => other,
    }
}

/// One decimal, no trailing zero: 8190735360 -> `8.2B`, 134515008 -> `134.5M`. Integers only, so that it is the same everywhere.
fn parameter_size(parameters: u64) -> String {
    let scales = [
        (1_000_000_000_000, "T"),
        (1_000_000_000, "B"),
        (1_000_000, "M"),
        (1_000, "K"),
    ];
    let Some((scale, letter)) = scales.into_iter().find(|(scale, _)| parameters >= *scale) else {
        return parameters.to_string();
    };
    let tenths = (parameters + scale / 20) / (scale / 10);
    match tenths % 10 {
        0 => format!("{}{letter}", tenths / 10),
        tenth => format!("{}.{tenth}{letter}", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_counts_are_rounded_to_one_decimal() {
        let cases = [
            (999, "999"),
            (1_000, "1K"),
            (134_515_008, "134.5M"),
            (7_000_000_000, "7B"),
            (8_190_735_360, "8.2B"),
            (671_026_419_200, "671B"),
            (1_040_000_000_000, "1T"),
        ];
        for (parameters, text) in cases {
            assert_eq!(parameter_size(parameters), text);
        }
    }

    #[test]
    fn unknown_facts_stay_out_of_the_config() {
        assert_eq!(Technical::of(&ModelFacts::default()), Technical::default());
    }
}
