//! A stand-in for model hubs, with scripted faults: one server that speaks the HTTP contracts of Hugging Face and of
//! ModelScope over a folder `owner/name/files`, and a second port that plays the content network behind their redirects.
//!
//! The content network must never see a credential: it answers 400 when it does, and keeps a list of such violations.

mod answer;
mod content;
mod content_network;
mod escape;
mod fault;
mod hugging_face;
mod model_scope;
mod qwen3;
mod recorder;
mod server;

pub use content::{Entry, RepositorySettings};
pub use fault::{Fault, FaultRule, FaultScript, Side};
pub use qwen3::{write_qwen3_8b, write_safetensors};
pub use recorder::Recorded;
pub use server::{HubConfig, RangeMode, StandinHub};
