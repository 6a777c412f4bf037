//! Models of several parts, each with a weight set of its own: the folders of a pipeline, the modules of a sentence encoder.

use std::collections::BTreeSet;

use artifact::FileKind;
use serde_json::Value;

use super::indexes::names_in;
use super::variants::is_of_a_family;
use super::weights::{Format, choose_in, format_in, is_weight, split, warn_of_pickles};
use super::{Draft, SelectionError, Texts, adapters};

const MODULES: &str = "modules.json";
const PIPELINE: &str = "model_index.json";

/// `1_Pooling` and its like: the folders that modules.json names, and those that a router in the root names.
pub(super) fn module_folders(draft: &Draft<'_>, texts: &Texts) -> Vec<String> {
    let parsed = |name: &str| -> Value {
        let text = texts.get(name).filter(|_| draft.is_open(name));
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    };
    let modules = parsed(MODULES);
    if modules.is_null() {
        return Vec::new();
    }
    let router = parsed("router_config.json");
    let paths = modules
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|module| module["path"].as_str());
    let named = router["types"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(path, _)| path.as_str());
    paths
        .chain(named)
        .map(|path| path.trim_start_matches("./").trim_matches('/').to_owned())
        .filter(|path| !path.is_empty())
        .collect()
}

pub(super) fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// A module has one weight set too, and so has each part of it: the one of the loaders' order.
pub(super) fn choose_module(draft: &mut Draft<'_>, texts: &Texts, module: &str) -> Result<(), SelectionError> {
    let open: Vec<&str> = draft.open().map(|file| file.path.as_str()).collect();
    let inside = |path: &&str| is_below(path, module);
    let folders: BTreeSet<&str> = open.iter().copied().filter(inside).map(|path| split(path).0).collect();
    for folder in folders {
        if adapters::choose(draft, folder) {
            continue;
        }
        if let Some(format) = format_in(draft, folder) {
            choose_in(draft, texts, folder, format)?;
        }
    }
    for path in open.into_iter().filter(inside).filter(|path| is_weight(path)) {
        draft.leave(path, "a second weight set of a module");
    }
    Ok(())
}

/// Folders that `model_index.json` names: values that are pairs of library and class.
pub(super) fn diffusers_folders(draft: &Draft<'_>, texts: &Texts) -> Result<Option<Vec<String>>, SelectionError> {
    let Some(text) = texts.get(PIPELINE).filter(|_| draft.is_open(PIPELINE)) else {
        return Ok(None);
    };
    let parsed: Result<serde_json::Map<String, Value>, _> = serde_json::from_str(text);
    let parts = parsed.map_err(|error| SelectionError::BadIndex {
        index: PIPELINE.to_owned(),
        problem: error.to_string(),
    })?;
    let folders = parts.into_iter().filter(|(_, part)| {
        part.as_array()
            .is_some_and(|pair| pair.len() == 2 && !pair[1].is_null())
    });
    Ok(Some(folders.map(|(name, _)| name).collect()))
}

pub(super) fn choose_diffusers(draft: &mut Draft<'_>, texts: &Texts, folders: &[String]) -> Result<(), SelectionError> {
    draft.pipeline = true;
    take_what_is_named(draft, "");
    for folder in folders {
        leave_unknown_names(draft, texts, folder);
        if let Some(format) = format_in(draft, folder) {
            choose_in(draft, texts, folder, format)?;
        }
    }
    let rest: Vec<&str> = draft
        .open()
        .map(|file| file.path.as_str())
        .filter(|path| is_weight(path))
        .filter(|path| !path.contains('/') || folders.iter().any(|folder| is_below(path, folder)))
        .collect();
    for path in rest {
        draft.leave(
            path,
            "not the weights that model_index.json names, or a second set of them",
        );
    }
    Ok(())
}

/// What a user names whole he wants beside the set: a single file of the whole pipeline, a head that only some servers load.
pub(super) fn take_what_is_named(draft: &mut Draft<'_>, folder: &str) {
    let named: Vec<&str> = draft
        .in_folder(folder)
        .iter()
        .map(|file| file.path.as_str())
        .filter(|path| is_weight(path) && draft.wishes.include.names(path))
        .collect();
    warn_of_pickles(draft, named.iter().copied());
    for path in named {
        draft.take(path, FileKind::Weight, "an include pattern names it");
    }
}

/// Where a folder has files under the names that loaders look for, or an index that names them, the others are not loaded.
pub(super) fn leave_unknown_names(draft: &mut Draft<'_>, texts: &Texts, folder: &str) {
    let open = draft.in_folder(folder).into_iter().map(|file| file.path.as_str());
    let (weights, others): (Vec<&str>, Vec<&str>) = open.partition(|path| is_weight(path));
    let lists = others.into_iter().filter_map(|path| names_in(path, texts.get(path)?));
    let indexed: BTreeSet<String> = lists.flatten().collect();
    let known = |path: &&str| {
        let mut formats = [Format::Safetensors, Format::Bin].into_iter();
        indexed.contains(*path) || formats.any(|format| is_of_a_family(path, format, draft.words()))
    };
    let (known, unknown): (Vec<&str>, Vec<&str>) = weights.into_iter().partition(known);
    for path in unknown.into_iter().filter(|_| !known.is_empty()) {
        if draft.wishes.include.names(path) {
            draft.take(path, FileKind::Weight, "an include pattern names it");
        } else {
            draft.leave(path, "not under a name that diffusers loads");
        }
    }
}
