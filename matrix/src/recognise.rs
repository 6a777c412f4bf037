//! From observations to pools: which products a cluster has, how it offers them, and what cannot be known.
//!
//! Evidence is trusted in a fixed order: DRA attribute, node label, annotation of a device plugin, resource name. What the
//! evidence does not say stays unknown; an unknown chip keeps its raw name and matches nothing.

use crate::{
    matrix::Matrix,
    observation::{NodeObservation, Observation},
    pool::{Cluster, Note},
};

mod annotation;
mod claim;
mod find;
mod gather;
mod label;
mod memory;
pub(crate) mod names;
mod node;
mod offer;
mod plain;

use find::Find;

/// Recognises the pools of a cluster.
pub fn recognise(matrix: &Matrix, observation: &Observation) -> Cluster {
    let slices = claim::current(observation);
    let mut finds: Vec<Find> = Vec::new();
    let mut notes: Vec<Note> = slices.notes.clone();
    let known: Vec<&str> = observation.nodes.iter().map(|node| node.name.as_str()).collect();
    let bare = slices.nodes().filter(|name| !known.contains(name));
    let bare: Vec<NodeObservation> = bare
        .map(|name| NodeObservation {
            name: name.to_owned(),
            ..NodeObservation::default()
        })
        .collect();
    for node in observation.nodes.iter().chain(&bare) {
        let before = finds.len();
        for vendor in matrix.vendors().values() {
            finds.extend(node::look(matrix, vendor, node, &slices, observation));
        }
        if finds.len() == before {
            finds.extend(plain::look(matrix, node));
        }
        notes.extend(plain::unknown_devices(matrix, node));
    }
    let mut pools = gather::pools(matrix, finds, &observation.nodes);
    pools.sort_by(|left, right| left.id.cmp(&right.id));
    notes.extend(observation.ignored.iter().map(|text| Note {
        kind: "ignored".to_owned(),
        nodes: Vec::new(),
        text: text.clone(),
    }));
    notes.sort();
    notes.dedup();
    Cluster {
        pools,
        notes,
        nodes: observation.nodes.len(),
        runtime_classes: observation.runtime_classes.clone(),
    }
}
