//! One kind of pool, looked at once for all builds.

use std::cell::RefCell;

use crate::{
    decide::{candidate::Evaluation, statement::Labels},
    fit::{self, Placement, Question},
    pool::Pool,
    product::{Product, Vendor},
    reason::ReasonKind,
    request::Preference,
    support::Limits,
    version::EngineVersion,
};

/// Where a replica goes, or why nowhere.
type Answer = Result<Placement, Vec<ReasonKind>>;

/// A kind of pool with everything about it that does not depend on the build.
pub(crate) struct Place<'run> {
    pub(crate) pool: &'run Pool,
    pub(crate) vendor: Option<&'run Vendor>,
    /// Vendor and product, when the product is known.
    pub(crate) known: Option<(&'run Vendor, &'run Product)>,
    pub(crate) labels: Option<Labels>,
    pub(crate) preference: Option<(usize, &'run Preference)>,
    /// What speaks against the pool itself, whatever the build.
    pub(crate) unwelcome: Vec<ReasonKind>,
    pub(crate) host: HostVersions,
    placements: RefCell<Vec<(PlacementKey<'run>, Answer)>>,
    other_rows: RefCell<Vec<(&'run str, Option<usize>)>>,
}

/// The versions of a host as they compare.
pub(crate) struct HostVersions {
    pub(crate) driver: Option<EngineVersion>,
    /// By the position of the stack among those of the vendor.
    pub(crate) stacks: Vec<Option<EngineVersion>>,
}

/// What a placement depends on beside pool and request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlacementKey<'run> {
    pub(crate) limits: Limits,
    pub(crate) profile: Option<&'run str>,
    pub(crate) proven_devices: Option<u32>,
    pub(crate) context: Option<u64>,
}

impl<'run> Place<'run> {
    pub(crate) fn new(evaluation: &Evaluation<'run>, pool: &'run Pool) -> Self {
        let contents = &evaluation.matrix.contents;
        let vendor = pool.vendor.as_ref().and_then(|id| contents.vendors.get(id));
        let product = pool.product.as_ref().and_then(|id| contents.products.get(id));
        let known = product.and_then(|product| Some((contents.vendors.get(&product.vendor)?, product)));
        let mut place = Self {
            pool,
            vendor,
            known,
            labels: known.map(|(_, product)| Labels::new(&evaluation.request.facts, product)),
            preference: None,
            unwelcome: Vec::new(),
            host: HostVersions::new(pool, known.map(|(vendor, _)| vendor)),
            placements: RefCell::new(Vec::new()),
            other_rows: RefCell::new(Vec::new()),
        };
        place.look(evaluation);
        place
    }

    /// Many builds ask the same of one pool: each question is answered once.
    pub(crate) fn placement(&self, key: PlacementKey<'run>, question: &Question<'_>) -> Answer {
        if let Some((_, answer)) = self.placements.borrow().iter().find(|(other, _)| *other == key) {
            return answer.clone();
        }
        let answer = fit::place(question);
        self.placements.borrow_mut().push((key, answer.clone()));
        answer
    }

    /// The row that speaks of the model for other versions of a distribution, found once.
    pub(crate) fn other_row(&self, distribution: &'run str, find: impl FnOnce() -> Option<usize>) -> Option<usize> {
        if let Some((_, row)) = self
            .other_rows
            .borrow()
            .iter()
            .find(|(other, _)| *other == distribution)
        {
            return *row;
        }
        let row = find();
        self.other_rows.borrow_mut().push((distribution, row));
        row
    }
}

impl HostVersions {
    fn new(pool: &Pool, vendor: Option<&Vendor>) -> Self {
        let read = |text: &String, scheme| EngineVersion::parse(text, scheme).ok();
        let driver = vendor.and_then(|vendor| read(pool.host.driver.as_ref()?, vendor.driver_scheme));
        let stacks = vendor.into_iter().flat_map(|vendor| &vendor.stacks);
        let stacks = stacks.map(|rule| read(pool.host.stacks.get(&rule.name)?, rule.scheme));
        Self {
            driver,
            stacks: stacks.collect(),
        }
    }
}
