//! What one node offers of one product in one way, before it is joined with other nodes.

use std::collections::BTreeSet;

use crate::{
    observation::NodeObservation,
    pool::{DeviceMemory, Evidence, HostStack, LabelRequirement, Note, Offer, Standing},
};

/// One find on one node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Find {
    pub(super) node: String,
    pub(super) vendor: Option<String>,
    pub(super) product: Option<String>,
    pub(super) raw: Option<String>,
    pub(super) evidence: Option<Evidence>,
    pub(super) offer: Offer,
    pub(super) standing: Standing,
    /// The same cards are offered another way, by the find of this offer.
    pub(super) behind: Option<Offer>,
    /// Ids of the cards behind claims, as far as the driver tells them.
    pub(super) cards: BTreeSet<String>,
    pub(super) devices: u32,
    pub(super) memory: DeviceMemory,
    /// The label that told the memory, to tell pools of one product apart.
    pub(super) memory_label: Option<LabelRequirement>,
    pub(super) host: HostStack,
    pub(super) affinity: Vec<LabelRequirement>,
    pub(super) architecture: Option<String>,
    pub(super) runtime: Option<String>,
    pub(super) taints: Vec<crate::observation::Taint>,
    pub(super) notes: Vec<Note>,
}

impl Find {
    pub(super) fn new(node: &NodeObservation, offer: Offer) -> Self {
        Self {
            node: node.name.clone(),
            vendor: None,
            product: None,
            raw: None,
            evidence: None,
            offer,
            standing: standing(node),
            behind: None,
            cards: BTreeSet::new(),
            devices: 0,
            memory: DeviceMemory::default(),
            memory_label: None,
            host: HostStack::default(),
            affinity: Vec::new(),
            architecture: node.architecture.clone(),
            runtime: node.runtime.clone(),
            taints: lasting_taints(node),
            notes: Vec::new(),
        }
    }

    pub(super) fn note(&mut self, kind: &str, text: impl Into<String>) {
        self.notes.push(Note {
            kind: kind.to_owned(),
            nodes: vec![self.node.clone()],
            text: text.into(),
        });
    }

    /// Marks it unusable, unless something weightier did so before.
    pub(super) fn refuse(&mut self, why: impl Into<String>, fix: Option<&str>) {
        if self.standing == Standing::Usable {
            self.standing = Standing::Unusable {
                why: why.into(),
                fix: fix.map(str::to_owned),
            };
        }
    }
}

fn standing(node: &NodeObservation) -> Standing {
    let unusable = |why: &str, fix: &str| Standing::Unusable {
        why: why.to_owned(),
        fix: Some(fix.to_owned()),
    };
    match (node.ready, node.unschedulable) {
        (Some(false), _) => unusable("the node is not ready", "bring the node back"),
        (_, true) => unusable("the node is cordoned", "uncordon the node"),
        _ => Standing::Usable,
    }
}

/// Taints that stand for a state which conditions show anyway say nothing more.
fn lasting_taints(node: &NodeObservation) -> Vec<crate::observation::Taint> {
    let state =
        |key: &str| key.starts_with("node.kubernetes.io/") || key == "node.cloudprovider.kubernetes.io/uninitialized";
    let mut taints: Vec<_> = node
        .taints
        .iter()
        .filter(|taint| taint.effect != "PreferNoSchedule" && !state(&taint.key))
        .cloned()
        .collect();
    taints.sort();
    taints
}
