//! Encoders keep no KV cache; decoders beside an encoder keep two.

use serde_json::Value;

use crate::config::Config;
use crate::draft::Draft;
use crate::facts::LayerKind;

use super::sizes;

const ENCODERS: &[&str] = &[
    "albert",
    "bert",
    "big_bird",
    "bge-m3",
    "camembert",
    "clip",
    "clip_text_model",
    "clip_vision_model",
    "convbert",
    "data2vec-text",
    "deberta",
    "deberta-v2",
    "dinov2",
    "distilbert",
    "electra",
    "ernie",
    "esm",
    "eurobert",
    "gte",
    "hubert",
    "ibert",
    "jina_clip",
    "layoutlm",
    "layoutlmv3",
    "longformer",
    "luke",
    "modernbert",
    "mpnet",
    "new",
    "nomic_bert",
    "nystromformer",
    "roberta",
    "roberta-prelayernorm",
    "roformer",
    "siglip",
    "siglip2",
    "siglip_vision_model",
    "snowflake-gte",
    "squeezebert",
    "vit",
    "vits",
    "wav2vec2",
    "xlm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
];

const ENCODER_DECODERS: &[&str] = &[
    "bart",
    "blenderbot",
    "fsmt",
    "longt5",
    "m2m_100",
    "marian",
    "mbart",
    "mt5",
    "pegasus",
    "plbart",
    "prophetnet",
    "speech_to_text",
    "switch_transformers",
    "t5",
    "umt5",
    "whisper",
];

const ATTENTION_FREE: &[&str] = &[
    "falcon_mamba",
    "mamba",
    "mamba2",
    "rwkv",
    "rwkv5",
    "rwkv6",
    "rwkv7",
    "rwkv6qwen2",
    "xlstm",
    "codestral_mamba",
];

/// True for a model without a single attention layer.
pub(crate) fn is_attention_free(config: &Config) -> bool {
    config.is_family(ATTENTION_FREE)
}

/// True for a model that reads its input at once and keeps nothing.
pub(crate) fn is_encoder(config: &Config, architectures: &[String]) -> bool {
    if config.flag("is_decoder") == Some(true) || has_decoder_beside_encoder(config) {
        return false;
    }
    let by_name = ["Bert", "Roberta", "RobertaXL", "Electra", "Albert"];
    let named = architectures.first().is_some_and(|name| {
        by_name
            .iter()
            .any(|part| name.contains(&format!("{part}Model")) || name.contains(&format!("{part}For")))
            && !name.ends_with("CausalLM")
    });
    named || loads_encoder_alone(config) || config.is_family(ENCODERS)
}

/// True for a decoder that attends to an encoder's output. A class that loads the encoder alone keeps the settings of both.
pub(super) fn has_decoder_beside_encoder(config: &Config) -> bool {
    if loads_encoder_alone(config) {
        return false;
    }
    config
        .flag("is_encoder_decoder")
        .unwrap_or_else(|| config.is_family(ENCODER_DECODERS))
}

fn loads_encoder_alone(config: &Config) -> bool {
    let names = config.value("architectures").and_then(Value::as_array);
    let first = names.and_then(|names| names.first()).and_then(Value::as_str);
    first.is_some_and(|name| name.ends_with("EncoderModel"))
}

/// The K and V of the encoder's output, which each decoder layer keeps for a whole sequence.
pub(super) fn cross_attention(draft: &mut Draft, config: &Config) -> Option<LayerKind> {
    if !has_decoder_beside_encoder(config) {
        return None;
    }
    let bytes = cross_bytes(draft, config);
    if bytes.is_none() {
        draft.note("the decoder also keeps K and V of the input, whose length the files do not fix");
    }
    Some(LayerKind::Constant { bytes })
}

fn cross_bytes(draft: &Draft, config: &Config) -> Option<u64> {
    let positions = config
        .number(&["max_source_positions"])
        .found()
        .filter(|_| config.is_family(&["whisper"]))?;
    let heads = u64::from(sizes::head_count(config).ok()?.uniform()?);
    let width = u64::from(sizes::key_dim(config).ok()?);
    let element = super::state::dtype_bytes(draft.facts.dtype.as_deref())?;
    positions.checked_mul(2 * heads)?.checked_mul(width * element)
}
