//! Empty fields as other writers put them: programs in Go write `null` for a list or a map that was never filled, and their
//! readers take it for an empty one.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// `null` as the default.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A map of texts; without those that are `null`, and empty when it is `null` itself.
pub(crate) fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let map: BTreeMap<String, Option<String>> = null_as_default(deserializer)?;
    Ok(map.into_iter().filter_map(|(key, text)| Some((key, text?))).collect())
}
