//! What a model is for.

use serde_json::Value;

use crate::config::Config;
use crate::draft::Draft;
use crate::error::FactsError;
use crate::files::ModelFiles;
use crate::json;

/// Endings of architectures, the longest first where one ends with another.
const ENDINGS: &[(&str, &str)] = &[
    ("ForSpeechSeq2Seq", "transcribe"),
    ("ForCTC", "transcribe"),
    ("ForRewardModel", "reward"),
    ("RewardModel", "reward"),
    ("ForTokenClassification", "classify-tokens"),
    ("ForQuestionAnswering", "answer-from-text"),
    ("ForImageClassification", "classify"),
    ("ForRanking", "rerank"),
    ("ForMaskedLM", "fill-mask"),
    ("ForEmbedding", "embed"),
    ("ForRetrieval", "embed"),
    ("EmbeddingModel", "embed"),
    ("EncoderModel", "embed"),
    ("ForConditionalGeneration", "generate"),
    ("ForCausalLM", "generate"),
    ("CausalLM", "generate"),
    ("LMHeadModel", "generate"),
    ("ForVision2Seq", "generate"),
    ("ChatModel", "generate"),
    ("OmniModel", "generate"),
    ("ForTextToSpeech", "generate-audio"),
    ("ForTextToWaveform", "generate-audio"),
    ("ForAudioClassification", "classify"),
];

/// Architectures whose names follow no rule.
const NAMED: &[(&str, &str)] = &[
    ("ChatGLMModel", "generate"),
    ("GLMModel", "generate"),
    ("NVLM_D", "generate"),
    ("MiniCPMV", "generate"),
    ("MiniCPMO", "generate"),
    ("UltravoxModel", "generate"),
    ("VitsModel", "generate-audio"),
    ("BarkModel", "generate-audio"),
    ("HF_ColBERT", "embed"),
    ("WhisperForConditionalGeneration", "transcribe"),
    ("Speech2TextForConditionalGeneration", "transcribe"),
];

pub(super) fn derive(draft: &mut Draft, config: &Config, input: &ModelFiles) -> Result<(), FactsError> {
    if let Some(task) = sentence_transformers(input)? {
        draft.facts.task = Some(task.to_owned());
        return Ok(());
    }
    let architecture = draft.facts.architectures.first().cloned();
    draft.facts.task = architecture
        .as_deref()
        .and_then(|name| of_architecture(name, config))
        .map(str::to_owned);
    if draft.facts.task.is_none() {
        let missing = match architecture {
            Some(name) => format!("the name {name} does not say"),
            None => format!("architectures is absent from {}", config.file()),
        };
        draft.unknown("task", missing);
    }
    Ok(())
}

fn of_architecture(name: &str, config: &Config) -> Option<&'static str> {
    if let Some((_, task)) = NAMED.iter().find(|(known, _)| *known == name) {
        return Some(task);
    }
    if name.ends_with("ForSequenceClassification") {
        return Some(if labels(config) == Some(1) {
            "rerank"
        } else {
            "classify"
        });
    }
    let by_ending = ENDINGS
        .iter()
        .find(|(ending, _)| name.ends_with(ending))
        .map(|(_, task)| *task);
    by_ending.or_else(|| bare_model(name, config))
}

/// The class without a head gives hidden states. What a class from the repository gives, its name does not say, unless it is an
/// encoder or is also there for a causal language model.
fn bare_model(name: &str, config: &Config) -> Option<&'static str> {
    if !name.ends_with("Model") {
        return None;
    }
    let own_code = json::inner(config.root(), "auto_map");
    match own_code {
        Some(map) if map.contains_key("AutoModelForCausalLM") => Some("generate"),
        Some(map) if !map.is_empty() && !keeps_nothing(name, config) => None,
        _ => Some("embed"),
    }
}

fn keeps_nothing(name: &str, config: &Config) -> bool {
    name.contains("Embed") || crate::layers::is_encoder(config, &[name.to_owned()])
}

/// How many classes a classifier tells apart.
fn labels(config: &Config) -> Option<usize> {
    let named = config.object("id2label").map(serde_json::Map::len);
    named.or_else(|| config.small(&["num_labels"]).map(|count| count as usize))
}

/// modules.json makes an embedding model of any architecture, a cross-encoder a reranker.
fn sentence_transformers(input: &ModelFiles) -> Result<Option<&'static str>, FactsError> {
    if let Some(text) = input.text("config_sentence_transformers.json") {
        let map = json::object("config_sentence_transformers.json", text)?;
        if json::text(&map, "model_type") == Some("CrossEncoder") {
            return Ok(Some("rerank"));
        }
    }
    let Some(text) = input.text("modules.json") else {
        return Ok(None);
    };
    let text = text.trim_start_matches('\u{feff}').trim();
    let list: Value = serde_json::from_str(text).map_err(|error| FactsError::NotJson {
        file: "modules.json".to_owned(),
        reason: error.to_string(),
        line: error.line(),
        column: error.column(),
    })?;
    Ok(list
        .as_array()
        .is_some_and(|modules| !modules.is_empty())
        .then_some("embed"))
}

/// The task of a diffusers pipeline by its class.
pub(super) fn of_pipeline(class: &str) -> Option<&'static str> {
    if class.contains("Video") || class.contains("Wan") {
        Some("generate-video")
    } else if class.contains("Audio") || class.contains("Music") {
        Some("generate-audio")
    } else if class.ends_with("Pipeline") {
        Some("generate-image")
    } else {
        None
    }
}
