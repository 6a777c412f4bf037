//! NVIDIA's `ModelOpt`, in config.json or in `hf_quant_config.json`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::facts::Quantization;
use crate::json;

use super::{Object, compressed_tensors, label, widths};

/// Bits of weights and activations and the label of an algorithm.
const ALGORITHMS: &[(&str, u32, u32, Option<&str>)] = &[
    ("FP8", 8, 8, Some("fp8")),
    ("FP8_PER_CHANNEL_PER_TOKEN", 8, 8, Some("fp8")),
    ("FP8_PB_WO", 8, 16, Some("fp8")),
    ("FP8_PB_REAL", 8, 8, Some("fp8")),
    ("FP8_BLOCK_SCALES", 8, 8, Some("fp8")),
    ("MXFP8", 8, 8, Some("w8a8-mxfp8")),
    ("NVFP4", 4, 4, Some("nvfp4")),
    ("NVFP4_AWQ", 4, 4, Some("nvfp4")),
    ("NVFP4_SVDQUANT", 4, 4, Some("nvfp4")),
    ("W4A16_NVFP4", 4, 16, Some("nvfp4")),
    ("W4A8_NVFP4_FP8", 4, 8, None),
    ("W4A8_MXFP4_FP8", 4, 8, Some("w4a8-mxfp4")),
    ("MXFP4", 4, 16, Some("mxfp4")),
    ("W4A16", 4, 16, Some("w4a16")),
    ("W4A16_AWQ", 4, 16, Some("awq-w4a16")),
    ("W4A16_GPTQ", 4, 16, Some("gptq-w4a16")),
    ("INT4_AWQ", 4, 16, Some("awq-w4a16")),
    ("W4A8_AWQ", 4, 8, Some("w4a8-fp8")),
    ("W8A16", 8, 16, Some("w8a16")),
    ("W8A16_GPTQ", 8, 16, Some("gptq-w8a16")),
    ("INT8_SQ", 8, 8, Some("w8a8-int8")),
    ("W8A8_SQ_PER_CHANNEL", 8, 8, Some("w8a8-int8")),
    ("W8A8_SQ_PER_CHANNEL_PER_TENSOR_PLUGIN", 8, 8, Some("w8a8-int8")),
    ("W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN", 8, 8, Some("w8a8-int8")),
];

pub(super) fn read(object: &Object) -> Quantization {
    let algorithms = algorithms(object);
    let grouped = compressed_tensors::read(object);
    let rows: Vec<_> = algorithms
        .iter()
        .filter_map(|name| ALGORITHMS.iter().find(|(known, ..)| known == name))
        .collect();
    let (weight_bits, other_weight_bits) = widths(rows.iter().map(|row| row.1).collect());
    let labels: BTreeSet<_> = rows.iter().map(|row| row.3).collect();
    let one_label = labels
        .first()
        .copied()
        .flatten()
        .filter(|_| labels.len() == 1 && rows.len() == algorithms.len());
    Quantization {
        label: one_label
            .and_then(label)
            .or_else(|| grouped.label.filter(|_| rows.is_empty())),
        weight_bits: weight_bits.or(grouped.weight_bits),
        other_weight_bits: if rows.is_empty() {
            grouped.other_weight_bits
        } else {
            other_weight_bits
        },
        activation_bits: rows.iter().map(|row| row.2).min().or(grouped.activation_bits),
        group_size: json::small(object, "group_size").or(grouped.group_size),
        kv_bits: kv_bits(object).or(grouped.kv_bits),
        detail: (!algorithms.is_empty())
            .then(|| algorithms.join(", "))
            .or(grouped.detail),
        ..Quantization::default()
    }
}

/// The algorithm, or those of the layers when it is mixed.
fn algorithms(object: &Object) -> Vec<String> {
    let upper = |name: &str| name.to_ascii_uppercase();
    let written = json::text(object, "quant_algo").map(upper);
    if let Some(name) = written.clone().filter(|name| name != "MIXED_PRECISION") {
        return vec![name];
    }
    let layers = json::inner(object, "quantized_layers")
        .into_iter()
        .flat_map(Object::values);
    let names: BTreeSet<String> = layers
        .filter_map(|layer| layer.get("quant_algo").and_then(Value::as_str))
        .map(upper)
        .collect();
    if names.is_empty() {
        written.into_iter().collect()
    } else {
        names.into_iter().collect()
    }
}

fn kv_bits(object: &Object) -> Option<u32> {
    match json::text(object, "kv_cache_quant_algo")?.to_ascii_uppercase().as_str() {
        "FP8" | "INT8" => Some(8),
        "NVFP4" | "INT4" => Some(4),
        _ => None,
    }
}
