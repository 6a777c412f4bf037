//! Memory of a device: what the node shows comes first, the catalogue second, and an absurd number is no number.

use crate::{
    observation::NodeObservation,
    pool::DeviceMemory,
    product::{Product, Vendor},
    quantity,
    recognise::names,
};

/// Nothing that serves a model has less or more on one device.
const LEAST: u64 = 1 << 30;
const MOST: u64 = 1 << 41;

pub(super) fn plausible(bytes: u64) -> bool {
    (LEAST..=MOST).contains(&bytes)
}

pub(super) fn known(bytes: u64, source: impl Into<String>) -> DeviceMemory {
    DeviceMemory {
        bytes: Some(bytes),
        source: Some(source.into()),
        missing: None,
    }
}

pub(super) fn unknown(missing: impl Into<String>) -> DeviceMemory {
    DeviceMemory {
        bytes: None,
        source: None,
        missing: Some(missing.into()),
    }
}

/// Memory by the vendor's labels.
pub(super) fn by_label(vendor: &Vendor, node: &NodeObservation, product: Option<&Product>) -> Option<DeviceMemory> {
    let mut refused = None;
    for rule in &vendor.labels.memory {
        let Some((key, value)) = label_value(&rule.key, node) else {
            continue;
        };
        match quantity::label_bytes(&value, rule.unit.bytes()) {
            Some(bytes) if plausible(bytes) => return Some(known(bytes, key)),
            Some(_) | None if names::is_placeholder(&value) || value == "0" => {}
            _ => {
                if let Some(memory) = in_another_unit(&key, &value, product) {
                    return Some(memory);
                }
                refused.get_or_insert(unknown(format!("the label {key}={value} is no plausible amount")));
            }
        }
    }
    refused
}

/// Generations of a plugin write one label in different units. A plain number is read in another one only where the catalogue
/// has the same amount: without it nothing tells which unit is meant.
fn in_another_unit(key: &str, value: &str, product: Option<&Product>) -> Option<DeviceMemory> {
    [("MiB", 1 << 20), ("GiB", 1 << 30), ("bytes", 1)]
        .into_iter()
        .find_map(|(unit, factor)| {
            let bytes = quantity::label_bytes(value, factor)?;
            (plausible(bytes) && near(bytes, product)).then(|| known(bytes, format!("{key}, read in {unit}")))
        })
}

/// Whether an amount is about what the catalogue knows.
pub(super) fn near(bytes: u64, product: Option<&Product>) -> bool {
    let sizes = product.into_iter().flat_map(|product| &product.memory_mib);
    sizes
        .into_iter()
        .any(|mib| bytes.abs_diff(mib << 20) <= (mib << 20) / 4)
}

/// The value of a label, or the rest of its key where the rule ends in `*`. A `*` inside stands for the name of a product;
/// of several such labels none is the memory of the node's devices.
fn label_value(pattern: &str, node: &NodeObservation) -> Option<(String, String)> {
    if let Some(front) = pattern.strip_suffix('*') {
        let key = node
            .labels
            .keys()
            .find(|key| key.starts_with(front) && key.len() > front.len())?;
        return Some((key.clone(), key[front.len()..].to_owned()));
    }
    let mut fitting = node.labels.iter().filter(|(key, _)| names::fits(pattern, key));
    let (key, value) = fitting.next()?;
    fitting.next().is_none().then(|| (key.clone(), value.clone()))
}

/// Memory by the catalogue; unknown where boards of one name differ.
pub(super) fn by_catalogue(product: &Product) -> DeviceMemory {
    match product.memory_mib.as_slice() {
        [] => unknown(format!(
            "neither the node nor the matrix states the memory of {}",
            product.id
        )),
        [one] => known(one << 20, "catalogue"),
        several => {
            let sizes: Vec<String> = several.iter().map(u64::to_string).collect();
            unknown(format!(
                "{} comes with {} MiB, and the node does not say which",
                product.id,
                sizes.join(" or ")
            ))
        }
    }
}

/// Memory of a partition: the catalogue's number, else the number inside the profile's name.
pub(super) fn of_profile(product: Option<&Product>, profile: &str) -> DeviceMemory {
    let short = without_attributes(profile.strip_prefix("mig-").unwrap_or(profile));
    let catalogue = product.and_then(|product| {
        let exact = product
            .partitions_mib
            .get(short)
            .or_else(|| product.partitions_mib.get(profile));
        let dashed = product
            .partitions_mib
            .iter()
            .find(|(name, _)| name.replace('.', "-") == short)
            .map(|(_, mib)| mib);
        exact.or(dashed).copied()
    });
    if let Some(mib) = catalogue {
        return known(mib << 20, "catalogue");
    }
    match size_in(short) {
        Some(bytes) if plausible(bytes) => known(bytes, format!("the profile {short}")),
        _ => unknown(format!("the profile {short} does not tell its memory")),
    }
}

/// A profile without what it says about engines: `1g.10gb.me` has the memory of `1g.10gb`.
fn without_attributes(profile: &str) -> &str {
    const ATTRIBUTES: [&str; 6] = [".me", "+me", "-me", ".gfx", "+gfx", ".all"];
    let shorter = ATTRIBUTES.iter().find_map(|attribute| profile.strip_suffix(attribute));
    shorter.map_or(profile, without_attributes)
}

/// `1g.5gb` and `4g48gb` hold 5 and 48 GiB, `5c.1cpu.16g` holds 16: the amount stands at the end.
fn size_in(profile: &str) -> Option<u64> {
    let lower = profile.to_ascii_lowercase();
    let number = lower
        .strip_suffix("gb")
        .or_else(|| lower.strip_suffix("gi"))
        .or_else(|| lower.strip_suffix('g'))?;
    let start = number.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
    // A lone `2g` counts slices, not memory.
    if start == 0 {
        return None;
    }
    number[start..].parse::<u64>().ok().map(|gibibytes| gibibytes << 30)
}

/// Memory by a resource that counts units: the unit is taken only where it is certain.
pub(super) fn by_units(
    total: u64,
    devices: u32,
    units_mib: &[u64],
    resource: &str,
    product: Option<&Product>,
) -> DeviceMemory {
    let per_device = total / u64::from(devices.max(1));
    let readings: Vec<(u64, u64)> = units_mib
        .iter()
        .map(|unit| (*unit, per_device.saturating_mul(*unit) << 20))
        .collect();
    let sane: Vec<&(u64, u64)> = readings.iter().filter(|(_, bytes)| plausible(*bytes)).collect();
    if let Some((_, bytes)) = sane.iter().find(|(_, bytes)| near(*bytes, product)) {
        return known(*bytes, resource);
    }
    match (units_mib, sane.as_slice()) {
        ([_], [(_, bytes)]) => known(*bytes, resource),
        ([unit], _) => unknown(format!(
            "{resource} {total} over {devices} devices would be {} MiB each, which is refused",
            per_device * unit
        )),
        _ => {
            let reading = |(unit, bytes): &(u64, u64)| {
                let refused = if plausible(*bytes) { "" } else { " (refused)" };
                format!("{} MiB{refused}", per_device * unit)
            };
            let texts: Vec<String> = readings.iter().map(reading).collect();
            unknown(format!(
                "{resource} {total} over {devices} devices is {} each, by the unit; the node does not tell the unit",
                texts.join(" or ")
            ))
        }
    }
}
