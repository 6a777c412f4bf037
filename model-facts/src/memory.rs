//! Bytes per device: weights, and the KV cache by kind of layer. A missing input gives `None`, never zero.

use crate::facts::{LayerGroup, LayerKind, ModelFacts, WeightFormat};

/// Weights on one device: an equal share, and 2 % for embeddings and norms that some engines replicate. `None` when the weights are
/// unknown or a degree is zero.
pub fn weights_per_device(facts: &ModelFacts, tensor_parallel: u32, pipeline_parallel: u32) -> Option<u64> {
    let devices = u128::from(tensor_parallel) * u128::from(pipeline_parallel);
    if devices == 0 {
        return None;
    }
    let with_replicas = u128::from(facts.weight_bytes?) * 102;
    u64::try_from(with_replicas.div_ceil(100 * devices)).ok()
}

/// KV cache on one device for `sequences` sequences of `tokens` tokens each, at `element_bytes` per cache element.
///
/// Per layer: full attention keeps all tokens, sliding attention at most its window, latent attention (MLA) one vector that tensor
/// parallelism does not divide, constant states a size per sequence. KV heads are divided by the tensor parallel degree and rounded
/// up, layers by the pipeline degree and rounded up per group. `None` when the geometry is unknown; a state of unknown size counts
/// nothing, and [`KvCache::lower_bound`](crate::KvCache::lower_bound) says so.
pub fn kv_bytes(
    facts: &ModelFacts,
    tokens: u64,
    sequences: u64,
    tensor_parallel: u32,
    pipeline_parallel: u32,
    element_bytes: u64,
) -> Option<u64> {
    if tensor_parallel == 0 || pipeline_parallel == 0 {
        return None;
    }
    let mut total: u128 = 0;
    for group in facts.kv_cache.groups.as_ref()? {
        let layers = u128::from(group.layers.div_ceil(pipeline_parallel));
        total = total.checked_add(layers.checked_mul(layer_bytes(
            &group.kind,
            tokens,
            tensor_parallel,
            element_bytes,
        )?)?)?;
    }
    u64::try_from(total.checked_mul(u128::from(sequences))?).ok()
}

/// KV cache on one device that one more token of a short sequence adds (all windows still open): the usual figure of a model.
pub fn kv_bytes_per_token(
    facts: &ModelFacts,
    tensor_parallel: u32,
    pipeline_parallel: u32,
    element_bytes: u64,
) -> Option<u64> {
    let one = kv_bytes(facts, 1, 1, tensor_parallel, pipeline_parallel, element_bytes)?;
    Some(one - constant_bytes(facts, tensor_parallel, pipeline_parallel)?)
}

/// KV cache on one device that one more token adds when every window is full.
pub fn kv_bytes_per_further_token(
    facts: &ModelFacts,
    tensor_parallel: u32,
    pipeline_parallel: u32,
    element_bytes: u64,
) -> Option<u64> {
    let far = u64::from(u32::MAX);
    let at = |tokens| kv_bytes(facts, tokens, 1, tensor_parallel, pipeline_parallel, element_bytes);
    let windows = facts
        .kv_cache
        .groups
        .iter()
        .flatten()
        .filter_map(|group| match group.kind {
            LayerKind::Sliding { window, .. } => Some(window),
            _ => None,
        });
    let full = windows.max().unwrap_or(0).min(far);
    Some(at(full + 1)? - at(full)?)
}

/// Bytes of an element of the KV cache unless the user asks for another: what the files fix, else the data type of the model
/// (llama.cpp keeps 16 bits whatever the weights are).
pub fn kv_element_bytes(facts: &ModelFacts) -> Option<u64> {
    if let Some(bits) = facts.quantization.kv_bits {
        return Some(u64::from(bits.div_ceil(8)));
    }
    if facts.format == WeightFormat::Gguf {
        return Some(2);
    }
    match facts.dtype.as_deref()? {
        "bf16" | "fp16" => Some(2),
        "fp32" => Some(4),
        "fp64" => Some(8),
        "fp8" => Some(1),
        _ => None,
    }
}

/// The constant states of one sequence on one device.
fn constant_bytes(facts: &ModelFacts, tensor_parallel: u32, pipeline_parallel: u32) -> Option<u64> {
    kv_bytes(facts, 0, 1, tensor_parallel, pipeline_parallel, 1)
}

fn layer_bytes(kind: &LayerKind, tokens: u64, tensor_parallel: u32, element_bytes: u64) -> Option<u128> {
    let per_token = |heads: u32, key: u32, value: u32| {
        let heads = u128::from(heads.div_ceil(tensor_parallel).max(1));
        (heads * (u128::from(key) + u128::from(value))).checked_mul(u128::from(element_bytes))
    };
    match *kind {
        LayerKind::Full {
            kv_heads,
            key_dim,
            value_dim,
        } => per_token(kv_heads, key_dim, value_dim)?.checked_mul(u128::from(tokens)),
        LayerKind::Sliding {
            kv_heads,
            key_dim,
            value_dim,
            window,
        } => per_token(kv_heads, key_dim, value_dim)?.checked_mul(u128::from(tokens.min(window))),
        LayerKind::Latent { width } => (u128::from(width) * u128::from(element_bytes)).checked_mul(u128::from(tokens)),
        LayerKind::Constant { bytes } => Some(u128::from(bytes.unwrap_or(0).div_ceil(u64::from(tensor_parallel)))),
        LayerKind::None => Some(0),
    }
}

/// The sum as a person would write it: `9 full x 4 x (192 + 128) x 2 B = 23040; 39 sliding (128 tokens) ...`. `None` when the geometry is unknown.
pub fn kv_arithmetic(facts: &ModelFacts, element_bytes: u64) -> Option<String> {
    let parts: Option<Vec<String>> = facts
        .kv_cache
        .groups
        .as_ref()?
        .iter()
        .map(|group| group_arithmetic(group, element_bytes))
        .collect();
    Some(parts?.join("; "))
}

fn group_arithmetic(group: &LayerGroup, b: u64) -> Option<String> {
    let layers = group.layers;
    let sum = |kind: &LayerKind| Some(layer_bytes(kind, 1, 1, b)? * u128::from(layers));
    let kind = &group.kind;
    Some(match kind {
        LayerKind::Full {
            kv_heads,
            key_dim,
            value_dim,
        } => {
            format!(
                "{layers} full x {kv_heads} x ({key_dim} + {value_dim}) x {b} B = {} B per token",
                sum(kind)?
            )
        }
        LayerKind::Sliding {
            kv_heads,
            key_dim,
            value_dim,
            window,
        } => format!(
            "{layers} sliding x {kv_heads} x ({key_dim} + {value_dim}) x {b} B = {} B per token, up to {window} tokens",
            sum(kind)?
        ),
        LayerKind::Latent { width } => {
            format!(
                "{layers} latent x {width} x {b} B = {} B per token, the same at any tensor parallelism",
                sum(kind)?
            )
        }
        LayerKind::Constant { bytes: Some(bytes) } => {
            format!("{layers} with a constant state of {bytes} B per sequence")
        }
        LayerKind::Constant { bytes: None } => format!("{layers} with a constant state of unknown size"),
        LayerKind::None => format!("{layers} without a cache"),
    })
}

#[cfg(test)]
mod tests;
