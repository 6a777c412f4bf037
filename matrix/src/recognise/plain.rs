//! Nodes without an accelerator: the node itself is the device.

use crate::{
    matrix::Matrix,
    observation::NodeObservation,
    pool::{Evidence, EvidenceSource, Note, Offer},
    quantity,
    recognise::{find::Find, memory, offer},
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

/// Domains of things that are known to be no accelerators.
const NO_ACCELERATORS: [&str; 5] = [
    "kubernetes.io/",
    "devices.kubevirt.io/",
    "rdma/",
    "smarter-devices/",
    "vpc.amazonaws.com/",
];

/// Extended resources that no rule of the matrix explains.
pub(super) fn unknown_devices(matrix: &Matrix, node: &NodeObservation) -> Option<Note> {
    let named: Vec<&str> = node
        .allocatable
        .iter()
        .filter(|(name, value)| name.contains('/') && value.as_str() != "0")
        .map(|(name, _)| name.as_str())
        .filter(|name| !NO_ACCELERATORS.iter().any(|domain| name.starts_with(domain)))
        .filter(|name| !matrix.vendors().values().any(|vendor| offer::explains(vendor, name)))
        .collect();
    (!named.is_empty()).then(|| Note {
        kind: "unknown-resource".to_owned(),
        nodes: vec![node.name.clone()],
        text: format!("the matrix knows no product behind {}", named.join(", ")),
    })
}
