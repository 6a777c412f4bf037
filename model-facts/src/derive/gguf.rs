//! Facts from GGUF headers.

mod cache;

use std::collections::BTreeMap;

use crate::draft::Draft;
use crate::facts::{Adapter, Experts, Quantization};
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

pub(super) fn derive(draft: &mut Draft, headers: &[GgufHeader]) {
    weights(draft, headers);
    if headers.iter().any(|header| header.architecture() == Some(PROJECTOR)) {
        projector(draft, headers);
    }
    let main = headers
        .iter()
        .find(|header| header.architecture().is_some_and(|name| name != PROJECTOR));
    if let Some(header) = headers.iter().find(|header| kind(header) == Some("adapter")) {
        draft.facts.adapter = Some(Adapter {
            kind: text(header, "adapter.type").map(str::to_ascii_uppercase),
            base_model: text(header, "general.base_model.0.name").map(str::to_owned),
            rank: None,
        });
    }
    let Some(main) = main else {
        let missing = if headers.is_empty() || headers.iter().any(|header| header.architecture().is_none()) {
            "general.architecture is absent from the GGUF header"
        } else {
            "only the projector of a multimodal model was given"
        };
        for fact in ["family", "layers", "hiddenSize", "contextLength", "kvCache", "task"] {
            draft.unknown(fact, missing);
        }
        return;
    };
    quantization(draft, main, headers);
    let Some(family) = main.architecture() else { return };
    let keys = Keys { header: main, family };
    draft.facts.family = Some(family.to_owned());
    sizes(draft, &keys);
    context(draft, &keys);
    cache::derive(draft, &keys);
    draft.facts.task = Some(task(&keys).to_owned());
}

/// What a file is, where it is not a model: an adapter, a projector.
fn kind(header: &GgufHeader) -> Option<&str> {
    text(header, "general.type")
}

fn text<'a>(header: &'a GgufHeader, key: &str) -> Option<&'a str> {
    header.keys.get(key).and_then(GgufValue::text)
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

fn task(keys: &Keys<'_>) -> &'static str {
    const RANK: u64 = 4;
    match keys.number("pooling_type") {
        Some(RANK) => "rerank",
        Some(kind) if kind > 0 => "embed",
        _ if ENCODERS.contains(&keys.family) => "embed",
        _ => "generate",
    }
}
