//! What a decision would else work out again for every candidate: versions as they compare, and the verdict on a build whose vendor
//! the cluster has nothing of.

use std::{cmp::Ordering, sync::Arc};

use crate::{
    build::Build,
    decision::{Outcome, Verdict},
    product::Vendor,
    reading::Contents,
    reason::{Reason, ReasonKind},
    support::SupportRow,
    version::{EngineVersion, VersionScheme},
};

/// The upstream versions between which a row speaks.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    since: Option<EngineVersion>,
    until: Option<EngineVersion>,
    stable: Option<EngineVersion>,
    stated: bool,
}

impl Bounds {
    pub(crate) fn new(row: &SupportRow) -> Self {
        let read = |text: &Option<String>| {
            text.as_ref()
                .and_then(|text| EngineVersion::parse(text, VersionScheme::Pep440).ok())
        };
        Self {
            since: read(&row.since),
            until: read(&row.until),
            stable: read(&row.stable_since),
            stated: row.since.is_some() || row.until.is_some(),
        }
    }

    /// Whether the upstream version of a build lies between the bounds.
    pub(crate) fn hold(&self, build: &Build) -> bool {
        let Some(upstream) = &build.upstream else {
            return !self.stated;
        };
        let is = |bound: &Option<EngineVersion>, meets: fn(Ordering) -> bool| {
            bound
                .as_ref()
                .is_none_or(|bound| upstream.compare(bound).is_some_and(meets))
        };
        is(&self.since, Ordering::is_ge) && is(&self.until, Ordering::is_le)
    }

    /// Whether a build is older than the version from which the row's level holds.
    pub(crate) fn is_early(&self, build: &Build) -> bool {
        match (&build.upstream, &self.stable) {
            (Some(upstream), Some(stable)) => upstream.compare(stable).is_some_and(Ordering::is_lt),
            _ => false,
        }
    }
}

/// What a build needs of a host of one vendor.
#[derive(Debug, Clone)]
pub(crate) struct HostNeeds {
    pub(crate) vendor: String,
    /// The driver that the release itself names.
    pub(crate) driver: Option<(String, Option<EngineVersion>)>,
    pub(crate) stacks: Vec<StackNeed>,
}

/// One stack inside an image.
#[derive(Debug, Clone)]
pub(crate) struct StackNeed {
    /// Position of the stack among those of the vendor.
    pub(crate) rule: usize,
    pub(crate) needs: String,
    pub(crate) version: Option<EngineVersion>,
    /// The lowest driver for it, by the vendor's table.
    pub(crate) floor: Option<(String, Option<EngineVersion>)>,
}

impl HostNeeds {
    pub(crate) fn new(build: &Build, vendor: &Vendor) -> Self {
        let driver = |text: String| {
            let version = EngineVersion::parse(&text, vendor.driver_scheme).ok();
            (text, version)
        };
        let stacks = vendor.stacks.iter().enumerate().filter_map(|(position, rule)| {
            let needs = build.stack.get(&rule.name)?;
            Some(StackNeed {
                rule: position,
                needs: needs.clone(),
                version: EngineVersion::parse(needs, rule.scheme).ok(),
                floor: rule.driver_for(needs).map(driver),
            })
        });
        Self {
            vendor: vendor.id.clone(),
            driver: build.driver.clone().map(driver),
            stacks: stacks.collect(),
        }
    }
}

/// What each build needs of the hosts of its vendors.
pub(crate) fn host_needs(contents: &Contents, vendors_of: &[Vec<String>]) -> Vec<Vec<HostNeeds>> {
    let of = |(build, vendors): (&Build, &Vec<String>)| {
        let vendors = vendors.iter().filter_map(|id| contents.vendors.get(id));
        vendors.map(|vendor| HostNeeds::new(build, vendor)).collect()
    };
    contents.builds.iter().zip(vendors_of).map(of).collect()
}

/// The verdict on each build for a cluster that has nothing of its vendors.
pub(crate) fn elsewhere(contents: &Contents, vendors_of: &[Vec<String>]) -> Vec<Arc<Verdict>> {
    let verdict = |(build, vendors): (&Build, &Vec<String>)| {
        let kind = ReasonKind::OtherVendor {
            vendors: vendors.clone(),
        };
        Arc::new(Verdict {
            build: build.id.clone(),
            pool: None,
            also: Vec::new(),
            outcome: Outcome::Rejected,
            reasons: vec![Reason {
                kind,
                row: build.row.clone(),
            }],
            caveats: Vec::new(),
            level: None,
            row: None,
            ranked_below: None,
            devices: None,
        })
    };
    contents.builds.iter().zip(vendors_of).map(verdict).collect()
}
