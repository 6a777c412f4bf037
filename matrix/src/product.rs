//! Products: how a kind of accelerator shows itself on a node, and what is known about it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    launch::Toleration,
    reason::RowReference,
    version::VersionScheme,
    words::{Evidence, OneOrMany, Words},
};

/// The head of a `Products` document: how the vendor's devices are recognised and handed to pods. Its `products` are read
/// one by one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ProductsHead {
    /// Always `Products`; the reader has looked at it already.
    #[serde(rename = "kind")]
    _kind: String,
    pub(crate) vendor: String,
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) pci_vendor: OneOrMany<String>,
    #[serde(default)]
    pub(crate) stacks: Vec<StackRule>,
    #[serde(default)]
    pub(crate) driver_scheme: Option<VersionScheme>,
    #[serde(default)]
    pub(crate) dra: Vec<DraRule>,
    #[serde(default)]
    pub(crate) labels: LabelRules,
    #[serde(default)]
    pub(crate) annotations: Vec<AnnotationRule>,
    #[serde(default)]
    pub(crate) resources: Vec<ResourceRule>,
    #[serde(default)]
    pub(crate) prefixes: Vec<String>,
    #[serde(default)]
    pub(crate) suffixes: Vec<SuffixRule>,
    #[serde(default)]
    pub(crate) inject: InjectRule,
    #[serde(default)]
    pub(crate) evidence: Evidence,
    #[serde(default)]
    pub(crate) note: Option<String>,
}

/// A vendor with its rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Vendor {
    /// The word for it in the documents.
    pub id: String,
    /// Its name.
    pub name: String,
    /// PCI vendor ids, lower case, without `0x`.
    pub pci_vendors: Vec<String>,
    /// Stacks that builds need from the host.
    pub stacks: Vec<StackRule>,
    /// How its driver versions are ordered.
    pub driver_scheme: VersionScheme,
    /// DRA drivers.
    pub dra: Vec<DraRule>,
    /// Node labels.
    pub labels: LabelRules,
    /// Node annotations.
    pub annotations: Vec<AnnotationRule>,
    /// Extended resources.
    pub resources: Vec<ResourceRule>,
    /// Words that product names may start with and that say nothing.
    pub prefixes: Vec<String>,
    /// Tails of product names that say how the device is cut.
    pub suffixes: Vec<SuffixRule>,
    /// How a container gets the devices.
    pub inject: InjectRule,
    /// Where it is written.
    pub row: RowReference,
}

/// A stack that lives on the host and in the image: CUDA, CANN, `ROCm`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StackRule {
    /// Its name in the `stack` of a build.
    pub name: String,
    /// How its versions are ordered.
    #[serde(default)]
    pub scheme: VersionScheme,
    /// Lowest driver for a stack version. A version takes the entry with the longest equal start (`12.9` before `12`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub driver_min: BTreeMap<String, String>,
}

impl StackRule {
    /// The lowest driver for a stack version: the entry with the longest equal start.
    pub fn driver_for(&self, version: &str) -> Option<String> {
        let starts =
            |start: &str| version == start || version.strip_prefix(start).is_some_and(|rest| rest.starts_with('.'));
        let found = self
            .driver_min
            .iter()
            .filter(|(start, _)| starts(start))
            .max_by_key(|(start, _)| start.len());
        found.map(|(_, floor)| floor.clone())
    }
}

/// A DRA driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DraRule {
    /// Driver name.
    pub driver: String,
    /// Device classes, the usual one first.
    #[serde(default)]
    pub device_classes: Vec<String>,
    /// Attributes that name the product, in order.
    #[serde(default)]
    pub product: Vec<String>,
    /// Attribute that tells kinds of devices apart.
    #[serde(default)]
    pub type_attribute: Option<String>,
    /// Its values for whole devices; empty: any.
    #[serde(default)]
    pub whole: Vec<String>,
    /// Its values for partitions, with the class to ask for.
    #[serde(default)]
    pub partition: BTreeMap<String, String>,
    /// Attribute that names the partition profile.
    #[serde(default)]
    pub profile: Option<String>,
    /// Capacity (or attribute) that holds the memory.
    #[serde(default)]
    pub memory: Option<String>,
    /// Attribute with the driver version.
    #[serde(default)]
    pub driver_version: Option<String>,
    /// Attributes with stack versions.
    #[serde(default)]
    pub stack_versions: BTreeMap<String, String>,
    /// Attribute with a PCI id: the only identity of some devices.
    #[serde(default)]
    pub pci_id: Option<String>,
    /// Attribute that tells health, with its good value.
    #[serde(default)]
    pub health: Option<KeyValue>,
}

/// Node labels.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelRules {
    /// Labels that name the product, in order of trust.
    #[serde(default)]
    pub product: Vec<ProductLabel>,
    /// Labels with the memory of one device.
    #[serde(default)]
    pub memory: Vec<MemoryLabel>,
    /// Labels with the number of devices.
    #[serde(default)]
    pub count: Vec<String>,
    /// Labels with the driver version.
    #[serde(default)]
    pub driver: Vec<VersionLabel>,
    /// Labels with the highest stack version that the host serves.
    #[serde(default)]
    pub stacks: BTreeMap<String, Vec<VersionLabel>>,
    /// Labels that only tell that the vendor's devices are there.
    #[serde(default)]
    pub present: Vec<KeyValue>,
    /// Labels that must have a value before the devices can be used.
    #[serde(default)]
    pub ready: Vec<KeyValue>,
    /// Labels that say who shares the units of the whole-device resource.
    #[serde(default)]
    pub sharing: Vec<SharingLabel>,
    /// Labels with the profile of the partitions that the whole-device resource counts.
    #[serde(default)]
    pub partition_profile: Vec<String>,
}

/// A label that says who shares a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SharingLabel {
    /// Its key. A value like `none` says that nobody does.
    pub key: String,
    /// The label with the number of shares of one device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<String>,
    /// Values that are written otherwise here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub words: BTreeMap<String, String>,
}

/// A label that names the product.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProductLabel {
    /// Its key; `*` at the end: the product is written in the rest of the key.
    pub key: String,
    /// Values that need a translation, as globs; others are compared with the products' names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// Only the values above count.
    #[serde(default)]
    pub only_values: bool,
}

/// A label with memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryLabel {
    /// Its key; `*` at the end: the value is written in the rest of the key.
    pub key: String,
    /// Unit of a plain number.
    #[serde(default)]
    pub unit: MemoryUnit,
}

/// The unit of a plain number of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum MemoryUnit {
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// Mebibytes.
    #[default]
    #[serde(rename = "MiB")]
    Mebibytes,
    /// Gibibytes.
    #[serde(rename = "GiB")]
    Gibibytes,
}

impl MemoryUnit {
    /// Bytes of one unit.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Bytes => 1,
            Self::Mebibytes => 1 << 20,
            Self::Gibibytes => 1 << 30,
        }
    }
}

/// A version in one label, or in several that are joined by dots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VersionLabel {
    /// Label keys.
    pub keys: OneOrMany<String>,
}

/// A key with the value that counts; no value: any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyValue {
    /// The key.
    pub key: String,
    /// The value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// An annotation of a device plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnnotationRule {
    /// Its key; `*` stands for a name that the handshake repeats.
    pub key: String,
    /// How it is written.
    pub format: AnnotationFormat,
    /// The annotation that tells whether the registration is alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake: Option<String>,
}

/// How an annotation is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnnotationFormat {
    /// `HAMi`: devices as comma or JSON records of id, split, memory in MiB, cores, type, NUMA node, health.
    Hami,
    /// Volcano's plugin: records of id, split, memory in a unit of its configuration, type, health, and newer: mode; or JSON.
    Volcano,
    /// `MetaX`'s plugin: JSON records with model and memory in MiB.
    Metax,
    /// Enflame's `gcu-drs-capacity`: devices with slices, and the profiles.
    EnflameDrs,
    /// Enflame's `gcu-shared-capacity`: shares by device.
    EnflameShared,
}

/// An extended resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceRule {
    /// Its name; one `*` stands for a chip or a profile.
    pub name: String,
    /// What it offers.
    pub way: ResourceWay,
    /// What `*` stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captures: Option<Capture>,
    /// The product or variant that the bare name tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identifies: Option<String>,
    /// Who shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// With a live registration of this sharer the resource counts shares, not devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_with: Option<String>,
    /// The resource with memory; `*` as in the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Units that the memory resource is known to have, in MiB.
    #[serde(default, skip_serializing_if = "no_units")]
    pub memory_unit_mib: OneOrMany<u64>,
    /// The resource with compute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<String>,
    /// Units of it that make a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores_per_device: Option<u32>,
    /// Counts of devices that a pod may ask for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<u32>,
    /// Cards that no other resource counts: those that partitions are cut out of, boards with names of their own.
    #[serde(default)]
    pub disjoint: bool,
    /// Most units that one container may ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_container: Option<u32>,
}

fn no_units(list: &OneOrMany<u64>) -> bool {
    list.0.is_empty()
}

/// What an extended resource offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceWay {
    /// Whole devices.
    Whole,
    /// Fixed partitions.
    Partition,
    /// Shares of a size that the pod asks for.
    Share,
    /// Something that belongs to another resource and is no device: memory, cores, a count.
    Companion,
}

/// What the `*` in a resource name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capture {
    /// A product name.
    Product,
    /// A partition profile.
    Profile,
}

/// A tail of a product name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SuffixRule {
    /// The tail, `*` at its end stands for the profile: `-MIG-*`.
    pub suffix: String,
    /// What it means.
    pub means: SuffixMeaning,
}

/// What a tail of a product name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SuffixMeaning {
    /// The resource counts partitions.
    Partition,
    /// The resource counts shares by time slicing.
    TimeSlicing,
    /// The devices are in a state that nobody can use.
    Invalid,
}

/// How a container gets the devices.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InjectRule {
    /// Runtime class, set where the cluster has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_class: Option<String>,
    /// Without the vendor's container toolkit the pod starts and sees no device.
    #[serde(default)]
    pub needs_toolkit: bool,
    /// Tolerations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Environment of every engine on these devices.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Supplemental groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group_ids: Vec<u32>,
    /// Variables that the device plugin sets; engines must not override them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_variables: Vec<String>,
    /// Annotation by which a share is held to one product.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_type_annotation: Option<String>,
}

/// One entry of `products` as written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ProductEntry {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// The chip generation that images are built for.
    #[serde(default)]
    pub(crate) variant: Option<String>,
    #[serde(default)]
    pub(crate) groups: Vec<String>,
    #[serde(default, rename = "match")]
    pub(crate) matches: Vec<String>,
    /// Memory of one device as Kubernetes counts it.
    #[serde(default, rename = "memoryMiB")]
    pub(crate) memory_mib: OneOrMany<u64>,
    #[serde(default)]
    pub(crate) unit: Option<UnitRule>,
    #[serde(default)]
    pub(crate) formats: Words,
    #[serde(default)]
    pub(crate) no_formats: Words,
    #[serde(default)]
    pub(crate) compute: Option<String>,
    /// Partition profiles with their memory in MiB.
    #[serde(default, rename = "partitionsMiB")]
    pub(crate) partitions_mib: BTreeMap<String, u64>,
    #[serde(default)]
    pub(crate) evidence: Evidence,
    #[serde(default)]
    pub(crate) note: Option<String>,
}

/// What one unit of the resource is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnitRule {
    /// `die`, `chip`, `board`, `card`, `node`.
    pub is: String,
    /// Units must be asked for in multiples of this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiple_of: Option<u32>,
}

/// A product, complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Product {
    /// Its word in the documents: `enflame-s60`.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Its vendor.
    pub vendor: String,
    /// The chip generation that images are built for.
    pub variant: Option<String>,
    /// Other words that select it.
    pub groups: Vec<String>,
    /// Names that nodes give it.
    pub matches: Vec<String>,
    /// Memory of one device in MiB; several where boards of one name differ.
    pub memory_mib: Vec<u64>,
    /// What one unit is.
    pub unit: Option<UnitRule>,
    /// Number formats that it has.
    pub formats: Words,
    /// Number formats that it does not have.
    pub no_formats: Words,
    /// Compute capability or architecture name (`9.0`, `gfx942`).
    pub compute: Option<String>,
    /// Partition profiles with their memory in MiB.
    pub partitions_mib: BTreeMap<String, u64>,
    /// What the entry rests on.
    pub evidence: Evidence,
    /// A remark.
    pub note: Option<String>,
    /// Where it is written.
    pub row: RowReference,
}

impl Product {
    /// Whether a word of a selector means this product: its id, variant, a group or the vendor.
    pub fn answers_to(&self, word: &str) -> bool {
        self.id == word
            || self.variant.as_deref() == Some(word)
            || self.vendor == word
            || self.groups.iter().any(|group| group == word)
    }
}
