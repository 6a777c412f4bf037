//! What device plugins write into node annotations.

use serde_json::Value;

use crate::{
    observation::NodeObservation,
    pool::Note,
    product::{AnnotationFormat, AnnotationRule, Vendor},
    recognise::names,
};

/// A device that a sharing plugin registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registered {
    pub(super) kind: String,
    pub(super) memory_mib: u64,
    /// False where the configuration of the plugin decides what the memory counts.
    pub(super) unit_is_certain: bool,
    pub(super) split: u32,
    pub(super) healthy: bool,
    /// How it is shared (`hami-core`, `mig`), where it is said.
    pub(super) mode: Option<String>,
    /// Who registered it, in the words of the resource rules.
    pub(super) sharer: &'static str,
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
                AnnotationFormat::Hami | AnnotationFormat::Volcano | AnnotationFormat::Metax => {
                    registration(rule, key, middle, value, node, &mut read);
                }
                AnnotationFormat::EnflameDrs => read.slices = drs(value),
                AnnotationFormat::EnflameShared => {}
            }
        }
    }
    read
}

fn registration(
    rule: &AnnotationRule,
    key: &str,
    middle: &str,
    value: &str,
    node: &NodeObservation,
    read: &mut Annotations,
) {
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
    match devices(rule.format, value) {
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
fn devices(format: AnnotationFormat, value: &str) -> Option<Vec<Registered>> {
    let value = value.trim();
    if value.is_empty() {
        return Some(Vec::new());
    }
    if value.starts_with('[') {
        let items: Vec<Value> = serde_json::from_str(value).ok()?;
        return items.iter().map(|item| from_json(format, item)).collect();
    }
    let mut found = Vec::new();
    let mut pending = String::new();
    // A PCI address in an id has colons of its own: a piece without a comma belongs to the next record.
    for piece in value.split(':') {
        pending.push_str(piece);
        if piece.contains(',') {
            found.push(from_record(format, &pending)?);
            pending.clear();
        } else if !piece.is_empty() {
            pending.push(':');
        }
    }
    pending.is_empty().then_some(found)
}

/// Who writes a format.
fn sharer(format: AnnotationFormat) -> &'static str {
    match format {
        AnnotationFormat::Volcano => "volcano",
        _ => "hami",
    }
}

/// `HAMi`: id, split, memory, cores, type, NUMA node, health, and newer: index, mode. Volcano leaves out cores and NUMA node.
fn from_record(format: AnnotationFormat, record: &str) -> Option<Registered> {
    let fields: Vec<&str> = record.split(',').map(str::trim).collect();
    let (split, memory, kind, health, mode) = match (format, fields.as_slice()) {
        (AnnotationFormat::Volcano, [_, split, memory, kind, health, rest @ ..]) if rest.len() < 2 => {
            (split, memory, kind, health, rest.first())
        }
        (_, [_, split, memory, _, kind, _, health, rest @ ..]) => (split, memory, kind, health, rest.get(1)),
        _ => return None,
    };
    Some(Registered {
        kind: (*kind).to_owned(),
        memory_mib: memory.parse().ok()?,
        unit_is_certain: format != AnnotationFormat::Volcano,
        split: split.parse().ok()?,
        healthy: health.eq_ignore_ascii_case("true"),
        mode: mode.filter(|mode| !mode.is_empty()).map(|mode| (*mode).to_owned()),
        sharer: sharer(format),
    })
}

/// The plugins are written in Go, which leaves out what is zero or false: a device without `health` is not healthy.
fn from_json(format: AnnotationFormat, item: &Value) -> Option<Registered> {
    let number = |names: &[&str]| names.iter().find_map(|name| item[*name].as_u64());
    let text = |names: &[&str]| names.iter().find_map(|name| item[*name].as_str());
    Some(Registered {
        kind: text(&["model", "type"])?.to_owned(),
        memory_mib: number(&["devmem", "memory", "totalVRam"]).unwrap_or(0),
        unit_is_certain: format != AnnotationFormat::Volcano,
        split: number(&["count", "split", "totalDevCount"])
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(1),
        healthy: item["health"].as_bool().or(item["healthy"].as_bool()).unwrap_or(false),
        mode: text(&["mode"]).filter(|mode| !mode.is_empty()).map(str::to_owned),
        sharer: sharer(format),
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
