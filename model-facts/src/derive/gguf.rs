//! Facts from GGUF headers.

use std::collections::BTreeMap;

use crate::draft::Draft;
use crate::facts::{Experts, LayerGroup, LayerKind, Quantization};
use crate::gguf::{GgufHeader, GgufValue, TensorType, file_type_name};

/// The projector of a multimodal model, a file of its own.
const PROJECTOR: &str = "clip";

const ENCODERS: &[&str] = &[
    "bert",
    "nomic-bert",
    "nomic-bert-moe",
    "neo-bert",
    "jina-bert-v2",
    "jina-bert-v3",
    "modern-bert",
    "eurobert",
    "t5encoder",
];

const STATE_ONLY: &[&str] = &["mamba", "mamba2", "rwkv6", "rwkv7", "rwkv6qwen2", "arwkv7"];

/// Families whose sliding layers follow a pattern that the file may leave out: one full layer in every n.
const FULL_EVERY: &[(&str, u64)] = &[
    ("gemma2", 2),
    ("gemma3", 6),
    ("gemma3n", 5),
    ("cohere2", 4),
    ("gpt-oss", 2),
    ("llama4", 4),
];

pub(super) fn derive(draft: &mut Draft, headers: &[GgufHeader]) {
    weights(draft, headers);
    if headers.iter().any(|header| header.architecture() == Some(PROJECTOR)) {
        projector(draft, headers);
    }
    let main = headers
        .iter()
        .find(|header| header.architecture().is_some_and(|name| name != PROJECTOR));
    let Some(main) = main else {
        for fact in ["family", "layers", "hiddenSize", "contextLength", "kvCache", "task"] {
            draft.unknown(fact, "general.architecture is absent from the GGUF header");
        }
        return;
    };
    quantization(draft, main, headers);
    let Some(family) = main.architecture() else { return };
    let keys = Keys { header: main, family };
    draft.facts.family = Some(family.to_owned());
    sizes(draft, &keys);
    context(draft, &keys);
    kv_cache(draft, &keys);
    draft.facts.task = Some(task(&keys).to_owned());
}

struct Keys<'a> {
    header: &'a GgufHeader,
    family: &'a str,
}

impl Keys<'_> {
    fn value(&self, key: &str) -> Option<&GgufValue> {
        self.header.keys.get(&format!("{}.{key}", self.family))
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.value(key).and_then(GgufValue::number)
    }

    fn small(&self, key: &str) -> Option<u32> {
        self.number(key)
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| *number > 0)
    }

    /// A number for all layers or one for each; 0 is a layer without attention.
    fn per_layer(&self, key: &str, layers: u32) -> Option<Vec<u32>> {
        let small = |value: &GgufValue| value.number().and_then(|number| u32::try_from(number).ok());
        match self.value(key)? {
            GgufValue::Array(list) if list.len() >= layers as usize => {
                list.iter().take(layers as usize).map(small).collect()
            }
            GgufValue::Array(_) => None,
            one => Some(vec![small(one)?; layers as usize]),
        }
    }

    fn missing(&self, key: &str) -> String {
        format!("{}.{key} is absent from the GGUF header", self.family)
    }
}

fn weights(draft: &mut Draft, headers: &[GgufHeader]) {
    if let Some(missing) = missing_split(headers) {
        draft.unknown("weightBytes", missing.clone());
        draft.unknown("parameters", missing);
        return;
    }
    let bytes = headers
        .iter()
        .try_fold(0_u64, |sum, header| sum.checked_add(header.weight_bytes()?));
    draft.facts.weight_bytes = bytes;
    if bytes.is_none() {
        draft.unknown("weightBytes", "a tensor has a type whose block size is not known");
    }
    let elements = headers
        .iter()
        .flat_map(|header| &header.tensors)
        .try_fold(0_u64, |sum, tensor| {
            let elements = tensor
                .dimensions
                .iter()
                .try_fold(1_u64, |product, side| product.checked_mul(*side))?;
            sum.checked_add(elements)
        });
    draft.facts.parameters = elements;
}

/// A set cut by gguf-split needs all its parts.
fn missing_split(headers: &[GgufHeader]) -> Option<String> {
    let count = headers
        .iter()
        .filter_map(|header| header.number("split.count"))
        .max()
        .filter(|count| *count > 1)?;
    let have: Vec<u64> = headers.iter().filter_map(|header| header.number("split.no")).collect();
    if count > 100_000 {
        return Some(format!("split.count is {count}, which is not possible"));
    }
    (0..count)
        .find(|part| !have.contains(part))
        .map(|part| format!("part {} of {count} was not given", part + 1))
}

fn projector(draft: &mut Draft, headers: &[GgufHeader]) {
    let projectors: Vec<&GgufHeader> = headers
        .iter()
        .filter(|header| header.architecture() == Some(PROJECTOR))
        .collect();
    let on = |key: &str| {
        projectors
            .iter()
            .any(|header| header.keys.get(key) == Some(&GgufValue::Bool(true)))
    };
    for (kind, key) in [
        ("image", "clip.has_vision_encoder"),
        ("audio", "clip.has_audio_encoder"),
    ] {
        if on(key) {
            draft.facts.modalities.push(kind.to_owned());
        }
    }
}

/// The type with most bytes stands for the file.
fn quantization(draft: &mut Draft, main: &GgufHeader, headers: &[GgufHeader]) {
    let mut bytes: BTreeMap<TensorType, (u64, u64)> = BTreeMap::new();
    for tensor in headers
        .iter()
        .filter(|h| h.architecture() != Some(PROJECTOR))
        .flat_map(|header| &header.tensors)
    {
        let elements = tensor
            .dimensions
            .iter()
            .fold(1_u64, |product, side| product.saturating_mul(*side));
        let sum = bytes.entry(tensor.kind).or_default();
        sum.0 = sum.0.saturating_add(tensor.bytes.unwrap_or(0));
        sum.1 = sum.1.saturating_add(elements);
    }
    let largest = bytes.iter().max_by_key(|(_, sum)| **sum).map(|(kind, _)| *kind);
    let plain = bytes
        .iter()
        .filter(|(kind, _)| kind.is_plain())
        .max_by_key(|(_, sum)| **sum)
        .map(|(kind, _)| *kind);
    draft.facts.dtype = plain
        .and_then(TensorType::name)
        .and_then(super::identity::normalise_dtype);
    let written = main.number("general.file_type").and_then(file_type_name);
    draft.facts.quantization = Quantization {
        method: Some("gguf".to_owned()),
        label: Some("gguf".to_owned()),
        weight_bits: largest.and_then(bits),
        group_size: largest
            .filter(|kind| !kind.is_plain())
            .and_then(TensorType::block)
            .and_then(|b| u32::try_from(b.0).ok()),
        detail: written
            .or_else(|| largest.and_then(TensorType::name))
            .map(str::to_owned),
        found_in: Some("general.file_type and the tensor table".to_owned()),
        ..Quantization::default()
    };
    if draft.facts.quantization.weight_bits.is_none() {
        draft.unknown("quantization.weightBits", "the type of most tensors is not known");
    }
}

/// Whole bits of a weight, without the share of the scales.
fn bits(kind: TensorType) -> Option<u32> {
    let (block, bytes) = kind.block()?;
    u32::try_from(bytes * 8 / block).ok().filter(|bits| *bits > 0)
}

fn sizes(draft: &mut Draft, keys: &Keys<'_>) {
    const MOST_LAYERS: u32 = 10_000;
    draft.facts.layers = keys.small("block_count").filter(|layers| *layers <= MOST_LAYERS);
    draft.facts.hidden_size = keys.number("embedding_length").filter(|width| *width > 0);
    for (fact, found, key) in [
        ("layers", draft.facts.layers.is_some(), "block_count"),
        ("hiddenSize", draft.facts.hidden_size.is_some(), "embedding_length"),
    ] {
        if !found {
            draft.unknown(fact, keys.missing(key));
        }
    }
    draft.facts.attention_heads = keys.small("attention.head_count");
    draft.facts.vocabulary = keys
        .number("vocab_size")
        .or(match keys.header.keys.get("tokenizer.ggml.tokens") {
            Some(GgufValue::Skipped(count)) => Some(*count),
            Some(GgufValue::Array(list)) => Some(list.len() as u64),
            _ => None,
        });
    if let Some(total) = keys.small("expert_count").filter(|total| *total > 1) {
        let shared = keys
            .number("expert_shared_count")
            .and_then(|count| u32::try_from(count).ok());
        draft.facts.experts = Some(Experts {
            total,
            active: keys.small("expert_used_count"),
            shared,
        });
    }
}

/// The trained context; yarn stretches its original one. Other scalings are in the number already.
fn context(draft: &mut Draft, keys: &Keys<'_>) {
    let Some(trained) = keys.number("context_length").filter(|length| *length > 0) else {
        return draft.unknown("contextLength", keys.missing("context_length"));
    };
    let yarn = keys.value("rope.scaling.type").and_then(GgufValue::text) == Some("yarn");
    let original = keys
        .number("rope.scaling.original_context_length")
        .filter(|length| yarn && *length < 1 << 40);
    let factor = keys
        .value("rope.scaling.factor")
        .and_then(GgufValue::float)
        .filter(|f| (1.0..1e6).contains(f));
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "below 2^60"
    )]
    let stretched = original
        .zip(factor)
        .map(|(original, factor)| (original as f64 * factor) as u64);
    let (length, why) = match stretched.filter(|stretched| *stretched > trained) {
        Some(stretched) => (stretched, "rope.scaling.original_context_length x yarn factor"),
        None => (trained, "context_length"),
    };
    draft.facts.context_length = Some(length);
    draft.facts.context_source = Some(format!("{}.{why}", keys.family));
}

fn kv_cache(draft: &mut Draft, keys: &Keys<'_>) {
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
    if STATE_ONLY.contains(&keys.family) {
        return all(LayerKind::Constant {
            bytes: state_bytes(keys),
        });
    }
    if let Some(rank) = keys.small("attention.kv_lora_rank") {
        let rope = keys
            .small("rope.dimension_count")
            .ok_or_else(|| keys.missing("rope.dimension_count"))?;
        let width = rank.checked_add(rope).ok_or("attention.kv_lora_rank is not possible")?;
        return all(LayerKind::Latent { width });
    }
    let heads = match keys.value("attention.head_count_kv") {
        Some(_) => keys
            .per_layer("attention.head_count_kv", layers)
            .ok_or("attention.head_count_kv has too few entries")?,
        None => keys
            .per_layer("attention.head_count", layers)
            .ok_or_else(|| keys.missing("attention.head_count"))?,
    };
    let (key_dim, value_dim) = widths(draft, keys)?;
    draft.facts.head_dim = Some(key_dim);
    let windows = windows(draft, keys, layers)?;
    let has_state = keys
        .header
        .keys
        .keys()
        .any(|key| key.contains(".ssm.") || key.contains(".shortconv."));
    let mut groups: Vec<LayerGroup> = Vec::new();
    for (kv_heads, window) in heads.into_iter().zip(windows) {
        let kind = match (kv_heads, window) {
            (0, _) if has_state => LayerKind::Constant {
                bytes: state_bytes(keys),
            },
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
        match groups.iter_mut().find(|group| group.kind == kind) {
            Some(group) => group.layers += 1,
            None => groups.push(LayerGroup { layers: 1, kind }),
        }
    }
    Ok(groups)
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
        Some(value) => Ok(every(value.number().or(period), window, layers)),
        None => Ok(every(period, window, layers)),
    }
}

fn every(period: Option<u64>, window: u64, layers: u32) -> Vec<Option<u64>> {
    let is_full = |index: u64| period.is_some_and(|period| period > 0 && (index + 1).is_multiple_of(period));
    (0..u64::from(layers))
        .map(|index| (!is_full(index)).then_some(window))
        .collect()
}

/// llama.cpp keeps recurrent states in 32 bits.
fn state_bytes(keys: &Keys<'_>) -> Option<u64> {
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

fn task(keys: &Keys<'_>) -> &'static str {
    const RANK: u64 = 4;
    match keys.number("pooling_type") {
        Some(RANK) => "rerank",
        Some(kind) if kind > 0 => "embed",
        _ if ENCODERS.contains(&keys.family) => "embed",
        _ => "generate",
    }
}
