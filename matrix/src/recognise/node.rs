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

mod divide;
mod measure;
mod order;
mod unoffered;

/// What is known about the product before looking at the ways it is offered.
#[derive(Debug, Clone, Default)]
struct Identity {
    product: Option<String>,
    raw: Option<String>,
    evidence: Option<Evidence>,
    means: Option<SuffixMeaning>,
    shared: bool,
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
    let only_claims = offers.is_empty() && !finds.is_empty();
    if anything && !only_claims {
        finds.extend(view.finds(&labels, &annotations, &offers, present));
    }
    view.name_claims(&mut finds, &labels);
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
        let kinds = kinds(annotations);
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
            let names: Vec<&str> = if kinds.len() > 1 {
                kinds.iter().map(|kind| kind.name.as_str()).collect()
            } else {
                label::several(labels)
            };
            if names.len() > 1 {
                find.refuse(
                    format!("cards of several kinds ({}) under one resource name", names.join(", ")),
                    Some("use one kind of card per node, or a sharing plugin that can choose"),
                );
            }
            finds.push(find);
        }
        finds
    }

    /// Label before annotation before resource name; a label that only says that the chip is unknown gives way to a name that
    /// is known.
    fn identity(&self, labels: &[Named], kinds: &[Kind], offered: Option<&Offered<'_>>) -> Identity {
        let by_label: Vec<Identity> = labels.iter().map(by_label).collect();
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
        self.divide(&mut find, identity);
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
            let cards = match self.labelled_count() {
                Some((key, cards)) => format!(" of {cards} cards by {key}"),
                None => "; of how many cards is unknown".to_owned(),
            };
            let text = format!("{} counts {} shares{cards}", offered.name, offered.count);
            find.note("shares-only", text);
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
        } else if let Some(text) = &offered.unreadable {
            let why = format!("{}={text} is no count of devices", offered.name);
            find.devices = 0;
            find.note("unreadable-count", why.clone());
            find.refuse(why, Some("look at the device plugin on the node"));
        } else if offered.count == 0 {
            nothing_left(find, offered, annotations);
        } else {
            self.compare_counts(find, offered);
        }
    }

    /// More units than the label counts cards are shares of them, whatever the resource is called; fewer allocatable ones than
    /// there are say that something is wrong on the node.
    fn compare_counts(&self, find: &mut Find, offered: &Offered<'_>) {
        if offered.count < offered.capacity {
            let text = format!(
                "{} of {} units of {} are allocatable",
                offered.count, offered.capacity, offered.name
            );
            find.note("fewer-allocatable", text);
        }
        let Offer::Whole { resource } = &find.offer else { return };
        let Some((key, cards)) = self.labelled_count().filter(|(_, cards)| *cards < offered.count) else {
            return;
        };
        let text = format!(
            "{resource} counts {} units and {key} says {cards} cards: the units are shares of them",
            offered.count
        );
        find.offer = divide::shares(resource, divide::TIME_SLICING);
        find.note("count-differs", text);
    }

    /// Cards by a label, zero left out.
    fn labelled_count(&self) -> Option<(&String, u32)> {
        let keys = self.vendor.labels.count.iter();
        let mut counts = keys.filter_map(|key| Some((key, self.node.labels.get(key)?.parse::<u32>().ok()?)));
        counts.find(|(_, cards)| *cards > 0)
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
        let product = self.product(find.product.as_ref());
        find.memory = measure::by_registration_memory(&mut find, &own, product)
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
}

/// Devices of one type in a registration.
struct Kind {
    key: String,
    name: String,
    devices: Vec<Registered>,
}

/// Registered devices by their type.
fn kinds(annotations: &Annotations) -> Vec<Kind> {
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

fn by_label(named: &Named) -> Identity {
    let pin = LabelRequirement {
        key: named.evidence.key.clone(),
        values: vec![named.evidence.value.clone()],
    };
    Identity {
        product: named.product.clone(),
        raw: Some(named.raw.clone()),
        evidence: Some(named.evidence.clone()),
        means: named.means,
        shared: named.shared,
        profile: named.profile.clone(),
        affinity: if named.pins { vec![pin] } else { Vec::new() },
    }
}

fn nothing_left(find: &mut Find, offered: &Offered<'_>, annotations: &Annotations) {
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
