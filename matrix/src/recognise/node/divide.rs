//! What the units of a whole-device resource are when a label says that the devices are cut.

use super::{Identity, View};
use crate::{
    pool::Offer,
    product::SuffixMeaning,
    recognise::{
        find::Find,
        label::{self, Named},
        memory,
    },
};

pub(super) const TIME_SLICING: &str = "time-slicing";

/// Each share of a device has its part of the memory for itself.
pub(super) const MPS: &str = "mps";

impl View<'_> {
    /// Tails of the product name and labels beside it: no valid state, shares, partitions.
    pub(super) fn divide(&self, find: &mut Find, identity: &Identity) {
        if identity.means == Some(SuffixMeaning::Invalid) {
            let raw = identity.raw.clone().unwrap_or_default();
            find.memory = memory::unknown("the partitions of the card are in no valid state");
            find.refuse(
                format!("{raw}: the card's partitions are in no valid state"),
                Some("give the card a partition layout that its strategy allows"),
            );
            return;
        }
        let division = label::division(self.vendor, self.node);
        if let Offer::Share { by, .. } = &mut find.offer
            && by == TIME_SLICING
            && let Some(word) = &division.by
        {
            by.clone_from(word);
        }
        let Offer::Whole { resource } = &find.offer else { return };
        let profile = identity.profile.clone().or(division.profile);
        if identity.shared || division.by.is_some() {
            find.offer = shares(resource, division.by.as_deref().unwrap_or(TIME_SLICING));
        } else if profile.is_some() {
            find.offer = Offer::Partition {
                resource: resource.clone(),
                profile,
            };
        }
    }

    /// A driver that does not name its devices leaves that to the labels, where they are all of one kind.
    pub(super) fn name_claims(&self, finds: &mut [Find], labels: &[Named]) {
        let whole = |find: &&Find| matches!(find.offer, Offer::Claim { profile: None, .. });
        if finds.iter().filter(whole).count() > 1 || label::several(labels).len() > 1 {
            return;
        }
        let Some(named) = labels.iter().find(|named| named.product.is_some()).or(labels.first()) else {
            return;
        };
        for find in finds {
            if find.raw.is_some() || !matches!(find.offer, Offer::Claim { .. }) {
                continue;
            }
            let identity = super::by_label(named);
            find.product = identity.product;
            find.raw = identity.raw;
            find.evidence = identity.evidence;
            find.affinity = identity.affinity;
            if find.host.driver.is_none() {
                find.host = label::host(self.vendor, self.node);
            }
            if let (None, Some(product)) = (find.memory.bytes, self.product(find.product.as_ref())) {
                find.memory = memory::by_catalogue(product);
            }
        }
    }
}

/// Shares of devices that nothing but their number limits.
pub(super) fn shares(resource: &str, by: &str) -> Offer {
    Offer::Share {
        resource: resource.to_owned(),
        by: by.to_owned(),
        memory_resource: None,
        memory_unit: None,
        cores_resource: None,
        cores_per_device: None,
    }
}
