//! The input: texts and headers of one model.

use std::collections::BTreeMap;

use crate::gguf::GgufHeader;
use crate::safetensors::SafetensorsHeader;

/// The small files and the headers of one model. Weights are never needed.
#[derive(Debug, Clone, Default)]
pub struct ModelFiles {
    /// Text of config.json, as it is in the repository (a byte order mark may still be there).
    pub config: Option<String>,
    /// Side files by name: `params.json`, `generation_config.json`, `quantize_config.json`, `quant_config.json`,
    /// `hf_quant_config.json`, `quant_model_description*.json`, `modules.json`, `sentence_bert_config.json`,
    /// `adapter_config.json`, `tokenizer_config.json`, `model_index.json`, `model.safetensors.index.json`. Others are ignored.
    pub texts: BTreeMap<String, String>,
    /// Headers of the chosen safetensors files. With their names set, they are checked against the index.
    pub safetensors: Vec<SafetensorsHeader>,
    /// Headers of the chosen GGUF files.
    pub gguf: Vec<GgufHeader>,
    /// Where the bytes came from, as the hub names it.
    pub checkpoint: Option<String>,
}

impl ModelFiles {
    /// The side file called `name`.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// True when a side file of this name can hold facts, so that a caller knows what to fetch.
    pub fn wants(name: &str) -> bool {
        const NAMES: &[&str] = &[
            "config.json",
            "params.json",
            "generation_config.json",
            "quantize_config.json",
            "quant_config.json",
            "hf_quant_config.json",
            "modules.json",
            "sentence_bert_config.json",
            "config_sentence_transformers.json",
            "adapter_config.json",
            "tokenizer_config.json",
            "model_index.json",
        ];
        NAMES.contains(&name) || is_modelslim(name) || name.ends_with(".safetensors.index.json")
    }
}

/// The name of `ModelSlim`'s side file, which may carry the kind as a suffix.
pub(crate) fn is_modelslim(name: &str) -> bool {
    name.strip_prefix("quant_model_description")
        .is_some_and(|rest| rest.strip_suffix(".json").is_some())
}
