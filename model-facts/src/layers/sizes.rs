//! Layers, heads and widths: the key tables.

use serde_json::Value;

use crate::config::{Config, Lookup, describe};
use crate::json;

const LAYERS: &[&str] = &[
    "num_hidden_layers",
    "n_layer",
    "n_layers",
    "num_layers",
    "num_transformer_layers",
];
const DECODER_LAYERS: &[&str] = &["num_decoder_layers", "decoder_layers"];
pub(crate) const HIDDEN: &[&str] = &["hidden_size", "n_embd", "n_embed", "d_model", "dim", "model_dim"];
const HEADS: &[&str] = &[
    "num_attention_heads",
    "n_head",
    "n_heads",
    "num_heads",
    "num_query_heads",
    "num_attn_heads",
    "attention_heads",
];
const DECODER_HEADS: &[&str] = &["decoder_attention_heads"];
const KV_HEADS: &[&str] = &[
    "num_key_value_heads",
    "n_head_kv",
    "num_kv_heads",
    "n_kv_heads",
    "multi_query_group_num",
    "num_attention_groups",
    "num_query_groups",
    "num_key_value_heads_per_layer",
];
const HEAD_DIM: &[&str] = &[
    "head_dim",
    "hidden_size_per_head",
    "attention_head_dim",
    "kv_channels",
    "d_kv",
    "d_head",
    "head_size",
];
const FALCON: &[&str] = &["falcon", "RefinedWeb", "RefinedWebModel"];

/// Families whose code has a width of its own for a head that the file does not state, so that hidden size by heads is wrong.
const HEAD_DIM_IN_CODE: &[&str] = &[
    "gemma",
    "gemma2",
    "gemma3_text",
    "gemma3n_text",
    "gemma4_text",
    "glm",
    "glm4",
    "gpt_oss",
    "helium",
    "qwen3",
    "qwen3_5_moe_text",
    "qwen3_5_text",
    "qwen3_next",
    "qwen3_vl_moe_text",
    "qwen3_vl_text",
    "seed_oss",
];
/// Families whose code has a number of KV heads of its own where the file has no key for it; null still means as many as heads.
const KV_HEADS_IN_CODE: &[&str] = &[
    "gemma2",
    "gemma3_text",
    "gemma3n_text",
    "glm",
    "glm4",
    "glm4_moe",
    "gpt_oss",
    "ministral",
    "mistral",
    "mixtral",
    "phimoe",
    "qwen3_moe",
    "qwen3_next",
    "seed_oss",
    "smollm3",
    "starcoder2",
];

/// The largest number of layers that is believed.
const MOST_LAYERS: u32 = 10_000;

/// A number per layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PerLayer {
    /// The same in all layers.
    Same(u32),
    /// One by one; 0 is a layer without attention.
    Each(Vec<u32>),
}

impl PerLayer {
    /// The number of layer `index`.
    pub(crate) fn at(&self, index: usize) -> Option<u32> {
        match self {
            Self::Same(number) => Some(*number),
            Self::Each(list) => list.get(index).copied(),
        }
    }

    /// The one number of all layers that have one.
    pub(crate) fn uniform(&self) -> Option<u32> {
        match self {
            Self::Same(number) => Some(*number),
            Self::Each(list) => {
                let mut numbers = list.iter().copied().filter(|number| *number > 0);
                let first = numbers.next()?;
                numbers.all(|number| number == first).then_some(first)
            }
        }
    }
}

/// The number of hidden layers; of the decoder where there is an encoder beside it.
pub(crate) fn layer_count(config: &Config) -> Lookup<u32> {
    let keys: &[&[&'static str]] = if super::encoder::has_decoder_beside_encoder(config) {
        &[DECODER_LAYERS, LAYERS]
    } else {
        &[LAYERS, DECODER_LAYERS]
    };
    let count = keys
        .iter()
        .map(|keys| config.count(keys))
        .find(|count| *count != Lookup::Absent);
    match count {
        Some(Lookup::Found(layers, key)) if layers > MOST_LAYERS => {
            Lookup::Wrong(format!("{key} is {layers}, more than the limit of {MOST_LAYERS}"))
        }
        Some(count) => count,
        None => by_lists(config),
    }
}

/// Files that state layers only by a pattern with a letter for each.
fn by_lists(config: &Config) -> Lookup<u32> {
    let pattern = config
        .text("hybrid_override_pattern")
        .map(|text| text.chars().filter(|c| *c != '|').count());
    let listed = config.list("layer_types").map(<[Value]>::len);
    match pattern.or(listed).and_then(|count| u32::try_from(count).ok()) {
        Some(count) if (1..=MOST_LAYERS).contains(&count) => Lookup::Found(count, "hybrid_override_pattern"),
        _ => Lookup::Absent,
    }
}

/// Attention heads.
pub(crate) fn head_count(config: &Config) -> Result<PerLayer, String> {
    if super::encoder::has_decoder_beside_encoder(config) && config.first(DECODER_HEADS).is_some() {
        return per_layer(config, DECODER_HEADS);
    }
    per_layer(config, HEADS)
}

/// KV heads: as written, one for multi-query attention, else as many as heads.
pub(crate) fn kv_heads(config: &Config) -> Result<PerLayer, String> {
    let new_falcon = config.is_family(FALCON) && config.flag("new_decoder_architecture") == Some(true);
    if config.flag("multi_query") == Some(true) && !new_falcon {
        return Ok(PerLayer::Same(1));
    }
    if let Some(heads) = in_attention_config(config) {
        return Ok(PerLayer::Same(heads));
    }
    let grouped = config.flag("multi_query_attention") != Some(false);
    let old_falcon = config.is_family(FALCON) && !new_falcon;
    if grouped && !old_falcon && config.first(KV_HEADS).is_some() {
        return per_layer(config, KV_HEADS);
    }
    let written = KV_HEADS.iter().any(|key| config.mentions(key));
    if !written && config.is_family(KV_HEADS_IN_CODE) {
        return Err(in_code(KV_HEADS[0], config));
    }
    head_count(config)
}

/// What is missing where only the code of a family knows a number.
fn in_code(key: &str, config: &Config) -> String {
    format!(
        "{key} is absent from {}, and this family's own is in its code",
        config.file()
    )
}

/// MPT and DBRX keep it in an object of its own.
fn in_attention_config(config: &Config) -> Option<u32> {
    let inner = ["attn_config", "attention_config"]
        .iter()
        .find_map(|key| config.object(key))?;
    let multi_query = json::text(inner, "attn_type") == Some("multiquery_attention");
    if multi_query {
        Some(1)
    } else {
        json::small(inner, "kv_n_heads").filter(|heads| *heads > 0)
    }
}

fn per_layer(config: &Config, keys: &[&'static str]) -> Result<PerLayer, String> {
    let Some((key, value)) = config.first(keys) else {
        return Err(format!(
            "{} and its other names are absent from {}",
            keys[0],
            config.file()
        ));
    };
    let wrong = || format!("{key} is {}, which is no number of heads", describe(value));
    match value {
        Value::Array(list) => {
            let numbers = list
                .iter()
                .map(|item| json::whole(item).and_then(|number| u32::try_from(number).ok()));
            numbers
                .collect::<Option<Vec<u32>>>()
                .filter(|list| !list.is_empty())
                .map(PerLayer::Each)
                .ok_or_else(wrong)
        }
        _ => config.count(&[key]).found().map(PerLayer::Same).ok_or_else(wrong),
    }
}

/// Width of a head as written.
pub(crate) fn written_head_dim(config: &Config) -> Lookup<u32> {
    config.count(HEAD_DIM)
}

/// Width of a K head: as written, else hidden size by heads.
pub(crate) fn key_dim(config: &Config) -> Result<u32, String> {
    match written_head_dim(config) {
        Lookup::Found(width, _) => return Ok(width),
        Lookup::Wrong(reason) => return Err(reason),
        Lookup::Absent => {}
    }
    if config.is_family(HEAD_DIM_IN_CODE) {
        return Err(in_code(HEAD_DIM[0], config));
    }
    let heads = head_count(config)?
        .uniform()
        .ok_or("heads differ by layer and head_dim is absent")?;
    let hidden = config.count(HIDDEN);
    let Lookup::Found(hidden, key) = hidden else {
        return Err("head_dim and hidden_size are absent".to_owned());
    };
    if hidden.is_multiple_of(heads) {
        Ok(hidden / heads)
    } else {
        Err(format!(
            "head_dim is absent and {key} {hidden} is no multiple of {heads} heads"
        ))
    }
}
