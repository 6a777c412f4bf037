//! What a cluster shows about its devices, taken out of Kubernetes objects without judging it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What was read of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observation {
    /// Nodes, in the order of their names.
    pub nodes: Vec<NodeObservation>,
    /// `ResourceSlice` objects (DRA).
    pub slices: Vec<SliceObservation>,
    /// `DeviceClass` objects (DRA).
    pub device_classes: Vec<DeviceClassObservation>,
    /// Names of the runtime classes; `None` when none were among the objects, which means unknown.
    pub runtime_classes: Option<BTreeSet<String>>,
    /// Objects that were not understood, with the reason.
    pub ignored: Vec<String>,
}

/// One Node object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeObservation {
    /// Its name.
    pub name: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `status.allocatable`; empty when the object has none.
    pub allocatable: BTreeMap<String, String>,
    /// `status.capacity`; empty when the object has none.
    pub capacity: BTreeMap<String, String>,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// The Ready condition; `None` when the object does not carry it.
    pub ready: Option<bool>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// CPU architecture as Kubernetes spells it (`amd64`).
    pub architecture: Option<String>,
    /// Container runtime name (`containerd`).
    pub runtime: Option<String>,
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Effect.
    #[serde(default)]
    pub effect: String,
}

/// One `ResourceSlice` object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceObservation {
    /// Its name.
    pub name: String,
    /// The driver that publishes it.
    pub driver: String,
    /// The node whose devices it lists; `None` for devices that many nodes reach.
    pub node: Option<String>,
    /// The pool that it belongs to.
    pub pool: String,
    /// Generation of the pool: only the newest counts.
    pub generation: i64,
    /// How many slices the pool has.
    pub slice_count: Option<i64>,
    /// Devices.
    pub devices: Vec<DeviceObservation>,
}

/// A device of a slice.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceObservation {
    /// Its name.
    pub name: String,
    /// Attributes as text; the driver's domain is left out of the names.
    pub attributes: BTreeMap<String, String>,
    /// Capacities as Kubernetes quantities.
    pub capacity: BTreeMap<String, String>,
    /// True when a device taint keeps new pods away.
    pub tainted: bool,
    /// The node of this device alone, in a slice whose devices are on several nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Names of the counter sets that it draws on: devices with a set in common cannot all be had at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counter_sets: Vec<String>,
}

/// One `DeviceClass` object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceClassObservation {
    /// Its name.
    pub name: String,
    /// CEL expressions that a device must meet.
    pub selectors: Vec<String>,
    /// The extended resource that it also serves.
    pub extended_resource: Option<String>,
}

/// Reads Kubernetes objects as `kubectl get nodes,resourceslices,deviceclasses,runtimeclasses -o json` prints them: single
/// objects and lists. Other kinds are named in `ignored`.
pub fn observe(items: &[Value]) -> Observation {
    let mut seen = Observation::default();
    for item in items {
        observe_one(item, &mut seen);
    }
    seen.nodes.sort_by(|left, right| left.name.cmp(&right.name));
    seen.nodes.dedup_by(|later, first| later.name == first.name);
    seen.slices.sort_by(|left, right| left.name.cmp(&right.name));
    seen.device_classes.sort_by(|left, right| left.name.cmp(&right.name));
    seen
}

fn observe_one(item: &Value, seen: &mut Observation) {
    let kind = item["kind"].as_str().unwrap_or_default();
    if let Some(items) = item["items"].as_array() {
        let element_kind = kind.strip_suffix("List").filter(|word| !word.is_empty());
        for element in items {
            match (element["kind"].as_str(), element_kind) {
                (None, Some(word)) => {
                    let mut named = element.clone();
                    named["kind"] = Value::from(word);
                    observe_one(&named, seen);
                }
                _ => observe_one(element, seen),
            }
        }
        return;
    }
    match kind {
        "Node" => seen.nodes.push(read_node(item)),
        "ResourceSlice" => seen.slices.push(read_slice(item)),
        "DeviceClass" => seen.device_classes.push(read_class(item)),
        "RuntimeClass" => {
            seen.runtime_classes
                .get_or_insert_with(BTreeSet::new)
                .insert(name_of(item));
        }
        "" => seen.ignored.push("an object without a kind".to_owned()),
        other => seen
            .ignored
            .push(format!("{other} {} is not a node, slice or class", name_of(item))),
    }
}

fn name_of(item: &Value) -> String {
    text(&item["metadata"]["name"]).unwrap_or_default()
}

fn read_node(item: &Value) -> NodeObservation {
    let labels = text_map(&item["metadata"]["labels"]);
    let status = &item["status"];
    let architecture = text(&status["nodeInfo"]["architecture"])
        .or_else(|| labels.get("kubernetes.io/arch").cloned())
        .or_else(|| labels.get("beta.kubernetes.io/arch").cloned());
    NodeObservation {
        name: name_of(item),
        annotations: text_map(&item["metadata"]["annotations"]),
        allocatable: text_map(&status["allocatable"]),
        capacity: text_map(&status["capacity"]),
        taints: list(&item["spec"]["taints"]).iter().map(read_taint).collect(),
        ready: read_ready(&status["conditions"]),
        unschedulable: item["spec"]["unschedulable"].as_bool().unwrap_or(false),
        architecture,
        runtime: text(&status["nodeInfo"]["containerRuntimeVersion"])
            .and_then(|version| version.split("://").next().map(str::to_owned)),
        labels,
    }
}

fn read_ready(conditions: &Value) -> Option<bool> {
    let ready = list(conditions).iter().find(|condition| condition["type"] == "Ready")?;
    Some(ready["status"] == "True")
}

fn read_taint(item: &Value) -> Taint {
    Taint {
        key: text(&item["key"]).unwrap_or_default(),
        value: text(&item["value"]),
        effect: text(&item["effect"]).unwrap_or_default(),
    }
}

fn read_slice(item: &Value) -> SliceObservation {
    let spec = &item["spec"];
    let driver = text(&spec["driver"]).unwrap_or_default();
    SliceObservation {
        name: name_of(item),
        node: text(&spec["nodeName"]),
        pool: text(&spec["pool"]["name"]).unwrap_or_default(),
        generation: spec["pool"]["generation"].as_i64().unwrap_or(0),
        slice_count: spec["pool"]["resourceSliceCount"].as_i64(),
        devices: list(&spec["devices"])
            .iter()
            .filter(|device| device.is_object())
            .map(|device| read_device(device, &driver))
            .collect(),
        driver,
    }
}

/// `v1` puts attributes into the device; `v1beta1` wraps them in `basic`.
fn read_device(item: &Value, driver: &str) -> DeviceObservation {
    let body = if item["basic"].is_object() {
        &item["basic"]
    } else {
        item
    };
    let prefix = format!("{driver}/");
    let short = |name: &str| name.strip_prefix(&prefix).unwrap_or(name).to_owned();
    let attributes = entries(&body["attributes"])
        .filter_map(|(name, value)| Some((short(name), typed_value(value)?)))
        .collect();
    let capacity = entries(&body["capacity"])
        .filter_map(|(name, value)| Some((short(name), text(&value["value"]).or_else(|| text(value))?)))
        .collect();
    let tainted = list(&body["taints"]).iter().any(|taint| taint["effect"] != "None");
    let counters = list(&body["consumesCounters"]).iter();
    DeviceObservation {
        name: text(&item["name"]).unwrap_or_default(),
        attributes,
        capacity,
        tainted,
        node: text(&body["nodeName"]),
        counter_sets: counters.filter_map(|entry| text(&entry["counterSet"])).collect(),
    }
}

fn typed_value(value: &Value) -> Option<String> {
    ["string", "version", "int", "bool"]
        .iter()
        .find_map(|form| text(&value[*form]))
}

fn read_class(item: &Value) -> DeviceClassObservation {
    let spec = &item["spec"];
    DeviceClassObservation {
        name: name_of(item),
        selectors: list(&spec["selectors"])
            .iter()
            .filter_map(|entry| text(&entry["cel"]["expression"]))
            .collect(),
        extended_resource: text(&spec["extendedResourceName"]),
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(word) => Some(word.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

fn text_map(value: &Value) -> BTreeMap<String, String> {
    entries(value)
        .filter_map(|(key, value)| Some((key.clone(), text(value)?)))
        .collect()
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
