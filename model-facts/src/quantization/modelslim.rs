//! Huawei's `ModelSlim`: a flat map from tensor to kind beside the weights, or one word in config.json.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::facts::Quantization;
use crate::json;

use super::{Object, label, widths};

/// Bits of weights and activations and the label of a kind; the first entry that the kind starts with is taken.
const KINDS: &[(&str, u32, u32, Option<&str>)] = &[
    ("W8A8_MXFP8", 8, 8, Some("w8a8-mxfp8")),
    ("W8A8SC", 8, 8, Some("w8a8sc")),
    ("W8A8S", 8, 8, Some("w8a8s")),
    ("W8A8", 8, 8, Some("w8a8-int8")),
    ("W4A8_MXFP", 4, 8, Some("w4a8-mxfp4")),
    ("W4A8", 4, 8, Some("w4a8")),
    ("W4A4_MXFP4", 4, 4, Some("w4a4-mxfp4")),
    ("W4A4", 4, 4, Some("w4a4")),
    ("W8A16", 8, 16, Some("w8a16")),
    ("W4A16", 4, 16, Some("w4a16")),
    ("W16A16S", 16, 16, None),
    ("NF4", 4, 16, Some("nf4")),
];

const PLAIN: &str = "FLOAT";
const KV_ENDINGS: &[&str] = &["kv_cache_scale", "kv_cache_offset"];

/// The description file: `model_quant_type` leads, the kinds of the tensors fill in, the suffix of the file's name is the last resort.
pub(super) fn read_description(name: &str, map: &Object) -> Quantization {
    let tensors = tensor_kinds(map);
    let overall = json::text(map, "model_quant_type").map(str::to_ascii_uppercase);
    let kind = overall
        .or_else(|| most_frequent(&tensors))
        .or_else(|| suffix(name).filter(|_| tensors.is_empty()));
    let kv_bits = kv_bits(map).or_else(|| has_cache_scales(map).then_some(8));
    let Some(kind) = kind.filter(|kind| kind != PLAIN) else {
        return nothing(&tensors, kv_bits);
    };
    let mut quantization = of_kind(&kind, kv_bits);
    let bits = tensors
        .keys()
        .filter(|other| **other != kind)
        .filter_map(|other| find(other))
        .map(|row| row.1);
    let (widest, narrower) = widths(bits.chain(quantization.weight_bits).collect());
    let others = widest
        .into_iter()
        .chain(narrower)
        .filter(|bits| Some(*bits) != quantization.weight_bits);
    quantization.other_weight_bits = others.collect();
    quantization.group_size = json::small(map, "group_size").filter(|size| *size > 0);
    quantization.excluded = plain_modules(map);
    quantization
}

/// `quantization_config` with `quant_method: ascend`, which may repeat the description or hold nothing.
pub(super) fn read_config(object: &Object) -> Quantization {
    let kind = json::text(object, "model_quant_type").or_else(|| json::text(object, "quantize"));
    match kind {
        Some(kind) => of_kind(&kind.to_ascii_uppercase(), kv_bits(object)),
        None => Quantization {
            kv_bits: kv_bits(object),
            ..Quantization::default()
        },
    }
}

/// One word, as `MindIE` writes it under `quantize`, with the kind of the KV cache in an object of its own.
pub(super) fn read_word(word: &str, cache: Option<&Object>) -> Quantization {
    of_kind(&word.to_ascii_uppercase(), cache.and_then(kv_bits))
}

fn of_kind(kind: &str, kv_bits: Option<u32>) -> Quantization {
    let row = find(kind);
    let word = row.and_then(|row| row.3).map(|word| match (word, kv_bits) {
        ("w8a8-int8", Some(8)) => "w8a8c8",
        ("w4a8", Some(8)) => "w4a8c8",
        (word, _) => word,
    });
    Quantization {
        method: Some("ascend".to_owned()),
        label: word.and_then(label),
        weight_bits: row.map(|row| row.1),
        activation_bits: row.map(|row| row.2),
        kv_bits,
        detail: Some(kind.to_owned()),
        ..Quantization::default()
    }
}

fn find(kind: &str) -> Option<&'static (&'static str, u32, u32, Option<&'static str>)> {
    KINDS.iter().find(|(known, ..)| kind.starts_with(known))
}

/// A description that leaves all weights alone.
fn nothing(tensors: &BTreeMap<String, usize>, kv_bits: Option<u32>) -> Quantization {
    let said = tensors.contains_key(PLAIN);
    Quantization {
        method: said.then(|| "none".to_owned()),
        kv_bits,
        ..Quantization::default()
    }
}

/// How many weights have each kind. Entries of the cache and of scales do not count.
fn tensor_kinds(map: &Object) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for (_, kind) in weights(map) {
        *kinds.entry(kind.to_ascii_uppercase()).or_default() += 1;
    }
    kinds
}

fn weights(map: &Object) -> impl Iterator<Item = (&String, &str)> {
    map.iter()
        .filter(|(name, _)| name.contains('.') && !KV_ENDINGS.iter().any(|ending| name.ends_with(ending)))
        .filter_map(|(name, value)| Some((name, value.as_str()?)))
}

fn most_frequent(kinds: &BTreeMap<String, usize>) -> Option<String> {
    let quantised = kinds.iter().filter(|(kind, _)| kind.as_str() != PLAIN);
    let most = quantised.max_by_key(|(kind, count)| (**count, std::cmp::Reverse((*kind).clone())));
    most.map(|(kind, _)| kind.clone())
        .or_else(|| kinds.contains_key(PLAIN).then(|| PLAIN.to_owned()))
}

fn plain_modules(map: &Object) -> Vec<String> {
    let names = weights(map).filter(|(name, kind)| kind.eq_ignore_ascii_case(PLAIN) && name.ends_with(".weight"));
    names
        .map(|(name, _)| name.trim_end_matches(".weight").to_owned())
        .take(super::EXCLUDED_KEPT)
        .collect()
}

/// `quant_model_description_w8a8.json` names the kind in its suffix.
fn suffix(name: &str) -> Option<String> {
    let stem = name.strip_prefix("quant_model_description_")?.strip_suffix(".json")?;
    Some(stem.to_ascii_uppercase()).filter(|stem| find(stem).is_some())
}

fn kv_bits(map: &Object) -> Option<u32> {
    let kind = ["kv_cache_type", "kv_quant_type"]
        .iter()
        .find_map(|key| json::text(map, key))?;
    kind.to_ascii_uppercase()
        .strip_prefix('C')?
        .parse()
        .ok()
        .filter(|bits| *bits > 0 && *bits <= 16)
}

fn has_cache_scales(map: &Object) -> bool {
    let scaled = |(name, value): (&String, &Value)| name.ends_with("kv_cache_scale") && value.as_str() != Some(PLAIN);
    map.iter().any(scaled)
}
