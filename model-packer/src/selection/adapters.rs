//! Weights that change a model, without the model.

use artifact::FileKind;

use super::Draft;
use super::weights::{Format, is_training, is_weight, join, split, warn_of_pickles};

/// What tools keep beside `adapter_model.*`: a projector, embeddings of new tokens, the head of a reward model.
const SIDE_STEMS: [&str; 3] = ["non_lora_trainables", "new_embeddings", "value_head"];

pub(super) fn is_adapter(path: &str) -> bool {
    split(path).1.starts_with("adapter_model.")
}

/// Whether it goes with an adapter and is no model by itself.
pub(super) fn is_side_file(path: &str) -> bool {
    let stem = split(path).1.rsplit_once('.').map(|(stem, _)| stem);
    stem.is_some_and(|stem| SIDE_STEMS.contains(&stem))
}

/// Takes an adapter without the base model beside it, with what was trained with it; false where there is none.
pub(super) fn choose(draft: &mut Draft<'_>, folder: &str) -> bool {
    let weights: Vec<&str> = draft
        .in_folder(folder)
        .iter()
        .map(|file| file.path.as_str())
        .filter(|path| is_weight(path) && !is_training(path))
        .collect();
    let whole = weights.iter().any(|path| !is_adapter(path) && !is_side_file(path));
    if whole || !draft.is_open(&join(folder, "adapter_config.json")) {
        return false;
    }
    let mut formats = [Format::Safetensors, Format::Bin];
    formats.sort_by_key(|format| draft.wishes.format != Some(*format));
    let find = |stem: &str| {
        let mut names = formats
            .iter()
            .map(|format| join(folder, &format!("{stem}{}", format.suffix())));
        names.find_map(|name| weights.iter().copied().find(|path| *path == name))
    };
    let Some(adapter) = find("adapter_model") else {
        return false;
    };
    draft.take(adapter, FileKind::Weight, "adapter: its weights");
    let beside: Vec<&str> = SIDE_STEMS.into_iter().filter_map(find).collect();
    for path in &beside {
        draft.take(path, FileKind::Weight, "adapter: what was trained with it");
    }
    warn_of_pickles(draft, std::iter::once(adapter).chain(beside));
    true
}
