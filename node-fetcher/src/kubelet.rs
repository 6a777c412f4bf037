//! The kubelet's own thresholds: a store that fills the disk beyond them gets pods evicted.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::store::Floor;

/// The kubelet's defaults of 10 % for its own and 15 % for the images' file system, and of 85 % for collecting images.
const DEFAULT_PERCENT: u8 = 15;

/// The part of a `KubeletConfiguration` that is about disks.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct KubeletConfiguration {
    eviction_hard: Option<BTreeMap<String, String>>,
    #[serde(rename = "imageGCHighThresholdPercent")]
    image_gc_high_threshold_percent: Option<u8>,
}

/// What has to stay free on this node, by the kubelet's configuration where it can be read.
pub fn floor(kubelet_root: &Path) -> Floor {
    let path = kubelet_root.join("config.yaml");
    match std::fs::read_to_string(&path) {
        Ok(text) => floor_of(&text).unwrap_or_else(|problem| {
            tracing::warn!(path = %path.display(), problem, "cannot read the kubelet's thresholds, assuming its defaults");
            Floor::Percent(DEFAULT_PERCENT)
        }),
        Err(error) => {
            tracing::info!(path = %path.display(), %error, "the kubelet's thresholds are not to be seen, assuming its defaults");
            Floor::Percent(DEFAULT_PERCENT)
        }
    }
}

/// One hundredth more than the first threshold at which the kubelet would act.
fn floor_of(text: &str) -> Result<Floor, String> {
    let configuration: KubeletConfiguration = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let collected = 100_u8.saturating_sub(configuration.image_gc_high_threshold_percent.unwrap_or(85));
    let Some(hard) = configuration.eviction_hard else {
        return Ok(Floor::Percent(DEFAULT_PERCENT.max(collected) + 1));
    };
    let (mut percent, mut bytes) = (collected, 0);
    for signal in ["nodefs.available", "imagefs.available"] {
        let Some(threshold) = hard.get(signal) else { continue };
        match threshold.parse::<Floor>().map_err(|error| error.to_string())? {
            Floor::Percent(value) => percent = percent.max(value),
            Floor::Bytes(value) => bytes = bytes.max(value),
        }
    }
    // Bytes and hundredths cannot be compared without a disk; hundredths are what nearly everybody sets.
    Ok(if percent == 0 {
        Floor::Bytes(bytes)
    } else {
        Floor::Percent((percent + 1).min(100))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_lies_above_every_threshold_of_the_kubelet() {
        let cases = [
            ("kind: KubeletConfiguration\n", Floor::Percent(16)),
            ("imageGCHighThresholdPercent: 70\n", Floor::Percent(31)),
            (
                "evictionHard: {nodefs.available: 10%, imagefs.available: 20%}\n",
                Floor::Percent(21),
            ),
            (
                "evictionHard: {nodefs.available: 0%}\nimageGCHighThresholdPercent: 100\n",
                Floor::Bytes(0),
            ),
            (
                "evictionHard: {nodefs.available: 5Gi}\nimageGCHighThresholdPercent: 100\n",
                Floor::Bytes(5 << 30),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(floor_of(text), Ok(expected), "{text}");
        }
        assert!(floor_of("evictionHard: {nodefs.available: much}\n").is_err());
    }
}
