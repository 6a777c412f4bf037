//! The facts themselves: plain data, the same in the artifact, in a status and on a screen.

use serde::{Deserialize, Serialize};

/// What a model's own bytes say about it. A fact that could not be derived is `None` and is named in `unknown`
/// with what is missing; it is never a zero and never a guess.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct ModelFacts {
    /// Where the bytes came from, as the hub names it (`Qwen/Qwen3-8B`); checkpoint globs of the matrix match this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// `architectures` of config.json, exact spelling. Empty for GGUF files, which name a `family` only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<String>,
    /// `model_type` of config.json, or `general.architecture` of a GGUF file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Where the language model's keys were found when it is nested in a larger one (`text_config`); `None` is the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_model: Option<String>,
    /// `model_type` of the nested language model, when it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_family: Option<String>,
    /// The format of the weight set.
    #[serde(default)]
    pub format: WeightFormat,
    /// Data type of the unquantised tensors: `bf16`, `fp16`, `fp32`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// How the weights are quantised.
    #[serde(default)]
    pub quantization: Quantization,
    /// Exact bytes of all weight tensors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_bytes: Option<u64>,
    /// Number of parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<u64>,
    /// Hidden layers of the text model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<u32>,
    /// Width of the residual stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden_size: Option<u64>,
    /// Attention (query) heads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_heads: Option<u32>,
    /// KV heads; `None` where the attention has none of its own (MLA) or it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_heads: Option<u32>,
    /// Width of a K head where it is the same in all layers that have one; the groups of `kv_cache` hold the whole truth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_dim: Option<u32>,
    /// Entries of the vocabulary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<u64>,
    /// Longest context in tokens, by the rule of the family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_length: Option<u64>,
    /// How the context length was derived, in a phrase: `max_position_embeddings; llama3 scaling is already in it`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_source: Option<String>,
    /// Layer groups that keep a KV cache, and those that keep a constant state.
    #[serde(default)]
    pub kv_cache: KvCache,
    /// Experts, when the model is a mixture of experts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts: Option<Experts>,
    /// What the model takes besides text: `image`, `audio`, `video`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modalities: Vec<String>,
    /// What the model is for: `generate`, `embed`, `rerank`, `classify`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Whether loading needs Python code from the repository.
    #[serde(default)]
    pub remote_code: bool,
    /// Whether the head shares the embedding's weights; `None` when the files do not say (the class default is code).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie_word_embeddings: Option<bool>,
    /// Set when the weights are an adapter, to be loaded on top of another model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<Adapter>,
    /// What a reader should know beside the facts: a key that has no effect, two files that disagree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Facts that could not be derived, with what is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<Unknown>,
}

/// A fact that could not be derived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unknown {
    /// Name of the field of [`ModelFacts`], in its serialised spelling.
    pub fact: String,
    /// What is missing, in a phrase: `num_hidden_layers is absent from config.json`.
    pub missing: String,
}

/// Weights that change another model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct Adapter {
    /// The kind as the file names it: `LORA`, `IA3`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The model it was trained on, as the file names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_model: Option<String>,
    /// Rank of the update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

/// The format of a weight set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum WeightFormat {
    /// safetensors, Hugging Face layout.
    Safetensors,
    /// Mistral's consolidated safetensors with params.json.
    Mistral,
    /// GGUF.
    Gguf,
    /// Pickled `PyTorch` files.
    Pytorch,
    /// No weight file was seen.
    #[default]
    Unknown,
}

/// How the weights are quantised, normalised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct Quantization {
    /// The method as the files name it (`gptq`, `awq`, `fp8`, `compressed-tensors`, `gguf`, `ascend`, ...);
    /// `none` when the files say that nothing is quantised; `None` when it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The matrix's word for it, one of [`LABELS`](crate::LABELS); `None` when the method has no word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Bits of a weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_bits: Option<u32>,
    /// Further widths of weights in a mixed set, widest first (experts stored in 4 bits beside layers in 8).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_weight_bits: Vec<u32>,
    /// Bits of an activation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation_bits: Option<u32>,
    /// Elements that share a scale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_size: Option<u32>,
    /// Rows and columns of a weight block that shares a scale, when blocks are two-dimensional.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub block: Vec<u32>,
    /// Bits of a KV cache element when the files fix it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_bits: Option<u32>,
    /// Sub-format: `mxfp4-pack-quantized`, `Q4_1`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The file, and the object in it, that says so: `config.json text_config.quantization_config`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_in: Option<String>,
    /// Modules that stay unquantised, as the files name them; at most the first 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<String>,
}

/// The KV cache as groups of layers of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct KvCache {
    /// Groups of layers; `None` when the geometry is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<LayerGroup>>,
    /// True when layers with a state of unknown size make the sum a lower bound.
    #[serde(default)]
    pub lower_bound: bool,
}

/// Layers that keep the same kind of cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LayerGroup {
    /// How many layers.
    pub layers: u32,
    /// What each keeps.
    pub kind: LayerKind,
}

/// What one layer keeps per token or per sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum LayerKind {
    /// K and V of every token.
    Full {
        /// KV heads.
        kv_heads: u32,
        /// Width of a K head, in elements.
        key_dim: u32,
        /// Width of a V head, in elements.
        value_dim: u32,
    },
    /// K and V of the last `window` tokens.
    Sliding {
        /// KV heads.
        kv_heads: u32,
        /// Width of a K head, in elements.
        key_dim: u32,
        /// Width of a V head, in elements.
        value_dim: u32,
        /// Tokens kept.
        window: u64,
    },
    /// One latent vector per token (MLA); not divided by tensor parallelism.
    Latent {
        /// `kv_lora_rank + qk_rope_head_dim`, in elements.
        width: u32,
    },
    /// A constant state per sequence (linear attention, state space).
    Constant {
        /// Bytes per sequence, when they can be derived.
        bytes: Option<u64>,
    },
    /// Nothing: an encoder layer, attention switched off, or the cache of another layer used again.
    None,
}

/// A mixture of experts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Experts {
    /// Routed experts.
    pub total: u32,
    /// Experts active for a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<u32>,
    /// Experts that every token passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<u32>,
}
