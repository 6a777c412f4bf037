//! How the weights are quantised: from the configuration, else from the side files.

mod compressed_tensors;
mod methods;
mod modelopt;
mod modelslim;

use serde_json::{Map, Value};

use crate::config::Config;
use crate::derive::{has_packed_tensors, largest_dtype};
use crate::draft::Draft;
use crate::error::FactsError;
use crate::facts::Quantization;
use crate::files::{ModelFiles, is_modelslim};
use crate::json;

/// At most this many excluded modules are kept.
const EXCLUDED_KEPT: usize = 16;

type Object = Map<String, Value>;

pub(crate) fn derive(draft: &mut Draft, config: Option<&Config>, input: &ModelFiles) -> Result<(), FactsError> {
    let written = config.and_then(|config| from_config(draft, config));
    let beside = from_side_files(input)?;
    draft.facts.quantization = match (written, beside) {
        (Some(written), Some(beside)) => merge(draft, written, beside),
        (Some(written), None) => written,
        (None, Some(beside)) => beside,
        (None, None) => unquantised(draft, config, input),
    };
    only_the_cache(draft);
    explain_gaps(draft);
    Ok(())
}

/// A method that fixes the KV cache and names no scheme for weights leaves them as they are.
fn only_the_cache(draft: &mut Draft) {
    const METHODS: [&str; 2] = ["modelopt", "compressed-tensors"];
    let dtype = draft.facts.dtype.clone();
    let quantization = &mut draft.facts.quantization;
    let known = quantization
        .method
        .as_deref()
        .is_some_and(|method| METHODS.contains(&method));
    let says_nothing = quantization.weight_bits.is_none() && quantization.detail.is_none();
    if known && says_nothing && quantization.kv_bits.is_some() {
        let bits = dtype.as_deref().and_then(plain_bits);
        quantization.label = dtype.as_deref().and_then(label);
        quantization.weight_bits = bits;
        quantization.activation_bits = bits;
    }
}

/// Bits of a number that is not quantised.
fn plain_bits(dtype: &str) -> Option<u32> {
    match dtype {
        "bf16" | "fp16" => Some(16),
        "fp32" => Some(32),
        "fp64" => Some(64),
        _ => None,
    }
}

/// Names what the method leaves open.
fn explain_gaps(draft: &mut Draft) {
    let quantization = &draft.facts.quantization;
    let Some(method) = quantization.method.clone().filter(|method| method != "none") else {
        return;
    };
    if quantization.weight_bits.is_none() {
        draft.unknown(
            "quantization.weightBits",
            format!("{method} states no whole number of bits for a weight"),
        );
    }
    if draft.facts.quantization.label.is_none() {
        draft.unknown(
            "quantization.label",
            format!("the vocabulary has no word for this kind of {method}"),
        );
    }
}

fn from_config(draft: &mut Draft, config: &Config) -> Option<Quantization> {
    let (place, value) = find(config)?;
    let file = config.file();
    // params.json has been translated: name the key that stands in the file.
    let place = if file == "params.json" {
        place.replace("quantization_config", "quantization")
    } else {
        place
    };
    let found_in = Some(format!("{file} {place}"));
    let quantization = match (place.as_str(), value) {
        (_, Value::Object(object)) => read_object(object, config.root()),
        ("quantize", Value::String(word)) => modelslim::read_word(word, config.object("quantization_config")),
        ("quantization_bit", bits) => whole_model(bits),
        (_, other) => {
            let found = crate::config::describe(other);
            draft.unknown(
                "quantization.method",
                format!("{place} of {file} is {found}, not an object"),
            );
            Quantization::default()
        }
    };
    if quantization.method.is_none() {
        draft.unknown(
            "quantization.method",
            format!("{place} of {file} names no quant_method"),
        );
    }
    Some(Quantization {
        found_in,
        ..quantization
    })
}

/// The first `ChatGLM` states bits for its own integer packing.
fn whole_model(bits: &Value) -> Quantization {
    Quantization {
        method: Some("quantization_bit".to_owned()),
        weight_bits: json::whole(bits).and_then(|bits| u32::try_from(bits).ok()),
        activation_bits: Some(16),
        ..Quantization::default()
    }
}

/// The object, in the language model or at the root, with its place.
fn find(config: &Config) -> Option<(String, &Value)> {
    const KEYS: &[&str] = &["quantization_config", "compression_config"];
    let nested = config.nested().map(|path| format!("{path}.")).unwrap_or_default();
    let places = [(nested, config.language()), (String::new(), config.root())];
    for (prefix, map) in places {
        for key in KEYS {
            let value = map
                .get(*key)
                .filter(|value| !value.is_null() && value.as_object().is_none_or(|map| !map.is_empty()));
            // A bare kind of KV cache is ModelSlim's, whose weights are described beside it.
            let only_cache = value
                .and_then(Value::as_object)
                .is_some_and(|map| map.keys().all(|key| CACHE_KEYS.contains(&key.as_str())));
            if let Some(value) = value.filter(|_| !only_cache) {
                return Some((format!("{prefix}{key}"), value));
            }
        }
    }
    ["quantize", "quantization_bit"]
        .into_iter()
        .find_map(|key| Some((key.to_owned(), config.value(key).filter(|value| is_written(value))?)))
}

const CACHE_KEYS: &[&str] = &[
    "kv_quant_type",
    "kv_cache_type",
    "group_size",
    "fa_quant_type",
    "reduce_quant_type",
];

fn is_written(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty()) || value.as_u64().is_some_and(|bits| bits > 0)
}

/// Reads an object of any method. `ModelOpt` may keep its own inside, as in its side file.
fn read_object(object: &Object, root: &Object) -> Quantization {
    let method = method_name(object);
    let inner = json::inner(object, "quantization").filter(|inner| inner.contains_key("quant_algo"));
    let object = inner.unwrap_or(object);
    let mut quantization = match method.as_deref() {
        Some("compressed-tensors" | "compressed_tensors") => compressed_tensors::read(object),
        Some("modelopt" | "modelopt_fp4" | "modelopt_mxfp8" | "modelopt_mixed") => modelopt::read(object),
        Some("ascend" | "modelslim") => modelslim::read_config(object),
        Some(method) => methods::read(method, object, root),
        None => Quantization::default(),
    };
    quantization.method = method.map(|method| method.replace("compressed_tensors", "compressed-tensors"));
    if quantization.excluded.is_empty() {
        quantization.excluded = excluded(object);
    }
    quantization
}

/// `quant_method`, or what its absence leaves: the flags of bitsandbytes, the keys of the other tools.
fn method_name(object: &Object) -> Option<String> {
    if let Some(method) = json::text(object, "quant_method").filter(|method| !method.is_empty()) {
        return Some(method.to_ascii_lowercase());
    }
    let on = |key: &str| object.get(key).and_then(Value::as_bool) == Some(true);
    let has = |key: &str| object.contains_key(key);
    let method = if on("load_in_4bit") || on("load_in_8bit") {
        "bitsandbytes"
    } else if has("quant_algo") || has("quantized_layers") {
        "modelopt"
    } else if has("config_groups") {
        "compressed-tensors"
    } else if has("w_bit") || has("q_group_size") {
        "awq"
    } else if has("bits") && (has("desc_act") || has("damp_percent")) {
        "gptq"
    } else if has("global_quant_config") {
        "quark"
    } else {
        return None;
    };
    Some(method.to_owned())
}

fn excluded(object: &Object) -> Vec<String> {
    const KEYS: &[&str] = &[
        "ignore",
        "modules_to_not_convert",
        "ignored_layers",
        "exclude_modules",
        "exclude",
        "llm_int8_skip_modules",
    ];
    let list = KEYS.iter().find_map(|key| object.get(*key).and_then(Value::as_array));
    let names = list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    names.take(EXCLUDED_KEPT).collect()
}

/// The first side file that describes the weights.
fn from_side_files(input: &ModelFiles) -> Result<Option<Quantization>, FactsError> {
    if let Some((name, text)) = input.texts.iter().find(|(name, _)| is_modelslim(name)) {
        let map = json::object(name, text)?;
        return Ok(Some(Quantization {
            found_in: Some(name.clone()),
            ..modelslim::read_description(name, &map)
        }));
    }
    for name in ["hf_quant_config.json", "quantize_config.json", "quant_config.json"] {
        let Some(text) = input.text(name) else { continue };
        let map = json::object(name, text)?;
        let inner = json::inner(&map, "quantization").filter(|_| name == "hf_quant_config.json");
        let producer = json::inner(&map, "producer").and_then(|producer| json::text(producer, "name"));
        let mut object = inner.unwrap_or(&map).clone();
        let assumed = match name {
            "hf_quant_config.json" => producer.unwrap_or("modelopt"),
            "quantize_config.json" => "gptq",
            _ => "awq",
        };
        if method_name(&object).is_none_or(|method| name == "hf_quant_config.json" && method == "modelopt") {
            object.insert("quant_method".to_owned(), Value::from(assumed));
        }
        let mut quantization = read_object(&object, &map);
        quantization.found_in = Some(name.to_owned());
        return Ok(Some(quantization));
    }
    Ok(None)
}

/// Two descriptions of the same weights: config.json leads, the side file fills its gaps.
fn merge(draft: &mut Draft, mut written: Quantization, beside: Quantization) -> Quantization {
    let place = |quantization: &Quantization| quantization.found_in.clone().unwrap_or_default();
    if written.method.is_some() && beside.method.is_some() && written.method != beside.method {
        draft.note(format!(
            "{} and {} name different methods: the first one is taken",
            place(&written),
            place(&beside)
        ));
        return written;
    }
    let same_bits =
        written.weight_bits.is_none() || beside.weight_bits.is_none() || written.weight_bits == beside.weight_bits;
    if !same_bits {
        draft.note(format!(
            "{} and {} name different bits: the first one is taken",
            place(&written),
            place(&beside)
        ));
        return written;
    }
    written.found_in = Some(format!("{}, {}", place(&written), place(&beside)));
    written.method = written.method.or(beside.method);
    if written.label.is_none() || beside.kv_bits.is_some() {
        written.label = beside.label.or(written.label);
    }
    written.weight_bits = written.weight_bits.or(beside.weight_bits);
    written.activation_bits = written.activation_bits.or(beside.activation_bits);
    written.group_size = written.group_size.or(beside.group_size);
    written.kv_bits = written.kv_bits.or(beside.kv_bits);
    written.detail = written.detail.or(beside.detail);
    if written.other_weight_bits.is_empty() {
        written.other_weight_bits = beside.other_weight_bits;
    }
    if written.excluded.is_empty() {
        written.excluded = beside.excluded;
    }
    written
}

/// No file says that anything is quantised; packed or 8-bit tensors still contradict that.
fn unquantised(draft: &mut Draft, config: Option<&Config>, input: &ModelFiles) -> Quantization {
    let dtype = draft.facts.dtype.clone();
    let largest = largest_dtype(&input.safetensors).unwrap_or_default();
    if has_packed_tensors(&input.safetensors) || largest.starts_with("F8") || largest.starts_with("F4") {
        draft.unknown(
            "quantization.method",
            "tensors are packed or in 8 bits, and no file says how",
        );
        return Quantization::default();
    }
    if dtype.as_deref() == Some("fp8") {
        draft.unknown(
            "quantization.method",
            "the data type is fp8, and no file says with which scales",
        );
        return Quantization::default();
    }
    if config.is_none() {
        draft.unknown("quantization.method", "config.json is absent");
        return Quantization::default();
    }
    let bits = dtype.as_deref().and_then(plain_bits);
    Quantization {
        method: Some("none".to_owned()),
        label: dtype.as_deref().and_then(crate::canonical_label).map(str::to_owned),
        weight_bits: bits,
        activation_bits: bits,
        ..Quantization::default()
    }
}

/// The largest width first, without repeats.
fn widths(mut bits: Vec<u32>) -> (Option<u32>, Vec<u32>) {
    bits.sort_unstable_by(|a, b| b.cmp(a));
    bits.dedup();
    let mut bits = bits.into_iter();
    (bits.next(), bits.collect())
}

fn label(name: &str) -> Option<String> {
    crate::canonical_label(name).map(str::to_owned)
}
