//! One vendor on one node: all evidence together, one find for each way the cards are offered.

use crate::{
    matrix::Matrix,
    observation::{NodeObservation, Observation},
    pool::{Evidence, EvidenceSource, LabelRequirement, Offer},
    product::{Product, SuffixMeaning, Vendor},
    recognise::{
        annotation::{self, Annotations, Registered},
        claim::{self, Slices},
        find::Find,
        label::{self, Named},
        memory, names,
        offer::{self, Offered},
    },
};

/// What is known about the product before looking at the ways it is offered.
#[derive(Debug, Clone, Default)]
struct Identity {
    product: Option<String>,
    raw: Option<String>,
    evidence: Option<Evidence>,
    means: Option<SuffixMeaning>,
    profile: Option<String>,
    affinity: Vec<LabelRequirement>,
}

pub(super) fn look(
    matrix: &Matrix,
    vendor: &Vendor,
    node: &NodeObservation,
    slices: &Slices<'_>,
    observation: &Observation,
) -> Vec<Find> {
    let view = View { matrix, vendor, node };
    let labels = label::products(matrix, vendor, node);
    let annotations = annotation::read(vendor, node);
    let offers = offer::read(vendor, node);
    let present = label::present(vendor, node);
    let mut finds = claim::look(matrix, vendor, node, slices, observation);
    let anything = !labels.is_empty() || !annotations.registered.is_empty() || !offers.is_empty() || present.is_some();
    if anything && !(offers.is_empty() && !finds.is_empty()) {
        finds.extend(view.finds(&labels, &annotations, &offers, present));
    }
    view.order(&mut finds);
    view.finish(&mut finds, &labels, &annotations);
    finds
}

struct View<'run> {
    matrix: &'run Matrix,
    vendor: &'run Vendor,
    node: &'run NodeObservation,
}

impl View<'_> {
    fn product(&self, id: Option<&String>) -> Option<&Product> {
        self.matrix.products().get(id?)
    }

    fn finds(
        &self,
        labels: &[Named],
        annotations: &Annotations,
        offers: &[Offered<'_>],
        present: Option<Evidence>,
    ) -> Vec<Find> {
        let kinds = self.kinds(annotations);
        if offers.is_empty() {
            return vec![self.unoffered(labels, annotations, &kinds, present)];
        }
        let mut finds = Vec::new();
        for offered in offers {
            if offered.is_share(annotations) && kinds.len() > 1 {
                finds.extend(
                    kinds
                        .iter()
                        .map(|kind| self.registered_kind(kind, offered, labels, annotations)),
                );
                continue;
            }
            let identity = self.identity(labels, &kinds, Some(offered));
            let mut find = self.find(&identity, offered.offer(annotations));
            self.count(&mut find, offered, annotations);
            self.measure(&mut find, &identity, Some(offered), annotations);
            if kinds.len() > 1 {
                let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
                find.refuse(
                    format!("cards of several kinds ({}) under one resource name", names.join(", ")),
                    Some("use one kind of card per node, or a sharing plugin that can choose"),
                );
            }
            finds.push(find);
        }
        finds
    }

    /// Registered devices by their type.
    fn kinds(&self, annotations: &Annotations) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = Vec::new();
        for (key, device) in &annotations.registered {
            match kinds.iter_mut().find(|kind| kind.name == device.kind) {
                Some(kind) => kind.devices.push(device.clone()),
                None => kinds.push(Kind {
                    key: key.clone(),
                    name: device.kind.clone(),
                    devices: vec![device.clone()],
                }),
            }
        }
        kinds
    }

    /// Label before annotation before resource name; a label that only says that the chip is unknown gives way to a name that
    /// is known.
    fn identity(&self, labels: &[Named], kinds: &[Kind], offered: Option<&Offered<'_>>) -> Identity {
        let by_label: Vec<Identity> = labels.iter().map(|named| self.by_label(named)).collect();
        let by_annotation = kinds.first().map(|kind| self.by_registration(kind));
        let by_resource = offered.map(|offered| self.by_resource(offered));
        let all: Vec<Identity> = by_label.into_iter().chain(by_annotation).chain(by_resource).collect();
        let named = all
            .iter()
            .find(|identity| identity.means == Some(SuffixMeaning::Invalid));
        let known = named.or_else(|| all.iter().find(|identity| identity.product.is_some()));
        known
            .or_else(|| all.iter().find(|identity| identity.raw.is_some()))
            .or(all.first())
            .cloned()
            .unwrap_or_default()
    }

    fn by_label(&self, named: &Named) -> Identity {
        let pin = LabelRequirement {
            key: named.evidence.key.clone(),
            values: vec![named.evidence.value.clone()],
        };
        Identity {
            product: named.product.clone(),
            raw: Some(named.raw.clone()),
            evidence: Some(named.evidence.clone()),
            means: named.means,
            profile: named.profile.clone(),
            affinity: if named.pins { vec![pin] } else { Vec::new() },
        }
    }

    fn by_registration(&self, kind: &Kind) -> Identity {
        let product = names::product(self.vendor, self.matrix.products().values(), &kind.name);
        Identity {
            product: product.map(|product| product.id.clone()),
            raw: Some(kind.name.clone()),
            evidence: Some(Evidence {
                source: EvidenceSource::Annotation,
                key: kind.key.clone(),
                value: kind.name.clone(),
            }),
            ..Identity::default()
        }
    }

    fn by_resource(&self, offered: &Offered<'_>) -> Identity {
        Identity {
            product: offered.product(self.matrix, self.vendor),
            raw: offered.raw(),
            evidence: Some(Evidence {
                source: EvidenceSource::ResourceName,
                key: offered.name.clone(),
                value: offered.raw().unwrap_or_default(),
            }),
            ..Identity::default()
        }
    }

    fn find(&self, identity: &Identity, offer: Offer) -> Find {
        let mut find = Find::new(self.node, offer);
        find.vendor = Some(self.vendor.id.clone());
        find.product.clone_from(&identity.product);
        find.raw.clone_from(&identity.raw);
        find.evidence.clone_from(&identity.evidence);
        find.affinity.clone_from(&identity.affinity);
        find.host = label::host(self.vendor, self.node);
        match identity.means {
            Some(SuffixMeaning::Invalid) => {
                let raw = identity.raw.clone().unwrap_or_default();
                find.memory = memory::unknown("the partitions of the card are in no valid state");
                find.refuse(
                    format!("{raw}: the card's partitions are in no valid state"),
                    Some("give the card a partition layout that its strategy allows"),
                );
            }
            Some(SuffixMeaning::TimeSlicing) => {
                if let Offer::Whole { resource } = &find.offer {
                    find.offer = Offer::Share {
                        resource: resource.clone(),
                        by: "time-slicing".to_owned(),
                        memory_resource: None,
                        memory_unit: None,
                        cores_resource: None,
                        cores_per_device: None,
                    };
                }
            }
            Some(SuffixMeaning::Partition) => {
                if let Offer::Whole { resource } = &find.offer {
                    find.offer = Offer::Partition {
                        resource: resource.clone(),
                        profile: identity.profile.clone(),
                    };
                }
            }
            None => {}
        }
        for rule in &self.vendor.labels.ready {
            let Some(value) = self.node.labels.get(&rule.key) else {
                continue;
            };
            if rule.value.as_ref().is_some_and(|wanted| wanted != value) {
                find.refuse(
                    format!("the label {}={value} says that the devices are not ready", rule.key),
                    Some("look at the vendor's operator on the node"),
                );
            }
        }
        find
    }

    fn count(&self, find: &mut Find, offered: &Offered<'_>, annotations: &Annotations) {
        let share = offered.is_share(annotations);
        let product = self.product(find.product.as_ref());
        let (behind, certain) = offered.devices_behind(self.node, annotations, product);
        find.devices = if share { behind } else { offered.count };
        if share && !certain {
            find.note(
                "shares-only",
                format!(
                    "{} counts {} shares; of how many cards is unknown",
                    offered.name, offered.count
                ),
            );
        }
        if offered.headless {
            let companions: Vec<String> = [offered.memory_name(), offered.cores_name()]
                .into_iter()
                .flatten()
                .collect();
            find.refuse(
                format!(
                    "{} is missing beside {}: no device can be counted out to a pod",
                    offered.name,
                    companions.join(" and ")
                ),
                Some("run the device plugin that announces the count and registers the devices"),
            );
        } else if offered.count == 0 {
            self.nothing_left(find, offered, annotations);
        }
    }

    fn nothing_left(&self, find: &mut Find, offered: &Offered<'_>, annotations: &Annotations) {
        let healthy = annotations
            .registered
            .iter()
            .filter(|(_, device)| device.healthy)
            .count();
        let why = if healthy > 0 {
            format!(
                "{} is 0 beside a registration of {healthy} healthy devices",
                offered.name
            )
        } else if offered.capacity > 0 {
            format!(
                "{} has {} devices and 0 of them allocatable",
                offered.name, offered.capacity
            )
        } else {
            format!("{} is 0", offered.name)
        };
        find.devices = 0;
        find.note("zero-allocatable", why.clone());
        find.refuse(why, Some("look at the device plugin on the node"));
    }

    /// Memory in the order of trust: partition profile, label, registration, memory resource, catalogue.
    fn measure(&self, find: &mut Find, identity: &Identity, offered: Option<&Offered<'_>>, annotations: &Annotations) {
        if identity.means == Some(SuffixMeaning::Invalid) {
            return;
        }
        let product = self.product(find.product.as_ref());
        let by_label = memory::by_label(self.vendor, self.node);
        let observed = match &find.offer {
            Offer::Partition {
                profile: Some(profile), ..
            } if identity.profile.is_none() => Some(memory::of_profile(product, profile)),
            Offer::Partition {
                profile: Some(profile), ..
            } => by_label.or_else(|| Some(memory::of_profile(product, profile))),
            Offer::Partition { profile: None, .. } => Some(self.smallest_slice(annotations)),
            Offer::Share { by, .. } if by == "time-slicing" => Some(memory::unknown(
                "time slices share the memory of their card and nothing divides it",
            )),
            _ => by_label,
        };
        let registered = self.by_registration_memory(find, annotations);
        let observed = observed
            .filter(|memory| memory.bytes.is_some() || registered.is_none())
            .or(registered);
        let observed = observed.or_else(|| self.by_resource_memory(find, offered, product));
        find.memory = match (observed, product) {
            (Some(memory), _) if memory.bytes.is_some() => memory,
            (Some(memory), Some(product)) if matches!(find.offer, Offer::Whole { .. }) => {
                let catalogue = memory::by_catalogue(product);
                if catalogue.bytes.is_some() { catalogue } else { memory }
            }
            (Some(memory), _) => memory,
            (None, Some(product)) => memory::by_catalogue(product),
            (None, None) => memory::unknown("the product is unknown and the node does not tell"),
        };
    }

    fn smallest_slice(&self, annotations: &Annotations) -> crate::pool::DeviceMemory {
        let profiles = annotations.slices.iter().flat_map(|(_, profiles)| profiles);
        let sizes = profiles
            .map(|profile| memory::of_profile(None, profile))
            .filter(|memory| memory.bytes.is_some());
        sizes
            .min_by_key(|memory| memory.bytes)
            .unwrap_or_else(|| memory::unknown("the profile of a slice decides its memory"))
    }

    fn by_registration_memory(&self, find: &mut Find, annotations: &Annotations) -> Option<crate::pool::DeviceMemory> {
        let own = annotations
            .registered
            .iter()
            .filter(|(_, device)| device.healthy && device.memory_mib > 0);
        let own: Vec<&(String, Registered)> = own
            .filter(|(_, device)| find.raw.as_ref() != Some(&device.kind) || Some(&device.kind) == find.raw.as_ref())
            .collect();
        let smallest = own.iter().map(|(_, device)| device.memory_mib).min()?;
        let largest = own.iter().map(|(_, device)| device.memory_mib).max()?;
        if smallest != largest && matches!(find.offer, Offer::Share { .. } | Offer::Nothing) {
            find.note(
                "memory-differs",
                format!("devices of the node have between {smallest} and {largest} MiB: the smallest counts"),
            );
        }
        let key = own.first().map(|(key, _)| key.clone()).unwrap_or_default();
        memory::plausible(smallest << 20).then(|| memory::known(smallest << 20, key))
    }

    fn by_resource_memory(
        &self,
        find: &Find,
        offered: Option<&Offered<'_>>,
        product: Option<&Product>,
    ) -> Option<crate::pool::DeviceMemory> {
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

    /// One find for one registered kind of card where a node has several.
    fn registered_kind(&self, kind: &Kind, offered: &Offered<'_>, labels: &[Named], annotations: &Annotations) -> Find {
        let identity = self.by_registration(kind);
        let mut find = self.find(&identity, offered.offer(annotations));
        let own = Annotations {
            registered: kind
                .devices
                .iter()
                .map(|device| (kind.key.clone(), device.clone()))
                .collect(),
            ..Annotations::default()
        };
        find.devices = u32::try_from(kind.devices.iter().filter(|device| device.healthy).count()).unwrap_or(u32::MAX);
        find.memory = self
            .by_registration_memory(&mut find, &own)
            .unwrap_or_else(|| memory::unknown("the registration does not tell"));
        let label = labels
            .first()
            .map(|named| format!(", while the label names only {}", named.raw))
            .unwrap_or_default();
        find.note("mixed-devices", format!("the node has cards of several kinds{label}"));
        if self.vendor.inject.share_type_annotation.is_none() {
            find.refuse(
                "cards of several kinds under one resource name",
                Some("use one kind of card per node"),
            );
        }
        find
    }

    /// The vendor's devices show themselves, but no resource offers them.
    fn unoffered(
        &self,
        labels: &[Named],
        annotations: &Annotations,
        kinds: &[Kind],
        present: Option<Evidence>,
    ) -> Find {
        let mut identity = self.identity(labels, kinds, None);
        identity.evidence = identity.evidence.or(present);
        let mut find = self.find(&identity, Offer::Nothing);
        let healthy = annotations
            .registered
            .iter()
            .filter(|(_, device)| device.healthy)
            .count();
        let bare_object = self.node.allocatable.is_empty() && self.node.capacity.is_empty();
        self.measure(&mut find, &identity, None, annotations);
        if bare_object && healthy > 0 {
            self.offered_by_registration(&mut find, annotations, healthy);
            return find;
        }
        let (why, fix) = if bare_object {
            (
                "the node object does not say how many devices it offers",
                "give the whole node object, with its status",
            )
        } else {
            (
                "no resource offers the devices to pods",
                "run the vendor's device plugin on the node",
            )
        };
        find.note("not-offered", why);
        find.refuse(why, Some(fix));
        find
    }

    /// An object without a status: the registration is the only count.
    fn offered_by_registration(&self, find: &mut Find, annotations: &Annotations, healthy: usize) {
        let rule = self
            .vendor
            .resources
            .iter()
            .find(|rule| rule.shared_with.is_some() || rule.by.as_deref() == Some("hami"));
        let Some(rule) = rule.filter(|rule| !rule.name.contains('*')) else {
            return;
        };
        let offered = Offered {
            rule,
            name: rule.name.clone(),
            count: 0,
            capacity: 0,
            middle: String::new(),
            headless: false,
        };
        find.offer = offered.offer(annotations);
        find.devices = u32::try_from(healthy).unwrap_or(u32::MAX);
        let split: Vec<String> = annotations
            .registered
            .iter()
            .map(|(_, device)| device.split.to_string())
            .collect();
        let modes: Vec<&str> = annotations
            .registered
            .iter()
            .filter_map(|(_, device)| device.mode.as_deref())
            .collect();
        let mode = modes.first().map(|mode| format!(", mode {mode}")).unwrap_or_default();
        find.note(
            "count-from-registration",
            format!(
                "the object has no status: {healthy} devices by the registration, split {}{mode}",
                split.first().map_or("", String::as_str)
            ),
        );
    }

    /// The same cards offered in several ways are never added up: whole devices come first, then claims, partitions, shares.
    fn order(&self, finds: &mut [Find]) {
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

    fn finish(&self, finds: &mut [Find], labels: &[Named], annotations: &Annotations) {
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
                self.compare_with_catalogue(find, &product.clone(), bytes);
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

    fn compare_with_catalogue(&self, find: &mut Find, product: &Product, bytes: u64) {
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
}

/// Devices of one type in a registration.
struct Kind {
    key: String,
    name: String,
    devices: Vec<Registered>,
}

fn describe_count(find: &Find) -> String {
    format!("{} x {}", find.devices, find.offer.describe())
}

/// Two labels that name two known products.
fn conflict(labels: &[Named]) -> Option<String> {
    let known: Vec<&Named> = labels.iter().filter(|named| named.product.is_some()).collect();
    let first = known.first()?;
    let other = known.iter().find(|named| named.product != first.product)?;
    let (a, b) = (&first.evidence, &other.evidence);
    Some(format!(
        "{}={} and {}={} name different products: the first counts",
        a.key, a.value, b.key, b.value
    ))
}
