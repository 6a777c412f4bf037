//! Mistral's params.json in the words of config.json, so that one set of rules reads both.

use serde_json::{Map, Value, json};

use crate::config::Config;

/// Translates params.json. Keys that mean the same keep their names; the key tables know both.
pub(super) fn translate(params: &Map<String, Value>) -> Config {
    let mut config = params.clone();
    if let Some(Value::Object(moe)) = config.remove("moe") {
        for (key, value) in moe {
            config.entry(key).or_insert(value);
        }
    }
    if let Some(Value::Object(mut yarn)) = config.remove("yarn") {
        yarn.insert("rope_type".to_owned(), json!("yarn"));
        config.insert("rope_scaling".to_owned(), Value::Object(yarn));
    }
    if let Some(quantization) = config.remove("quantization") {
        config.insert("quantization_config".to_owned(), quantization_config(quantization));
    }
    if let Some(multimodal) = config.remove("multimodal") {
        let vision = multimodal
            .pointer("/vision_encoder_args")
            .or_else(|| multimodal.pointer("/vision_encoder"));
        let audio = multimodal
            .pointer("/whisper_model_args")
            .or_else(|| multimodal.pointer("/audio_model_args"));
        copy(&mut config, "vision_config", vision);
        copy(&mut config, "audio_config", audio);
    }
    let vision = config.get("vision_encoder").cloned();
    copy(&mut config, "vision_config", vision.as_ref());
    config.entry("model_type").or_insert_with(|| json!("mistral"));
    config
        .entry("architectures")
        .or_insert_with(|| json!([architecture(params)]));
    Config::new("params.json", config)
}

fn copy(config: &mut Map<String, Value>, key: &str, value: Option<&Value>) {
    if let Some(value) = value.filter(|value| !value.is_null()) {
        config.insert(key.to_owned(), value.clone());
    }
}

/// Mistral's `qformat_weight: fp8_e4m3`, or an object in the words of another tool.
fn quantization_config(mut quantization: Value) -> Value {
    let Some(map) = quantization.as_object_mut() else {
        return quantization;
    };
    let format = map.get("qformat_weight").and_then(Value::as_str).map(str::to_owned);
    if let Some(format) = format.filter(|_| !map.contains_key("quant_method")) {
        let method = if format.starts_with("fp8") {
            "fp8"
        } else {
            format.as_str()
        };
        map.insert("quant_method".to_owned(), json!(method));
        map.insert("fmt".to_owned(), json!(format.trim_start_matches("fp8_")));
        let dynamic = map
            .get("qscheme_act")
            .is_none_or(|scheme| scheme == "NO_SCALES" || scheme == "TOKEN");
        map.insert(
            "activation_scheme".to_owned(),
            json!(if dynamic { "dynamic" } else { "static" }),
        );
    }
    quantization
}

/// The class that engines load for this shape of params.json.
fn architecture(params: &Map<String, Value>) -> &'static str {
    let has = |key: &str| params.get(key).is_some_and(|value| !value.is_null());
    let audio = params
        .get("multimodal")
        .is_some_and(|inner| inner.pointer("/whisper_model_args").is_some());
    if audio {
        "VoxtralForConditionalGeneration"
    } else if has("vision_encoder") || has("multimodal") {
        "PixtralForConditionalGeneration"
    } else if has("kv_lora_rank") {
        "MistralLarge3ForCausalLM"
    } else if has("moe") {
        "MixtralForCausalLM"
    } else {
        "MistralForCausalLM"
    }
}
