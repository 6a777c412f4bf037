//! What a model's own bytes say about it: architecture, quantization, sizes, context and KV cache.
//!
//! Pure: text and header bytes in, [`ModelFacts`] out. Start with [`derive`]; the arithmetic of memory is in [`memory`].

mod config;
mod context;
mod derive;
mod draft;
mod error;
mod facts;
mod files;
mod gguf;
mod index;
mod json;
mod labels;
mod layers;
pub mod memory;
mod quantization;
mod safetensors;

pub use derive::derive;
pub use error::FactsError;
pub use facts::{Adapter, Experts, KvCache, LayerGroup, LayerKind, ModelFacts, Quantization, Unknown, WeightFormat};
pub use files::ModelFiles;
pub use gguf::{GgufError, GgufHeader, GgufTensor, GgufValue, RawPart, TensorType};
pub use index::{IndexFault, check_index};
pub use labels::{LABEL_ALIASES, LABELS, canonical_label};
pub use memory::{
    kv_arithmetic, kv_bytes, kv_bytes_per_further_token, kv_bytes_per_token, kv_element_bytes, weights_per_device,
};
pub use safetensors::{HEADER_LIMIT, SafetensorsError, SafetensorsHeader, Tensor};
