//! What goes wrong while packing, with the hint of whoever knows best.

use std::path::PathBuf;

use artifact::{BuildError, Digest, ReadError};
use model_facts::{FactsError, GgufError, SafetensorsError};

use crate::selection::{PatternError, SelectionError};
use crate::signing::KeyError;
use crate::sources::{AddressError, SettingsError, SourceError};

/// Packing, pushing, pulling or verifying failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// The source is written wrongly.
    #[error("the source cannot be used")]
    Address(#[from] AddressError),
    /// The environment or a flag is written wrongly.
    #[error("the settings cannot be used")]
    Settings(#[from] SettingsError),
    /// A pattern is written wrongly.
    #[error("a pattern cannot be used")]
    Pattern(#[from] PatternError),
    /// The source cannot be read.
    #[error("cannot read the source")]
    Source(#[from] SourceError),
    /// No set of files is right.
    #[error("no files can be chosen")]
    Selection(#[from] SelectionError),
    /// The small files do not describe a model.
    #[error("the model's facts cannot be derived")]
    Facts(#[from] FactsError),
    /// A weight file is not what its name says.
    #[error("{path} has no usable safetensors header")]
    Safetensors {
        /// Path.
        path: String,
        /// Cause.
        #[source]
        source: SafetensorsError,
    },
    /// A weight file is not what its name says.
    #[error("{path} has no usable GGUF header")]
    Gguf {
        /// Path.
        path: String,
        /// Cause.
        #[source]
        source: GgufError,
    },
    /// A file is the text that stands for it in git.
    #[error("{0} is a Git LFS pointer, not the file itself")]
    Pointer(String),
    /// Two weight files with the same tensor, of which no index says which counts.
    #[error("tensor {tensor} is in {first} and in {second}, and no index says which counts")]
    TensorTwice {
        /// The tensor.
        tensor: String,
        /// A file that has it.
        first: String,
        /// Another one.
        second: String,
    },
    /// A part of a GGUF set that is another one than its name says.
    #[error("{path} is part {} of {} by its name and part {} of {} by its header", .named.0, .named.1, .found.0, .found.1)]
    WrongPart {
        /// The file.
        path: String,
        /// Number and count by its name.
        named: (u64, u64),
        /// Number and count by its header.
        found: (u64, u64),
    },
    /// A weight file that holds nothing.
    #[error("{0} is empty")]
    EmptyWeights(String),
    /// The header is longer than anything that is read.
    #[error("the header of {path} has more than {limit} bytes")]
    HeaderTooLong {
        /// Path.
        path: String,
        /// The limit.
        limit: u64,
    },
    /// Nobody vouches for a file, and the user insists on it.
    #[error("the hub offers no hash for {}", .0.join(", "))]
    Unverified(Vec<String>),
    /// The source is not what the lock says.
    #[error("the source is not what the lock holds: {}", .0.join("; "))]
    Moved(Vec<String>),
    /// The source lock cannot be read.
    #[error("{place} is no source lock")]
    Lock {
        /// File or artifact.
        place: String,
        /// Cause.
        #[source]
        source: artifact::LockError,
    },
    /// No manifest can be made.
    #[error("no manifest can be made")]
    Build(#[from] BuildError),
    /// The reference is written wrongly.
    #[error("the reference cannot be used")]
    Reference(#[from] registry::ReferenceError),
    /// The registry.
    #[error(transparent)]
    Registry(#[from] registry::Error),
    /// The manifest is no model.
    #[error("{reference} is no packed model")]
    Read {
        /// Reference.
        reference: String,
        /// Cause.
        #[source]
        source: ReadError,
    },
    /// More layers than the registry is known to take.
    #[error("{registry} takes {limit} layers at most, the model would have {layers}")]
    TooManyLayers {
        /// The registry.
        registry: String,
        /// Its limit.
        limit: u32,
        /// Layers of the model.
        layers: usize,
    },
    /// A larger blob than the registry is known to take.
    #[error("{registry} takes blobs of {} at most, {path} has {}", crate::text::bytes(*.limit), crate::text::bytes(*.size))]
    TooLargeBlob {
        /// The registry.
        registry: String,
        /// Its limit.
        limit: u64,
        /// The layer.
        path: String,
        /// Its size.
        size: u64,
    },
    /// Bytes with another digest than promised.
    #[error("{what} has digest {found}, expected is {expected}")]
    WrongDigest {
        /// What it is.
        what: String,
        /// Promised.
        expected: Digest,
        /// Found.
        found: Digest,
    },
    /// The blob in the registry is shorter than the manifest says.
    #[error("the registry has fewer bytes of {what} than the manifest says: {found} of {expected}")]
    FewerBytes {
        /// What it is.
        what: String,
        /// By the manifest.
        expected: u64,
        /// In the registry.
        found: u64,
    },
    /// A key cannot be used.
    #[error("the key cannot be used")]
    Key(#[from] KeyError),
    /// A file where the target is expected.
    #[error("{0} is a file, and no target")]
    FileAsTarget(String),
    /// A local file cannot be read or written.
    #[error("cannot {step} {}", path.display())]
    File {
        /// Reading, writing, ...
        step: &'static str,
        /// Path.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// The answer is no.
    #[error("{0}")]
    No(String),
    /// A mistake of this program.
    #[error("a mistake of this program: {0}")]
    Internal(String),
}

impl From<tokio::task::JoinError> for PackError {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Internal(error.to_string())
    }
}

impl PackError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Address(error) => Some(error.hint()),
            Self::Settings(error) => Some(error.hint().to_owned()),
            Self::Source(error) => error.hint(),
            Self::Selection(error) => Some(error.hint()),
            Self::Facts(error) => Some(error.hint().to_owned()),
            Self::Safetensors { source, .. } => Some(source.hint().to_owned()),
            Self::Gguf { source, .. } => Some(source.hint().to_owned()),
            Self::Pointer(_) => Some("fetch the real files with `git lfs pull`, or pack from the hub itself".into()),
            Self::TooManyLayers { .. } => {
                Some("--layout tar lets files share layers, and --exclude leaves files out".into())
            }
            Self::TooLargeBlob { .. } => Some(
                "push to a registry that takes larger blobs (`model-packer doctor` shows what is known of one), or pack a variant with smaller files".into(),
            ),
            Self::TensorTwice { first, second, .. } => Some(format!(
                "they are two weight sets: leave one out, for example --exclude '{}'",
                if is_loaders_name(second) { first } else { second }
            )),
            Self::WrongPart { .. } => Some("parts were mixed up when they were named or uploaded: fetch the file again, or use another revision".into()),
            Self::EmptyWeights(_) => Some("an upload or a download broke off: fetch the file again, or use another revision".into()),
            Self::Unverified(_) => Some("leave --require-hash out to pack them with the mark \"unverified\"".into()),
            Self::Moved(_) => {
                Some("leave --locked out to pack what is there now, or pin the commit of the lock".into())
            }
            Self::FileAsTarget(file) => Some(format!("a lock is named behind an equals sign: --locked={file}")),
            Self::Build(error) => error.hint().map(str::to_owned),
            Self::Reference(error) => error.hint(),
            Self::Registry(error) => error.hint(),
            Self::FewerBytes { .. } => Some(
                "the blob is damaged in the registry: have it removed there, then push the model again".into(),
            ),
            Self::Key(error) => Some(error.hint().to_owned()),
            Self::Read { source, .. } => source.hint().map(str::to_owned),
            _ => None,
        }
    }

    /// Whether the same step at the registry may work a moment later.
    pub(crate) fn is_retryable(&self) -> bool {
        matches!(self, Self::Registry(error) if error.is_retryable())
    }

    /// Whether it is this program's fault.
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Internal(_))
    }
}

/// Whether loaders look for this name first, so that it is the last to be left out.
fn is_loaders_name(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.split(['.', '-']).next().unwrap_or(name);
    ["model", "pytorch_model", "diffusion_pytorch_model"].contains(&stem)
}
