//! Indexes of shards: which one counts, and which files it names.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::variants::split_variant;
use super::weights::{Format, join, split};
use super::{Draft, SelectionError};

/// The index of the variant that is wished for; the plain one unless the folder has that variant without an index.
pub(super) fn index_of(draft: &Draft<'_>, folder: &str, format: Format) -> Option<String> {
    let indexes = format.indexes();
    let open = |names: Vec<String>| {
        let paths = names.into_iter().map(|name| join(folder, &name));
        paths.into_iter().find(|path| draft.is_open(path))
    };
    let plain = || open(indexes.iter().map(|name| (*name).to_owned()).collect());
    let Some(wanted) = draft.wishes.variant.as_deref() else {
        return plain();
    };
    let own = indexes
        .iter()
        .map(|name| name.replace(".index.json", &format!(".index.{wanted}.json")));
    let files = draft.in_folder(folder);
    let has_it = files.iter().any(|file| {
        split_variant(&file.path, format, draft.words()).is_some_and(|(_, variant)| variant == Some(wanted))
    });
    open(own.collect()).or_else(|| if has_it { None } else { plain() })
}

#[derive(Deserialize)]
struct WeightMap {
    weight_map: BTreeMap<String, String>,
}

/// `model.safetensors.index.json`, and `model.safetensors.index.fp16.json` of a variant.
pub(crate) fn is_index(path: &str) -> bool {
    let words: Vec<&str> = path.rsplit('.').take(3).collect();
    matches!(words.as_slice(), ["json", "index", _] | ["json", _, "index"])
}

/// The files that the index names, with their folder; `None` when it is none.
pub(crate) fn names_in(index: &str, text: &str) -> Option<Vec<String>> {
    let folder = split(index).0;
    let map: WeightMap = serde_json::from_str(text.trim_start_matches('\u{feff}')).ok()?;
    Some(map.weight_map.into_values().map(|name| join(folder, &name)).collect())
}

/// The files that the index names, also in subfolders; one that is missing is an error, because loaders skip it silently.
pub(super) fn indexed_files<'a>(
    draft: &Draft<'a>,
    format: Format,
    index: &str,
    text: &str,
) -> Result<Vec<&'a str>, SelectionError> {
    let bad = |problem: String| SelectionError::BadIndex {
        index: index.to_owned(),
        problem,
    };
    let folder = split(index).0;
    let map: WeightMap =
        serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|error| bad(error.to_string()))?;
    let mut names: Vec<String> = map.weight_map.into_values().map(|name| join(folder, &name)).collect();
    names.sort();
    names.dedup();
    if names.is_empty() {
        return Err(bad("it names no file".into()));
    }
    // Whatever else it names is another weight set under the name of this one: pickles, where none are expected.
    if let Some(other) = names.iter().find(|name| !name.ends_with(format.suffix())) {
        return Err(bad(format!("it names {other}, which is no *{} file", format.suffix())));
    }
    let (present, missing): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| draft.is_open(name));
    if !missing.is_empty() {
        let why = if missing.iter().all(|name| draft.exists(name)) {
            "the patterns leave out"
        } else {
            "is not there"
        };
        return Err(SelectionError::MissingShards {
            index: index.to_owned(),
            missing,
            why,
        });
    }
    Ok(draft
        .open()
        .map(|file| file.path.as_str())
        .filter(|path| present.iter().any(|name| name == path))
        .collect())
}
