//! What the layers of a GGUF file keep.

use crate::draft::Draft;
use crate::facts::{LayerGroup, LayerKind};
use crate::gguf::GgufValue;

use super::{ENCODERS, Keys};

const STATE_ONLY: &[&str] = &["mamba", "mamba2", "rwkv6", "rwkv7", "rwkv6qwen2", "arwkv7"];

/// Families whose layers each have attention and a state side by side.
const PARALLEL: &[&str] = &["falcon-h1"];

/// Families with a state in all layers but one of every so many; the file may say how many.
const FULL_AMONG_STATES: &[(&str, u32)] = &[("qwen3next", 4), ("qwen35", 4), ("qwen35moe", 4)];

/// Families whose sliding layers follow a pattern that the file may leave out: one full layer in every n.
const FULL_EVERY: &[(&str, u64)] = &[
    ("gemma2", 2),
    ("gemma3", 6),
    ("gemma3n", 5),
    ("cohere2", 4),
    ("gpt-oss", 2),
    ("llama4", 4),
];

pub(super) fn derive(draft: &mut Draft, keys: &Keys<'_>) {
    match groups(draft, keys) {
        Ok(groups) => {
            draft.facts.kv_cache.lower_bound = groups
                .iter()
                .any(|group| matches!(group.kind, LayerKind::Constant { bytes: None }));
            draft.facts.kv_heads = uniform_heads(&groups);
            draft.facts.kv_cache.groups = Some(groups);
        }
        Err(missing) => draft.unknown("kvCache", missing),
    }
}

fn uniform_heads(groups: &[LayerGroup]) -> Option<u32> {
    let mut heads = groups.iter().filter_map(|group| match group.kind {
        LayerKind::Full { kv_heads, .. } | LayerKind::Sliding { kv_heads, .. } => Some(kv_heads),
        _ => None,
    });
    let first = heads.next()?;
    heads.all(|other| other == first).then_some(first)
}

fn groups(draft: &mut Draft, keys: &Keys<'_>) -> Result<Vec<LayerGroup>, String> {
    let layers = draft.facts.layers.ok_or("the number of layers is unknown")?;
    let all = |kind: LayerKind| Ok(vec![LayerGroup { layers, kind }]);
    if ENCODERS.contains(&keys.family) || keys.value("attention.causal") == Some(&GgufValue::Bool(false)) {
        return all(LayerKind::None);
    }
    let state = LayerKind::Constant {
        bytes: state_bytes(keys),
    };
    if STATE_ONLY.contains(&keys.family) {
        return all(state);
    }
    let attention = match keys.small("attention.kv_lora_rank") {
        Some(rank) => latent(keys, layers, rank)?,
        None => heads(draft, keys, layers)?,
    };
    let mut groups: Vec<LayerGroup> = Vec::new();
    for (index, kind) in attention.into_iter().enumerate() {
        for kind in with_state(keys, index, kind, &state) {
            match groups.iter_mut().find(|group| group.kind == kind) {
                Some(group) => group.layers += 1,
                None => groups.push(LayerGroup { layers: 1, kind }),
            }
        }
    }
    Ok(groups)
}

/// One vector per token (MLA), in the layers that attend.
fn latent(keys: &Keys<'_>, layers: u32, rank: u32) -> Result<Vec<LayerKind>, String> {
    let rope = keys
        .small("rope.dimension_count")
        .ok_or_else(|| keys.missing("rope.dimension_count"))?;
    let width = rank.checked_add(rope).ok_or("attention.kv_lora_rank is not possible")?;
    let kind = |kv_heads: u32| match kv_heads {
        0 => LayerKind::None,
        _ => LayerKind::Latent { width },
    };
    Ok(match kv_heads(keys, layers) {
        Ok(heads) => heads.into_iter().map(kind).collect(),
        Err(_) => vec![LayerKind::Latent { width }; layers as usize],
    })
}

/// K and V of each layer, or nothing where it has no heads.
fn heads(draft: &mut Draft, keys: &Keys<'_>, layers: u32) -> Result<Vec<LayerKind>, String> {
    let heads = kv_heads(keys, layers)?;
    let (key_dim, value_dim) = widths(draft, keys)?;
    draft.facts.head_dim = Some(key_dim);
    let windows = windows(draft, keys, layers)?;
    let kind = |(kv_heads, window)| match (kv_heads, window) {
        (0, _) => LayerKind::None,
        (kv_heads, None) => LayerKind::Full {
            kv_heads,
            key_dim,
            value_dim,
        },
        (kv_heads, Some(window)) => LayerKind::Sliding {
            kv_heads,
            key_dim,
            value_dim,
            window,
        },
    };
    Ok(heads.into_iter().zip(windows).map(kind).collect())
}

fn kv_heads(keys: &Keys<'_>, layers: u32) -> Result<Vec<u32>, String> {
    match keys.value("attention.head_count_kv") {
        Some(_) => keys
            .per_layer("attention.head_count_kv", layers)
            .ok_or_else(|| "attention.head_count_kv has too few entries".to_owned()),
        None => keys
            .per_layer("attention.head_count", layers)
            .ok_or_else(|| keys.missing("attention.head_count")),
    }
}

/// What a layer of a family with states keeps: the state instead of a cache, beside it, or neither where it is feed-forward alone.
fn with_state(keys: &Keys<'_>, index: usize, attention: LayerKind, state: &LayerKind) -> Vec<LayerKind> {
    if PARALLEL.contains(&keys.family) {
        return vec![attention, state.clone()];
    }
    if let Some((_, usual)) = FULL_AMONG_STATES.iter().find(|(family, _)| *family == keys.family) {
        let period = keys.small("full_attention_interval").unwrap_or(*usual) as usize;
        let attends = (index + 1).is_multiple_of(period);
        return vec![if attends { attention } else { state.clone() }];
    }
    let has_state = keys
        .header
        .keys
        .keys()
        .any(|key| key.contains(".ssm.") || key.contains(".shortconv.") || key.contains(".kda."));
    let feeds_forward = matches!(keys.value("feed_forward_length"), Some(GgufValue::Array(list))
        if list.iter().any(|width| width.number() == Some(0))
            && list.get(index).and_then(GgufValue::number).is_some_and(|width| width > 0));
    match attention {
        LayerKind::None if has_state && !feeds_forward => vec![state.clone()],
        attention => vec![attention],
    }
}

fn widths(draft: &Draft, keys: &Keys<'_>) -> Result<(u32, u32), String> {
    let shared = draft.facts.hidden_size.zip(draft.facts.attention_heads);
    let by_hidden = shared
        .filter(|(hidden, heads)| hidden.is_multiple_of(u64::from(*heads)))
        .and_then(|(hidden, heads)| u32::try_from(hidden / u64::from(heads)).ok());
    let key = keys
        .small("attention.key_length")
        .or(by_hidden)
        .ok_or_else(|| keys.missing("attention.key_length"))?;
    let value = keys.small("attention.value_length").or(by_hidden).unwrap_or(key);
    Ok((key, value))
}

/// The window of each layer.
fn windows(draft: &mut Draft, keys: &Keys<'_>, layers: u32) -> Result<Vec<Option<u64>>, String> {
    let window = keys.number("attention.sliding_window").filter(|window| *window > 0);
    let window = window.or_else(|| keys.number("attention.chunk_size").filter(|chunk| *chunk > 0));
    let Some(window) = window else {
        return Ok(vec![None; layers as usize]);
    };
    if draft.facts.context_length.is_some_and(|context| window >= context) {
        draft.note(format!("a sliding window of {window} has no effect in the context"));
        return Ok(vec![None; layers as usize]);
    }
    let period = FULL_EVERY
        .iter()
        .find(|(family, _)| *family == keys.family)
        .map(|(_, period)| *period);
    match keys.value("attention.sliding_window_pattern") {
        Some(GgufValue::Array(list)) if list.len() >= layers as usize => Ok(list
            .iter()
            .take(layers as usize)
            .map(|item| (item == &GgufValue::Bool(true) || item.number().is_some_and(|n| n > 0)).then_some(window))
            .collect()),
        Some(GgufValue::Array(_) | GgufValue::Skipped(_)) => {
            Err("attention.sliding_window_pattern has too few entries".to_owned())
        }
        other => {
            let written = other.and_then(GgufValue::number);
            Ok(by_period(draft, keys, written.or(period), window, layers))
        }
    }
}

/// One full layer in every so many; full ones alone where nothing says how many.
fn by_period(draft: &mut Draft, keys: &Keys<'_>, period: Option<u64>, window: u64, layers: u32) -> Vec<Option<u64>> {
    if let Some(period) = period {
        return every(period, window, layers);
    }
    draft.note(format!(
        "{} has a sliding window of {window} and no pattern that says which layers slide: all are counted as full",
        keys.family
    ));
    vec![None; layers as usize]
}

fn every(period: u64, window: u64, layers: u32) -> Vec<Option<u64>> {
    let is_full = |index: u64| period > 0 && (index + 1).is_multiple_of(period);
    (0..u64::from(layers))
        .map(|index| (!is_full(index)).then_some(window))
        .collect()
}

/// llama.cpp keeps recurrent states in 32 bits.
fn state_bytes(keys: &Keys<'_>) -> Option<u64> {
    if let Some(length) = keys.number("shortconv.l_cache") {
        let width = keys.number("embedding_length")?;
        return length.checked_sub(1)?.checked_mul(width)?.checked_mul(4);
    }
    let inner = keys.number("ssm.inner_size")?;
    let state = keys.number("ssm.state_size")?;
    let kernel = keys.number("ssm.conv_kernel")?.checked_sub(1)?;
    let groups = keys.number("ssm.group_count").unwrap_or(0);
    let channels = inner.checked_add(groups.checked_mul(2)?.checked_mul(state)?)?;
    kernel
        .checked_mul(channels)?
        .checked_add(inner.checked_mul(state)?)?
        .checked_mul(4)
}
