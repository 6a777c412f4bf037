//! One weight set: which format, which files of it.

use std::collections::BTreeMap;

use artifact::FileKind;
use serde::{Deserialize, Serialize};

use super::composites::{choose_diffusers, choose_module, diffusers_folders, module_folders};
use super::indexes::{index_of, indexed_files};
use super::variants::choose_variant;
use super::{Draft, SelectionError, Texts, gguf};
use crate::sources::ListedFile;

/// The weight sets that servers load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// safetensors in the Hugging Face layout.
    Safetensors,
    /// `consolidated*.safetensors` with `params.json`.
    Mistral,
    /// Pickles named `*.bin`.
    Bin,
    /// Pickles named `*.pt`.
    Pt,
    /// GGUF.
    Gguf,
}

impl Format {
    const ALL: [Self; 5] = [Self::Safetensors, Self::Mistral, Self::Bin, Self::Pt, Self::Gguf];

    /// The word for it on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Safetensors => "safetensors",
            Self::Mistral => "mistral",
            Self::Bin => "bin",
            Self::Pt => "pt",
            Self::Gguf => "gguf",
        }
    }

    /// From its word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.word() == word)
    }

    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Safetensors | Self::Mistral => ".safetensors",
            Self::Bin => ".bin",
            Self::Pt => ".pt",
            Self::Gguf => ".gguf",
        }
    }

    fn index(self) -> Option<&'static str> {
        match self {
            Self::Safetensors => Some("model.safetensors.index.json"),
            Self::Mistral => Some("consolidated.safetensors.index.json"),
            Self::Bin => Some("pytorch_model.bin.index.json"),
            Self::Pt | Self::Gguf => None,
        }
    }

    fn rule(self) -> &'static str {
        match self {
            Self::Safetensors => "safetensors: the weight set",
            Self::Mistral => "mistral: the consolidated weight set",
            Self::Bin => "pickle (*.bin): the weight set",
            Self::Pt => "pickle (*.pt): the weight set",
            Self::Gguf => "gguf: the chosen quantisation",
        }
    }
}

/// `name-00001-of-00005.ext`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) total: usize,
    suffix_length: usize,
}

impl Shard {
    pub(crate) fn of(path: &str) -> Option<Self> {
        Self::of_stem(path.rsplit_once('.').map_or(path, |(stem, _)| stem))
    }

    /// Of a name without its extension.
    pub(crate) fn of_stem(stem: &str) -> Option<Self> {
        let (head, total) = stem.rsplit_once("-of-")?;
        let (_, number) = head.rsplit_once('-')?;
        let digits = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(total) || !digits(number) {
            return None;
        }
        Some(Self {
            total: total.parse().ok()?,
            suffix_length: number.len() + total.len() + "--of-".len(),
        })
    }

    /// What is before the number.
    pub(crate) fn prefix_of(self, stem: &str) -> &str {
        stem.get(..stem.len().saturating_sub(self.suffix_length))
            .unwrap_or(stem)
    }
}

const TRAINING: [&str; 5] = [
    "training_args.bin",
    "optimizer.bin",
    "optimizer.pt",
    "scheduler.pt",
    "scaler.pt",
];

/// Chooses the weights of the whole repository.
pub(crate) fn choose(draft: &mut Draft<'_>, texts: &Texts) -> Result<(), SelectionError> {
    refuse_raw_parts(draft)?;
    if let Some(folders) = diffusers_folders(texts)? {
        return choose_diffusers(draft, texts, &folders);
    }
    if draft.is_open("adapter_config.json") && choose_adapter(draft) {
        return Ok(());
    }
    match format_of(draft)? {
        Some(Format::Gguf) => gguf::choose(draft)?,
        Some(format) => choose_in(draft, texts, "", format)?,
        None => {}
    }
    for folder in module_folders(texts) {
        choose_module(draft, texts, &folder)?;
    }
    leave_other_sets(draft);
    Ok(())
}

fn refuse_raw_parts(draft: &mut Draft<'_>) -> Result<(), SelectionError> {
    let mut parts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for file in draft.open() {
        if let Some(name) = gguf::raw_part_of(&file.path) {
            parts.entry(name).or_default().push(&file.path);
        }
    }
    let others = draft
        .open()
        .any(|file| is_weight(&file.path) && gguf::raw_part_of(&file.path).is_none());
    if let Some((name, files)) = parts.iter().next().filter(|_| !others) {
        return Err(SelectionError::RawParts {
            name: (*name).to_owned(),
            parts: files.len(),
        });
    }
    for file in parts.into_values().flatten() {
        draft.leave(file, "a part cut by bytes; it is no model before the parts are joined");
    }
    Ok(())
}

/// The format asked for, else the first of the loaders' order.
fn format_of(draft: &Draft<'_>) -> Result<Option<Format>, SelectionError> {
    let root = draft.in_folder("");
    let has = |format: Format| match format {
        Format::Gguf => draft.open().any(|file| gguf::is_gguf(&file.path)),
        Format::Mistral => draft.is_open("params.json") && root.iter().any(|file| is_consolidated(&file.path)),
        Format::Safetensors => {
            root.iter()
                .any(|file| file.path.ends_with(".safetensors") && !is_consolidated(&file.path))
                || draft.is_open("model.safetensors.index.json")
        }
        Format::Bin => {
            root.iter().any(|file| is_pickle(&file.path, ".bin")) || draft.is_open("pytorch_model.bin.index.json")
        }
        Format::Pt => root.iter().any(|file| is_pickle(&file.path, ".pt")),
    };
    if let Some(wanted) = draft.wishes.format {
        return if has(wanted) {
            Ok(Some(wanted))
        } else {
            Err(SelectionError::NoSuchFormat(wanted.word()))
        };
    }
    if draft.wishes.quant.is_some() && has(Format::Gguf) {
        return Ok(Some(Format::Gguf));
    }
    let order = [
        Format::Mistral,
        Format::Safetensors,
        Format::Bin,
        Format::Pt,
        Format::Gguf,
    ];
    let found = order.into_iter().find(|format| has(*format));
    // Without params.json the consolidated files are ordinary safetensors to a loader.
    Ok(found.or_else(|| {
        root.iter()
            .any(|file| is_consolidated(&file.path))
            .then_some(Format::Safetensors)
    }))
}

fn is_consolidated(path: &str) -> bool {
    path.starts_with("consolidated") && path.ends_with(".safetensors")
}

fn is_pickle(path: &str, suffix: &str) -> bool {
    path.ends_with(suffix) && !TRAINING.contains(&path) && !path.starts_with("optimizer")
}

pub(crate) fn is_weight(path: &str) -> bool {
    Format::ALL
        .iter()
        .any(|format| path.to_ascii_lowercase().ends_with(format.suffix()))
        || crate::text::has_extension(path, "pth")
}

pub(super) fn choose_in(
    draft: &mut Draft<'_>,
    texts: &Texts,
    folder: &str,
    format: Format,
) -> Result<(), SelectionError> {
    let indexes: Vec<&str> = format.index().into_iter().collect();
    choose_with(draft, texts, folder, format, &indexes)
}

/// The same, where an index may have one of several names.
pub(super) fn choose_with(
    draft: &mut Draft<'_>,
    texts: &Texts,
    folder: &str,
    format: Format,
    indexes: &[&str],
) -> Result<(), SelectionError> {
    let index = index_of(draft, folder, format, indexes);
    let text = index.as_ref().and_then(|index| texts.get(index));
    let files = match index.as_deref().zip(text) {
        Some((index, text)) => indexed_files(draft, folder, index, text)?,
        None => unindexed_files(draft, folder, format)?,
    };
    if matches!(format, Format::Bin | Format::Pt) && !files.is_empty() {
        draft
            .warnings
            .push("the weights are pickles, which can run code when they are loaded".into());
    }
    for file in files {
        draft.take(file, FileKind::Weight, format.rule());
    }
    Ok(())
}

pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

fn unindexed_files<'a>(draft: &mut Draft<'a>, folder: &str, format: Format) -> Result<Vec<&'a str>, SelectionError> {
    let fits = |file: &&ListedFile| {
        let name = file.path.rsplit('/').next().unwrap_or(&file.path);
        match format {
            Format::Mistral => is_consolidated(name),
            Format::Bin | Format::Pt => is_pickle(name, format.suffix()),
            Format::Safetensors | Format::Gguf => name.ends_with(format.suffix()),
        }
    };
    let files: Vec<&'a str> = draft
        .in_folder(folder)
        .into_iter()
        .filter(fits)
        .map(|file| file.path.as_str())
        .collect();
    let files = drop_consolidated(draft, files, format);
    let files = drop_adapter(draft, files);
    let files = choose_variant(draft, &files, format)?;
    check_numbering(&files)?;
    if files.len() > 1 && files.iter().all(|path| Shard::of(path).is_none()) {
        draft.warnings.push(format!(
            "{} weight files without an index are taken together: {}",
            files.len(),
            files.join(", ")
        ));
    }
    Ok(files)
}

/// What changes a model is no part of it.
fn drop_adapter<'a>(draft: &mut Draft<'a>, files: Vec<&'a str>) -> Vec<&'a str> {
    let (adapters, rest): (Vec<_>, Vec<_>) = files.iter().partition(|path| path.starts_with("adapter_model."));
    if rest.is_empty() {
        return files;
    }
    for path in adapters {
        draft.leave(path, "an adapter beside the whole model");
    }
    rest
}

fn drop_consolidated<'a>(draft: &mut Draft<'a>, files: Vec<&'a str>, format: Format) -> Vec<&'a str> {
    let others = files.iter().any(|path| !is_consolidated(path));
    if format != Format::Safetensors || !others {
        return files;
    }
    let (consolidated, rest): (Vec<_>, Vec<_>) = files.into_iter().partition(|path| is_consolidated(path));
    for path in consolidated {
        draft.leave(path, "a second weight set; --format mistral takes it");
    }
    rest
}

fn check_numbering(files: &[&str]) -> Result<(), SelectionError> {
    let mut sets: BTreeMap<(&str, usize), usize> = BTreeMap::new();
    for path in files {
        if let Some(shard) = Shard::of(path) {
            let stem = path.rsplit_once('.').map_or(*path, |(stem, _)| stem);
            *sets.entry((shard.prefix_of(stem), shard.total)).or_default() += 1;
        }
    }
    match sets.into_iter().find(|((_, total), found)| total != found) {
        Some(((name, total), found)) => Err(SelectionError::IncompleteSet {
            name: name.to_owned(),
            found,
            total,
        }),
        None => Ok(()),
    }
}

/// An adapter without the base model beside it.
fn choose_adapter(draft: &mut Draft<'_>) -> bool {
    let full = draft
        .in_folder("")
        .iter()
        .any(|file| is_weight(&file.path) && !file.path.starts_with("adapter_model."));
    let adapter = ["adapter_model.safetensors", "adapter_model.bin"];
    let Some(name) = adapter.into_iter().find(|name| draft.is_open(name)).filter(|_| !full) else {
        return false;
    };
    draft.take(name, FileKind::Weight, "adapter: its weights");
    leave_other_sets(draft);
    true
}

fn leave_other_sets(draft: &mut Draft<'_>) {
    let root: Vec<&str> = draft
        .in_folder("")
        .iter()
        .map(|file| file.path.as_str())
        .filter(|path| is_weight(path))
        .collect();
    for path in root {
        draft.leave(path, "a second weight set; --format chooses");
    }
}
