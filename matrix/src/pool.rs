//! Nodes that offer the same product the same way.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::observation::Taint;

/// What a cluster has, as far as it could be recognised.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Pools, in the order of their ids.
    pub pools: Vec<Pool>,
    /// What a person should know about nodes that no pool carries.
    pub notes: Vec<Note>,
    /// Nodes that were read.
    pub nodes: usize,
    /// Runtime classes of the cluster; `None` when they were not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_classes: Option<BTreeSet<String>>,
}

/// Nodes of one cluster that offer the same product the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// A stable name: `enflame-s60`, `nvidia-a100-40gb-mig-1g.5gb`.
    pub id: String,
    /// The vendor; `None` when not even that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// The product of the matrix; `None` when the chip is unknown, which matches nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// What the node called it, as written there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// How the product was recognised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// How the devices are offered.
    pub offer: Offer,
    /// Whether it can be used.
    #[serde(default)]
    pub standing: Standing,
    /// The nodes with the devices that each offers.
    pub nodes: Vec<PoolNode>,
    /// Memory of one device.
    #[serde(default)]
    pub memory: DeviceMemory,
    /// CPU architecture of the nodes; `None` when it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Container runtime of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Driver and stack versions of the nodes, as far as they show.
    #[serde(default)]
    pub host: HostStack,
    /// Node labels that hold the pods to what was decided on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affinity: Vec<LabelRequirement>,
    /// Taints that all its nodes carry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// What a person should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

impl Pool {
    /// Devices on all its nodes.
    pub fn devices(&self) -> u32 {
        self.nodes.iter().map(|node| node.devices).sum()
    }

    /// Most devices on one node.
    pub fn devices_per_node(&self) -> u32 {
        self.nodes.iter().map(|node| node.devices).max().unwrap_or(0)
    }

    /// The name of the extended resource, when devices come by one.
    pub fn resource(&self) -> Option<&str> {
        match &self.offer {
            Offer::Whole { resource } | Offer::Partition { resource, .. } | Offer::Share { resource, .. } => {
                Some(resource)
            }
            Offer::Claim { .. } | Offer::Node | Offer::Nothing => None,
        }
    }
}

/// A node of a pool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolNode {
    /// Its name.
    pub name: String,
    /// Devices that one pod could get there when nothing else runs.
    pub devices: u32,
}

/// What a product was recognised by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The kind of evidence.
    pub source: EvidenceSource,
    /// Label key, annotation key, attribute or resource name.
    pub key: String,
    /// What it said.
    pub value: String,
}

/// Where evidence comes from, in the order of trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EvidenceSource {
    /// An attribute of a device in a `ResourceSlice`.
    DraAttribute,
    /// A node label.
    NodeLabel,
    /// A `HAMi` registration or another annotation of a device plugin.
    Annotation,
    /// The name of an extended resource.
    ResourceName,
    /// The node itself: a node without an accelerator.
    Node,
}

/// How devices are offered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "way", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Offer {
    /// Whole devices by an extended resource.
    Whole {
        /// Its name.
        resource: String,
    },
    /// Fixed partitions (MIG, vNPU templates, DRS) by an extended resource.
    Partition {
        /// Its name.
        resource: String,
        /// The profile, where one name stands for one profile.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
    },
    /// Shares of devices, of a size that the pod asks for.
    Share {
        /// The resource that counts shares.
        resource: String,
        /// Who shares: `hami`, `time-slicing`, `gcushare`.
        by: String,
        /// The resource for memory.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memory_resource: Option<String>,
        /// Bytes of one unit of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memory_unit: Option<u64>,
        /// The resource for compute.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cores_resource: Option<String>,
        /// Units of it that make a whole device.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cores_per_device: Option<u32>,
    },
    /// Devices by a resource claim (DRA).
    Claim {
        /// The driver.
        driver: String,
        /// The device class; `None` when the cluster shows none that fits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device_class: Option<String>,
        /// The attribute that pins the product, with the observed value.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        attributes: BTreeMap<String, String>,
        /// The partition profile, when the devices are partitions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
    },
    /// The node's own processor: the node counts as one device.
    Node,
    /// The product is there, but nothing offers it to pods.
    Nothing,
}

impl Offer {
    /// A short word for people: `whole`, `mig-1g.5gb`, `hami share`.
    pub fn describe(&self) -> String {
        match self {
            Self::Whole { resource } => format!("whole devices by {resource}"),
            Self::Partition { resource, .. } => format!("partitions by {resource}"),
            Self::Share { resource, by, .. } => format!("shares by {resource} ({by})"),
            Self::Claim {
                driver, profile: None, ..
            } => format!("devices by claims of {driver}"),
            Self::Claim {
                driver,
                profile: Some(profile),
                ..
            } => format!("partitions {profile} by claims of {driver}"),
            Self::Node => "the node itself".to_owned(),
            Self::Nothing => "offered by nothing".to_owned(),
        }
    }
}

/// Whether a pool can be used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(tag = "standing", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Standing {
    /// It can.
    #[default]
    Usable,
    /// The same cards as another pool, offered another way: never added up, and used only when asked for.
    Alternative {
        /// The pool that is used by itself.
        to: String,
    },
    /// It cannot.
    Unusable {
        /// Why, in a phrase.
        why: String,
        /// What would change that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fix: Option<String>,
    },
}

/// Memory of one device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceMemory {
    /// Bytes; the smallest where devices differ; `None` when it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Where the number comes from: a label, an annotation, a capacity, `catalogue`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Why it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// Driver and stack versions of a host. Absent means not seen, which is not the same as too old.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostStack {
    /// Driver version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Highest stack version that the host serves, by name of the stack (`cuda`, `cann`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stacks: BTreeMap<String, String>,
}

/// A node label with the values that are allowed, or a label that must be absent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelRequirement {
    /// Label key.
    pub key: String,
    /// Allowed values. None at all: the node must not have the label.
    pub values: Vec<String>,
}

/// Something that a person should know about nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// A fixed word: `stale-registration`, `memory-differs`, ...
    pub kind: String,
    /// The nodes it is about.
    pub nodes: Vec<String>,
    /// The text.
    pub text: String,
}
