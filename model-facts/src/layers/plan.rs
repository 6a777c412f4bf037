//! The role of each layer.

use serde_json::{Map, Value};

use crate::config::Config;
use crate::draft::Draft;
use crate::json;

use super::{encoder, patterns};

/// What a layer does with the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Attends to all tokens.
    Full,
    /// Attends to the last tokens.
    Sliding(u64),
    /// Keeps a constant state.
    State,
    /// Attends to all tokens and keeps a constant state.
    Both,
    /// Keeps nothing.
    Nothing,
}

/// A layer with what its own block says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) role: Role,
    /// KV heads of this layer alone.
    pub(super) kv_heads: Option<u32>,
}

impl From<Role> for Layer {
    fn from(role: Role) -> Self {
        Self { role, kv_heads: None }
    }
}

/// The layers in order, or what is missing to know them.
pub(super) fn plan(draft: &mut Draft, config: &Config, layers: u32) -> Result<Vec<Layer>, String> {
    let count = layers as usize;
    let mut plan = if let Some(blocks) = config.list("block_configs") {
        sized(block_configs(config, blocks)?, count, "block_configs")?
    } else {
        roles(draft, config, count)?.into_iter().map(Layer::from).collect()
    };
    shared_caches(config, &mut plan);
    close_useless_windows(draft, &mut plan);
    index_keys(draft, config);
    Ok(plan)
}

fn roles(draft: &mut Draft, config: &Config, count: usize) -> Result<Vec<Role>, String> {
    if encoder::is_attention_free(config) {
        return Ok(vec![Role::State; count]);
    }
    if config.first(&["compress_ratios", "compress_rates"]).is_some() {
        return Err("compress_ratios: how such layers keep compressed keys and values has no rule here".to_owned());
    }
    if config.is_family(&["falcon_h1"]) {
        return Ok(vec![Role::Both; count]);
    }
    if config.is_family(&["longcat_flash"]) {
        // Each layer of this family has two attentions.
        return Ok(vec![Role::Full; count * 2]);
    }
    let named = patterns::by_names(config, count)
        .or_else(|| patterns::by_indexes(config, count))
        .or_else(|| patterns::by_periods(config, count));
    match named {
        Some(roles) => {
            let (roles, key) = roles?;
            note_longer(draft, roles.len(), count, key);
            sized(roles, count, key)
        }
        None if has_state_keys(config) => {
            Err("keys of a state-space or linear model are there, but none that says which layers".to_owned())
        }
        None => Ok(patterns::by_window(config, count)),
    }
}

/// The first `count` roles of a list; a shorter list is an error.
fn sized<T>(mut list: Vec<T>, count: usize, key: &str) -> Result<Vec<T>, String> {
    if list.len() < count {
        return Err(format!("{key} has {} entries for {count} layers", list.len()));
    }
    list.truncate(count);
    Ok(list)
}

fn note_longer(draft: &mut Draft, found: usize, count: usize, key: &str) {
    if found > count {
        draft.note(format!(
            "{key} has {found} entries for {count} layers: the rest is for draft heads"
        ));
    }
}

/// Architectures found by search keep a block per layer (Nemotron, `DeciLM`).
fn block_configs(config: &Config, blocks: &[Value]) -> Result<Vec<Layer>, String> {
    let heads = super::head_count(config).ok().and_then(|heads| heads.uniform());
    blocks
        .iter()
        .enumerate()
        .map(|(index, block)| {
            let attention = block.get("attention").and_then(Value::as_object);
            let attention = attention.ok_or_else(|| format!("block_configs[{index}] has no attention"))?;
            block_layer(attention, heads).ok_or_else(|| format!("block_configs[{index}] names no KV heads"))
        })
        .collect()
}

fn block_layer(attention: &Map<String, Value>, heads: Option<u32>) -> Option<Layer> {
    let on = |key: &str| attention.get(key).and_then(Value::as_bool) == Some(true);
    if on("no_op") || on("replace_with_linear") || on("is_mamba") {
        let role = if on("is_mamba") { Role::State } else { Role::Nothing };
        return Some(role.into());
    }
    let window = ["window_length", "sliding_window", "attention_chunk_size"]
        .iter()
        .find_map(|key| json::number(attention, key))
        .filter(|window| *window > 0);
    let grouped = json::small(attention, "n_heads_in_group").filter(|group| *group > 0);
    let kv_heads = json::small(attention, "num_key_value_heads").or_else(|| Some(heads? / grouped?));
    let kv_heads = kv_heads.filter(|heads| *heads > 0)?;
    Some(Layer {
        role: window.map_or(Role::Full, Role::Sliding),
        kv_heads: Some(kv_heads),
    })
}

/// Layers that use the cache of an earlier one keep none of their own.
fn shared_caches(config: &Config, plan: &mut [Layer]) {
    if let Some(shared) = config.small(&["num_kv_shared_layers"]) {
        let own = plan.len().saturating_sub(shared as usize);
        for layer in &mut plan[own..] {
            layer.role = Role::Nothing;
        }
    }
    let factor = config
        .small(&["cla_share_factor"])
        .filter(|_| config.flag("use_cla") == Some(true));
    if let Some(factor) = factor {
        for (index, layer) in plan.iter_mut().enumerate() {
            if !index.is_multiple_of(factor as usize) {
                layer.role = Role::Nothing;
            }
        }
    }
}

/// A window as long as the context is none.
fn close_useless_windows(draft: &mut Draft, plan: &mut [Layer]) {
    let Some(context) = draft.facts.context_length else {
        return;
    };
    for layer in plan {
        if let Role::Sliding(window) = layer.role
            && window >= context
        {
            layer.role = Role::Full;
            draft.note(format!(
                "a sliding window of {window} has no effect in a context of {context}"
            ));
        }
    }
}

/// Sparse attention keeps keys of an index beside the cache, in a format of the engine.
fn index_keys(draft: &mut Draft, config: &Config) {
    if config.small(&["index_head_dim", "index_n_heads"]).is_some() && config.small(&["index_topk"]).is_some() {
        draft.facts.kv_cache.lower_bound = true;
        draft.note("sparse attention: the keys of its index (index_head_dim per token and layer) come on top, in the engine's own format");
    }
}

fn has_state_keys(config: &Config) -> bool {
    const PREFIXES: &[&str] = &[
        "mamba_",
        "ssm_",
        "linear_key_",
        "linear_num_",
        "linear_attn_",
        "lightning_",
    ];
    config.language().iter().any(|(key, value)| {
        !value.is_null() && PREFIXES.iter().any(|prefix| key.starts_with(prefix)) && value != &Value::Bool(false)
    })
}
