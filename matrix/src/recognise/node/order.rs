//! The ways in which the same cards are offered, put in order, and what a person should know about them.

use std::collections::BTreeSet;

use super::{View, divide::MPS};
use crate::{
    pool::{LabelRequirement, Offer},
    product::Product,
    recognise::{
        annotation::Annotations,
        find::Find,
        label::{self, Named},
        names,
    },
};

impl View<'_> {
    /// The same cards offered in several ways are never added up: whole devices come first, then claims, partitions, shares.
    pub(super) fn order(&self, finds: &mut [Find]) {
        let rank = |find: &Find| match &find.offer {
            Offer::Whole { .. } => 0,
            Offer::Claim { profile: None, .. } => 1,
            Offer::Partition { .. } | Offer::Claim { .. } => 2,
            Offer::Share { .. } => 3,
            Offer::Node | Offer::Nothing => 4,
        };
        finds.sort_by_key(|find| (find.devices == 0, rank(find)));
        let live: Vec<String> = finds
            .iter()
            .filter(|find| find.devices > 0)
            .map(describe_count)
            .collect();
        let Some(first) = finds.first().filter(|first| first.devices > 0).cloned() else {
            return;
        };
        let mut several = false;
        for find in finds.iter_mut().skip(1) {
            if find.devices > 0 && find.offer != first.offer && !self.is_other_card(&first, find) {
                find.behind = Some(first.offer.clone());
                several = true;
            }
        }
        if several {
            let drivers: BTreeSet<Option<&str>> = finds
                .iter()
                .filter(|find| find.devices > 0)
                .map(|find| driver(&find.offer))
                .collect();
            // One driver keeps account of what it has cut; two of them, or a plugin, do not.
            let danger = if drivers.len() > 1 || drivers.contains(&None) {
                ", and pods that ask the other way can be given the same card"
            } else {
                ""
            };
            let text = format!(
                "the same cards are offered in several ways ({}): they are not added up, {} are used{danger}",
                live.join(", "),
                first.offer.describe()
            );
            for find in finds.iter_mut() {
                find.note("several-offers", text.clone());
            }
        }
    }

    /// Some plugins take the cards that they cut out of the whole ones, or count boards under names of their own.
    fn is_other_card(&self, first: &Find, other: &Find) -> bool {
        let disjoint = |offer: &Offer| match offer {
            Offer::Whole { resource } | Offer::Partition { resource, .. } | Offer::Share { resource, .. } => self
                .vendor
                .resources
                .iter()
                .find(|rule| names::fits(&rule.name, resource))
                .is_some_and(|rule| rule.disjoint),
            _ => false,
        };
        match (&first.offer, &other.offer) {
            (Offer::Claim { driver: one, .. }, Offer::Claim { driver: two, .. }) => {
                is_other_claim(first, other, one == two)
            }
            _ => disjoint(&first.offer) || disjoint(&other.offer),
        }
    }

    pub(super) fn finish(&self, finds: &mut [Find], labels: &[Named], annotations: &Annotations) {
        let conflict = conflict(labels);
        for find in finds {
            find.memory_label = find.memory.source.as_ref().and_then(|key| {
                let value = self.node.labels.get(key)?;
                Some(LabelRequirement {
                    key: key.clone(),
                    values: vec![value.clone()],
                })
            });
            find.notes.extend(annotations.notes.iter().cloned());
            if let Some(text) = &conflict {
                find.note("conflicting-labels", text.clone());
            }
            if let (Some(product), Some(bytes)) = (self.product(find.product.as_ref()), find.memory.bytes) {
                compare_with_catalogue(find, &product.clone(), bytes);
            }
            if find.product.is_none() {
                let seen = find.raw.as_ref().map_or("nothing names the chip".to_owned(), |raw| {
                    format!("`{raw}` is not in the matrix")
                });
                find.note(
                    "unknown-product",
                    format!("{} device of unknown product: {seen}", self.vendor.name),
                );
            }
            if let Some((slices, profiles)) = &annotations.slices
                && matches!(find.offer, Offer::Partition { .. })
            {
                find.note("slices", format!("{slices} slices, profiles {}", profiles.join(", ")));
            }
        }
    }
}

/// One driver lists each card once, unless it lists the ways to cut it beside it, which draw on the same counters. Of two drivers
/// that tell no ids, two products are two cards.
fn is_other_claim(first: &Find, other: &Find, same_driver: bool) -> bool {
    if first.cards.is_empty() || other.cards.is_empty() {
        return same_driver || first.product != other.product;
    }
    first.cards.is_disjoint(&other.cards)
}

fn compare_with_catalogue(find: &mut Find, product: &Product, bytes: u64) {
    if !matches!(
        find.offer,
        Offer::Whole { .. } | Offer::Share { .. } | Offer::Claim { profile: None, .. }
    ) || matches!(&find.offer, Offer::Share { by, .. } if by == MPS)
    {
        return;
    }
    let near = product
        .memory_mib
        .iter()
        .any(|mib| bytes.abs_diff(mib << 20) <= (mib << 20) / 20);
    if !near && !product.memory_mib.is_empty() {
        let known: Vec<String> = product.memory_mib.iter().map(u64::to_string).collect();
        let text = format!(
            "the node shows {} MiB, the matrix knows {} for {}: the node is right",
            bytes >> 20,
            known.join(" or "),
            product.id
        );
        find.note("memory-differs", text);
    }
}

fn driver(offer: &Offer) -> Option<&str> {
    match offer {
        Offer::Claim { driver, .. } => Some(driver),
        _ => None,
    }
}

fn describe_count(find: &Find) -> String {
    format!("{} x {}", find.devices, find.offer.describe())
}

/// Two labels that name two known products.
fn conflict(labels: &[Named]) -> Option<String> {
    if label::several(labels).len() > 1 {
        return None;
    }
    let known: Vec<&Named> = labels.iter().filter(|named| named.product.is_some()).collect();
    let first = known.first()?;
    let other = known.iter().find(|named| named.product != first.product)?;
    let (a, b) = (&first.evidence, &other.evidence);
    Some(format!(
        "{}={} and {}={} name different products: the first counts",
        a.key, a.value, b.key, b.value
    ))
}
