//! What can be wrong with a GGUF header.

/// Why a GGUF header was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GgufError {
    /// The given prefix ends before the header does: read the first `bytes` bytes of the file and parse again. The length of the
    /// header is known only at its end, so this can happen more than once; each time the prefix at least doubles.
    #[error("the first {bytes} bytes are needed")]
    NeedMore {
        /// Length of the prefix to read.
        bytes: u64,
    },
    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: it starts with {}", magic.escape_ascii())]
    NotGguf {
        /// The first four bytes.
        magic: [u8; 4],
    },
    /// The file is in big-endian order, for another kind of machine.
    #[error("GGUF file in big-endian byte order")]
    BigEndian,
    /// A version that is not read.
    #[error("GGUF version {version}, only 2 and 3 are read")]
    Version {
        /// The version.
        version: u32,
    },
    /// The file ends inside its own header.
    #[error("file of {size} bytes ends inside its header")]
    Truncated {
        /// Size of the file.
        size: u64,
    },
    /// A count that the file cannot hold.
    #[error("{count} {what} do not fit into the file")]
    Count {
        /// What is counted.
        what: &'static str,
        /// The count.
        count: u64,
    },
    /// Texts are longer than the limit.
    #[error("texts in the header are longer than {limit} bytes together")]
    Texts {
        /// The limit.
        limit: u64,
    },
    /// A text is not UTF-8.
    #[error("a name in the header is not UTF-8")]
    NotUtf8,
    /// An array holds arrays.
    #[error("key {key} holds nested arrays")]
    NestedArray {
        /// The key.
        key: String,
    },
    /// A value has a type that does not exist.
    #[error("key {key} has type {kind}, which does not exist")]
    ValueType {
        /// The key.
        key: String,
        /// The type.
        kind: u32,
    },
    /// A key or tensor is there twice.
    #[error("{name} is there twice")]
    Twice {
        /// The name.
        name: String,
    },
    /// `general.alignment` is not a power of two.
    #[error("general.alignment is not a power of two")]
    Alignment,
    /// A tensor has no or too many dimensions, or its size is beyond 64 bits or no multiple of its block.
    #[error("shape of tensor {tensor} is not possible for its type")]
    Shape {
        /// The tensor.
        tensor: String,
    },
    /// A tensor does not start at a multiple of the alignment.
    #[error("tensor {tensor} starts at {offset}, not at a multiple of {alignment}")]
    Misaligned {
        /// The tensor.
        tensor: String,
        /// Its offset.
        offset: u64,
        /// The alignment.
        alignment: u64,
    },
    /// Two tensors share bytes.
    #[error("tensors {first} and {second} overlap")]
    Overlap {
        /// The first tensor.
        first: String,
        /// The second tensor.
        second: String,
    },
    /// The tensors need a larger file: it is cut, or one of the parts of a file that was cut by bytes.
    #[error(
        "the tensor table needs a file of {expected} bytes, this one has {actual}: it is cut, or a part of a larger file"
    )]
    Cut {
        /// Size by the table.
        expected: u64,
        /// Size of the file.
        actual: u64,
    },
}

impl GgufError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NeedMore { .. } => "read more of the file and parse again",
            Self::NotGguf { .. } => {
                "a second or later part of a file that was cut by bytes starts like this: join the parts in order"
            }
            Self::BigEndian => "take the little-endian file of the same model",
            Self::Version { .. } => "convert the model with a current llama.cpp",
            Self::Truncated { .. } => "download the file again",
            Self::Cut { .. } => {
                "download the file again; if its name says part 1 of n, join all parts byte by byte in order"
            }
            _ => "download the file again; if it is the same at the source, do not use it",
        }
    }
}
