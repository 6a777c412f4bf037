//! Devices of resource slices (DRA).

use std::collections::BTreeMap;

use crate::{
    matrix::Matrix,
    observation::{DeviceObservation, NodeObservation, Observation, SliceObservation},
    pool::{DeviceMemory, Evidence, EvidenceSource, HostStack, Note, Offer},
    product::{DraRule, Vendor},
    quantity,
    recognise::{find::Find, memory, names},
};

/// The slices that count: of each pool those of the newest generation.
#[derive(Debug, Default)]
pub(super) struct Slices<'run> {
    current: Vec<&'run SliceObservation>,
    pub(super) notes: Vec<Note>,
}

impl Slices<'_> {
    /// Nodes that slices name, or their devices.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &str> {
        let by_slice = self.current.iter().filter_map(|slice| slice.node.as_deref());
        let devices = self.current.iter().flat_map(|slice| &slice.devices);
        let mut names: Vec<&str> = by_slice
            .chain(devices.filter_map(|device| device.node.as_deref()))
            .collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter()
    }
}

pub(super) fn current(observation: &Observation) -> Slices<'_> {
    let mut newest: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for slice in &observation.slices {
        let generation = newest.entry((&slice.driver, &slice.pool)).or_insert(slice.generation);
        *generation = (*generation).max(slice.generation);
    }
    let mut slices = Slices::default();
    for slice in &observation.slices {
        let nodes = slice.node.iter().cloned().collect();
        if newest.get(&(slice.driver.as_str(), slice.pool.as_str())) == Some(&slice.generation) {
            slices.current.push(slice);
        } else {
            let text = format!("slice {} is of an old generation of its pool", slice.name);
            slices.notes.push(Note {
                kind: "stale-slice".to_owned(),
                nodes,
                text,
            });
        }
    }
    incomplete(&mut slices);
    everywhere(&mut slices);
    slices
}

/// Devices that several nodes reach belong to none of them.
fn everywhere(slices: &mut Slices<'_>) {
    for slice in &slices.current {
        let free = slice.devices.iter().filter(|device| device.node.is_none()).count();
        if slice.node.is_none() && free > 0 {
            let text = format!(
                "devices of slice {} of {} that several nodes reach, {free} in number, are counted on none",
                slice.name, slice.driver
            );
            slices.notes.push(Note {
                kind: "devices-for-many-nodes".to_owned(),
                nodes: Vec::new(),
                text,
            });
        }
    }
}

/// A pool whose slices are not all there shows only a part of its devices.
fn incomplete(slices: &mut Slices<'_>) {
    let mut seen: BTreeMap<(&str, &str), (i64, i64)> = BTreeMap::new();
    for slice in &slices.current {
        let entry = seen
            .entry((&slice.driver, &slice.pool))
            .or_insert((0, slice.slice_count.unwrap_or(0)));
        entry.0 += 1;
    }
    for ((driver, pool), (there, wanted)) in seen {
        if there < wanted {
            let text = format!("pool {pool} of {driver} has {wanted} slices, {there} were among the objects");
            slices.notes.push(Note {
                kind: "slices-incomplete".to_owned(),
                nodes: Vec::new(),
                text,
            });
        }
    }
}

/// A kind of device on a node: what tells devices of one driver apart.
type Kind = (Option<String>, Option<String>, Option<u64>);

/// Devices of one kind with the pools that list them.
type Devices<'run> = Vec<(&'run str, &'run DeviceObservation)>;

/// Finds by the slices of one node.
pub(super) fn look(
    matrix: &Matrix,
    vendor: &Vendor,
    node: &NodeObservation,
    slices: &Slices<'_>,
    observation: &Observation,
) -> Vec<Find> {
    let mut finds = Vec::new();
    for rule in &vendor.dra {
        let own = slices.current.iter().filter(|slice| slice.driver == rule.driver);
        let devices = own.flat_map(|slice| slice.devices.iter().map(move |device| (slice, device)));
        let mut kinds: BTreeMap<Kind, Devices<'_>> = BTreeMap::new();
        for (slice, device) in devices {
            if device.node.as_ref().or(slice.node.as_ref()) == Some(&node.name) {
                let kind = kinds.entry(kind_of(rule, device)).or_default();
                kind.push((slice.pool.as_str(), device));
            }
        }
        for ((raw, profile, bytes), devices) in kinds {
            let cards = devices
                .iter()
                .flat_map(|(pool, device)| cards(rule, pool, device))
                .collect();
            let devices: Vec<&DeviceObservation> = devices.into_iter().map(|(_, device)| device).collect();
            let mut found = find(matrix, vendor, rule, node, (raw, profile, bytes), &devices, observation);
            found.cards = cards;
            finds.push(found);
        }
    }
    finds
}

/// What stands for the card behind a device: its ids, that of the card it is cut from, and the counters it draws on.
fn cards(rule: &DraRule, pool: &str, device: &DeviceObservation) -> Vec<String> {
    const IDS: [&str; 2] = ["uuid", "parentUUID"];
    const ADDRESSES: [&str; 3] = ["resource.kubernetes.io/pciBusID", "pciBusID", "pciAddress"];
    let values = |names: &'static [&str], kind: &'static str| {
        let found = names.iter().filter_map(|name| device.attributes.get(*name));
        found.map(move |value| format!("{kind} {value}"))
    };
    let counters = device.counter_sets.iter();
    let counters = counters.map(|set| format!("counters {}/{pool}/{set}", rule.driver));
    values(&IDS, "id")
        .chain(values(&ADDRESSES, "address"))
        .chain(counters)
        .collect()
}

fn kind_of(rule: &DraRule, device: &DeviceObservation) -> Kind {
    let named = rule.product.iter().find_map(|name| {
        device
            .attributes
            .get(name)
            .filter(|value| !names::is_placeholder(value))
    });
    let by_pci = rule
        .pci_id
        .as_ref()
        .and_then(|name| device.attributes.get(name))
        .map(|id| format!("pci {id}"));
    let raw = named.cloned().or(by_pci);
    (raw, profile_of(rule, device), bytes_of(rule, device))
}

fn profile_of(rule: &DraRule, device: &DeviceObservation) -> Option<String> {
    let kind = rule
        .type_attribute
        .as_ref()
        .and_then(|name| device.attributes.get(name));
    let is_partition = kind.is_some_and(|kind| rule.partition.contains_key(kind));
    let profile = rule.profile.as_ref().and_then(|name| device.attributes.get(name));
    if is_partition { profile.or(kind).cloned() } else { None }
}

/// A capacity is a quantity in bytes; an attribute counts GiB. Zero means that the driver does not know.
fn bytes_of(rule: &DraRule, device: &DeviceObservation) -> Option<u64> {
    let name = rule.memory.as_ref()?;
    let by_capacity = device.capacity.get(name).and_then(|value| quantity::bytes(value));
    let by_attribute = || {
        device
            .attributes
            .get(name)
            .and_then(|value| quantity::label_bytes(value, 1 << 30))
    };
    by_capacity.or_else(by_attribute).filter(|bytes| *bytes > 0)
}

fn find(
    matrix: &Matrix,
    vendor: &Vendor,
    rule: &DraRule,
    node: &NodeObservation,
    (raw, profile, bytes): Kind,
    devices: &[&DeviceObservation],
    observation: &Observation,
) -> Find {
    let class = device_class(rule, devices.first().copied(), observation);
    let attributes = pinned_attributes(rule, devices.first().copied());
    let offer = Offer::Claim {
        driver: rule.driver.clone(),
        device_class: class,
        attributes,
        profile: profile.clone(),
    };
    let mut find = Find::new(node, offer);
    let product = raw
        .as_ref()
        .and_then(|raw| names::product(vendor, matrix.products().values(), raw));
    find.vendor = Some(vendor.id.clone());
    find.product = product.map(|product| product.id.clone());
    find.evidence = Some(Evidence {
        source: EvidenceSource::DraAttribute,
        key: format!(
            "{}/{}",
            rule.driver,
            rule.product.first().map_or("device", String::as_str)
        ),
        value: raw.clone().unwrap_or_default(),
    });
    let healthy = devices.iter().filter(|device| is_healthy(rule, device)).count();
    find.devices = u32::try_from(healthy).unwrap_or(u32::MAX);
    find.host = host(rule, devices.first().copied());
    find.memory = memory_of(bytes, product, profile.as_deref());
    find.raw = raw;
    if healthy < devices.len() {
        find.note(
            "unhealthy-devices",
            format!(
                "{} of {} devices of {} are unhealthy or tainted",
                devices.len() - healthy,
                devices.len(),
                rule.driver
            ),
        );
    }
    if healthy == 0 {
        find.refuse("no device is healthy", Some("look at the driver's health attributes"));
    }
    find
}

fn memory_of(bytes: Option<u64>, product: Option<&crate::product::Product>, profile: Option<&str>) -> DeviceMemory {
    match (bytes, profile, product) {
        (Some(bytes), _, _) => memory::known(bytes, "DRA capacity"),
        (None, Some(profile), product) => memory::of_profile(product, profile),
        (None, None, Some(product)) => memory::by_catalogue(product),
        (None, None, None) => memory::unknown("the driver does not know it and the product is unknown"),
    }
}

fn is_healthy(rule: &DraRule, device: &DeviceObservation) -> bool {
    let good = rule.health.as_ref().is_none_or(|health| {
        let value = device.attributes.get(&health.key);
        value.is_none_or(|value| health.value.as_ref().is_none_or(|good| good == value))
    });
    good && !device.tainted
}

/// The class to ask for: one that the cluster shows; where no classes were read, the driver's usual one.
fn device_class(rule: &DraRule, device: Option<&DeviceObservation>, observation: &Observation) -> Option<String> {
    let kind = rule
        .type_attribute
        .as_ref()
        .and_then(|name| device?.attributes.get(name));
    let by_kind = kind.and_then(|kind| rule.partition.get(kind));
    let wanted: Vec<&String> = by_kind.into_iter().chain(&rule.device_classes).collect();
    if observation.device_classes.is_empty() {
        return wanted.first().map(|name| (*name).clone());
    }
    wanted
        .into_iter()
        .find(|name| observation.device_classes.iter().any(|class| class.name == **name))
        .cloned()
}

/// Attributes that hold a claim to what was decided on.
fn pinned_attributes(rule: &DraRule, device: Option<&DeviceObservation>) -> BTreeMap<String, String> {
    let wanted = rule.product.iter().chain(&rule.pci_id).chain(&rule.type_attribute);
    let value = |name: &String| Some((name.clone(), device?.attributes.get(name)?.clone()));
    wanted
        .filter_map(value)
        .filter(|(_, value)| !names::is_placeholder(value))
        .collect()
}

fn host(rule: &DraRule, device: Option<&DeviceObservation>) -> HostStack {
    let attribute = |name: &String| device.and_then(|device| device.attributes.get(name)).cloned();
    let stacks = rule
        .stack_versions
        .iter()
        .filter_map(|(stack, name)| Some((stack.clone(), attribute(name)?)));
    HostStack {
        driver: rule.driver_version.as_ref().and_then(attribute),
        stacks: stacks.collect(),
    }
}
