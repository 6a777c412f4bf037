//! Devices that show themselves, but that no resource offers.

use super::{Kind, View};
use crate::{
    pool::{Evidence, Offer},
    recognise::{annotation::Annotations, find::Find, label::Named, offer::Offered},
};

impl View<'_> {
    /// The vendor's devices show themselves, but no resource offers them.
    pub(super) fn unoffered(
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
            unreadable: None,
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
}
