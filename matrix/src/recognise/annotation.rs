//! What device plugins write into node annotations.

use serde_json::Value;

use crate::{
    observation::NodeObservation,
    pool::Note,
    product::{AnnotationFormat, AnnotationRule, Vendor},
    recognise::names,
};

/// A device that `HAMi` registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registered {
    pub(super) kind: String,
    pub(super) memory_mib: u64,
    pub(super) split: u32,
    pub(super) healthy: bool,
    /// How it is shared (`hami-core`, `mig`), where it is said.
    pub(super) mode: Option<String>,
}

/// The annotations of one vendor on one node.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Annotations {
    /// Registered devices with the key of their annotation.
    pub(super) registered: Vec<(String, Registered)>,
    /// DRS: slices in all, and the profiles by name.
    pub(super) slices: Option<(u32, Vec<String>)>,
    pub(super) notes: Vec<Note>,
}

pub(super) fn read(vendor: &Vendor, node: &NodeObservation) -> Annotations {
    let mut read = Annotations::default();
    for rule in &vendor.annotations {
        for (key, value) in &node.annotations {
            let Some(middle) = names::capture(&rule.key, key) else {
                continue;
            };
            match rule.format {
                AnnotationFormat::Hami => hami(rule, key, middle, value, node, &mut read),
                AnnotationFormat::EnflameDrs => read.slices = drs(value),
                AnnotationFormat::EnflameShared => {}
            }
        }
    }
    read
}

fn hami(rule: &AnnotationRule, key: &str, middle: &str, value: &str, node: &NodeObservation, read: &mut Annotations) {
    let remark = |kind: &str, text: String| Note {
        kind: kind.to_owned(),
        nodes: vec![node.name.clone()],
        text,
    };
    let handshake = rule.handshake.as_ref().map(|pattern| names::filled(pattern, middle));
    let state = handshake.as_ref().and_then(|name| node.annotations.get(name));
    if state.is_some_and(|state| state.starts_with("Deleted")) {
        let text = format!(
            "the registration {key} is stale: its handshake says {}",
            state.map_or("", String::as_str)
        );
        read.notes.push(remark("stale-registration", text));
        return;
    }
    match devices(value) {
        Some(found) => read
            .registered
            .extend(found.into_iter().map(|device| (key.to_owned(), device))),
        None => read.notes.push(remark(
            "unreadable-registration",
            format!("the registration {key} cannot be read"),
        )),
    }
}

/// Registrations come as JSON or as records that end in a colon.
fn devices(value: &str) -> Option<Vec<Registered>> {
    let value = value.trim();
    if value.is_empty() {
        return Some(Vec::new());
    }
    if value.starts_with('[') {
        let items: Vec<Value> = serde_json::from_str(value).ok()?;
        return items.iter().map(from_json).collect();
    }
    let mut found = Vec::new();
    let mut pending = String::new();
    // A PCI address in an id has colons of its own: a piece without a comma belongs to the next record.
    for piece in value.split(':') {
        pending.push_str(piece);
        if piece.contains(',') {
            found.push(from_record(&pending)?);
            pending.clear();
        } else if !piece.is_empty() {
            pending.push(':');
        }
    }
    pending.is_empty().then_some(found)
}

/// Id, split, memory, cores, type, NUMA node, health, and newer: index, mode.
fn from_record(record: &str) -> Option<Registered> {
    let fields: Vec<&str> = record.split(',').map(str::trim).collect();
    let [_, split, memory, _, kind, _, health, rest @ ..] = fields.as_slice() else {
        return None;
    };
    Some(Registered {
        kind: (*kind).to_owned(),
        memory_mib: memory.parse().ok()?,
        split: split.parse().ok()?,
        healthy: health.eq_ignore_ascii_case("true"),
        mode: rest
            .get(1)
            .filter(|mode| !mode.is_empty())
            .map(|mode| (*mode).to_owned()),
    })
}

fn from_json(item: &Value) -> Option<Registered> {
    let number = |names: &[&str]| names.iter().find_map(|name| item[*name].as_u64());
    Some(Registered {
        kind: item["type"].as_str()?.to_owned(),
        memory_mib: number(&["devmem", "memory"]).unwrap_or(0),
        split: number(&["count", "split"])
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(1),
        healthy: item["health"].as_bool().unwrap_or(true),
        mode: item["mode"].as_str().filter(|mode| !mode.is_empty()).map(str::to_owned),
    })
}

fn drs(value: &str) -> Option<(u32, Vec<String>)> {
    let read: Value = serde_json::from_str(value).ok()?;
    let devices = read["devices"].as_array()?;
    let slices: u64 = devices.iter().filter_map(|device| device["capacity"].as_u64()).sum();
    let profiles = read["profiles"]
        .as_object()
        .map(|map| map.keys().cloned().collect())
        .unwrap_or_default();
    Some((u32::try_from(slices).ok()?, profiles))
}
