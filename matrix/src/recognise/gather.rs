//! Finds of many nodes become pools.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    matrix::Matrix,
    observation::NodeObservation,
    pool::{EvidenceSource, LabelRequirement, Note, Offer, Pool, PoolNode, Standing},
    recognise::find::Find,
};

/// Joins finds that differ in nothing but the node.
pub(super) fn pools(matrix: &Matrix, finds: Vec<Find>, nodes: &[NodeObservation]) -> Vec<Pool> {
    let mut groups: BTreeMap<String, Vec<Find>> = BTreeMap::new();
    for find in finds {
        groups.entry(group_key(&find)).or_default().push(find);
    }
    let kinds = Kinds::new(groups.values(), nodes);
    let mut taken: BTreeMap<String, Option<u64>> = BTreeMap::new();
    let mut made: Vec<(Pool, Option<Offer>)> = Vec::new();
    let mut sorted: Vec<Vec<Find>> = groups.into_values().collect();
    // Usable ones get the plain names.
    sorted.sort_by_key(|group| {
        group
            .first()
            .map(|find| (find.standing != Standing::Usable, find.behind.is_some()))
    });
    for group in sorted {
        let Some(first) = group.first() else { continue };
        let id = free_name(&base_name(matrix, first), first, &mut taken);
        let behind = first.behind.clone();
        made.push((pool(id, &group, &kinds), behind));
    }
    let names: Vec<(String, Offer, Vec<String>)> = made
        .iter()
        .map(|(pool, _)| {
            (
                pool.id.clone(),
                pool.offer.clone(),
                pool.nodes.iter().map(|node| node.name.clone()).collect(),
            )
        })
        .collect();
    for (pool, behind) in &mut made {
        let Some(offer) = behind else { continue };
        let own: Vec<&String> = pool.nodes.iter().map(|node| &node.name).collect();
        let front = names
            .iter()
            .find(|(id, other, on)| *id != pool.id && other == offer && on.iter().any(|node| own.contains(&node)));
        if let (Some((id, ..)), Standing::Usable) = (front, &pool.standing) {
            pool.standing = Standing::Alternative { to: id.clone() };
        }
    }
    made.into_iter().map(|(pool, _)| pool).collect()
}

/// Everything that makes two nodes different for a decision.
fn group_key(find: &Find) -> String {
    let memory = memory_class(find);
    format!(
        "{:?}|{:?}|{:?}|{:?}|{:?}|{:?}|{memory:?}|{:?}|{:?}|{:?}|{:?}|{:?}",
        find.vendor,
        find.product,
        find.raw,
        find.offer,
        find.standing,
        find.behind,
        find.memory.missing,
        find.host,
        find.architecture,
        find.runtime,
        find.taints
    )
}

/// Sizes that count as one: GiB of a device, for boards of one kind differ by a few MiB; of the node itself, whose memory
/// differs from machine to machine, powers of two.
fn memory_class(find: &Find) -> Option<u64> {
    let gibibytes = find.memory.bytes? >> 30;
    Some(if find.offer == Offer::Node {
        gibibytes.max(1).ilog2().into()
    } else {
        gibibytes
    })
}

fn base_name(matrix: &Matrix, find: &Find) -> String {
    let product = find
        .product
        .as_ref()
        .and_then(|id| matrix.products().get(id))
        .map(|product| product.id.clone());
    let vendor = find.vendor.clone().unwrap_or_else(|| "unknown".to_owned());
    let mut name = product.unwrap_or_else(|| match &find.raw {
        Some(raw) => format!("{vendor}-unknown-{}", word(raw)),
        None => format!("{vendor}-unknown"),
    });
    let tail = match &find.offer {
        Offer::Partition {
            profile: Some(profile), ..
        }
        | Offer::Claim {
            profile: Some(profile), ..
        } => {
            format!("-{}", word(profile))
        }
        Offer::Partition { resource, .. } => format!("-{}", word(resource.rsplit('/').next().unwrap_or(resource))),
        Offer::Share { by, .. } => format!("-{}", word(by)),
        Offer::Claim { .. } => "-dra".to_owned(),
        Offer::Whole { .. } | Offer::Node | Offer::Nothing => String::new(),
    };
    name.push_str(&tail);
    name
}

/// Letters, digits, dots and hyphens of a text, in lower case.
fn word(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let mapped: String = text.to_lowercase().chars().map(plain).collect();
    let parts: Vec<&str> = mapped.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-")
}

/// The name itself, else with what sets the pool apart, else with a number.
fn free_name(base: &str, find: &Find, taken: &mut BTreeMap<String, Option<u64>>) -> String {
    let size = memory_class(find);
    // Memory sets it apart only where the pool with the plain name has another one.
    let differs = taken.get(base).is_some_and(|other| *other != size);
    let memory = find
        .memory
        .bytes
        .filter(|_| differs)
        .map(|bytes| format!("{base}-{}gib", bytes >> 30));
    let unusable = matches!(find.standing, Standing::Unusable { .. }).then(|| format!("{base}-unusable"));
    let architecture = find
        .architecture
        .as_ref()
        .map(|architecture| format!("{base}-{architecture}"));
    let numbered = (2..).map(|number| format!("{base}-{number}"));
    let special = unusable.into_iter().chain(memory).chain(architecture);
    for name in std::iter::once(base.to_owned()).chain(special).chain(numbered) {
        if !taken.contains_key(&name) {
            taken.insert(name.clone(), size);
            return name;
        }
    }
    base.to_owned()
}

fn pool(id: String, group: &[Find], kinds: &Kinds) -> Pool {
    let first = &group[0];
    let mut nodes: Vec<PoolNode> = group
        .iter()
        .map(|find| PoolNode {
            name: find.node.clone(),
            devices: find.devices,
        })
        .collect();
    nodes.sort();
    let smallest = group.iter().filter_map(|find| find.memory.bytes).min();
    let mut memory = first.memory.clone();
    memory.bytes = smallest;
    Pool {
        id,
        vendor: first.vendor.clone(),
        product: first.product.clone(),
        raw: first.raw.clone(),
        evidence: first.evidence.clone(),
        offer: first.offer.clone(),
        standing: first.standing.clone(),
        affinity: affinity(group, kinds),
        nodes,
        memory,
        architecture: first.architecture.clone(),
        runtime: first.runtime.clone(),
        host: first.host.clone(),
        taints: first.taints.clone(),
        notes: notes(group),
    }
}

/// What would be one pool if all boards of a name had the same memory.
fn kind_key(find: &Find) -> String {
    format!(
        "{:?}|{:?}|{:?}|{:?}|{:?}",
        find.vendor, find.product, find.raw, find.offer, find.architecture
    )
}

/// What the pools of a kind have in common, whatever the state of their nodes: a node that is not ready for a minute, or one that
/// joins, must not change where running pods are held, for each such change would restart them.
struct Kinds {
    /// Kinds of which the cluster has boards of several sizes: their product label alone does not hold a pod to one size.
    split_by_memory: BTreeSet<String>,
    /// Names of all nodes, by kind.
    nodes: BTreeMap<String, BTreeSet<String>>,
    /// Labels that tell of accelerators, and that no node without one has.
    accelerator_labels: BTreeSet<String>,
}

impl Kinds {
    fn new<'run>(groups: impl Iterator<Item = &'run Vec<Find>>, observed: &[NodeObservation]) -> Self {
        let mut sizes: BTreeMap<String, BTreeSet<Option<u64>>> = BTreeMap::new();
        let mut nodes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let (mut told, mut plain) = (BTreeSet::new(), BTreeSet::new());
        for find in groups.flatten() {
            let kind = kind_key(find);
            let size = find.memory.bytes.map(|bytes| bytes >> 30);
            sizes.entry(kind.clone()).or_default().insert(size);
            nodes.entry(kind).or_default().insert(find.node.clone());
            if find.offer == Offer::Node {
                plain.insert(find.node.as_str());
            } else {
                told.extend(telling_labels(find));
            }
        }
        for node in observed.iter().filter(|node| plain.contains(node.name.as_str())) {
            told.retain(|key| !node.labels.contains_key(*key));
        }
        let several = sizes.into_iter().filter(|(_, sizes)| sizes.len() > 1);
        Self {
            split_by_memory: several.map(|(kind, _)| kind).collect(),
            nodes,
            accelerator_labels: told.into_iter().map(str::to_owned).collect(),
        }
    }
}

/// Labels by which the accelerator was seen.
fn telling_labels(find: &Find) -> impl Iterator<Item = &str> {
    let evidence = find.evidence.iter();
    let seen = evidence.filter(|evidence| evidence.source == EvidenceSource::NodeLabel);
    let pins = find.affinity.iter().map(|label| label.key.as_str());
    pins.chain(seen.map(|evidence| evidence.key.as_str()))
}

fn memory_requirement(group: &[Find]) -> Option<LabelRequirement> {
    let key = group.first()?.memory_label.as_ref()?.key.clone();
    let labels = group.iter().filter_map(|find| find.memory_label.as_ref());
    let values: BTreeSet<String> = labels.flat_map(|label| label.values.clone()).collect();
    Some(LabelRequirement {
        key,
        values: values.into_iter().collect(),
    })
}

/// A product label holds pods to the product. Where there is none, the names of the nodes do; claims hold by attributes. Pods
/// without an accelerator need no node of their own: they stay away from nodes that are labelled for one.
fn affinity(group: &[Find], kinds: &Kinds) -> Vec<LabelRequirement> {
    let first = &group[0];
    let kind = kind_key(first);
    let mut requirements = first.affinity.clone();
    let by_claim = first
        .evidence
        .as_ref()
        .is_some_and(|evidence| evidence.source == EvidenceSource::DraAttribute);
    if first.offer == Offer::Node {
        requirements.extend(kinds.accelerator_labels.iter().map(|key| LabelRequirement {
            key: key.clone(),
            values: Vec::new(),
        }));
    } else if requirements.is_empty() && !by_claim {
        requirements.push(LabelRequirement {
            key: "kubernetes.io/hostname".to_owned(),
            values: kinds.nodes.get(&kind).into_iter().flatten().cloned().collect(),
        });
    }
    if kinds.split_by_memory.contains(&kind) && first.offer != Offer::Node {
        requirements.extend(memory_requirement(group));
    }
    if let Some(architecture) = &first.architecture {
        let key = "kubernetes.io/arch".to_owned();
        requirements.push(LabelRequirement {
            key,
            values: vec![architecture.clone()],
        });
    }
    requirements
}

/// Notes with the same text are one note about several nodes.
fn notes(group: &[Find]) -> Vec<Note> {
    let mut joined: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for note in group.iter().flat_map(|find| &find.notes) {
        joined
            .entry((note.kind.clone(), note.text.clone()))
            .or_default()
            .extend(note.nodes.iter().cloned());
    }
    joined
        .into_iter()
        .map(|((kind, text), nodes)| Note {
            kind,
            text,
            nodes: nodes.into_iter().collect(),
        })
        .collect()
}
