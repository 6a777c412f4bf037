//! What can be wrong with a safetensors header.

/// Why a safetensors header was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SafetensorsError {
    /// The given prefix ends before the header does: read the first `bytes` bytes of the file.
    #[error("the first {bytes} bytes are needed")]
    NeedMore {
        /// Length of the prefix to read.
        bytes: u64,
    },
    /// The file is something else.
    #[error("not a safetensors file but {found}")]
    AnotherFormat {
        /// What it is.
        found: &'static str,
    },
    /// The stated length is beyond the limit, or the file is no safetensors file at all.
    #[error("header of {length} bytes is above the limit of {limit}: not a safetensors file, or a hostile one")]
    HeaderTooLarge {
        /// The stated length.
        length: u64,
        /// The limit.
        limit: u64,
    },
    /// The header does not start with an opening brace.
    #[error("header does not start with an opening brace")]
    NoBrace,
    /// The header is not the JSON it should be.
    #[error("header is not valid: {reason}")]
    NotJson {
        /// What the parser says.
        reason: String,
    },
    /// There is a hole, an overlap, or the first tensor does not start at 0.
    #[error("tensor {tensor} starts at {begin}, expected {expected}: the data must be contiguous")]
    NotContiguous {
        /// The tensor.
        tensor: String,
        /// Where it starts.
        begin: u64,
        /// Where it should start.
        expected: u64,
    },
    /// Shape and data type do not give the number of bytes.
    #[error("tensor {tensor} has {actual} bytes, its shape and data type give {expected}")]
    TensorSize {
        /// The tensor.
        tensor: String,
        /// Bytes by shape and data type.
        expected: u64,
        /// Bytes by offsets.
        actual: u64,
    },
    /// A shape whose size does not fit into 64 bits.
    #[error("size of tensor {tensor} does not fit into 64 bits")]
    Overflow {
        /// The tensor.
        tensor: String,
    },
    /// The file is longer or shorter than its header says.
    #[error("file has {actual} bytes, its header describes {expected}")]
    FileSize {
        /// Size by the header.
        expected: u64,
        /// Size of the file.
        actual: u64,
    },
}

impl SafetensorsError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NeedMore { .. } => "read more of the file and parse again",
            Self::AnotherFormat { .. } => "fetch the real file from the hub",
            Self::FileSize { actual, expected } if actual < expected => "the file is cut: download it again",
            _ => "download the file again; if it is the same at the source, do not use it",
        }
    }
}
