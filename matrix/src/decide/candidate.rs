//! One candidate: a build on a pool, with everything that speaks against it.

use std::collections::BTreeMap;

use crate::{
    build::{Build, Image},
    decide::{host, policy, statement},
    fit::{self, Placement, Question},
    launch::{MemoryRule, ParallelRule, Profile, Toleration},
    matrix::Matrix,
    observation::Taint,
    pool::{Offer, Pool, Standing},
    product::{Product, Vendor},
    reason::{Reason, ReasonKind, RowReference},
    request::{Preference, Request, UnknownPolicy},
    support::{Level, Limits, ModelMatch},
    version::EngineVersion,
    words::Words,
};

/// A build on a pool of its vendor, or a build without such a pool.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) build: usize,
    pub(crate) pool: Option<usize>,
    pub(crate) reasons: Vec<Reason>,
    pub(crate) caveats: Vec<Reason>,
    pub(crate) accepted: Option<Accepted>,
}

/// What an eligible candidate stands on.
#[derive(Debug, Clone)]
pub(crate) struct Accepted {
    pub(crate) level: Level,
    pub(crate) model_match: ModelMatch,
    pub(crate) row: RowReference,
    pub(crate) evidence: String,
    pub(crate) preference: usize,
    pub(crate) stack: Option<(String, EngineVersion)>,
    pub(crate) image: Image,
    pub(crate) context: Option<u64>,
    pub(crate) placement: Placement,
}

/// One request against the whole matrix.
pub(crate) struct Evaluation<'run> {
    pub(crate) matrix: &'run Matrix,
    pub(crate) request: &'run Request,
    /// Rows of the model by build.
    pairs: Vec<(usize, usize)>,
    /// Launch profiles, joined, by name.
    profiles: BTreeMap<&'run str, Profile>,
}

impl<'run> Evaluation<'run> {
    pub(crate) fn new(matrix: &'run Matrix, request: &'run Request) -> Self {
        let contents = &matrix.contents;
        let pairs = matrix.index.pairs(&request.facts, contents);
        let names = contents.launch.keys();
        let profiles = names
            .filter_map(|name| Some((name.as_str(), crate::launch::join(&contents.launch, name)?)))
            .collect();
        Self {
            matrix,
            request,
            pairs,
            profiles,
        }
    }

    /// All candidates, in the order of builds and pools. Pools that differ in nothing but their names are looked at once.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for (position, build) in self.matrix.contents.builds.iter().enumerate() {
            let vendors = &self.matrix.index.vendors_of[position];
            let before = candidates.len();
            for (number, pool) in self.request.pools.iter().enumerate() {
                if pool.vendor.as_ref().is_some_and(|vendor| vendors.contains(vendor)) {
                    candidates.push(self.candidate(position, build, number, pool));
                }
            }
            if candidates.len() == before {
                let kind = ReasonKind::OtherVendor {
                    vendors: vendors.clone(),
                };
                let reasons = vec![Reason {
                    kind,
                    row: build.row.clone(),
                }];
                candidates.push(Candidate {
                    build: position,
                    pool: None,
                    reasons,
                    caveats: Vec::new(),
                    accepted: None,
                });
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

    fn candidate(&self, position: usize, build: &'run Build, number: usize, pool: &'run Pool) -> Candidate {
        let mut look = Look {
            evaluation: self,
            position,
            build,
            pool,
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
        let accepted = if reasons.is_empty() { accepted } else { None };
        Candidate {
            build: position,
            pool: Some(number),
            reasons,
            caveats,
            accepted,
        }
    }
}

/// A look at one candidate.
pub(crate) struct Look<'run> {
    pub(crate) evaluation: &'run Evaluation<'run>,
    pub(crate) position: usize,
    pub(crate) build: &'run Build,
    pub(crate) pool: &'run Pool,
    pub(crate) reasons: Vec<Reason>,
    pub(crate) caveats: Vec<Reason>,
}

impl<'run> Look<'run> {
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
        self.standing();
        self.taints();
        let preference = self.preference();
        let Some((vendor, product)) = self.product() else {
            let vendor = self
                .pool
                .vendor
                .as_ref()
                .and_then(|id| self.evaluation.matrix.contents.vendors.get(id));
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
        let limits = statement.as_ref().map(|found| found.limits.clone()).unwrap_or_default();
        let context = self.context(
            &limits,
            statement.as_ref().map_or(&self.build.row, |found| &found.row).clone(),
        );
        let placement = self.placement(product, vendor, &limits, preference.map(|(_, wish)| wish), context);
        let found = statement?;
        Some(Accepted {
            level: found.level,
            model_match: found.model_match,
            row: found.row,
            evidence: found.evidence,
            preference: preference.map_or_else(|| usize::from(self.pool.offer == Offer::Node), |(index, _)| index),
            stack: host::main_stack(self.build, vendor),
            image: image?,
            context,
            placement: placement?,
        })
    }

    fn product(&self) -> Option<(&'run Vendor, &'run Product)> {
        let contents = &self.evaluation.matrix.contents;
        let product = contents.products.get(self.pool.product.as_ref()?)?;
        Some((contents.vendors.get(&product.vendor)?, product))
    }

    /// Taints that neither the product's rules nor the deployment tolerate.
    fn taints(&mut self) {
        let vendor = self
            .pool
            .vendor
            .as_ref()
            .and_then(|id| self.evaluation.matrix.contents.vendors.get(id));
        let own = vendor.into_iter().flat_map(|vendor| &vendor.inject.tolerations);
        let tolerations: Vec<&Toleration> = own.chain(&self.evaluation.request.demand.tolerations).collect();
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
                self.against_build(ReasonKind::PoolUnusable { why, fix });
            }
        }
    }

    fn standing(&mut self) {
        match &self.pool.standing {
            Standing::Usable => {}
            Standing::Unusable { why, fix } => {
                let kind = ReasonKind::PoolUnusable {
                    why: why.clone(),
                    fix: fix.clone(),
                };
                self.against_build(kind);
            }
            Standing::Alternative { to } => {
                let asked = self
                    .evaluation
                    .request
                    .demand
                    .accelerators
                    .iter()
                    .any(|wish| wish.partition.is_some() && self.meets(wish));
                if !asked {
                    let kind = ReasonKind::AlternativeOffer {
                        to: to.clone(),
                        offer: self.pool.offer.describe(),
                    };
                    self.against_build(kind);
                }
            }
        }
    }

    /// The first accelerator of the deployment that this pool is.
    fn preference(&mut self) -> Option<(usize, &'run Preference)> {
        let wishes = &self.evaluation.request.demand.accelerators;
        let found = wishes.iter().enumerate().find(|(_, wish)| self.meets(wish));
        if found.is_none() && !wishes.is_empty() {
            let product = self
                .pool
                .product
                .clone()
                .or_else(|| self.pool.raw.clone())
                .unwrap_or_else(|| self.pool.id.clone());
            let asked = wishes.iter().map(describe_wish).collect();
            self.against_build(ReasonKind::AcceleratorNotAsked { product, asked });
        }
        found
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
        let contents = &self.evaluation.matrix.contents;
        let Some(product) = self.pool.product.as_ref().and_then(|id| contents.products.get(id)) else {
            return false;
        };
        let vendor = contents.vendors.get(&product.vendor);
        product.answers_to(word) || vendor.is_some_and(|vendor| crate::recognise::names::means(vendor, product, word))
    }

    fn image(&mut self, product: &Product) -> Option<Image> {
        let build = self.build;
        if build.images.is_empty() {
            self.against_build(ReasonKind::NoImage {});
            return None;
        }
        let Some(images) = images_for(build, product) else {
            let serves = build.images.keys().cloned().collect();
            self.against_build(ReasonKind::ProductNotServed {
                product: product.id.clone(),
                serves,
            });
            return None;
        };
        let image = self.image_for_architecture(images)?;
        if !self.evaluation.request.policy.pull.contains(&image.pull) {
            self.against_build(ReasonKind::PullNotAllowed {
                pull: image.pull.word().to_owned(),
            });
        }
        Some(image.clone())
    }

    fn image_for_architecture(&mut self, images: &'run [Image]) -> Option<&'run Image> {
        let Some(node) = self.pool.architecture.clone() else {
            let row = self.build.row.clone();
            self.caveat(ReasonKind::CpuArchitectureUnknown { of: "node".to_owned() }, &row);
            return images.first();
        };
        let stated = images
            .iter()
            .find(|image| matches!(&image.architectures, Words::These(list) if list.contains(&node)));
        if stated.is_some() {
            return stated;
        }
        let open = images
            .iter()
            .find(|image| matches!(image.architectures, Words::Any | Words::Unset));
        match open {
            Some(image) => {
                if image.architectures.is_unset() {
                    let row = self.build.row.clone();
                    self.caveat(ReasonKind::CpuArchitectureUnknown { of: "image".to_owned() }, &row);
                }
                Some(image)
            }
            None => {
                let image = images
                    .iter()
                    .flat_map(|image| image.architectures.list().to_vec())
                    .collect();
                self.against_build(ReasonKind::CpuArchitecture { node, image });
                images.first()
            }
        }
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

    /// The context to serve: what is asked for, else the model's own, cut at what the row allows.
    fn context(&mut self, limits: &Limits, row: RowReference) -> Option<u64> {
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
                &row,
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
        product: &Product,
        vendor: &Vendor,
        limits: &Limits,
        wish: Option<&Preference>,
        context: Option<u64>,
    ) -> Option<Placement> {
        let profile = self
            .build
            .launch
            .as_deref()
            .and_then(|name| self.evaluation.profiles.get(name));
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
            limits,
            memory,
            parallel,
            unit: product.unit.as_ref().and_then(|unit| unit.multiple_of).unwrap_or(1),
            counts: rule.map_or(&[][..], |rule| &rule.counts),
            asked_devices: wish.and_then(|wish| wish.devices),
            asked_nodes: request.demand.nodes,
            context,
            concurrency: request.demand.concurrency.unwrap_or(1),
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
        match fit::place(&question) {
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

/// Images for a product: by its id, variant, groups, then vendor.
pub(crate) fn images_for<'build>(build: &'build Build, product: &Product) -> Option<&'build [Image]> {
    let words = [Some(&product.id), product.variant.as_ref()];
    let words = words
        .into_iter()
        .flatten()
        .chain(&product.groups)
        .chain(std::iter::once(&product.vendor));
    words
        .filter_map(|word| build.images.get(word))
        .map(Vec::as_slice)
        .find(|images| !images.is_empty())
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
