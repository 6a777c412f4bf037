//! What the safetensors headers say: bytes, parameters, data type.

use std::collections::BTreeMap;

use crate::draft::Draft;
use crate::facts::WeightFormat;
use crate::files::ModelFiles;
use crate::safetensors::{SafetensorsHeader, Tensor};

/// Endings of tensors that hold scales and the like, not parameters.
const NOT_PARAMETERS: &[&str] = &[
    "scale",
    "scales",
    "scale_inv",
    "scale_2",
    "qzeros",
    "g_idx",
    "zero_point",
    "weight_shape",
    "absmax",
    "quant_map",
    "weight_offset",
    "quant_bias",
    "deq_scale",
    "input_offset",
    "k_scale",
    "v_scale",
    "kv_cache_scale",
    "kv_cache_offset",
    "inv_freq",
    "position_ids",
    "weight_global_scale",
    "input_global_scale",
    "_scales",
];

/// Endings of tensors that hold several weights in one integer.
const PACKED: &[&str] = &["qweight", "weight_packed", "_blocks"];

pub(super) fn derive(draft: &mut Draft, input: &ModelFiles) {
    if input.safetensors.is_empty() {
        draft.unknown("weightBytes", "no header of a weight file was given");
        draft.unknown("parameters", "no header of a weight file was given");
        return;
    }
    let bytes = input
        .safetensors
        .iter()
        .try_fold(0_u64, |sum, header| sum.checked_add(header.data_bytes));
    draft.facts.weight_bytes = bytes;
    if bytes.is_none() {
        draft.unknown("weightBytes", "the sum of the headers does not fit into 64 bits");
    }
    if draft.facts.format == WeightFormat::Unknown {
        draft.facts.format = WeightFormat::Safetensors;
    }
}

/// Counts parameters; packed integers hold as many as the quantization says.
pub(super) fn parameters(draft: &mut Draft, input: &ModelFiles) {
    if input.safetensors.is_empty() {
        return;
    }
    let bits = draft.facts.quantization.weight_bits;
    let count = input
        .safetensors
        .iter()
        .flat_map(|header| &header.tensors)
        .filter(|tensor| !NOT_PARAMETERS.iter().any(|ending| tensor.name.ends_with(ending)))
        .try_fold(0_u64, |sum, tensor| sum.checked_add(parameters_of(tensor, bits)?));
    draft.facts.parameters = count;
    if count.is_none() {
        draft.unknown("parameters", "tensors are packed, and the number of bits is unknown");
    }
}

fn parameters_of(tensor: &Tensor, bits: Option<u32>) -> Option<u64> {
    match container_bits(tensor) {
        None => Some(tensor.elements()),
        Some(container) => {
            let bits = u64::from(bits.filter(|bits| *bits > 0)?);
            tensor.elements().checked_mul(container).map(|all| all / bits)
        }
    }
}

/// Bits of the integer that holds several weights, `None` for a tensor with one element per weight.
fn container_bits(tensor: &Tensor) -> Option<u64> {
    let named = PACKED.iter().any(|ending| tensor.name.ends_with(ending));
    match tensor.dtype.as_str() {
        "I32" | "U32" if named => Some(32),
        "U8" | "I8" if named || (tensor.dtype == "U8" && tensor.name.ends_with(".weight")) => Some(8),
        _ => None,
    }
}

/// True when a tensor holds several weights in one integer, which only a quantised set has.
pub(crate) fn has_packed_tensors(headers: &[SafetensorsHeader]) -> bool {
    headers
        .iter()
        .flat_map(|header| &header.tensors)
        .any(|tensor| container_bits(tensor).is_some())
}

/// The data type with most bytes, among all types.
pub(crate) fn largest_dtype(headers: &[SafetensorsHeader]) -> Option<String> {
    by_bytes(headers, |_| true)
}

/// The floating-point data type of plain numbers with most bytes.
pub(super) fn dtype(headers: &[SafetensorsHeader]) -> Option<String> {
    let largest = by_bytes(headers, |dtype| matches!(dtype, "BF16" | "F16" | "F32" | "F64"))?;
    super::identity::normalise_dtype(&largest)
}

fn by_bytes(headers: &[SafetensorsHeader], wanted: impl Fn(&str) -> bool) -> Option<String> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for tensor in headers
        .iter()
        .flat_map(|header| &header.tensors)
        .filter(|tensor| wanted(&tensor.dtype))
    {
        let sum = sums.entry(&tensor.dtype).or_default();
        *sum = sum.saturating_add(tensor.bytes());
    }
    sums.into_iter()
        .max_by_key(|(name, bytes)| (*bytes, std::cmp::Reverse(*name)))
        .map(|(name, _)| name.to_owned())
}
