//! The ways in which the same cards are offered, put in order, and what a person should know about them.

use super::View;
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
            let text = format!(
                "the same cards are offered in several ways ({}): they are not added up, {} are used, and pods that ask the other way can be given the same card",
                live.join(", "),
                first.offer.describe()
            );
            for find in finds.iter_mut() {
                find.note("several-offers", text.clone());
            }
        }
    }

    /// Claims list each card once, so two kinds of claims are two kinds of cards; and some plugins take the cards that they
    /// cut out of the whole ones.
    fn is_other_card(&self, first: &Find, other: &Find) -> bool {
        let disjoint = |offer: &Offer| match offer {
            Offer::Partition { resource, .. } => self
                .vendor
                .resources
                .iter()
                .any(|rule| rule.disjoint && names::fits(&rule.name, resource)),
            _ => false,
        };
        let claims = matches!((&first.offer, &other.offer), (Offer::Claim { .. }, Offer::Claim { .. }));
        claims || disjoint(&first.offer) || disjoint(&other.offer)
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

fn compare_with_catalogue(find: &mut Find, product: &Product, bytes: u64) {
    if !matches!(
        find.offer,
        Offer::Whole { .. } | Offer::Share { .. } | Offer::Claim { profile: None, .. }
    ) {
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
