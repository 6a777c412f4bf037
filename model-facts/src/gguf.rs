//! The header of a GGUF file: keys and the tensor table, read with limits against hostile files.

mod error;
mod keys;
mod parts;
mod reader;
mod table;
mod types;

use std::collections::BTreeMap;

pub use error::GgufError;
pub use keys::GgufValue;
pub use parts::RawPart;
pub use types::TensorType;
pub(crate) use types::file_type_name;

use reader::Reader;

/// Alignment of the data when the file does not say.
const DEFAULT_ALIGNMENT: u64 = 32;

/// The checked header of one GGUF file. Long arrays and texts (vocabularies, templates) are skipped, not kept.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GgufHeader {
    /// Name of the file in the repository, when the caller has set it.
    pub file: Option<String>,
    /// Version of the format: 2 or 3.
    pub version: u32,
    /// Keys with scalar, text and short array values.
    pub keys: BTreeMap<String, GgufValue>,
    /// Tensors in the order of the table.
    pub tensors: Vec<GgufTensor>,
    /// Alignment of the tensors.
    pub alignment: u64,
    /// Where the data starts in the file.
    pub data_start: u64,
    /// Bytes from the start of the data to the end of the last tensor whose size is known.
    pub data_bytes: u64,
}

/// One tensor of a GGUF file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GgufTensor {
    /// Its name.
    pub name: String,
    /// Its sides, the fastest one first.
    pub dimensions: Vec<u64>,
    /// Its type.
    pub kind: TensorType,
    /// First byte, relative to the start of the data.
    pub offset: u64,
    /// Exact bytes, `None` for a type that is not in the table.
    pub bytes: Option<u64>,
}

impl GgufHeader {
    /// Reads the header from the first bytes of a file. When `prefix` ends before the header does, the error is
    /// [`GgufError::NeedMore`] with a length to read next. `file_size` adds the checks of counts and offsets against the file.
    pub fn parse(prefix: &[u8], file_size: Option<u64>) -> Result<Self, GgufError> {
        let mut reader = Reader::new(prefix, file_size);
        let version = magic_and_version(&mut reader)?;
        let tensors = reader.u64()?;
        let keys = reader.u64()?;
        reader.check_count("tensors", tensors, table::SMALLEST_ENTRY)?;
        reader.check_count("keys", keys, keys::SMALLEST_ENTRY)?;
        let keys = keys::read(&mut reader, keys)?;
        let alignment = alignment(&keys)?;
        let tensors = table::read(&mut reader, tensors)?;
        let data_start = reader.position().next_multiple_of(alignment);
        let data_bytes = table::check(&tensors, alignment, data_start, file_size)?;
        // Nothing is padded up to data that is not there.
        let data_start = if data_bytes == 0 { reader.position() } else { data_start };
        Ok(Self {
            file: None,
            version,
            keys,
            tensors,
            alignment,
            data_start,
            data_bytes,
        })
    }

    /// The same header with the name of its file.
    #[must_use]
    pub fn named(mut self, file: impl Into<String>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// `general.architecture`.
    pub fn architecture(&self) -> Option<&str> {
        self.keys.get("general.architecture").and_then(GgufValue::text)
    }

    /// The whole number under `key`.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.keys.get(key).and_then(GgufValue::number)
    }

    /// Exact bytes of all tensors; `None` when one has a type that is not in the table.
    pub fn weight_bytes(&self) -> Option<u64> {
        self.tensors
            .iter()
            .try_fold(0_u64, |sum, tensor| sum.checked_add(tensor.bytes?))
    }

    /// The smallest size of a file that holds all the data of this header.
    pub fn file_size(&self) -> u64 {
        self.data_start + self.data_bytes
    }
}

fn magic_and_version(reader: &mut Reader<'_>) -> Result<u32, GgufError> {
    let magic = reader.take(4)?;
    if magic != b"GGUF" {
        return Err(GgufError::NotGguf {
            magic: [magic[0], magic[1], magic[2], magic[3]],
        });
    }
    match reader.u32()? {
        version @ (2 | 3) => Ok(version),
        version if matches!(version.swap_bytes(), 1..=3) => Err(GgufError::BigEndian),
        version => Err(GgufError::Version { version }),
    }
}

fn alignment(keys: &BTreeMap<String, GgufValue>) -> Result<u64, GgufError> {
    const LARGEST: u64 = 1 << 20;
    match keys.get("general.alignment") {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(value) => match value.number() {
            Some(alignment) if alignment.is_power_of_two() && alignment <= LARGEST => Ok(alignment),
            _ => Err(GgufError::Alignment),
        },
    }
}
