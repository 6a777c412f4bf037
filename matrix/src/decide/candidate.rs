//! One candidate: a build on a pool, with everything that speaks against it.

use std::collections::BTreeSet;

use crate::{
    build::{Build, Image},
    decide::{
        classes::Classes,
        host,
        place::{Place, PlacementKey},
        policy, statement,
    },
    fit::{Placement, Question},
    launch::{MemoryRule, ParallelRule, Profile},
    matrix::Matrix,
    pool::{Offer, Pool},
    product::{Product, Vendor},
    reason::{Reason, ReasonKind, RowReference},
    request::{Request, UnknownPolicy},
    support::{Level, Limits, ModelMatch},
    version::{EngineVersion, VersionRange},
};

/// A build on pools of its vendor. Pools that differ in nothing that a decision looks at are
/// one candidate.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) build: usize,
    /// In the order of their ids, at least one.
    pub(crate) pools: Vec<usize>,
    pub(crate) reasons: Vec<Reason>,
    pub(crate) caveats: Vec<Reason>,
    pub(crate) accepted: Option<Box<Accepted>>,
}

/// What an eligible candidate stands on.
#[derive(Debug, Clone)]
pub(crate) struct Accepted {
    pub(crate) level: Level,
    pub(crate) model_match: ModelMatch,
    pub(crate) row: RowReference,
    pub(crate) evidence: String,
    pub(crate) preference: usize,
    /// Place of the engine among engines whose versions cannot be compared.
    pub(crate) engine_place: u32,
    pub(crate) stack: Option<(String, EngineVersion)>,
    pub(crate) image: Image,
    pub(crate) context: Option<u64>,
    pub(crate) placement: Placement,
}

/// One request against the whole matrix.
pub(crate) struct Evaluation<'run> {
    pub(crate) matrix: &'run Matrix,
    pub(crate) request: &'run Request,
    /// The range of versions that the user wants; `Err` when it cannot be read.
    pub(crate) range: Option<Result<VersionRange, ()>>,
    /// Builds with images for a vendor of the request.
    wanted: Vec<bool>,
    /// Rows of the model by build.
    pairs: Vec<(usize, usize)>,
    /// Rows of the model, by what they say.
    pub(crate) rows_of_model: Vec<usize>,
}

/// All candidates, and the builds that are none because the cluster has nothing of their vendors.
pub(crate) struct Candidates {
    pub(crate) here: Vec<Candidate>,
    pub(crate) elsewhere: Vec<usize>,
}

impl<'run> Evaluation<'run> {
    pub(crate) fn new(matrix: &'run Matrix, request: &'run Request) -> Self {
        let contents = &matrix.contents;
        let range = request.policy.version_range.as_ref();
        let vendors: BTreeSet<&str> = request.pools.iter().filter_map(|pool| pool.vendor.as_deref()).collect();
        let wanted = matrix.index.builds_for(vendors.into_iter());
        let rows_of_model = matrix.index.rows_of_model(&request.facts, contents);
        Self {
            matrix,
            request,
            range: range.map(|text| VersionRange::parse(text).map_err(|_| ())),
            pairs: matrix.index.pairs(&rows_of_model, &request.facts, contents, &wanted),
            wanted,
            rows_of_model,
        }
    }

    /// All candidates, in the order of builds and of classes of pools.
    pub(crate) fn candidates(&self) -> Candidates {
        let classes = Classes::new(self.request);
        let places = classes.places(self);
        let builds = self.wanted.iter().filter(|wanted| **wanted).count();
        let mut candidates = Candidates {
            here: Vec::with_capacity(builds),
            elsewhere: Vec::with_capacity(self.wanted.len() - builds),
        };
        for (position, build) in self.matrix.contents.builds.iter().enumerate() {
            if !self.wanted[position] {
                candidates.elsewhere.push(position);
                continue;
            }
            for vendor in &self.matrix.index.vendors_of[position] {
                let classes = places.get(vendor.as_str()).map_or(&[][..], Vec::as_slice);
                candidates.here.extend(
                    classes
                        .iter()
                        .map(|(pools, place)| self.candidate(position, build, pools, place)),
                );
            }
        }
        candidates
    }

    /// Rows of the model that select a build.
    pub(crate) fn rows_of(&self, build: usize) -> impl Iterator<Item = usize> + '_ {
        let start = self.pairs.partition_point(|(other, _)| *other < build);
        self.pairs[start..]
            .iter()
            .take_while(move |(other, _)| *other == build)
            .map(|(_, row)| *row)
    }

    fn candidate(&self, position: usize, build: &'run Build, pools: &[usize], place: &Place<'run>) -> Candidate {
        let mut look = Look {
            evaluation: self,
            position,
            build,
            pool: place.pool,
            place,
            reasons: Vec::new(),
            caveats: Vec::new(),
        };
        let accepted = look.judge();
        let Look {
            mut reasons,
            mut caveats,
            ..
        } = look;
        reasons.sort();
        reasons.dedup();
        caveats.sort();
        caveats.dedup();
        let accepted = accepted.filter(|_| reasons.is_empty()).map(Box::new);
        Candidate {
            build: position,
            pools: pools.to_vec(),
            reasons,
            caveats,
            accepted,
        }
    }
}

/// A look at one candidate.
pub(crate) struct Look<'look, 'run> {
    pub(crate) evaluation: &'look Evaluation<'run>,
    pub(crate) position: usize,
    pub(crate) build: &'run Build,
    pub(crate) pool: &'run Pool,
    pub(crate) place: &'look Place<'run>,
    pub(crate) reasons: Vec<Reason>,
    pub(crate) caveats: Vec<Reason>,
}

impl<'run> Look<'_, 'run> {
    pub(crate) fn against(&mut self, kind: ReasonKind, row: &RowReference) {
        self.reasons.push(Reason { kind, row: row.clone() });
    }

    pub(crate) fn against_build(&mut self, kind: ReasonKind) {
        self.against(kind, &self.build.row);
    }

    pub(crate) fn caveat(&mut self, kind: ReasonKind, row: &RowReference) {
        self.caveats.push(Reason { kind, row: row.clone() });
    }

    /// Something unknown: a reason or a caveat, as the policy wants it.
    pub(crate) fn unknown(&mut self, policy: UnknownPolicy, kind: ReasonKind, row: &RowReference) {
        match policy {
            UnknownPolicy::Allow => self.caveat(kind, row),
            UnknownPolicy::Refuse => self.against(kind, row),
        }
    }

    fn judge(&mut self) -> Option<Accepted> {
        policy::look(self);
        self.reasons.extend(self.place.unwelcome.iter().map(|kind| Reason {
            kind: kind.clone(),
            row: self.build.row.clone(),
        }));
        let preference = self.place.preference;
        let Some((vendor, product)) = self.place.known else {
            let vendor = self.place.vendor;
            let row = vendor.map_or_else(|| self.build.row.clone(), |vendor| vendor.row.clone());
            self.against(
                ReasonKind::ProductUnknown {
                    seen: self.pool.raw.clone(),
                },
                &row,
            );
            return None;
        };
        let image = self.image(product);
        host::look(self, vendor);
        let statement = statement::look(self, product);
        self.weight_format();
        self.launch_profile();
        let limits = statement.as_ref().map(|found| found.limits.clone()).unwrap_or_default();
        let context = self.context(&limits, statement.as_ref().map_or(&self.build.row, |found| &found.row));
        let verified = statement.as_ref().is_some_and(|found| found.level == Level::Verified);
        let proven = limits.devices.filter(|_| verified);
        let placement = self.placement((product, vendor), (limits, proven), context);
        let found = statement?;
        Some(Accepted {
            level: found.level,
            model_match: found.model_match,
            row: found.row,
            evidence: found.evidence,
            preference: preference.map_or_else(|| usize::from(self.pool.offer == Offer::Node), |(index, _)| index),
            engine_place: self.engine_place(),
            stack: host::main_stack(self, vendor),
            image: image?,
            context,
            placement: placement?,
        })
    }

    fn weight_format(&mut self) {
        let format = crate::index::format_word(self.evaluation.request.facts.format);
        if self.build.loads.is_unset() || format == "unknown" || self.build.loads.holds(format) {
            return;
        }
        let loads = self.build.loads.list().to_vec();
        self.against_build(ReasonKind::WeightFormat {
            format: format.to_owned(),
            loads,
        });
    }

    /// Without a profile nobody could start the build, but for a user who brings the command along.
    fn launch_profile(&mut self) {
        if self.profile().is_some() {
            return;
        }
        let row = self.build.row.clone();
        if self.evaluation.request.policy.explicit_engine {
            self.caveat(ReasonKind::NoLaunchProfile {}, &row);
        } else {
            self.against(ReasonKind::NoLaunchProfile {}, &row);
        }
    }

    fn profile(&self) -> Option<&'run Profile> {
        let name = self.build.launch.as_deref()?;
        self.evaluation.matrix.index.profiles.get(name)
    }

    fn engine_place(&self) -> u32 {
        let lists = &self.evaluation.matrix.contents.lists;
        lists
            .get(&self.build.upstream_engine)
            .and_then(|list| list.place)
            .unwrap_or(u32::MAX)
    }

    /// The context to serve: what is asked for, else the model's own, cut at what the row allows.
    fn context(&mut self, limits: &Limits, row: &RowReference) -> Option<u64> {
        let own = self.evaluation.request.facts.context_length;
        let Some(asked) = self.evaluation.request.demand.context else {
            return match (own, limits.max_context) {
                (Some(own), Some(limit)) => Some(own.min(limit)),
                (own, limit) => own.or(limit),
            };
        };
        if let Some(limit) = limits.max_context
            && asked > limit
        {
            self.against(
                ReasonKind::ContextTooLong {
                    asked,
                    limit,
                    of: "row".to_owned(),
                },
                row,
            );
        }
        if let Some(limit) = own
            && asked > limit
        {
            self.against_build(ReasonKind::ContextTooLong {
                asked,
                limit,
                of: "model".to_owned(),
            });
        }
        Some(asked)
    }

    fn placement(
        &mut self,
        (product, vendor): (&Product, &Vendor),
        (limits, proven_devices): (Limits, Option<u32>),
        context: Option<u64>,
    ) -> Option<Placement> {
        let profile = self.profile();
        let request = self.evaluation.request;
        let resource = self.pool.resource();
        let rule = resource.and_then(|name| {
            vendor
                .resources
                .iter()
                .find(|rule| crate::recognise::names::fits(&rule.name, name))
        });
        let (memory, parallel) = profile.map_or((&DEFAULT_MEMORY, &DEFAULT_PARALLEL), |profile| {
            (&profile.memory, &profile.parallel)
        });
        let question = Question {
            facts: &request.facts,
            pool: self.pool,
            limits: &limits,
            memory,
            parallel,
            unit: product.unit.as_ref().and_then(|unit| unit.multiple_of).unwrap_or(1),
            counts: rule.map_or(&[][..], |rule| &rule.counts),
            asked_devices: self.place.preference.and_then(|(_, wish)| wish.devices),
            asked_nodes: request.demand.nodes,
            context,
            concurrency: request.demand.concurrency.unwrap_or(1),
            proven_devices,
        };
        if let (Some(floor), Some(memory)) = (limits.memory_mib, self.pool.memory.bytes)
            && memory >> 20 < floor
        {
            let kind = ReasonKind::TooLittleMemory {
                needs: floor << 20,
                has: memory,
                devices: 1,
            };
            self.against(kind, &product.row);
        }
        let key = PlacementKey {
            limits: limits.clone(),
            profile: self.build.launch.as_deref(),
            proven_devices,
            context,
        };
        match self.place.placement(key, &question) {
            Ok(placement) => {
                if let crate::decision::Fit::Unknown { missing } = &placement.fit {
                    let kind = ReasonKind::FitUnknown {
                        missing: missing.clone(),
                    };
                    self.unknown(request.policy.unknown_fit, kind, &product.row);
                }
                Some(placement)
            }
            Err(kinds) => {
                for kind in kinds {
                    self.against(kind, &product.row);
                }
                None
            }
        }
    }
}

/// For engines whose profile states no constants: those that published tools use for vLLM.
const DEFAULT_MEMORY: MemoryRule = MemoryRule {
    usable_permille: 840,
    base_mib: 2355,
    weights_permille: 50,
    kv_element_bytes: None,
};
const DEFAULT_PARALLEL: ParallelRule = ParallelRule {
    tensor: true,
    layers: false,
    nodes: true,
};
