//! Files that were cut by bytes: no part is a model, and all of them are one only when they are joined.

use std::collections::BTreeMap;

use model_facts::RawPart;

use super::weights::is_weight;
use super::{Draft, SelectionError, gguf};

/// Parts of the files that they make, each list in the order of joining.
type Cuts<'a> = BTreeMap<String, Vec<(RawPart, &'a str)>>;

/// Leaves raw parts out beside a model; refuses them where there is none, or where they are what was wished for.
pub(super) fn refuse(draft: &mut Draft<'_>) -> Result<(), SelectionError> {
    let cuts = cuts(draft);
    let whole: Vec<&str> = draft
        .open()
        .map(|file| file.path.as_str())
        .filter(|path| is_weight(path) && RawPart::of(path).is_none() && !gguf::is_side_file(path))
        .collect();
    let quant = |wanted: &str| {
        let is_it = |path: &str| gguf::quant_of(path).is_some_and(|label| gguf::is_called(&label, wanted));
        let in_whole = whole.iter().any(|path| gguf::is_gguf(path) && is_it(path));
        cuts.iter().find(|(name, _)| !in_whole && is_it(name))
    };
    let wished = draft.wishes.quant.as_deref().and_then(quant);
    let only = cuts.first_key_value().filter(|_| whole.is_empty());
    if let Some((name, parts)) = wished.or(only) {
        return Err(SelectionError::RawParts {
            name: name.clone(),
            parts: parts.iter().map(|(_, path)| (*path).to_owned()).collect(),
            missing: missing(parts),
        });
    }
    for (_, path) in cuts.into_values().flatten() {
        draft.leave(path, "a part cut by bytes; it is no model before the parts are joined");
    }
    Ok(())
}

fn cuts<'a>(draft: &Draft<'a>) -> Cuts<'a> {
    let mut cuts = Cuts::new();
    for file in draft.open() {
        if let Some(part) = RawPart::of(&file.path) {
            cuts.entry(part.whole.clone()).or_default().push((part, &file.path));
        }
    }
    for parts in cuts.values_mut() {
        parts.sort_by_key(|(part, path)| (part.number, *path));
    }
    cuts
}

/// The numbers that are not there, as far as the names tell how many there should be.
fn missing(parts: &[(RawPart, &str)]) -> Vec<u32> {
    /// A count beyond it is no count of parts.
    const MOST: u32 = 10_000;
    let numbers: Vec<u32> = parts.iter().map(|(part, _)| part.number).collect();
    let told = parts.iter().filter_map(|(part, _)| part.count).max();
    let last = numbers.iter().copied().max().max(told).unwrap_or_default().min(MOST);
    (1..=last).filter(|number| !numbers.contains(number)).collect()
}
