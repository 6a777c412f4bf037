//! What a model's own bytes say about it: architecture, quantization, sizes, context and KV cache.
//!
//! Pure: text and header bytes in, [`ModelFacts`] out.

mod facts;

pub use facts::{Experts, KvCache, LayerGroup, LayerKind, ModelFacts, Quantization, Unknown, WeightFormat};
