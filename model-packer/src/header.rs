//! Headers of weight files, read by range: a few hundred kilobytes instead of the whole.

use model_facts::{GgufError, GgufHeader, HEADER_LIMIT, SafetensorsError, SafetensorsHeader};

use crate::error::PackError;
use crate::sources::FileReader;
use crate::text::has_extension;

/// The first read; nearly all safetensors headers end in it.
const FIRST_WINDOW: u64 = 128 << 10;
/// A pointer is about 130 bytes long.
const POINTER_START: &[u8] = b"version https://git-lfs";
/// No pointer is longer; the specification keeps them below it.
pub(crate) const POINTER_LIMIT: u64 = 1024;

/// What the start of a weight file says.
#[derive(Debug, Clone)]
pub enum Header {
    /// A safetensors header.
    Safetensors(SafetensorsHeader),
    /// A GGUF header.
    Gguf(GgufHeader),
    /// A format without a readable header.
    Other,
}

enum Parsed {
    Done(Header),
    NeedMore(u64),
}

/// Refuses the text that stands for a large file in git.
pub(crate) fn refuse_pointer(path: &str, start: &[u8]) -> Result<(), PackError> {
    if start.starts_with(POINTER_START) {
        return Err(PackError::Pointer(path.to_owned()));
    }
    Ok(())
}

/// Reads as much of the start as the header needs.
pub async fn read_header(reader: &FileReader) -> Result<Header, PackError> {
    let file = reader.file();
    if file.size == 0 {
        return Err(PackError::EmptyWeights(file.path.clone()));
    }
    let mut prefix = reader.read(0..FIRST_WINDOW.min(file.size)).await?;
    refuse_pointer(&file.path, &prefix)?;
    loop {
        match parse(&file.path, &prefix, file.size)? {
            Parsed::Done(header) => return Ok(header),
            Parsed::NeedMore(bytes) => {
                let end = bytes.min(file.size);
                if bytes > HEADER_LIMIT + 8 || end <= prefix.len() as u64 {
                    return Err(PackError::HeaderTooLong {
                        path: file.path.clone(),
                        limit: HEADER_LIMIT,
                    });
                }
                prefix.extend(reader.read(prefix.len() as u64..end).await?);
            }
        }
    }
}

fn parse(path: &str, prefix: &[u8], size: u64) -> Result<Parsed, PackError> {
    if has_extension(path, "safetensors") {
        return match SafetensorsHeader::parse(prefix, Some(size)) {
            Ok(header) => Ok(Parsed::Done(Header::Safetensors(header.named(path)))),
            Err(SafetensorsError::NeedMore { bytes }) => Ok(Parsed::NeedMore(bytes)),
            Err(source) => Err(PackError::Safetensors {
                path: path.to_owned(),
                source,
            }),
        };
    }
    if has_extension(path, "gguf") {
        return match GgufHeader::parse(prefix, Some(size)) {
            Ok(header) => Ok(Parsed::Done(Header::Gguf(header.named(path)))),
            Err(GgufError::NeedMore { bytes }) => Ok(Parsed::NeedMore(bytes)),
            Err(source) => Err(PackError::Gguf {
                path: path.to_owned(),
                source,
            }),
        };
    }
    Ok(Parsed::Done(Header::Other))
}

impl Header {
    /// Offsets in the file at which pieces may begin: where tensors do.
    pub fn tensor_starts(&self) -> Vec<u64> {
        match self {
            Self::Safetensors(header) => {
                let tensors = header.tensors.iter().map(|tensor| header.data_start + tensor.begin);
                std::iter::once(header.data_start).chain(tensors).collect()
            }
            Self::Gguf(header) => vec![header.data_start],
            Self::Other => Vec::new(),
        }
    }
}
