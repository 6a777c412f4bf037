//! GGUF names: quantisation, numbered parts, and files that were cut by bytes.

use std::collections::BTreeMap;

use artifact::FileKind;
use serde::Serialize;

use super::weights::Shard;
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
    let at = words.iter().rposition(|word| is_quant(word))?;
    let dynamic = at > 0 && words[at - 1].eq_ignore_ascii_case("ud");
    let prefix = if dynamic { "UD-" } else { "" };
    Some(format!("{prefix}{}", words[at].to_ascii_uppercase()))
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

/// The name that raw parts make when they are joined: `m.gguf.part1of2` and `m.gguf-split-a` -> `m.gguf`.
pub(crate) fn raw_part_of(path: &str) -> Option<&str> {
    let lower = path.to_ascii_lowercase();
    let at = lower.find(".gguf").map(|at| at + ".gguf".len())?;
    let rest = &lower[at..];
    let numbered = rest
        .strip_prefix(".part")
        .or_else(|| rest.strip_prefix("-part"))
        .is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()));
    let split = rest.starts_with("-split-") || rest.starts_with(".split-");
    (numbered || split).then(|| &path[..at])
}

/// Takes exactly one quantisation, all of its parts, and a projector.
pub(crate) fn choose(draft: &mut Draft<'_>) -> Result<(), SelectionError> {
    let files: Vec<&ListedFile> = draft.open().filter(|file| is_gguf(&file.path)).collect();
    let (projectors, models): (Vec<_>, Vec<_>) = files
        .into_iter()
        .partition(|file| base_name(&file.path).to_ascii_lowercase().contains("mmproj"));
    let (others, models): (Vec<_>, Vec<_>) = models
        .into_iter()
        .partition(|file| base_name(&file.path).contains("imatrix"));
    for file in others {
        draft.leave(&file.path, "an importance matrix, used to quantise and not to serve");
    }
    let groups = group(&models);
    let chosen = pick(draft, &groups)?;
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

fn pick<'g>(draft: &Draft<'_>, groups: &'g [QuantGroup]) -> Result<&'g QuantGroup, SelectionError> {
    let Some(wanted) = &draft.wishes.quant else {
        return match groups {
            [only] => Ok(only),
            [] => Err(SelectionError::NoWeights { seen: None }),
            _ => Err(SelectionError::SeveralQuants {
                groups: groups.to_vec(),
            }),
        };
    };
    let fitting: Vec<&QuantGroup> = groups
        .iter()
        .filter(|group| group.label.eq_ignore_ascii_case(wanted))
        .collect();
    match fitting.as_slice() {
        [only] => Ok(only),
        [] => Err(SelectionError::NoSuchQuant {
            wanted: wanted.clone(),
            groups: groups.to_vec(),
        }),
        several => Err(SelectionError::SeveralQuants {
            groups: several.iter().map(|group| (*group).clone()).collect(),
        }),
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
            ("Q-model.gguf", None),
            ("Qwen3-8B.gguf", None),
            ("model-Q9.gguf", None),
        ];
        for (path, expected) in cases {
            assert_eq!(quant_of(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn raw_parts_are_told_from_numbered_ones() {
        assert_eq!(raw_part_of("m.Q6_K.gguf.part1of2"), Some("m.Q6_K.gguf"));
        assert_eq!(raw_part_of("x/m.Q6_K.gguf-split-a"), Some("x/m.Q6_K.gguf"));
        assert_eq!(raw_part_of("m-00001-of-00002.gguf"), None);
        assert_eq!(raw_part_of("m.gguf"), None);
    }
}
