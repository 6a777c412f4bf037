//! Memory of a find, in the order of trust: partition profile, label, registration, memory resource, catalogue.

use super::{
    Identity, View,
    divide::{MPS, TIME_SLICING},
};
use crate::{
    pool::{DeviceMemory, Offer},
    product::{Product, SuffixMeaning},
    recognise::{
        annotation::{Annotations, Registered},
        find::Find,
        label, memory,
        offer::{self, Offered},
    },
};

impl View<'_> {
    /// Memory in the order of trust: partition profile, label, registration, memory resource, catalogue.
    pub(super) fn measure(
        &self,
        find: &mut Find,
        identity: &Identity,
        offered: Option<&Offered<'_>>,
        annotations: &Annotations,
    ) {
        if identity.means == Some(SuffixMeaning::Invalid) {
            return;
        }
        let product = self.product(find.product.as_ref());
        let by_label = memory::by_label(self.vendor, self.node, product);
        let observed = match &find.offer {
            Offer::Partition {
                profile: Some(profile), ..
            } if identity.profile.is_none() => Some(memory::of_profile(product, profile)),
            Offer::Partition {
                profile: Some(profile), ..
            } => by_label.or_else(|| Some(memory::of_profile(product, profile))),
            Offer::Partition { profile: None, .. } => Some(smallest_slice(annotations)),
            Offer::Share { by, .. } if by == TIME_SLICING => Some(memory::unknown(
                "time slices share the memory of their card and nothing divides it",
            )),
            Offer::Share { by, .. } if by == MPS => Some(self.part_of(by_label)),
            _ => by_label,
        };
        let registered = by_registration_memory(find, annotations, product);
        let observed = observed
            .filter(|memory| memory.bytes.is_some() || registered.is_none())
            .or(registered);
        let observed = observed.or_else(|| self.by_resource_memory(find, offered, product));
        find.memory = match (observed, product) {
            (Some(memory), _) if memory.bytes.is_some() => memory,
            (Some(memory), Some(product)) if matches!(find.offer, Offer::Whole { .. }) => {
                let catalogue = memory::by_catalogue(product);
                if let (Some(missing), true) = (&memory.missing, catalogue.bytes.is_some()) {
                    find.note("memory-refused", format!("{missing}: the number of the matrix is used"));
                }
                if catalogue.bytes.is_some() { catalogue } else { memory }
            }
            (Some(memory), _) => memory,
            (None, Some(product)) => memory::by_catalogue(product),
            (None, None) => memory::unknown("the product is unknown and the node does not tell"),
        };
    }

    /// MPS gives each share an equal part of its device.
    fn part_of(&self, device: Option<DeviceMemory>) -> DeviceMemory {
        let replicas = label::division(self.vendor, self.node).replicas;
        match (device, replicas) {
            (
                Some(DeviceMemory {
                    bytes: Some(bytes),
                    source,
                    ..
                }),
                Some(replicas),
            ) => memory::known(
                bytes / replicas,
                format!("{} / {replicas} shares", source.unwrap_or_default()),
            ),
            _ => memory::unknown("into how many shares a device is divided is not on the node"),
        }
    }

    fn by_resource_memory(
        &self,
        find: &Find,
        offered: Option<&Offered<'_>>,
        product: Option<&Product>,
    ) -> Option<DeviceMemory> {
        let offered = offered?;
        let name = offered.memory_name()?;
        let total = offer::amount(self.node, &name)?;
        let units = &offered.rule.memory_unit_mib.0;
        if find.notes.iter().any(|note| note.kind == "shares-only") {
            return product
                .is_none()
                .then(|| memory::unknown(format!("{name} {total} over an unknown number of cards")));
        }
        (!units.is_empty() && find.devices > 0 && total > 0)
            .then(|| memory::by_units(u64::from(total), find.devices, units, &name, product))
    }
}

fn smallest_slice(annotations: &Annotations) -> DeviceMemory {
    let profiles = annotations.slices.iter().flat_map(|(_, profiles)| profiles);
    let sizes = profiles
        .map(|profile| memory::of_profile(None, profile))
        .filter(|memory| memory.bytes.is_some());
    sizes
        .min_by_key(|memory| memory.bytes)
        .unwrap_or_else(|| memory::unknown("the profile of a slice decides its memory"))
}

pub(super) fn by_registration_memory(
    find: &mut Find,
    annotations: &Annotations,
    product: Option<&Product>,
) -> Option<DeviceMemory> {
    let own: Vec<&(String, Registered)> = annotations
        .registered
        .iter()
        .filter(|(_, device)| device.healthy && device.memory_mib > 0)
        .collect();
    let smallest = own.iter().map(|(_, device)| device.memory_mib).min()?;
    let largest = own.iter().map(|(_, device)| device.memory_mib).max()?;
    let (key, first) = own.first()?;
    let bytes = smallest
        .checked_mul(1 << 20)
        .filter(|bytes| memory::plausible(*bytes))?;
    if !first.unit_is_certain && !memory::near(bytes, product) {
        return Some(memory::unknown(format!(
            "{key} says {smallest} for a card, in a unit that the plugin's configuration decides"
        )));
    }
    if smallest != largest && matches!(find.offer, Offer::Share { .. } | Offer::Nothing) {
        find.note(
            "memory-differs",
            format!("devices of the node have between {smallest} and {largest} MiB: the smallest counts"),
        );
    }
    Some(memory::known(bytes, key.clone()))
}
