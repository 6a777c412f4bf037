//! Keys and values.

use std::collections::BTreeMap;

use super::GgufError;
use super::reader::Reader;

/// Name length, type and one byte of value.
pub(super) const SMALLEST_ENTRY: u64 = 8 + 4 + 1;

/// Longer arrays are vocabularies: skipped.
const ARRAY_KEPT: u64 = 4096;

/// Longer texts are chat templates and licences: skipped.
const TEXT_KEPT: usize = 4096;

const TYPE_STRING: u32 = 8;
const TYPE_ARRAY: u32 = 9;

/// A value of the header.
#[derive(Debug, Clone, PartialEq)]
pub enum GgufValue {
    /// Any unsigned integer.
    Unsigned(u64),
    /// Any signed integer.
    Signed(i64),
    /// Any float.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A text of at most 4096 bytes.
    Text(String),
    /// An array of at most 4096 numbers or booleans.
    Array(Vec<GgufValue>),
    /// A longer text or array, or an array of texts: only its length is kept.
    Skipped(u64),
}

impl GgufValue {
    /// The value as a whole number that is not negative.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Unsigned(value) => Some(*value),
            Self::Signed(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// The value as a float.
    #[expect(clippy::cast_precision_loss, reason = "scaling factors are small")]
    pub fn float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            Self::Unsigned(value) => Some(*value as f64),
            Self::Signed(value) => Some(*value as f64),
            _ => None,
        }
    }

    /// The value as a text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

pub(super) fn read(reader: &mut Reader<'_>, count: u64) -> Result<BTreeMap<String, GgufValue>, GgufError> {
    let mut keys = BTreeMap::new();
    for _ in 0..count {
        let key = reader.name()?;
        let kind = reader.u32()?;
        let value = value(reader, &key, kind)?;
        if keys.insert(key.clone(), value).is_some() {
            return Err(GgufError::Twice { name: key });
        }
    }
    Ok(keys)
}

fn value(reader: &mut Reader<'_>, key: &str, kind: u32) -> Result<GgufValue, GgufError> {
    match kind {
        TYPE_STRING => text(reader),
        TYPE_ARRAY => array(reader, key),
        _ => scalar(reader, key, kind),
    }
}

fn text(reader: &mut Reader<'_>) -> Result<GgufValue, GgufError> {
    let bytes = reader.text()?;
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.len() <= TEXT_KEPT => Ok(GgufValue::Text(text.to_owned())),
        _ => Ok(GgufValue::Skipped(bytes.len() as u64)),
    }
}

fn scalar(reader: &mut Reader<'_>, key: &str, kind: u32) -> Result<GgufValue, GgufError> {
    Ok(match kind {
        0 => GgufValue::Unsigned(u8::from_le_bytes(reader.array()?).into()),
        1 => GgufValue::Signed(i8::from_le_bytes(reader.array()?).into()),
        2 => GgufValue::Unsigned(u16::from_le_bytes(reader.array()?).into()),
        3 => GgufValue::Signed(i16::from_le_bytes(reader.array()?).into()),
        4 => GgufValue::Unsigned(u32::from_le_bytes(reader.array()?).into()),
        5 => GgufValue::Signed(i32::from_le_bytes(reader.array()?).into()),
        6 => GgufValue::Float(f32::from_le_bytes(reader.array()?).into()),
        7 => GgufValue::Bool(reader.array::<1>()? != [0]),
        10 => GgufValue::Unsigned(u64::from_le_bytes(reader.array()?)),
        11 => GgufValue::Signed(i64::from_le_bytes(reader.array()?)),
        12 => GgufValue::Float(f64::from_le_bytes(reader.array()?)),
        _ => {
            return Err(GgufError::ValueType {
                key: key.to_owned(),
                kind,
            });
        }
    })
}

/// Bytes of a scalar, 8 for the length of a text.
fn smallest(kind: u32) -> Option<u64> {
    Some(match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        TYPE_STRING | 10..=12 => 8,
        _ => return None,
    })
}

fn array(reader: &mut Reader<'_>, key: &str) -> Result<GgufValue, GgufError> {
    let kind = reader.u32()?;
    let count = reader.u64()?;
    if kind == TYPE_ARRAY {
        return Err(GgufError::NestedArray { key: key.to_owned() });
    }
    let size = smallest(kind).ok_or_else(|| GgufError::ValueType {
        key: key.to_owned(),
        kind,
    })?;
    reader.check_count("array elements", count, size)?;
    if kind == TYPE_STRING {
        for _ in 0..count {
            reader.text()?;
        }
        return Ok(GgufValue::Skipped(count));
    }
    if count > ARRAY_KEPT {
        reader.take(count.saturating_mul(size))?;
        return Ok(GgufValue::Skipped(count));
    }
    (0..count)
        .map(|_| scalar(reader, key, kind))
        .collect::<Result<_, _>>()
        .map(GgufValue::Array)
}
