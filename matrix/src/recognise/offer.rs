//! What the extended resources of a node offer.

use crate::{
    matrix::Matrix,
    observation::NodeObservation,
    pool::Offer,
    product::{Capture, Product, ResourceRule, ResourceWay, Vendor},
    quantity,
    recognise::{annotation::Annotations, names},
};

/// One resource of a node with the rule that explains it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Offered<'rule> {
    pub(super) rule: &'rule ResourceRule,
    pub(super) name: String,
    /// Units that pods could get.
    pub(super) count: u32,
    /// Units that the device plugin announced, healthy or not.
    pub(super) capacity: u32,
    /// What stands in place of a count.
    pub(super) unreadable: Option<String>,
    /// The word that `*` stands for.
    pub(super) middle: String,
    /// The count resource is missing; only its companions are there.
    pub(super) headless: bool,
}

/// Resources of a vendor on a node, in the order of the rules.
pub(super) fn read<'rule>(vendor: &'rule Vendor, node: &NodeObservation) -> Vec<Offered<'rule>> {
    let mut offers = Vec::new();
    for rule in vendor
        .resources
        .iter()
        .filter(|rule| rule.way != ResourceWay::Companion)
    {
        let before = offers.len();
        for name in resource_names(node) {
            let Some(middle) = captured(rule, name) else {
                continue;
            };
            let claimed = offers.iter().any(|known: &Offered<'_>| known.name == *name);
            if claimed || vendor.resources.iter().any(|other| is_companion_name(other, name)) {
                continue;
            }
            offers.push(Offered {
                rule,
                name: name.clone(),
                count: amount(node, name).unwrap_or(0),
                capacity: capacity(node, name).unwrap_or(0),
                unreadable: unreadable(rule, node, name),
                middle: middle.to_owned(),
                headless: false,
            });
        }
        if offers.len() == before {
            offers.extend(headless(rule, node));
        }
    }
    offers
}

fn resource_names(node: &NodeObservation) -> impl Iterator<Item = &String> {
    let more = node
        .capacity
        .keys()
        .filter(|name| !node.allocatable.contains_key(*name));
    node.allocatable.keys().chain(more)
}

/// What `*` of a rule stands for. A product's name has no dot: what follows one is a mode of the plugin.
fn captured<'name>(rule: &ResourceRule, name: &'name str) -> Option<&'name str> {
    let middle = names::capture(&rule.name, name)?;
    let mode = rule.captures == Some(Capture::Product) && middle.contains('.');
    (!mode).then_some(middle)
}

/// Whether a rule of the vendor says what a resource is.
pub(super) fn explains(vendor: &Vendor, name: &str) -> bool {
    vendor.resources.iter().any(|rule| {
        let beside = [&rule.memory, &rule.cores];
        let mut patterns = beside.into_iter().flatten();
        captured(rule, name).is_some() || patterns.any(|pattern| names::fits(pattern, name))
    })
}

/// A pattern must not take the memory of one resource for the count of another.
fn is_companion_name(rule: &ResourceRule, name: &str) -> bool {
    let companion = rule.way == ResourceWay::Companion && names::fits(&rule.name, name);
    let of_rule = [&rule.memory, &rule.cores]
        .into_iter()
        .flatten()
        .any(|pattern| names::fits(pattern, name));
    companion || of_rule
}

/// Memory and cores without the resource that counts devices.
fn headless<'rule>(rule: &'rule ResourceRule, node: &NodeObservation) -> Option<Offered<'rule>> {
    if !rule.name.contains('*') && rule.shared_with.is_some() {
        return None;
    }
    let patterns: Vec<&String> = [&rule.cores, &rule.memory].into_iter().flatten().collect();
    let middle = patterns
        .iter()
        .find_map(|pattern| resource_names(node).find_map(|name| names::capture(pattern, name)))?;
    let middle = middle.to_owned();
    let there = patterns
        .iter()
        .any(|pattern| amount(node, &names::filled(pattern, &middle)).unwrap_or(0) > 0);
    there.then(|| Offered {
        rule,
        name: names::filled(&rule.name, &middle),
        count: 0,
        capacity: 0,
        unreadable: None,
        middle,
        headless: true,
    })
}

/// Allocatable where there is any, else capacity: some recorded objects carry only one.
fn written<'node>(node: &'node NodeObservation, name: &str) -> Option<&'node String> {
    let table = if node.allocatable.is_empty() {
        &node.capacity
    } else {
        &node.allocatable
    };
    table.get(name)
}

pub(super) fn amount(node: &NodeObservation, name: &str) -> Option<u32> {
    written(node, name)
        .and_then(|text| quantity::count(text))
        .and_then(|count| u32::try_from(count).ok())
}

/// The text of an amount that is no count, or more whole devices than a machine can hold.
fn unreadable(rule: &ResourceRule, node: &NodeObservation, name: &str) -> Option<String> {
    const MOST_DEVICES: u32 = 1024;
    let text = written(node, name)?;
    let most = if rule.way == ResourceWay::Whole && rule.shared_with.is_none() {
        MOST_DEVICES
    } else {
        u32::MAX
    };
    let counts = amount(node, name).is_some_and(|count| count <= most);
    (!counts).then(|| text.clone())
}

fn capacity(node: &NodeObservation, name: &str) -> Option<u32> {
    node.capacity
        .get(name)
        .and_then(|text| quantity::count(text))
        .and_then(|count| u32::try_from(count).ok())
}

impl Offered<'_> {
    /// The product that the resource name itself tells.
    pub(super) fn product(&self, matrix: &Matrix, vendor: &Vendor) -> Option<String> {
        if let Some(word) = &self.rule.identifies {
            return matrix.products().get(word).map(|product| product.id.clone());
        }
        if self.rule.captures != Some(Capture::Product) {
            return None;
        }
        names::product(vendor, matrix.products().values(), &self.middle).map(|product| product.id.clone())
    }

    /// What the resource name says about the chip, as written there.
    pub(super) fn raw(&self) -> Option<String> {
        match self.rule.captures {
            Some(Capture::Product) => Some(self.middle.clone()),
            _ => self
                .rule
                .identifies
                .as_ref()
                .map(|_| self.name.rsplit('/').next().unwrap_or(&self.name).to_owned()),
        }
    }

    pub(super) fn memory_name(&self) -> Option<String> {
        self.rule
            .memory
            .as_ref()
            .map(|pattern| names::filled(pattern, &self.middle))
    }

    pub(super) fn cores_name(&self) -> Option<String> {
        self.rule
            .cores
            .as_ref()
            .map(|pattern| names::filled(pattern, &self.middle))
    }

    /// Devices behind a share, with whether that is certain: cores tell them, then the registration, then the memory of a
    /// known product; else the shares are all that is known.
    pub(super) fn devices_behind(
        &self,
        node: &NodeObservation,
        annotations: &Annotations,
        product: Option<&Product>,
    ) -> (u32, bool) {
        let per_device = self.rule.cores_per_device.filter(|cores| *cores > 0);
        let cores = self.cores_name().and_then(|name| amount(node, &name));
        if let (Some(per_device), Some(cores)) = (per_device, cores)
            && cores >= per_device
        {
            return (cores / per_device, true);
        }
        let registered = annotations
            .registered
            .iter()
            .filter(|(_, device)| device.healthy)
            .count();
        if registered > 0 {
            return (u32::try_from(registered).unwrap_or(u32::MAX), true);
        }
        self.devices_by_memory(node, product)
            .map_or((self.count, self.count <= 1), |devices| (devices, true))
    }

    /// All memory over the memory of one card, where the unit and the card are certain and the division comes out.
    fn devices_by_memory(&self, node: &NodeObservation, product: Option<&Product>) -> Option<u32> {
        let ([unit], [card]) = (self.rule.memory_unit_mib.0.as_slice(), product?.memory_mib.as_slice()) else {
            return None;
        };
        let total = u64::from(amount(node, &self.memory_name()?)?) * unit;
        let devices = (total + card / 2) / (*card).max(1);
        let fits = devices > 0 && total.abs_diff(devices * card) <= total / 10;
        if fits { u32::try_from(devices).ok() } else { None }
    }

    /// Whether this resource counts shares on this node.
    pub(super) fn is_share(&self, annotations: &Annotations) -> bool {
        let registered = || {
            let mut sharers = annotations.registered.iter().map(|(_, device)| device.sharer);
            sharers.any(|sharer| self.rule.shared_with.as_deref() == Some(sharer))
        };
        self.rule.way == ResourceWay::Share || registered()
    }

    pub(super) fn profile(&self) -> Option<String> {
        (self.rule.captures == Some(Capture::Profile)).then(|| self.middle.clone())
    }

    pub(super) fn offer(&self, annotations: &Annotations) -> Offer {
        let resource = self.name.clone();
        if self.is_share(annotations) {
            let by = self
                .rule
                .by
                .clone()
                .or_else(|| self.rule.shared_with.clone())
                .unwrap_or_else(|| "shared".to_owned());
            let unit = match self.rule.memory_unit_mib.0.as_slice() {
                [one] => Some(one << 20),
                _ => None,
            };
            return Offer::Share {
                resource,
                by,
                memory_resource: self.memory_name(),
                memory_unit: unit,
                cores_resource: self.cores_name(),
                cores_per_device: self.rule.cores_per_device,
            };
        }
        match self.rule.way {
            ResourceWay::Partition => Offer::Partition {
                resource,
                profile: self.profile(),
            },
            _ => Offer::Whole { resource },
        }
    }
}
