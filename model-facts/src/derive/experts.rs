//! Mixtures of experts.

use serde_json::{Map, Value};

use crate::config::Config;
use crate::draft::Draft;
use crate::facts::Experts;
use crate::json;

const TOTAL: &[&str] = &[
    "num_experts",
    "n_routed_experts",
    "num_local_experts",
    "moe_num_experts",
    "num_moe_experts",
];
const ACTIVE: &[&str] = &[
    "num_experts_per_tok",
    "num_experts_per_token",
    "top_k_experts",
    "moe_topk",
    "moe_top_k",
    "moe_k",
    "experts_per_token",
    "num_selected_experts",
    "moe_router_topk",
    "num_experts_per_topk",
];
const SHARED: &[&str] = &[
    "n_shared_experts",
    "num_shared_experts",
    "num_shared_expert",
    "moe_num_shared_experts",
    "n_shared_expert",
];
/// Widths of a shared expert: their presence means one.
const SHARED_WIDTH: &[&str] = &[
    "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "shared_intermediate_size",
];
/// Objects that hold the keys in some families (DBRX).
const INNER: &[&str] = &["ffn_config", "moe", "moe_config"];

pub(super) fn derive(draft: &mut Draft, config: &Config) {
    if config.flag("enable_moe_block") == Some(false) {
        return;
    }
    let total = match find(config, TOTAL) {
        Found::Number(total) => total,
        Found::Wrong(key) => return draft.unknown("experts", format!("{key} is not a count")),
        Found::Null | Found::Absent => return,
    };
    if total < 2 {
        return;
    }
    let active = match find(config, ACTIVE) {
        Found::Number(active) => Some(active),
        Found::Wrong(_) | Found::Null | Found::Absent => None,
    };
    if active.is_none() {
        draft.unknown(
            "experts.active",
            format!("{} and its other names are absent", ACTIVE[0]),
        );
    }
    draft.facts.experts = Some(Experts {
        total,
        active,
        shared: shared(config),
    });
}

fn shared(config: &Config) -> Option<u32> {
    match find(config, SHARED) {
        Found::Number(count) => Some(count),
        Found::Null => Some(0),
        Found::Wrong(_) => None,
        Found::Absent => match find(config, SHARED_WIDTH) {
            Found::Number(0) | Found::Null => Some(0),
            Found::Number(_) => Some(1),
            _ => None,
        },
    }
}

enum Found {
    Number(u32),
    Wrong(&'static str),
    Null,
    Absent,
}

/// The first of `keys` in the language model, the root, or one of the inner objects.
fn find(config: &Config, keys: &[&'static str]) -> Found {
    let inner = INNER.iter().filter_map(|key| config.object(key));
    let places: Vec<&Map<String, Value>> = [config.language(), config.root()].into_iter().chain(inner).collect();
    let mut null = false;
    for map in places {
        for key in keys {
            match map.get(*key) {
                None => {}
                Some(Value::Null) => null = true,
                Some(value) => return largest(value).map_or(Found::Wrong(key), Found::Number),
            }
        }
    }
    if null { Found::Null } else { Found::Absent }
}

/// A count, or the largest of a list by layer or by modality.
fn largest(value: &Value) -> Option<u32> {
    let number = match value {
        Value::Array(list) => list.iter().filter_map(json::whole).max()?,
        other => json::whole(other)?,
    };
    u32::try_from(number).ok()
}
