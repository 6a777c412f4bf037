//! Whether a pool is one that the deployment wants and may use.

use crate::{
    decide::{candidate::Evaluation, place::Place},
    launch::Toleration,
    observation::Taint,
    pool::{Offer, Standing},
    reason::ReasonKind,
    request::Preference,
};

impl<'run> Place<'run> {
    /// Everything about the pool itself that could speak against it.
    pub(super) fn look(&mut self, evaluation: &Evaluation<'run>) {
        self.standing(evaluation);
        self.taints(evaluation);
        self.preference(evaluation);
    }

    /// Taints that neither the product's rules nor the deployment tolerate.
    fn taints(&mut self, evaluation: &Evaluation<'run>) {
        let own = self.vendor.into_iter().flat_map(|vendor| &vendor.inject.tolerations);
        let tolerations: Vec<&Toleration> = own.chain(&evaluation.request.demand.tolerations).collect();
        for taint in &self.pool.taints {
            if !tolerations.iter().any(|toleration| tolerates(toleration, taint)) {
                let value = taint
                    .value
                    .as_ref()
                    .map(|value| format!("={value}"))
                    .unwrap_or_default();
                let why = format!("the taint {}{value}:{} keeps pods away", taint.key, taint.effect);
                let fix = Some(format!(
                    "add a toleration of {} to spec.template.tolerations",
                    taint.key
                ));
                self.unwelcome.push(ReasonKind::PoolUnusable { why, fix });
            }
        }
    }

    fn standing(&mut self, evaluation: &Evaluation<'run>) {
        match &self.pool.standing {
            Standing::Usable => {}
            Standing::Unusable { why, fix } => self.unwelcome.push(ReasonKind::PoolUnusable {
                why: why.clone(),
                fix: fix.clone(),
            }),
            Standing::Alternative { to } => {
                let wishes = &evaluation.request.demand.accelerators;
                let asked = wishes.iter().any(|wish| wish.partition.is_some() && self.meets(wish));
                if !asked {
                    self.unwelcome.push(ReasonKind::AlternativeOffer {
                        to: to.clone(),
                        offer: self.pool.offer.describe(),
                    });
                }
            }
        }
    }

    /// The first accelerator of the deployment that this pool is.
    fn preference(&mut self, evaluation: &Evaluation<'run>) {
        let wishes = &evaluation.request.demand.accelerators;
        self.preference = wishes.iter().enumerate().find(|(_, wish)| self.meets(wish));
        if self.preference.is_none() && !wishes.is_empty() {
            let product = self
                .pool
                .product
                .clone()
                .or_else(|| self.pool.raw.clone())
                .unwrap_or_else(|| self.pool.id.clone());
            let asked = wishes.iter().map(describe_wish).collect();
            self.unwelcome.push(ReasonKind::AcceleratorNotAsked { product, asked });
        }
    }

    fn meets(&self, wish: &Preference) -> bool {
        let vendor = wish
            .vendor
            .as_ref()
            .is_none_or(|vendor| self.pool.vendor.as_ref() == Some(vendor));
        let product = wish.product.as_ref().is_none_or(|word| self.means(word));
        let partition = wish
            .partition
            .as_ref()
            .is_none_or(|word| offers_partition(&self.pool.offer, word));
        vendor && product && partition
    }

    fn means(&self, word: &str) -> bool {
        self.known.is_some_and(|(vendor, product)| {
            product.answers_to(word) || crate::recognise::names::means(vendor, product, word)
        })
    }
}

/// An empty key tolerates every taint, as Kubernetes has it.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.is_empty() || toleration.key == taint.key;
    let value = toleration.value.is_none() || toleration.value == taint.value;
    let effect = toleration.effect.as_ref().is_none_or(|effect| *effect == taint.effect);
    key && value && effect
}

fn offers_partition(offer: &Offer, word: &str) -> bool {
    let same = |profile: &Option<String>| {
        profile
            .as_deref()
            .is_some_and(|profile| profile == word || profile.strip_prefix("mig-") == Some(word))
    };
    match offer {
        Offer::Partition { profile, resource } => same(profile) || resource == word,
        Offer::Claim { profile, .. } => same(profile),
        Offer::Share { by, resource, .. } => word == "shared" || word == by || resource == word,
        Offer::Whole { .. } | Offer::Node | Offer::Nothing => false,
    }
}

fn describe_wish(wish: &Preference) -> String {
    let words = [wish.product.as_ref().or(wish.vendor.as_ref()), wish.partition.as_ref()];
    words.into_iter().flatten().cloned().collect::<Vec<_>>().join(" ")
}
