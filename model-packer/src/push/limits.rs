//! What a registry is known to refuse is said before anything moves.

use super::PushSettings;
use crate::error::PackError;

/// Layers besides those of the files: the source lock.
const OWN_LAYERS: usize = 1;

/// Refuses layers, told by name and size, that the registry does not take.
pub fn check_limits<'a>(
    mut layers: impl ExactSizeIterator<Item = (&'a str, u64)>,
    settings: &PushSettings,
) -> Result<(), PackError> {
    let profile = settings.client.profile(&settings.target);
    let registry = || settings.target.registry().to_owned();
    let count = layers.len() + OWN_LAYERS;
    if let Some(limit) = profile.max_layers.filter(|limit| count > *limit as usize) {
        return Err(PackError::TooManyLayers {
            registry: registry(),
            limit,
            layers: count,
        });
    }
    let Some(limit) = profile.max_blob_bytes else {
        return Ok(());
    };
    match layers.find(|(_, size)| *size > limit) {
        Some((path, size)) => Err(PackError::TooLargeBlob {
            registry: registry(),
            limit,
            path: path.to_owned(),
            size,
        }),
        None => Ok(()),
    }
}
