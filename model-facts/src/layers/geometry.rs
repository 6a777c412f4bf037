//! Heads and widths of each kind of layer.

use serde_json::Value;

use crate::config::Config;
use crate::facts::LayerKind;
use crate::json;

use super::plan::{Layer, Role};
use super::sizes::{self, PerLayer};

/// Heads and widths.
pub(super) struct Geometry {
    latent: Option<u32>,
    full: Result<Heads, String>,
    sliding: Result<Heads, String>,
}

#[derive(Clone)]
struct Heads {
    counts: PerLayer,
    key_dim: u32,
    value_dim: u32,
}

impl Geometry {
    /// Reads what the plan needs; a missing number matters only for a role that is there.
    pub(super) fn read(config: &Config, plan: &[Layer]) -> Result<Self, String> {
        let latent = latent_width(config)?;
        let own_heads = plan.iter().any(|layer| layer.kv_heads.is_some());
        let common = if own_heads {
            heads_by_block(config)
        } else {
            heads(config)
        };
        let full = common.clone().map(|heads| full_heads(config, heads));
        let sliding = common.map(|heads| sliding_heads(config, heads));
        Ok(Self { latent, full, sliding })
    }

    /// What layer `index` keeps: one kind, or two where attention and a state run side by side.
    pub(super) fn kinds(
        &self,
        config: &Config,
        index: usize,
        layer: &Layer,
        state_bytes: Option<u64>,
    ) -> Result<Vec<LayerKind>, String> {
        let state = LayerKind::Constant { bytes: state_bytes };
        Ok(match layer.role {
            Role::Full => vec![self.full(config, index, layer)?],
            Role::Sliding(window) => vec![self.sliding(index, layer, window)?],
            Role::State => vec![state],
            Role::Both => vec![self.full(config, index, layer)?, state],
            Role::Nothing => vec![LayerKind::None],
        })
    }

    fn full(&self, config: &Config, index: usize, layer: &Layer) -> Result<LayerKind, String> {
        if let Some(width) = self.latent {
            return Ok(LayerKind::Latent { width });
        }
        let heads = self.full.as_ref().map_err(Clone::clone)?;
        // Layers of a family with two attentions each share one entry of a list.
        let entry = if config.is_family(&["longcat_flash"]) {
            index / 2
        } else {
            index
        };
        let kv_heads = heads.at(entry, layer)?;
        Ok(match kv_heads {
            0 => LayerKind::None,
            kv_heads => LayerKind::Full {
                kv_heads,
                key_dim: heads.key_dim,
                value_dim: heads.value_dim,
            },
        })
    }

    fn sliding(&self, index: usize, layer: &Layer, window: u64) -> Result<LayerKind, String> {
        let heads = self.sliding.as_ref().map_err(Clone::clone)?;
        Ok(match heads.at(index, layer)? {
            0 => LayerKind::None,
            kv_heads => LayerKind::Sliding {
                kv_heads,
                key_dim: heads.key_dim,
                value_dim: heads.value_dim,
                window,
            },
        })
    }
}

impl Heads {
    fn at(&self, index: usize, layer: &Layer) -> Result<u32, String> {
        let listed = || {
            self.counts
                .at(index)
                .ok_or_else(|| format!("the list of KV heads ends before layer {index}"))
        };
        layer.kv_heads.map_or_else(listed, Ok)
    }
}

/// The width of the one vector that MLA keeps.
fn latent_width(config: &Config) -> Result<Option<u32>, String> {
    let rank = config
        .number(&["kv_lora_rank", "attention_kv_lora_dim"])
        .found()
        .filter(|rank| *rank > 0);
    let Some(rank) = rank.filter(|_| config.flag("use_mla") != Some(false)) else {
        return Ok(None);
    };
    let rope = config.number(&["qk_rope_head_dim", "attention_qk_rope_dim"]).found();
    let Some(rope) = rope else {
        return Err("kv_lora_rank is there without qk_rope_head_dim".to_owned());
    };
    let width = rank.checked_add(rope).and_then(|width| u32::try_from(width).ok());
    width
        .map(Some)
        .ok_or_else(|| format!("kv_lora_rank {rank} + qk_rope_head_dim {rope} is not possible"))
}

fn heads(config: &Config) -> Result<Heads, String> {
    let key_dim = sizes::key_dim(config)?;
    Ok(Heads {
        counts: sizes::kv_heads(config)?,
        key_dim,
        value_dim: value_dim(config, key_dim),
    })
}

/// Blocks state their KV heads, so the model's own number may be null.
fn heads_by_block(config: &Config) -> Result<Heads, String> {
    let key_dim = sizes::key_dim(config)?;
    Ok(Heads {
        counts: PerLayer::Same(0),
        key_dim,
        value_dim: value_dim(config, key_dim),
    })
}

/// V is as wide as K unless the file says otherwise.
fn value_dim(config: &Config, key_dim: u32) -> u32 {
    config.small(&["v_head_dim", "value_head_dim"]).unwrap_or(key_dim)
}

fn full_heads(config: &Config, plain: Heads) -> Heads {
    let kv_heads = config
        .small(&["num_global_key_value_heads"])
        .map_or(plain.counts, PerLayer::Same);
    let wide = config.small(&["global_head_dim"]);
    Heads {
        counts: kv_heads,
        key_dim: wide.unwrap_or(plain.key_dim),
        value_dim: wide.unwrap_or(plain.value_dim),
    }
}

/// Sliding layers with another number of heads over the same width (Baichuan-M1).
fn width_of_sliding_heads(config: &Config) -> Option<u32> {
    let heads = config.small(&["num_swa_attention_heads"])?;
    let hidden = config.small(sizes::HIDDEN)?;
    hidden.is_multiple_of(heads).then(|| hidden / heads)
}

fn sliding_heads(config: &Config, plain: Heads) -> Heads {
    let other = config.object("attention_other_setting");
    let of_other = |key: &str| other.and_then(|map| json::small(map, key)).filter(|number| *number > 0);
    let is_sliding = other
        .and_then(|map| map.get("attention_type"))
        .is_none_or(|kind| kind == &Value::from("sliding_attention"));
    let kv_heads = config
        .small(&["swa_num_key_value_heads", "num_swa_key_value_heads"])
        .or_else(|| of_other("num_attention_groups").filter(|_| is_sliding));
    let key_dim = config
        .small(&["swa_head_dim"])
        .or_else(|| width_of_sliding_heads(config))
        .or_else(|| of_other("head_dim").filter(|_| is_sliding));
    let value_dim = config
        .small(&["swa_v_head_dim"])
        .or(key_dim.filter(|_| plain.key_dim == plain.value_dim));
    Heads {
        counts: kv_heads.map_or(plain.counts, PerLayer::Same),
        key_dim: key_dim.unwrap_or(plain.key_dim),
        value_dim: value_dim.unwrap_or(plain.value_dim),
    }
}
