//! The methods with a flat object.

use serde_json::Value;

use crate::facts::Quantization;
use crate::json;

use super::{Object, label, widths};

pub(super) fn read(method: &str, object: &Object, root: &Object) -> Quantization {
    match method {
        "fp8" | "fbgemm_fp8" | "ptpc_fp8" | "w8a8_fp8" | "deepseek_v4_fp8" | "finegrained_fp8" => fp8(object, root),
        "gptq" | "gptq_marlin" | "gptqmodel" | "auto_gptq" => integer("gptq", object),
        "awq" | "awq_marlin" | "autoawq" | "auto_awq" => integer("awq", object),
        "bitsandbytes" => bitsandbytes(object),
        "mxfp4" => fixed("mxfp4", 4, 16, Some(32)),
        "mxfp8" => fixed("w8a8-mxfp8", 8, 8, Some(32)),
        "nvfp4" | "petit_nvfp4" => fixed("nvfp4", 4, 4, Some(16)),
        "w8a8_int8" | "smoothquant" => fixed("w8a8-int8", 8, 8, None),
        "experts_int8" | "eetq" | "tpu_int8" => fixed("w8a16", 8, 16, None),
        "auto-round" | "auto_round" | "intel/auto-round" | "inc" => auto_round(object),
        "quark" => quark(object),
        "torchao" => torchao(object),
        "hqq" => hqq(object),
        "gguf" => Quantization {
            label: label("gguf"),
            ..Quantization::default()
        },
        _ => other(object),
    }
}

/// Rows and columns of a block, none when it is no list of numbers.
pub(super) fn sides(value: &Value) -> Vec<u32> {
    let number = |item: &Value| json::whole(item).and_then(|number| u32::try_from(number).ok());
    value
        .as_array()
        .and_then(|list| list.iter().map(number).collect())
        .unwrap_or_default()
}

fn fixed(word: &str, weight_bits: u32, activation_bits: u32, group_size: Option<u32>) -> Quantization {
    Quantization {
        label: label(word),
        weight_bits: Some(weight_bits),
        activation_bits: Some(activation_bits),
        group_size,
        ..Quantization::default()
    }
}

/// Experts may be stored in 4 bits beside layers in 8.
fn fp8(object: &Object, root: &Object) -> Quantization {
    let block = object.get("weight_block_size").map(sides).unwrap_or_default();
    let experts = [
        json::text(object, "store_dtype"),
        json::text(root, "expert_dtype"),
        json::text(object, "expert_dtype"),
    ];
    let in_four_bits = experts.into_iter().flatten().any(|dtype| dtype.contains("fp4"));
    let details = [
        json::text(object, "fmt"),
        json::text(object, "activation_scheme"),
        json::text(object, "scale_fmt"),
    ];
    let detail = details.into_iter().flatten().collect::<Vec<_>>().join(", ");
    Quantization {
        label: label(if in_four_bits { "fp8-mxfp4" } else { "fp8" }),
        weight_bits: Some(8),
        other_weight_bits: if in_four_bits { vec![4] } else { Vec::new() },
        activation_bits: Some(8),
        group_size: block.last().copied(),
        block,
        detail: (!detail.is_empty()).then_some(detail),
        ..Quantization::default()
    }
}

/// GPTQ and AWQ: integer weights in groups. `GPTQModel` can give modules bits of their own, or leave them alone.
fn integer(method: &str, object: &Object) -> Quantization {
    let bits = ["bits", "w_bit", "wbits"]
        .iter()
        .find_map(|key| json::small(object, key));
    let group = ["group_size", "q_group_size"]
        .iter()
        .find_map(|key| json::small(object, key));
    let detail = ["checkpoint_format", "version", "format"]
        .iter()
        .find_map(|key| json::text(object, key));
    let own = json::inner(object, "dynamic").into_iter().flatten();
    let (left_alone, changed): (Vec<_>, Vec<_>) = own.partition(|(pattern, _)| pattern.starts_with("-:"));
    let others = changed
        .into_iter()
        .filter_map(|(_, own)| json::small(own.as_object()?, "bits"));
    let (widest, narrower) = widths(others.filter(|other| Some(*other) != bits).collect());
    Quantization {
        label: bits.and_then(|bits| label(&format!("{method}-w{bits}a16"))),
        weight_bits: bits,
        other_weight_bits: widest.into_iter().chain(narrower).collect(),
        activation_bits: Some(16),
        group_size: group.filter(|size| *size > 0),
        detail: detail.map(str::to_ascii_lowercase),
        excluded: left_alone
            .into_iter()
            .map(|(pattern, _)| pattern.trim_start_matches("-:").to_owned())
            .take(super::EXCLUDED_KEPT)
            .collect(),
        ..Quantization::default()
    }
}

fn bitsandbytes(object: &Object) -> Quantization {
    let on = |key: &str| object.get(key).and_then(Value::as_bool) == Some(true);
    let bits = match (on("load_in_4bit"), on("load_in_8bit")) {
        (true, _) => Some(4),
        (false, true) => Some(8),
        (false, false) => None,
    };
    let kind = json::text(object, "bnb_4bit_quant_type").filter(|_| bits == Some(4));
    Quantization {
        label: bits.and_then(|bits| label(&format!("bnb-{bits}bit"))),
        weight_bits: bits,
        activation_bits: bits.map(|_| 16),
        detail: kind.map(str::to_owned),
        ..Quantization::default()
    }
}

fn auto_round(object: &Object) -> Quantization {
    let bits = json::small(object, "bits");
    let activation_bits = json::small(object, "act_bits").unwrap_or(16);
    let kind = json::text(object, "data_type").unwrap_or("int");
    let word = match (kind, bits, activation_bits) {
        ("int", Some(4), 16) => Some("w4a16"),
        ("int", Some(8), 16) => Some("w8a16"),
        ("int", Some(8), 8) => Some("w8a8-int8"),
        (kind, Some(4), activations) if kind.starts_with("mx_fp") => {
            Some(if activations == 16 { "mxfp4" } else { "w4a4-mxfp4" })
        }
        (kind, Some(8), _) if kind.starts_with("mx_fp") => Some("w8a8-mxfp8"),
        (kind, Some(4), _) if kind.starts_with("nv_fp") => Some("nvfp4"),
        (kind, Some(8), _) if kind.starts_with("fp8") => Some("fp8"),
        _ => None,
    };
    Quantization {
        label: word.and_then(label),
        weight_bits: bits,
        activation_bits: Some(activation_bits),
        group_size: json::small(object, "group_size").filter(|size| *size > 0),
        detail: json::text(object, "packing_format").map(str::to_owned),
        ..Quantization::default()
    }
}

/// AMD's Quark: a global configuration and exceptions by layer.
fn quark(object: &Object) -> Quantization {
    let global = json::inner(object, "global_quant_config");
    // Weights in two steps are stored as the last one leaves them.
    let part = |map: Option<&Object>, key: &str| match map?.get(key)? {
        Value::Array(steps) => steps.last()?.as_object().cloned(),
        other => other.as_object().cloned(),
    };
    let weight = part(global, "weight");
    let input = part(global, "input_tensors");
    let dtype = |part: &Option<Object>| {
        part.as_ref()
            .and_then(|map| json::text(map, "dtype"))
            .map(str::to_owned)
    };
    let (weight_dtype, input_dtype) = (dtype(&weight), dtype(&input));
    let cache = json::inner(object, "kv_cache_quant_config").filter(|cache| !cache.is_empty());
    let cache_dtype = cache.and_then(|cache| {
        let first = cache
            .values()
            .find_map(|entry| entry.get("output_tensors")?.as_object());
        json::text(first?, "dtype").and_then(dtype_bits)
    });
    Quantization {
        label: quark_word(weight_dtype.as_deref(), input_dtype.as_deref()).and_then(label),
        weight_bits: weight_dtype.as_deref().and_then(dtype_bits),
        activation_bits: input_dtype.as_deref().map_or(Some(16), dtype_bits),
        group_size: weight
            .as_ref()
            .and_then(|map| json::small(map, "group_size"))
            .filter(|size| *size > 0),
        kv_bits: cache_dtype,
        detail: weight_dtype,
        ..Quantization::default()
    }
}

fn quark_word(weight: Option<&str>, input: Option<&str>) -> Option<&'static str> {
    let is = |name: &str, part: &str| name.contains(part);
    match (weight?, input) {
        (weight, _) if is(weight, "fp8") => Some("fp8"),
        (weight, None) if is(weight, "fp4") => Some("mxfp4"),
        (weight, Some(input)) if is(weight, "fp4") && is(input, "fp8") => Some("w4a8-mxfp4"),
        (weight, Some(_)) if is(weight, "fp4") => Some("w4a4-mxfp4"),
        (weight, None) if is(weight, "int4") => Some("w4a16"),
        (weight, Some(input)) if is(weight, "int4") && is(input, "fp8") => Some("w4a8-fp8"),
        (weight, Some(input)) if is(weight, "int8") && is(input, "int8") => Some("w8a8-int8"),
        (weight, None) if is(weight, "int8") => Some("w8a16"),
        _ => None,
    }
}

fn dtype_bits(name: &str) -> Option<u32> {
    let name = name.to_ascii_lowercase();
    [
        ("fp8", 8),
        ("fp6", 6),
        ("fp4", 4),
        ("int8", 8),
        ("int4", 4),
        ("int2", 2),
        ("bfloat16", 16),
        ("float16", 16),
    ]
    .iter()
    .find(|(part, _)| name.contains(part))
    .map(|(_, bits)| *bits)
}

fn torchao(object: &Object) -> Quantization {
    let kind = object.get("quant_type").cloned().unwrap_or(Value::Null);
    let (name, data) = match &kind {
        Value::String(name) => (Some(name.as_str()), None),
        other => (
            other.pointer("/default/_type").and_then(Value::as_str),
            other.pointer("/default/_data"),
        ),
    };
    let lower = name.unwrap_or_default().to_ascii_lowercase().replace('_', "");
    let row = [
        ("int4weightonly", "w4a16", 4, 16),
        ("int8weightonly", "w8a16", 8, 16),
        ("int8dynamicactivationint8weight", "w8a8-int8", 8, 8),
        ("int8dynamicactivationint4weight", "w4a8", 4, 8),
        ("float8dynamicactivationfloat8weight", "fp8", 8, 8),
        ("float8weightonly", "fp8", 8, 16),
        ("float8dynamicactivationint4weight", "w4a8-fp8", 4, 8),
    ]
    .into_iter()
    .find(|(known, ..)| lower.starts_with(known));
    let inner = data
        .and_then(Value::as_object)
        .or_else(|| json::inner(object, "quant_type_kwargs"));
    Quantization {
        label: row.and_then(|row| label(row.1)),
        weight_bits: row.map(|row| row.2),
        activation_bits: row.map(|row| row.3),
        group_size: inner.and_then(|map| json::small(map, "group_size")),
        detail: name.map(str::to_owned),
        ..Quantization::default()
    }
}

fn hqq(object: &Object) -> Quantization {
    let weights = json::inner(object, "quant_config").and_then(|map| json::inner(map, "weight_quant_params"));
    Quantization {
        weight_bits: weights.and_then(|map| json::small(map, "nbits")),
        activation_bits: Some(16),
        group_size: weights.and_then(|map| json::small(map, "group_size")),
        ..Quantization::default()
    }
}

/// A method without a rule: its numbers where it writes them in the usual words, and no label.
fn other(object: &Object) -> Quantization {
    let bits = ["bits", "nbits", "w_bit", "weight_bits", "num_bits"]
        .iter()
        .find_map(|key| json::small(object, key));
    let (weight_bits, other_weight_bits) = widths(bits.into_iter().collect());
    Quantization {
        weight_bits,
        other_weight_bits,
        group_size: json::small(object, "group_size").filter(|size| *size > 0),
        ..Quantization::default()
    }
}
