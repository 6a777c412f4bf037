//! How the pod gets its devices, and how it is held to what was decided on.

use crate::{
    decision::Choice,
    launch::{DeviceClaim, LaunchInput, LaunchPlan},
    pool::{Offer, Pool},
    product::Vendor,
};

pub(super) fn hand_over(plan: &mut LaunchPlan, vendor: &Vendor, choice: &Choice, input: &LaunchInput) {
    for (name, value) in vendor.environment() {
        plan.env.entry(name.clone()).or_insert_with(|| value.clone());
    }
    plan.tolerations.extend(vendor.inject.tolerations.iter().cloned());
    for group in &vendor.inject.group_ids {
        if !plan.group_ids.contains(group) {
            plan.group_ids.push(*group);
        }
    }
    runtime_class(plan, vendor, input);
    let Some(pool) = &input.pool else {
        plan.notes
            .push(format!("the pool {} is gone: nothing holds the pod to it", choice.pool));
        return;
    };
    plan.node_affinity.clone_from(&pool.affinity);
    let per_pod = choice.devices.checked_div(choice.nodes).unwrap_or(choice.devices);
    offer(plan, vendor, pool, choice, per_pod);
}

/// A class is set only where the cluster has it: an unknown one gets the pod refused.
fn runtime_class(plan: &mut LaunchPlan, vendor: &Vendor, input: &LaunchInput) {
    let Some(class) = &vendor.inject.runtime_class else {
        return;
    };
    match &input.runtime_classes {
        Some(classes) if classes.contains(class) => plan.runtime_class = Some(class.clone()),
        Some(_) if vendor.inject.needs_toolkit => {
            let text = "has no runtime class";
            plan.notes.push(format!(
                "the cluster {text} {class}: the node's default runtime must be the vendor's"
            ));
        }
        Some(_) => {}
        None => plan
            .notes
            .push(format!("runtime classes were not read, so {class} is not set")),
    }
}

fn offer(plan: &mut LaunchPlan, vendor: &Vendor, pool: &Pool, choice: &Choice, per_pod: u32) {
    match &pool.offer {
        Offer::Whole { resource } | Offer::Partition { resource, .. } => {
            plan.resources.insert(resource.clone(), per_pod.to_string());
        }
        Offer::Share {
            resource,
            memory_resource,
            memory_unit,
            cores_resource,
            cores_per_device,
            ..
        } => {
            plan.resources.insert(resource.clone(), per_pod.to_string());
            if let (Some(name), Some(unit), Some(bytes)) = (memory_resource, memory_unit, pool.memory.bytes) {
                plan.resources
                    .insert(name.clone(), (bytes / (*unit).max(1)).to_string());
            }
            if let (Some(name), Some(cores)) = (cores_resource, cores_per_device) {
                plan.resources.insert(name.clone(), cores.to_string());
            }
            if let (Some(key), Some(raw)) = (&vendor.inject.share_type_annotation, &pool.raw) {
                plan.annotations.insert(key.clone(), raw.clone());
            }
        }
        Offer::Claim {
            driver,
            device_class,
            attributes,
            ..
        } => {
            let selectors = attributes
                .iter()
                .map(|(name, value)| selector(driver, name, value))
                .collect();
            match device_class {
                Some(class) => {
                    plan.claim = Some(DeviceClaim {
                        device_class: class.clone(),
                        count: per_pod,
                        selectors,
                    });
                }
                None => plan.notes.push(format!(
                    "no device class of {driver} was seen: the claim cannot be made"
                )),
            }
        }
        Offer::Node => {}
        Offer::Nothing => plan
            .notes
            .push(format!("nothing offers the devices of {} to pods", choice.pool)),
    }
}

/// Reading an attribute that a device lacks stops the allocation, so it is guarded.
fn selector(driver: &str, name: &str, value: &str) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let (name, value) = (quoted(name), quoted(value));
    format!("has(device.attributes[\"{driver}\"].{name}) && device.attributes[\"{driver}\"].{name} == \"{value}\"")
}
