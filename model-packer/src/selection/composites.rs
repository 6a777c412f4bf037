//! Models of several parts, each with a weight set of its own: the folders of a pipeline, the modules of a sentence encoder.

use super::weights::{Format, choose_in, choose_with, is_weight, join};
use super::{Draft, SelectionError, Texts};

/// `1_Pooling` and its like: the folders that modules.json names.
pub(super) fn module_folders(texts: &Texts) -> Vec<String> {
    let Some(text) = texts.get("modules.json") else {
        return Vec::new();
    };
    let modules: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let paths = modules
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|module| module["path"].as_str());
    paths
        .filter(|path| !path.is_empty())
        .map(|path| path.split('/').next().unwrap_or(path).to_owned())
        .collect()
}

/// A module has one weight set too: the one of the loaders' order.
pub(super) fn choose_module(draft: &mut Draft<'_>, texts: &Texts, folder: &str) -> Result<(), SelectionError> {
    let prefix = format!("{folder}/");
    let has = |format: &Format| {
        let mut files = draft.in_folder(folder).into_iter();
        files.any(|file| file.path.ends_with(format.suffix()))
    };
    if let Some(format) = [Format::Safetensors, Format::Bin, Format::Pt].into_iter().find(has) {
        choose_in(draft, texts, folder, format)?;
    }
    let rest: Vec<&str> = draft.open().map(|file| file.path.as_str()).collect();
    for path in rest
        .into_iter()
        .filter(|path| path.starts_with(&prefix) && is_weight(path))
    {
        draft.leave(path, "a second weight set of a module");
    }
    Ok(())
}

/// Folders that `model_index.json` names: values that are pairs of library and class.
pub(super) fn diffusers_folders(texts: &Texts) -> Result<Option<Vec<String>>, SelectionError> {
    const LIST: &str = "model_index.json";
    let Some(text) = texts.get(LIST) else { return Ok(None) };
    let parsed: Result<serde_json::Map<String, serde_json::Value>, _> = serde_json::from_str(text);
    let parts = parsed.map_err(|error| SelectionError::BadIndex {
        index: LIST.to_owned(),
        problem: error.to_string(),
    })?;
    let folders = parts.into_iter().filter(|(_, part)| {
        part.as_array()
            .is_some_and(|pair| pair.len() == 2 && !pair[1].is_null())
    });
    Ok(Some(folders.map(|(name, _)| name).collect()))
}

pub(super) fn choose_diffusers(draft: &mut Draft<'_>, texts: &Texts, folders: &[String]) -> Result<(), SelectionError> {
    let formats = [
        (
            Format::Safetensors,
            [
                "diffusion_pytorch_model.safetensors.index.json",
                "model.safetensors.index.json",
            ],
        ),
        (
            Format::Bin,
            ["diffusion_pytorch_model.bin.index.json", "pytorch_model.bin.index.json"],
        ),
    ];
    for folder in folders {
        let has = |format: Format, indexes: &[&str]| {
            let files = draft.in_folder(folder);
            let any = files.iter().any(|file| file.path.ends_with(format.suffix()));
            any || indexes.iter().any(|name| draft.is_open(&join(folder, name)))
        };
        let format = formats.iter().find(|(format, indexes)| has(*format, indexes));
        if let Some((format, indexes)) = format {
            choose_with(draft, texts, folder, *format, indexes)?;
        }
    }
    let rest: Vec<&str> = draft
        .open()
        .map(|file| file.path.as_str())
        .filter(|path| is_weight(path))
        .collect();
    for path in rest {
        draft.leave(
            path,
            "not the weights that model_index.json names, or a second set of them",
        );
    }
    Ok(())
}
