//! Names, data type, modalities, remote code.

use serde_json::{Map, Value};

use crate::config::{Config, describe};
use crate::draft::Draft;
use crate::error::FactsError;
use crate::files::ModelFiles;
use crate::json;

use super::weights;

/// Keys whose presence says that a model takes more than text.
const MODALITIES: &[(&str, &[&str])] = &[
    (
        "image",
        &[
            "vision_config",
            "vision_tower",
            "mm_vision_tower",
            "vision_encoder",
            "visual",
            "vision_model_type",
            "vision_start_token_id",
            "img_processor",
            "image_token_id",
            "image_token_index",
            "image_embd_layer",
            "vit_config",
            "vision_cfg",
        ],
    ),
    (
        "audio",
        &[
            "audio_config",
            "audio_encoder",
            "audio_token_id",
            "audio_token_index",
            "audio_processor",
            "audio_embd_layer",
        ],
    ),
    ("video", &["video_config", "video_token_id", "video_token_index"]),
];

const AUDIO_FAMILIES: &[&str] = &["whisper", "wav2vec2", "hubert", "speech_to_text", "seamless_m4t"];
const IMAGE_FAMILIES: &[&str] = &[
    "vit",
    "clip_vision_model",
    "siglip_vision_model",
    "dinov2",
    "convnext",
    "swin",
];

pub(super) fn derive(draft: &mut Draft, config: &Config) {
    draft.facts.architectures = architectures(config);
    if draft.facts.architectures.is_empty() {
        draft.unknown(
            "architectures",
            format!("architectures is absent from {}", config.file()),
        );
    }
    family(draft, config);
    draft.facts.modalities = modalities(config);
    draft.facts.remote_code = [config.root(), config.language()]
        .into_iter()
        .any(|map| json::inner(map, "auto_map").is_some_and(|auto_map| !auto_map.is_empty()));
    draft.facts.tie_word_embeddings = config
        .flag("tie_word_embeddings")
        .or_else(|| config.flag("tied_embeddings"));
}

/// A tokenizer can need code of its own although the model is built in.
pub(super) fn tokenizer_code(draft: &mut Draft, input: &ModelFiles) -> Result<(), FactsError> {
    const FILE: &str = "tokenizer_config.json";
    if let Some(text) = input.text(FILE).filter(|_| !draft.facts.remote_code)
        && json::inner(&json::object(FILE, text)?, "auto_map").is_some_and(|auto_map| !auto_map.is_empty())
    {
        draft.facts.remote_code = true;
        draft.note("the tokenizer, not the model, needs code from the repository");
    }
    Ok(())
}

fn architectures(config: &Config) -> Vec<String> {
    [config.root(), config.language()]
        .into_iter()
        .filter_map(|map| map.get("architectures"))
        .map(names)
        .find(|names| !names.is_empty())
        .unwrap_or_default()
}

/// A list of names, or one name that was not put into a list.
fn names(value: &Value) -> Vec<String> {
    match value {
        Value::String(name) => vec![name.clone()],
        Value::Array(list) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

fn family(draft: &mut Draft, config: &Config) {
    let of = |map: &Map<String, Value>| json::text(map, "model_type").map(str::to_owned);
    let root = of(config.root());
    draft.facts.text_model = config.nested();
    if config.nested().is_some() {
        draft.facts.text_family = of(config.language()).filter(|family| Some(family) != root.as_ref());
    }
    draft.facts.family = root.or_else(|| of(config.language()));
    if draft.facts.family.is_none() {
        draft.unknown("family", format!("model_type is absent from {}", config.file()));
    }
}

fn modalities(config: &Config) -> Vec<String> {
    let thinker = json::inner(config.root(), "thinker_config");
    let embeddings = config.object("embd_layer");
    let places: Vec<&Map<String, Value>> = [Some(config.root()), Some(config.language()), thinker, embeddings]
        .into_iter()
        .flatten()
        .collect();
    let set = |key: &str| places.iter().any(|map| map.get(key).is_some_and(is_set));
    let by_family = |kind: &str| match kind {
        "audio" => config.is_family(AUDIO_FAMILIES),
        "image" => config.is_family(IMAGE_FAMILIES),
        _ => false,
    };
    MODALITIES
        .iter()
        .filter(|(kind, keys)| keys.iter().any(|key| set(key)) || by_family(kind))
        .map(|(kind, _)| (*kind).to_owned())
        .collect()
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(map) => !map.is_empty(),
        Value::Bool(value) => *value,
        _ => true,
    }
}

/// The data type of the unquantised tensors: as written, else the one with most bytes in the headers.
pub(super) fn dtype(draft: &mut Draft, config: &Config, input: &ModelFiles) {
    let seen = weights::dtype(&input.safetensors);
    let (language, root) = (written_dtype(config.language()), written_dtype(config.root()));
    draft.facts.dtype = match (language, root) {
        // Loaders cast to what the root says, unless the tensors themselves are given.
        (Some(language), Some(root)) if language != root => {
            let taken = seen.unwrap_or_else(|| root.clone());
            draft.note(format!(
                "the root says {root}, {} says {language}: {taken} is taken",
                config.nested().unwrap_or_default()
            ));
            Some(taken)
        }
        (language, root) => language.or(root).or(seen),
    };
    if draft.facts.dtype.is_none() {
        let missing = match config.first(DTYPES) {
            Some((key, value)) => format!("{key} is {}, and no header was given", describe(value)),
            None => format!(
                "dtype and torch_dtype are absent from {}, and no header was given",
                config.file()
            ),
        };
        draft.unknown("dtype", missing);
    }
}

const DTYPES: &[&str] = &["dtype", "torch_dtype"];

fn written_dtype(map: &Map<String, Value>) -> Option<String> {
    DTYPES.iter().find_map(|key| normalise_dtype(json::text(map, key)?))
}

/// The short name of a data type.
pub(crate) fn normalise_dtype(name: &str) -> Option<String> {
    let name = name.trim().to_ascii_lowercase();
    let name = name.strip_prefix("torch.").unwrap_or(&name);
    let short = match name {
        "" | "auto" | "none" => return None,
        "bfloat16" | "bf16" => "bf16",
        "float16" | "half" | "fp16" | "f16" => "fp16",
        "float32" | "float" | "fp32" | "f32" => "fp32",
        "float64" | "double" | "fp64" | "f64" => "fp64",
        "float8_e4m3fn" | "float8_e4m3fnuz" | "float8_e5m2" | "float8_e5m2fnuz" | "fp8" => "fp8",
        other => other,
    };
    Some(short.to_owned())
}

/// A diffusers pipeline: its class stands for the architecture.
pub(super) fn pipeline(draft: &mut Draft, index: &Map<String, Value>) {
    draft.facts.family = Some("diffusers".to_owned());
    // A pipeline with code of its own names the module before the class.
    let class = match index.get("_class_name") {
        Some(Value::Array(list)) => list.last().and_then(Value::as_str),
        other => other.and_then(Value::as_str),
    };
    if let Some(class) = class {
        draft.facts.architectures = vec![class.to_owned()];
        draft.facts.task = super::task::of_pipeline(class).map(str::to_owned);
    }
    if draft.facts.architectures.is_empty() {
        draft.unknown("architectures", "_class_name is absent from model_index.json");
    }
    for fact in ["contextLength", "dtype", "hiddenSize", "kvCache", "layers"] {
        draft.unknown(fact, "a pipeline of several models has none of its own");
    }
}
