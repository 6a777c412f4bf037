//! compressed-tensors: groups of modules, each with a scheme for weights and activations.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::facts::Quantization;
use crate::json;

use super::{Object, label, widths};

/// One group, reduced to what distinguishes kinds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Scheme {
    weight_bits: u32,
    weight_float: bool,
    activation_bits: u32,
    activation_float: bool,
    group_size: Option<u32>,
    format: String,
}

pub(super) fn read(object: &Object) -> Quantization {
    let schemes = schemes(object);
    let format = json::text(object, "format").map(str::to_owned);
    let kv_bits = json::inner(object, "kv_cache_scheme").and_then(|scheme| json::small(scheme, "num_bits"));
    let (weight_bits, other_weight_bits) = widths(schemes.iter().map(|scheme| scheme.weight_bits).collect());
    let labels: BTreeSet<&str> = schemes.iter().filter_map(scheme_label).collect();
    let all_named = schemes.iter().all(|scheme| scheme_label(scheme).is_some());
    // Without a scheme for weights the format says nothing about them.
    let detail = format
        .filter(|format| format != "mixed-precision" && groups(object).any(|group| group.contains_key("weights")))
        .or_else(|| formats(&schemes));
    Quantization {
        label: mixed_label(&labels).filter(|_| all_named).and_then(label),
        weight_bits,
        other_weight_bits,
        activation_bits: schemes.iter().map(|scheme| scheme.activation_bits).min(),
        group_size: schemes.iter().find_map(|scheme| scheme.group_size),
        block: block(object),
        kv_bits,
        detail: sparse(object, detail),
        ..Quantization::default()
    }
}

fn groups(object: &Object) -> impl Iterator<Item = &Object> {
    json::inner(object, "config_groups")
        .into_iter()
        .flat_map(Object::values)
        .filter_map(Value::as_object)
}

fn schemes(object: &Object) -> BTreeSet<Scheme> {
    let outer = json::text(object, "format").unwrap_or_default();
    groups(object).filter_map(|group| scheme(group, outer)).collect()
}

fn scheme(group: &Object, outer: &str) -> Option<Scheme> {
    let weights = json::inner(group, "weights")?;
    let activations = json::inner(group, "input_activations");
    let is_float = |map: &Object| json::text(map, "type") == Some("float");
    Some(Scheme {
        weight_bits: json::small(weights, "num_bits")?,
        weight_float: is_float(weights),
        activation_bits: activations.map_or(Some(16), |map| json::small(map, "num_bits"))?,
        activation_float: activations.is_some_and(is_float),
        group_size: json::small(weights, "group_size"),
        format: json::text(group, "format").unwrap_or(outer).to_owned(),
    })
}

fn scheme_label(scheme: &Scheme) -> Option<&'static str> {
    let microscaled = scheme.format.starts_with("mx") || scheme.group_size == Some(32);
    Some(
        match (
            scheme.weight_float,
            scheme.weight_bits,
            scheme.activation_bits,
            scheme.activation_float,
        ) {
            (false, 8, 8, false) => "w8a8-int8",
            (false, 8, 16, _) => "w8a16",
            (false, 4, 16, _) => "w4a16",
            (false, 4, 8, false) => "w4a8",
            (false, 4, 8, true) => "w4a8-fp8",
            (false, 4, 4, false) => "w4a4",
            (true, 8, 8, true) if microscaled => "w8a8-mxfp8",
            (true, 8, _, _) => "fp8",
            (true, 4, _, _) if !microscaled => "nvfp4",
            (true, 4, 16, _) => "mxfp4",
            (true, 4, 8, _) => "w4a8-mxfp4",
            (true, 4, 4, _) => "w4a4-mxfp4",
            _ => return None,
        },
    )
}

/// One word for all groups; layers in fp8 beside experts in mxfp4 have a word of their own.
fn mixed_label<'a>(labels: &BTreeSet<&'a str>) -> Option<&'a str> {
    let is = |wanted: &[&str]| labels.len() == wanted.len() && wanted.iter().all(|label| labels.contains(label));
    match labels.first() {
        Some(first) if labels.len() == 1 => Some(first),
        _ if is(&["fp8", "mxfp4"]) || is(&["w8a8-mxfp8", "mxfp4"]) || is(&["w4a4-mxfp4", "w8a8-mxfp8"]) => {
            Some("fp8-mxfp4")
        }
        _ => None,
    }
}

fn formats(schemes: &BTreeSet<Scheme>) -> Option<String> {
    let names: BTreeSet<&str> = schemes
        .iter()
        .map(|scheme| scheme.format.as_str())
        .filter(|name| !name.is_empty())
        .collect();
    (!names.is_empty()).then(|| names.into_iter().collect::<Vec<_>>().join(", "))
}

fn block(object: &Object) -> Vec<u32> {
    let structures = groups(object).filter_map(|group| json::inner(group, "weights")?.get("block_structure"));
    structures
        .map(super::methods::sides)
        .find(|sides| !sides.is_empty())
        .unwrap_or_default()
}

fn sparse(object: &Object, detail: Option<String>) -> Option<String> {
    let structure = json::inner(object, "sparsity_config")
        .and_then(|sparsity| json::text(sparsity, "sparsity_structure"))
        .filter(|structure| *structure != "unstructured");
    match (detail, structure) {
        (Some(detail), Some(structure)) => Some(format!("{detail}, {structure} sparse")),
        (None, Some(structure)) => Some(format!("{structure} sparse")),
        (detail, None) => detail,
    }
}
