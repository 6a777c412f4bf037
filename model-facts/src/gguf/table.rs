//! The tensor table.

use std::collections::BTreeSet;

use super::reader::Reader;
use super::{GgufError, GgufTensor, TensorType};

/// Name length, number of dimensions, type and offset.
pub(super) const SMALLEST_ENTRY: u64 = 8 + 4 + 4 + 8;

const MOST_DIMENSIONS: u32 = 4;

pub(super) fn read(reader: &mut Reader<'_>, count: u64) -> Result<Vec<GgufTensor>, GgufError> {
    let mut names = BTreeSet::new();
    let mut tensors = Vec::new();
    for _ in 0..count {
        let tensor = entry(reader)?;
        if !names.insert(tensor.name.clone()) {
            return Err(GgufError::Twice { name: tensor.name });
        }
        tensors.push(tensor);
    }
    Ok(tensors)
}

fn entry(reader: &mut Reader<'_>) -> Result<GgufTensor, GgufError> {
    let name = reader.name()?;
    let count = reader.u32()?;
    if count > MOST_DIMENSIONS {
        return Err(GgufError::Shape { tensor: name });
    }
    let dimensions = (0..count).map(|_| reader.u64()).collect::<Result<Vec<_>, _>>()?;
    let kind = TensorType(reader.u32()?);
    let offset = reader.u64()?;
    let bytes = bytes(&name, &dimensions, kind)?;
    Ok(GgufTensor {
        name,
        dimensions,
        kind,
        offset,
        bytes,
    })
}

/// Exact bytes by the block of the type; rows must be whole blocks.
fn bytes(name: &str, dimensions: &[u64], kind: TensorType) -> Result<Option<u64>, GgufError> {
    let impossible = || GgufError::Shape {
        tensor: name.to_owned(),
    };
    let elements = dimensions
        .iter()
        .try_fold(1_u64, |product, side| product.checked_mul(*side))
        .ok_or_else(impossible)?;
    let Some((block, block_bytes)) = kind.block() else {
        return Ok(None);
    };
    if !dimensions.first().copied().unwrap_or(1).is_multiple_of(block) {
        return Err(impossible());
    }
    (elements / block)
        .checked_mul(block_bytes)
        .map(Some)
        .ok_or_else(impossible)
}

/// Checks offsets and returns the bytes from the start of the data to the end of the last tensor.
pub(super) fn check(
    tensors: &[GgufTensor],
    alignment: u64,
    data_start: u64,
    file_size: Option<u64>,
) -> Result<u64, GgufError> {
    let mut ordered: Vec<&GgufTensor> = tensors.iter().collect();
    ordered.sort_by_key(|tensor| (tensor.offset, tensor.bytes));
    let mut end = 0;
    let mut before = "";
    for tensor in ordered {
        if !tensor.offset.is_multiple_of(alignment) {
            return Err(GgufError::Misaligned {
                tensor: tensor.name.clone(),
                offset: tensor.offset,
                alignment,
            });
        }
        if tensor.offset < end {
            return Err(GgufError::Overlap {
                first: before.to_owned(),
                second: tensor.name.clone(),
            });
        }
        end = tensor
            .offset
            .checked_add(tensor.bytes.unwrap_or(0))
            .ok_or_else(|| GgufError::Shape {
                tensor: tensor.name.clone(),
            })?;
        before = &tensor.name;
    }
    let expected = data_start.checked_add(end).ok_or(GgufError::Count {
        what: "bytes",
        count: end,
    })?;
    match file_size {
        Some(actual) if end > 0 && actual < expected => Err(GgufError::Cut { expected, actual }),
        _ => Ok(end),
    }
}
