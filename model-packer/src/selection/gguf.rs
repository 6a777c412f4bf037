//! GGUF names: quantisation, numbered parts, and what lies beside models.

use std::collections::BTreeMap;

use artifact::FileKind;
use serde::Serialize;

use super::shards::Shard;
use super::{Draft, SelectionError};
use crate::sources::ListedFile;

/// Files of one quantisation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuantGroup {
    /// `Q4_K_M`, or the file's name where it says none.
    pub label: String,
    /// Bytes of all its parts.
    pub size: u64,
    /// Its parts.
    pub files: Vec<String>,
}

/// The quantisation in a file's path: the last word of the name that is one, else the folder's name.
pub fn quant_of(path: &str) -> Option<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.strip_suffix(".gguf").unwrap_or(name);
    let stem = Shard::of(name).map_or(stem, |shard| shard.prefix_of(stem));
    last_quant(stem).or_else(|| last_quant(folder.rsplit('/').next().unwrap_or(folder)))
}

fn last_quant(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split(['-', '.']).collect();
    let (at, quant) = words
        .iter()
        .enumerate()
        .rev()
        .find_map(|(at, word)| Some((at, quant_in(word)?)))?;
    let way = at
        .checked_sub(1)
        .and_then(|before| way_of(words[before]))
        .unwrap_or_default();
    Some(format!("{way}{}", quant.to_ascii_uppercase()))
}

/// Two ways of quantising whose files lie beside the ordinary ones under the same word: Unsloth's, and by an importance matrix.
fn way_of(word: &str) -> Option<&'static str> {
    let ways = [("ud", "UD-"), ("i1", "i1-")];
    let way = ways.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name));
    way.map(|(_, prefix)| prefix)
}

/// The word itself, or its end behind an underscore: `gemma_q4_0` -> `q4_0`.
fn quant_in(word: &str) -> Option<&str> {
    let ends = word.match_indices('_').map(|(at, _)| &word[at + 1..]);
    std::iter::once(word).chain(ends).find(|end| is_quant(end))
}

/// Whether a user who writes `wanted` may mean this label: the way of quantising need not be named.
pub(super) fn is_called(label: &str, wanted: &str) -> bool {
    let plain = ["UD-", "i1-"].iter().find_map(|way| label.strip_prefix(way));
    label.eq_ignore_ascii_case(wanted) || plain.is_some_and(|plain| plain.eq_ignore_ascii_case(wanted))
}

/// `Q4_K_M`, `IQ2_XXS`, `TQ1_0`, `F16`, `BF16`, `MXFP4`, `MXFP4_MOE`, `NVFP4`.
fn is_quant(word: &str) -> bool {
    let word = word.to_ascii_uppercase();
    let numbered = |prefix: &str| {
        word.strip_prefix(prefix).is_some_and(|rest| {
            rest.starts_with(|digit: char| ('1'..='8').contains(&digit))
                && rest[1..].split('_').skip(1).all(|part| !part.is_empty())
                && (rest.len() == 1 || rest[1..].starts_with('_'))
        })
    };
    let float = ["F16", "F32", "BF16", "FP16", "FP32"].contains(&word.as_str());
    float || word.starts_with("MXFP4") || word.starts_with("NVFP4") || numbered("Q") || numbered("IQ") || numbered("TQ")
}

/// Takes exactly one quantisation, all of its parts, and a projector.
pub(crate) fn choose(draft: &mut Draft<'_>) -> Result<(), SelectionError> {
    let files: Vec<&ListedFile> = draft.open().filter(|file| is_gguf(&file.path)).collect();
    let (projectors, models): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| is_projector(&file.path));
    let (others, models): (Vec<_>, Vec<_>) = models.into_iter().partition(|file| is_matrix(&file.path));
    for file in others {
        draft.leave(&file.path, "an importance matrix, used to quantise and not to serve");
    }
    let groups = group(&models);
    let Some(chosen) = pick(draft, &groups)? else {
        for file in projectors {
            draft.leave(&file.path, "a projector without its model");
        }
        return Ok(());
    };
    check_parts(chosen)?;
    for file in &models {
        if chosen.files.contains(&file.path) {
            draft.take(&file.path, FileKind::Weight, "gguf: the chosen quantisation");
        } else {
            draft.leave(&file.path, format!("another quantisation; {} was chosen", chosen.label));
        }
    }
    take_projector(draft, projectors);
    Ok(())
}

pub(crate) fn is_gguf(path: &str) -> bool {
    path.to_ascii_lowercase().ends_with(".gguf")
}

/// What lies beside models and is none.
pub(super) fn is_side_file(path: &str) -> bool {
    is_gguf(path) && (is_projector(path) || is_matrix(path))
}

fn is_projector(path: &str) -> bool {
    base_name(path).to_ascii_lowercase().contains("mmproj")
}

/// A model may say in its name that it was made with an importance matrix; then it says its quantisation too.
fn is_matrix(path: &str) -> bool {
    let name = base_name(path).to_ascii_lowercase();
    let says_none = quant_of(base_name(path)).is_none();
    name.contains("imatrix") && (name.starts_with("imatrix") || says_none)
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn group(models: &[&ListedFile]) -> Vec<QuantGroup> {
    let mut groups: BTreeMap<(String, String), QuantGroup> = BTreeMap::new();
    for file in models {
        let stem = file.path.strip_suffix(".gguf").unwrap_or(&file.path);
        let set = Shard::of(&file.path)
            .map_or(stem, |shard| shard.prefix_of(stem))
            .to_owned();
        let label = quant_of(&file.path).unwrap_or_else(|| base_name(&set).to_owned());
        let group = groups.entry((label.clone(), set)).or_insert_with(|| QuantGroup {
            label,
            size: 0,
            files: Vec::new(),
        });
        group.size += file.size;
        group.files.push(file.path.clone());
    }
    groups.into_values().collect()
}

fn pick<'g>(draft: &Draft<'_>, groups: &'g [QuantGroup]) -> Result<Option<&'g QuantGroup>, SelectionError> {
    let several = |groups: Vec<QuantGroup>| Err(SelectionError::SeveralQuants { groups });
    let Some(wanted) = &draft.wishes.quant else {
        return match groups {
            [only] => Ok(Some(only)),
            [] => Ok(None),
            _ => several(groups.to_vec()),
        };
    };
    let fitting = |fits: &dyn Fn(&str) -> bool| -> Vec<&'g QuantGroup> {
        groups.iter().filter(|group| fits(&group.label)).collect()
    };
    let mut found = fitting(&|label| label.eq_ignore_ascii_case(wanted));
    if found.is_empty() {
        found = fitting(&|label| is_called(label, wanted));
    }
    match found.as_slice() {
        [only] => Ok(Some(only)),
        [] => Err(SelectionError::NoSuchQuant {
            wanted: wanted.clone(),
            groups: groups.to_vec(),
        }),
        alike => several(alike.iter().map(|group| (*group).clone()).collect()),
    }
}

fn check_parts(group: &QuantGroup) -> Result<(), SelectionError> {
    let Some(shard) = group.files.first().and_then(|path| Shard::of(path)) else {
        return Ok(());
    };
    if group.files.len() == shard.total {
        return Ok(());
    }
    Err(SelectionError::IncompleteSet {
        name: group.label.clone(),
        found: group.files.len(),
        total: shard.total,
    })
}

/// One projector; half precision is what servers expect.
fn take_projector<'a>(draft: &mut Draft<'a>, mut projectors: Vec<&'a ListedFile>) {
    let rank = |file: &&ListedFile| {
        let quant = quant_of(&file.path);
        ["F16", "BF16"]
            .iter()
            .position(|better| quant.as_deref() == Some(better))
            .unwrap_or(2)
    };
    projectors.sort_by_key(|file| (rank(file), &file.path));
    for (number, file) in projectors.into_iter().enumerate() {
        if number == 0 {
            draft.take(&file.path, FileKind::Weight, "gguf: the projector");
        } else {
            draft.leave(&file.path, "another precision of the projector");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantisations_are_read_from_names_and_folders() {
        let cases = [
            ("SmolLM2-135M-Instruct.Q4_1.gguf", Some("Q4_1")),
            ("Qwen3-8B-Q4_K_M.gguf", Some("Q4_K_M")),
            ("Qwen3-8B-UD-Q4_K_XL.gguf", Some("UD-Q4_K_XL")),
            ("qwen2.5-7b-instruct-q4_k_m-00001-of-00002.gguf", Some("Q4_K_M")),
            ("BF16/model-00001-of-00003.gguf", Some("BF16")),
            ("gpt-oss-20b-mxfp4.gguf", Some("MXFP4")),
            ("model.IQ2_XXS.gguf", Some("IQ2_XXS")),
            ("model-f16.gguf", Some("F16")),
            ("ggml-model-Q8_0.gguf", Some("Q8_0")),
            ("gemma_q4_0.gguf", Some("Q4_0")),
            ("my_model_IQ3_XS.gguf", Some("IQ3_XS")),
            ("m.i1-Q4_K_M.gguf", Some("i1-Q4_K_M")),
            ("X-imatrix-Q4_K_M.gguf", Some("Q4_K_M")),
            ("Q-model.gguf", None),
            ("model_4_0.gguf", None),
            ("Qwen3-8B.gguf", None),
            ("model-Q9.gguf", None),
        ];
        for (path, expected) in cases {
            assert_eq!(quant_of(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn the_way_of_quantising_may_be_left_out_and_not_changed() {
        let cases = [
            ("i1-Q4_K_M", "q4_k_m", true),
            ("i1-Q4_K_M", "I1-Q4_K_M", true),
            ("UD-Q4_K_XL", "Q4_K_XL", true),
            ("Q4_K_M", "i1-Q4_K_M", false),
            ("Q4_K_M", "Q4_K", false),
        ];
        for (label, wanted, expected) in cases {
            assert_eq!(is_called(label, wanted), expected, "{label} {wanted}");
        }
    }
}
