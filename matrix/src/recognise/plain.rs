//! Nodes without an accelerator: the node itself is the device.

use crate::{
    matrix::Matrix,
    observation::NodeObservation,
    pool::{Evidence, EvidenceSource, Note, Offer},
    quantity,
    recognise::{find::Find, memory},
};

/// The vendor word of plain processors.
const CPU: &str = "cpu";

pub(super) fn look(matrix: &Matrix, node: &NodeObservation) -> Option<Find> {
    let product = matrix.products().values().find(|product| product.vendor == CPU)?;
    let mut find = Find::new(node, Offer::Node);
    find.vendor = Some(CPU.to_owned());
    find.product = Some(product.id.clone());
    find.evidence = Some(Evidence {
        source: EvidenceSource::Node,
        key: "kubernetes.io/arch".to_owned(),
        value: node.architecture.clone().unwrap_or_else(|| "unknown".to_owned()),
    });
    find.devices = 1;
    let stated = node.allocatable.get("memory").or_else(|| node.capacity.get("memory"));
    find.memory = match stated.and_then(|text| quantity::bytes(text)) {
        Some(bytes) => memory::known(bytes, "allocatable memory"),
        None => memory::unknown("the node states no memory"),
    };
    Some(find)
}

/// Extended resources of domains that no vendor of the matrix has.
pub(super) fn unknown_devices(node: &NodeObservation) -> Option<Note> {
    let named: Vec<&str> = node
        .allocatable
        .iter()
        .filter(|(name, value)| name.contains('/') && !name.starts_with("kubernetes.io/") && value.as_str() != "0")
        .map(|(name, _)| name.as_str())
        .collect();
    (!named.is_empty()).then(|| Note {
        kind: "unknown-resource".to_owned(),
        nodes: vec![node.name.clone()],
        text: format!("the matrix knows no product behind {}", named.join(", ")),
    })
}
