//! Weights below the root that an include pattern reaches: each folder has one weight set, as the root has.

use std::collections::BTreeSet;

use super::composites::take_what_is_named;
use super::shards::check_numbering;
use super::weights::{choose_in, format_in, is_of_a_set, is_weight, split};
use super::{Draft, SelectionError, Texts, adapters, gguf};

pub(super) fn choose_included(draft: &mut Draft<'_>, texts: &Texts) -> Result<(), SelectionError> {
    let folders: BTreeSet<&str> = draft
        .open()
        .filter(|file| is_weight(&file.path) && draft.wishes.include.matches(&file.path))
        .map(|file| split(&file.path).0)
        .filter(|folder| !folder.is_empty())
        .collect();
    for folder in folders {
        choose_folder(draft, texts, folder)?;
    }
    Ok(())
}

fn choose_folder(draft: &mut Draft<'_>, texts: &Texts, folder: &str) -> Result<(), SelectionError> {
    let mut chosen = adapters::choose(draft, folder);
    if let Some(format) = format_in(draft, folder).filter(|_| !chosen) {
        choose_in(draft, texts, folder, format)?;
        chosen = true;
    }
    if chosen {
        take_what_is_named(draft, folder);
    }
    let rest: Vec<&str> = draft
        .in_folder(folder)
        .iter()
        .map(|file| file.path.as_str())
        .filter(|path| is_weight(path))
        .collect();
    if chosen {
        for path in rest.into_iter().filter(|path| is_of_a_set(path)) {
            draft.leave(
                path,
                "a second weight set of its folder; --format chooses, or --include with its whole name",
            );
        }
        return Ok(());
    }
    // Quantisations that a pattern names are taken as named; a set of numbered files has no use without one of them.
    let quantisations: Vec<&str> = rest.into_iter().filter(|path| gguf::is_gguf(path)).collect();
    check_numbering(&quantisations)
}
