//! What node labels say: product, driver, stack.

use crate::{
    matrix::Matrix,
    observation::NodeObservation,
    pool::{Evidence, EvidenceSource, HostStack},
    product::{ProductLabel, SuffixMeaning, Vendor, VersionLabel},
    recognise::names,
};

/// A product as a label names it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Named {
    pub(super) raw: String,
    pub(super) product: Option<String>,
    pub(super) evidence: Evidence,
    pub(super) means: Option<SuffixMeaning>,
    pub(super) shared: bool,
    pub(super) profile: Option<String>,
    /// The label stands for itself in an affinity; not where the product is part of the key.
    pub(super) pins: bool,
}

/// All labels of a vendor that name a product, in the order of trust.
pub(super) fn products(matrix: &Matrix, vendor: &Vendor, node: &NodeObservation) -> Vec<Named> {
    vendor
        .labels
        .product
        .iter()
        .flat_map(|rule| by_rule(matrix, vendor, rule, node))
        .collect()
}

/// The products of a mixed node, where each has a label of its own; a label with one value for the whole node cannot tell.
pub(super) fn several(labels: &[Named]) -> Vec<&str> {
    let mut names: Vec<&str> = labels
        .iter()
        .filter(|named| !named.pins)
        .map(|named| named.raw.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn by_rule(matrix: &Matrix, vendor: &Vendor, rule: &ProductLabel, node: &NodeObservation) -> Vec<Named> {
    let values: Vec<(&String, String, bool)> = if rule.key.split_once('*').is_none() {
        node.labels
            .get_key_value(&rule.key)
            .map(|(key, value)| (key, value.clone(), true))
            .into_iter()
            .collect()
    } else {
        let keys = node.labels.keys();
        keys.filter_map(|key| names::capture(&rule.key, key).map(|middle| (key, middle.to_owned(), false)))
            .collect()
    };
    values
        .into_iter()
        .filter_map(|(key, value, pins)| named(matrix, vendor, rule, key, &value, pins))
        .collect()
}

fn named(matrix: &Matrix, vendor: &Vendor, rule: &ProductLabel, key: &str, value: &str, pins: bool) -> Option<Named> {
    let translated = rule
        .values
        .iter()
        .find(|(pattern, _)| names::fits(pattern, value))
        .map(|(_, word)| word.clone());
    if names::is_placeholder(value) || (translated.is_none() && rule.only_values) {
        return None;
    }
    let tail = names::tail(vendor, value);
    let product = match &translated {
        Some(word) => matrix.products().get(word).map(|product| product.id.clone()),
        None => names::product(vendor, matrix.products().values(), tail.name).map(|product| product.id.clone()),
    };
    Some(Named {
        raw: value.to_owned(),
        product,
        evidence: Evidence {
            source: EvidenceSource::NodeLabel,
            key: key.to_owned(),
            value: value.to_owned(),
        },
        means: tail.means,
        shared: tail.shared,
        profile: tail.profile.map(str::to_owned),
        pins,
    })
}

/// How labels beside the product say that the units of its resource are cut.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Division {
    /// Who shares.
    pub(super) by: Option<String>,
    /// Shares of one device.
    pub(super) replicas: Option<u64>,
    /// Profile of the partitions.
    pub(super) profile: Option<String>,
}

pub(super) fn division(vendor: &Vendor, node: &NodeObservation) -> Division {
    let value = |key: &String| node.labels.get(key).filter(|value| !names::is_placeholder(value));
    let sharing = vendor
        .labels
        .sharing
        .iter()
        .find_map(|rule| Some((rule, value(&rule.key)?)));
    let replicas = sharing.and_then(|(rule, _)| value(rule.replicas.as_ref()?)?.parse().ok());
    Division {
        by: sharing.map(|(rule, word)| rule.words.get(word).unwrap_or(word).clone()),
        replicas: replicas.filter(|count| *count > 1),
        profile: vendor.labels.partition_profile.iter().find_map(value).cloned(),
    }
}

/// Driver and stack versions by labels.
pub(super) fn host(vendor: &Vendor, node: &NodeObservation) -> HostStack {
    let driver = vendor.labels.driver.iter().find_map(|rule| version(rule, node));
    let stacks = vendor.labels.stacks.iter();
    let stacks =
        stacks.filter_map(|(name, rules)| Some((name.clone(), rules.iter().find_map(|rule| version(rule, node))?)));
    HostStack {
        driver,
        stacks: stacks.collect(),
    }
}

/// One label, or the parts of a version in several; a missing last part is left out.
fn version(rule: &VersionLabel, node: &NodeObservation) -> Option<String> {
    let mut parts = Vec::new();
    for key in &rule.keys.0 {
        match node.labels.get(key).filter(|value| !names::is_placeholder(value)) {
            Some(value) => parts.push(value.trim_start_matches('v').to_owned()),
            None => break,
        }
    }
    (!parts.is_empty()).then(|| parts.join("."))
}

/// Whether any label, PCI label or annotation tells that the vendor's devices are there.
pub(super) fn present(vendor: &Vendor, node: &NodeObservation) -> Option<Evidence> {
    let evidence = |key: &str, value: &str| Evidence {
        source: EvidenceSource::NodeLabel,
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let said = vendor.labels.present.iter().find_map(|rule| {
        let (key, value) = node.labels.iter().find(|(key, _)| names::fits(&rule.key, key))?;
        let meets = rule.value.as_ref().map_or(value != "false", |wanted| wanted == value);
        meets.then(|| evidence(key, value))
    });
    said.or_else(|| {
        let on_bus = |key: &str| {
            let middle = key
                .strip_prefix("feature.node.kubernetes.io/pci-")
                .and_then(|rest| rest.strip_suffix(".present"));
            middle.is_some_and(|middle| vendor.pci_vendors.iter().any(|id| accelerator_class(middle, id)))
        };
        node.labels
            .iter()
            .find(|(key, _)| on_bus(key))
            .map(|(key, value)| evidence(key, value))
    })
}

/// `1200_1e36`, `0302_10de`, `10de`: the class is a display controller or a processing accelerator, when it is given. A bare
/// vendor id says nothing for vendors that also make network cards and processors.
fn accelerator_class(middle: &str, vendor: &str) -> bool {
    let mut parts = middle.split('_');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    match second {
        Some(second) => second == vendor && (first.starts_with("12") || first == "0302" || first == "0380"),
        None => false,
    }
}
