//! What can be wrong with a model's files.

/// Why no facts could be derived at all. A single fact that cannot be known is no error: it is named in
/// [`ModelFacts::unknown`](crate::ModelFacts::unknown).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FactsError {
    /// There was nothing to read.
    #[error("no config.json, params.json, adapter_config.json, model_index.json, quantization file or GGUF header")]
    NothingToRead,
    /// A file is larger than any honest one.
    #[error("{file} has {bytes} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The file.
        file: String,
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A file is not JSON.
    #[error("{file} is not JSON: {reason} at line {line} column {column}")]
    NotJson {
        /// The file.
        file: String,
        /// What the parser says.
        reason: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// A file is JSON, but not an object.
    #[error("{file} holds {found}, not an object")]
    NotAnObject {
        /// The file.
        file: String,
        /// What it holds.
        found: &'static str,
    },
    /// A file is the Git LFS pointer of the file that was wanted.
    #[error("{file} is a Git LFS pointer, not the file itself")]
    LfsPointer {
        /// The file.
        file: String,
    },
    /// A GGUF file was cut by bytes; the header of its first part describes all of them.
    #[error("{file} is a part of {whole} that was cut by bytes, not a model and no gguf-split shard")]
    RawPart {
        /// The file.
        file: String,
        /// Name of the whole file.
        whole: String,
    },
    /// The index and the shards do not fit together.
    #[error("{file} and the shards disagree: {}", list(faults))]
    Index {
        /// The index file.
        file: String,
        /// Every disagreement found, at most 20.
        faults: Vec<crate::IndexFault>,
    },
}

impl FactsError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NothingToRead => "point at the folder or repository that holds the model's config.json or GGUF file",
            Self::TooLarge { .. } => "check that the file is what its name says",
            Self::NotJson { .. } | Self::NotAnObject { .. } => "download the file again, or correct it at the source",
            Self::LfsPointer { .. } => "fetch the real file: git lfs pull, or download it from the hub",
            Self::RawPart { .. } => "join all parts in order, byte by byte, and use the whole file",
            Self::Index { .. } => "fetch the whole weight set from one revision again",
        }
    }
}

fn list(faults: &[crate::IndexFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
