//! What each layer keeps: the kinds of the layers, and the geometry of each kind.

mod encoder;
mod geometry;
mod patterns;
mod plan;
mod sizes;
mod state;

use crate::config::Config;
use crate::draft::Draft;
use crate::facts::{LayerGroup, LayerKind};

pub(crate) use encoder::{is_attention_free, is_encoder};
pub(crate) use sizes::{HIDDEN, head_count, layer_count};

/// Derives the groups of the KV cache, and the facts that follow from them.
pub(crate) fn derive(draft: &mut Draft, config: &Config) {
    match groups(draft, config) {
        Ok(groups) => {
            draft.facts.kv_cache.lower_bound |= groups
                .iter()
                .any(|group| matches!(group.kind, LayerKind::Constant { bytes: None }));
            uniform_facts(draft, &groups);
            draft.facts.kv_cache.groups = Some(groups);
        }
        Err(missing) => {
            draft.unknown("kvCache", missing);
            draft.facts.kv_heads = sizes::kv_heads(config).ok().and_then(|heads| heads.uniform());
        }
    }
}

fn groups(draft: &mut Draft, config: &Config) -> Result<Vec<LayerGroup>, String> {
    let layers = draft.facts.layers.ok_or("the number of layers is unknown")?;
    if encoder::is_encoder(config, &draft.facts.architectures) {
        let heads = sizes::head_count(config).ok().and_then(|heads| heads.uniform());
        draft.facts.kv_heads = heads;
        draft.facts.head_dim = sizes::key_dim(config).ok();
        return Ok(vec![LayerGroup {
            layers,
            kind: LayerKind::None,
        }]);
    }
    let plan = plan::plan(draft, config, layers)?;
    let geometry = geometry::Geometry::read(config, &plan)?;
    let state_bytes = state::bytes(config, draft.facts.dtype.as_deref());
    let mut groups = Vec::new();
    for (index, layer) in plan.iter().enumerate() {
        for kind in geometry.kinds(config, index, layer, state_bytes)? {
            add(&mut groups, kind);
        }
    }
    if let Some(kind) = encoder::cross_attention(draft, config) {
        groups.push(LayerGroup { layers, kind });
    }
    Ok(groups)
}

/// Counts a layer into the group of its kind; groups stand in the order in which they first appear.
fn add(groups: &mut Vec<LayerGroup>, kind: LayerKind) {
    match groups.iter_mut().find(|group| group.kind == kind) {
        Some(group) => group.layers += 1,
        None => groups.push(LayerGroup { layers: 1, kind }),
    }
}

/// KV heads and head width where they are the same in all layers that have them.
fn uniform_facts(draft: &mut Draft, groups: &[LayerGroup]) {
    let shapes: Vec<(u32, u32)> = groups
        .iter()
        .filter_map(|group| match group.kind {
            LayerKind::Full { kv_heads, key_dim, .. } | LayerKind::Sliding { kv_heads, key_dim, .. } => {
                Some((kv_heads, key_dim))
            }
            _ => None,
        })
        .collect();
    let Some((kv_heads, key_dim)) = shapes.first().copied() else {
        return;
    };
    if shapes.iter().all(|shape| shape.0 == kv_heads) {
        draft.facts.kv_heads = Some(kv_heads);
    } else {
        draft.note("KV heads differ by layer: see kvCache");
    }
    if shapes.iter().all(|shape| shape.1 == key_dim) {
        draft.facts.head_dim = Some(key_dim);
    } else {
        draft.note("head widths differ by layer: see kvCache");
    }
}
