//! Pools that differ in nothing that a decision looks at: a large cluster has few kinds of nodes.

use std::collections::BTreeMap;

use crate::{
    decide::{candidate::Evaluation, place::Place},
    observation::Taint,
    pool::{DeviceMemory, HostStack, Offer, Pool, Standing},
    request::Request,
};

/// Everything of a pool that a decision looks at.
type Kind<'run> = (
    [Option<&'run str>; 4],
    &'run Offer,
    &'run Standing,
    (u32, usize),
    &'run DeviceMemory,
    &'run HostStack,
    &'run [Taint],
    Option<&'run str>,
);

/// Classes of pools by vendor.
pub(super) struct Classes<'run> {
    by_vendor: BTreeMap<&'run str, Vec<Vec<usize>>>,
}

impl<'run> Classes<'run> {
    pub(super) fn new(request: &'run Request) -> Self {
        let mut sorted: Vec<usize> = (0..request.pools.len()).collect();
        sorted.sort_by(|left, right| request.pools[*left].id.cmp(&request.pools[*right].id));
        let mut kinds: BTreeMap<Kind<'run>, Vec<usize>> = BTreeMap::new();
        for number in sorted {
            kinds
                .entry(kind(&request.pools[number], request))
                .or_default()
                .push(number);
        }
        let mut by_vendor: BTreeMap<&str, Vec<Vec<usize>>> = BTreeMap::new();
        for (kind, pools) in kinds {
            if let Some(vendor) = kind.0[0] {
                by_vendor.entry(vendor).or_default().push(pools);
            }
        }
        Self { by_vendor }
    }

    /// Each class looked at once, by vendor.
    pub(super) fn places(self, evaluation: &Evaluation<'run>) -> BTreeMap<&'run str, Vec<(Vec<usize>, Place<'run>)>> {
        let look = |pools: Vec<usize>| {
            let pool = evaluation.request.pools.get(*pools.first()?)?;
            Some((pools, Place::new(evaluation, pool)))
        };
        let by_vendor = self.by_vendor.into_iter();
        by_vendor
            .map(|(vendor, classes)| (vendor, classes.into_iter().filter_map(look).collect()))
            .collect()
    }
}

fn kind<'run>(pool: &'run Pool, request: &Request) -> Kind<'run> {
    let text = |word: &'run Option<String>| word.as_deref();
    // The name counts where a quarantine names it, and where it is all that a reason can say.
    let named = request
        .policy
        .quarantine
        .iter()
        .any(|entry| entry.pool.as_ref() == Some(&pool.id));
    let nameless = pool.product.is_none() && pool.raw.is_none();
    (
        [
            text(&pool.vendor),
            text(&pool.product),
            text(&pool.raw),
            text(&pool.architecture),
        ],
        &pool.offer,
        &pool.standing,
        (pool.devices_per_node(), pool.nodes.len()),
        &pool.memory,
        &pool.host,
        &pool.taints,
        (named || nameless).then_some(pool.id.as_str()),
    )
}
