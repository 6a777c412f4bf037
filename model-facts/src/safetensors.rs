//! The header of a safetensors file: 8 bytes of length, JSON, and nothing that is not checked.

mod entries;
mod error;

use std::collections::BTreeMap;

pub use error::SafetensorsError;

use entries::RawHeader;

/// The longest header that is read, in bytes: the limit of the safetensors crate itself.
pub const HEADER_LIMIT: u64 = 100_000_000;

const LENGTH_BYTES: u64 = 8;

/// The checked header of one safetensors file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SafetensorsHeader {
    /// Name of the file in the repository, when the caller has set it.
    pub file: Option<String>,
    /// Tensors in the order of their bytes.
    pub tensors: Vec<Tensor>,
    /// `__metadata__`.
    pub metadata: BTreeMap<String, String>,
    /// Where the data starts in the file: 8 + N.
    pub data_start: u64,
    /// Bytes of data after the header.
    pub data_bytes: u64,
}

/// One tensor of a safetensors file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Its data type as the header spells it.
    pub dtype: String,
    /// Its shape; empty for a scalar.
    pub shape: Vec<u64>,
    /// First byte, relative to the start of the data.
    pub begin: u64,
    /// Byte after the last one, relative to the start of the data.
    pub end: u64,
}

impl Tensor {
    /// Bytes of the tensor.
    pub fn bytes(&self) -> u64 {
        self.end - self.begin
    }

    /// Number of elements as stored (packed types count their containers).
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1, |product, side| product.saturating_mul(*side))
    }
}

impl SafetensorsHeader {
    /// Reads the header from the first bytes of a file. When `prefix` ends before the header does, the error is
    /// [`SafetensorsError::NeedMore`] with the exact length to read. `file_size` adds the check that no byte is missing or left over.
    pub fn parse(prefix: &[u8], file_size: Option<u64>) -> Result<Self, SafetensorsError> {
        let header_end = header_end(prefix, file_size)?;
        let length = usize::try_from(header_end).map_err(|_| SafetensorsError::NeedMore { bytes: header_end })?;
        let json = prefix
            .get(8..length)
            .ok_or(SafetensorsError::NeedMore { bytes: header_end })?;
        if json.first() != Some(&b'{') {
            return Err(SafetensorsError::NoBrace);
        }
        let raw: RawHeader = serde_json::from_slice(json).map_err(|error| SafetensorsError::NotJson {
            reason: error.to_string(),
        })?;
        Self::check(raw, header_end, file_size)
    }

    /// The same header with the name of its file, for the check against the index.
    #[must_use]
    pub fn named(mut self, file: impl Into<String>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Size of the whole file that this header describes.
    pub fn file_size(&self) -> u64 {
        self.data_start + self.data_bytes
    }

    fn check(raw: RawHeader, data_start: u64, file_size: Option<u64>) -> Result<Self, SafetensorsError> {
        let mut tensors = raw.tensors;
        tensors.sort_by(|a, b| (a.begin, a.end, &a.name).cmp(&(b.begin, b.end, &b.name)));
        let mut data_bytes = 0;
        for tensor in &tensors {
            check_size(tensor)?;
            if tensor.begin != data_bytes {
                return Err(SafetensorsError::NotContiguous {
                    tensor: tensor.name.clone(),
                    begin: tensor.begin,
                    expected: data_bytes,
                });
            }
            data_bytes = tensor.end;
        }
        let expected = data_start.checked_add(data_bytes).ok_or(SafetensorsError::Overflow {
            tensor: "the last one".to_owned(),
        })?;
        match file_size {
            Some(actual) if actual != expected => Err(SafetensorsError::FileSize { expected, actual }),
            _ => Ok(Self {
                file: None,
                tensors,
                metadata: raw.metadata,
                data_start,
                data_bytes,
            }),
        }
    }
}

/// Where the header ends, from the first 8 bytes.
fn header_end(prefix: &[u8], file_size: Option<u64>) -> Result<u64, SafetensorsError> {
    if let Some(found) = recognise(prefix) {
        return Err(SafetensorsError::AnotherFormat { found });
    }
    if file_size.is_some_and(|size| size < LENGTH_BYTES) {
        return Err(SafetensorsError::FileSize {
            expected: LENGTH_BYTES,
            actual: file_size.unwrap_or_default(),
        });
    }
    let Some(first) = prefix.first_chunk::<8>() else {
        return Err(SafetensorsError::NeedMore { bytes: LENGTH_BYTES });
    };
    let length = u64::from_le_bytes(*first);
    if length > HEADER_LIMIT {
        return Err(SafetensorsError::HeaderTooLarge {
            length,
            limit: HEADER_LIMIT,
        });
    }
    let end = LENGTH_BYTES + length;
    match file_size {
        Some(actual) if actual < end => Err(SafetensorsError::FileSize { expected: end, actual }),
        _ => Ok(end),
    }
}

/// What a file really is when it only carries the name of a safetensors file.
fn recognise(prefix: &[u8]) -> Option<&'static str> {
    const KNOWN: &[(&[u8], &str)] = &[
        (b"version https://git-lfs", "a Git LFS pointer"),
        (b"GGUF", "a GGUF file"),
        (b"PK\x03\x04", "a zip archive (a pickled PyTorch file?)"),
        (b"<!DOCTYPE", "an HTML page"),
        (b"<!doctype", "an HTML page"),
        (b"<html", "an HTML page"),
        (b"<?xml", "an XML document"),
    ];
    KNOWN
        .iter()
        .find(|(magic, _)| prefix.starts_with(magic))
        .map(|(_, name)| *name)
}

/// Checks shape x bits against the bytes. The bytes of an unknown data type are what the offsets say.
fn check_size(tensor: &Tensor) -> Result<(), SafetensorsError> {
    let Some(bits) = dtype_bits(&tensor.dtype) else {
        return Ok(());
    };
    let overflow = || SafetensorsError::Overflow {
        tensor: tensor.name.clone(),
    };
    let elements = tensor
        .shape
        .iter()
        .try_fold(1_u64, |product, side| product.checked_mul(*side))
        .ok_or_else(overflow)?;
    let all_bits = elements.checked_mul(bits).ok_or_else(overflow)?;
    if all_bits.is_multiple_of(8) && all_bits / 8 == tensor.bytes() {
        return Ok(());
    }
    Err(SafetensorsError::TensorSize {
        tensor: tensor.name.clone(),
        expected: all_bits.div_ceil(8),
        actual: tensor.bytes(),
    })
}

/// Bits of one element.
pub(crate) fn dtype_bits(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "F4" => 4,
        "F6_E2M3" | "F6_E3M2" => 6,
        "BOOL" | "U8" | "I8" | "F8_E5M2" | "F8_E4M3" | "F8_E8M0" | "F8_E5M2FNUZ" | "F8_E4M3FNUZ" => 8,
        "I16" | "U16" | "F16" | "BF16" => 16,
        "I32" | "U32" | "F32" => 32,
        "I64" | "U64" | "F64" | "C64" => 64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
