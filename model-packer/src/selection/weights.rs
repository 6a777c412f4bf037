//! One weight set: which format, which files of it.

use artifact::FileKind;
use serde::{Deserialize, Serialize};

use super::composites::{
    choose_diffusers, choose_module, diffusers_folders, leave_unknown_names, module_folders, take_what_is_named,
};
use super::indexes::{index_of, indexed_files};
use super::shards::{Shard, check_numbering};
use super::variants::choose_variant;
use super::{Draft, SelectionError, Texts, adapters, folders, gguf, raw_parts};
use crate::text::has_extension;

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
    pub(super) const ALL: [Self; 5] = [Self::Safetensors, Self::Mistral, Self::Bin, Self::Pt, Self::Gguf];

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

    /// Whether a file is of this format by its name.
    pub(super) fn fits(self, path: &str) -> bool {
        match self {
            Self::Mistral => is_consolidated(path),
            Self::Bin | Self::Pt => is_pickle(path, self.suffix()),
            Self::Gguf => gguf::is_gguf(path),
            Self::Safetensors => path.ends_with(self.suffix()),
        }
    }

    /// Names of an index, as transformers and as diffusers write them.
    pub(super) fn indexes(self) -> &'static [&'static str] {
        match self {
            Self::Safetensors => &[
                "model.safetensors.index.json",
                "diffusion_pytorch_model.safetensors.index.json",
            ],
            Self::Mistral => &["consolidated.safetensors.index.json"],
            Self::Bin => &["pytorch_model.bin.index.json", "diffusion_pytorch_model.bin.index.json"],
            Self::Pt | Self::Gguf => &[],
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

const TRAINING: [&str; 5] = [
    "training_args.bin",
    "optimizer.bin",
    "optimizer.pt",
    "scheduler.pt",
    "scaler.pt",
];

/// Chooses the weights of the whole repository.
pub(crate) fn choose(draft: &mut Draft<'_>, texts: &Texts) -> Result<(), SelectionError> {
    raw_parts::refuse(draft)?;
    match diffusers_folders(draft, texts)? {
        Some(folders) => choose_diffusers(draft, texts, &folders)?,
        None => choose_plain(draft, texts)?,
    }
    folders::choose_included(draft, texts)
}

fn choose_plain(draft: &mut Draft<'_>, texts: &Texts) -> Result<(), SelectionError> {
    if is_component(draft, texts) {
        leave_unknown_names(draft, texts, "");
    }
    if !adapters::choose(draft, "") {
        match root_format(draft)? {
            Some(Format::Gguf) => gguf::choose(draft)?,
            Some(format) => choose_in(draft, texts, "", format)?,
            None => {}
        }
    }
    for folder in module_folders(draft, texts) {
        choose_module(draft, texts, &folder)?;
    }
    take_what_is_named(draft, "");
    leave_other_sets(draft);
    Ok(())
}

/// A part of a pipeline by itself, such as a VAE, says which class of diffusers loads it, and that loads files by their names.
fn is_component(draft: &Draft<'_>, texts: &Texts) -> bool {
    let config = texts.get("config.json").filter(|_| draft.is_open("config.json"));
    let config: serde_json::Value = config
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    config["_class_name"].is_string()
}

/// The format asked for, else the first of the loaders' order.
fn root_format(draft: &Draft<'_>) -> Result<Option<Format>, SelectionError> {
    let has_gguf = draft.open().any(|file| gguf::is_gguf(&file.path));
    let found = formats_in(draft, "");
    match draft.wishes.format {
        Some(Format::Gguf) if has_gguf => Ok(Some(Format::Gguf)),
        Some(wanted) if found.contains(&wanted) => Ok(Some(wanted)),
        // Where the root has no weights at all, the modules below it may have the format.
        Some(wanted) if has_gguf || !found.is_empty() => Err(SelectionError::NoSuchFormat(wanted.word())),
        None if has_gguf && (draft.wishes.quant.is_some() || found.is_empty()) => Ok(Some(Format::Gguf)),
        _ => Ok(found.first().copied()),
    }
}

/// The format asked for where the folder has it, else the first of the loaders' order.
pub(super) fn format_in(draft: &Draft<'_>, folder: &str) -> Option<Format> {
    let found = formats_in(draft, folder);
    let wished = draft.wishes.format.filter(|wanted| found.contains(wanted));
    wished.or_else(|| found.first().copied())
}

/// The weight sets of one folder, in the order in which loaders look for them.
fn formats_in(draft: &Draft<'_>, folder: &str) -> Vec<Format> {
    let files = draft.in_folder(folder);
    let any = |fits: &dyn Fn(&str) -> bool| files.iter().any(|file| fits(&file.path));
    let has_index = |format: Format| format.indexes().iter().any(|name| draft.is_open(&join(folder, name)));
    let mistral = draft.is_open(&join(folder, "params.json")) && any(&is_consolidated);
    let has = |format: &Format| match format {
        Format::Gguf => false,
        Format::Mistral => mistral,
        // Without params.json the consolidated files are ordinary safetensors to a loader.
        Format::Safetensors => {
            any(&|path| path.ends_with(".safetensors") && !(mistral && is_consolidated(path))) || has_index(*format)
        }
        Format::Bin | Format::Pt => any(&|path| is_pickle(path, format.suffix())) || has_index(*format),
    };
    let order = [Format::Mistral, Format::Safetensors, Format::Bin, Format::Pt];
    order.into_iter().filter(has).collect()
}

fn is_consolidated(path: &str) -> bool {
    split(path).1.starts_with("consolidated") && path.ends_with(".safetensors")
}

fn is_pickle(path: &str, suffix: &str) -> bool {
    path.ends_with(suffix) && !is_training(path)
}

/// Weights of an optimizer are none of a model.
pub(super) fn is_training(path: &str) -> bool {
    let name = split(path).1;
    TRAINING.contains(&name) || name.starts_with("optimizer")
}

pub(crate) fn is_weight(path: &str) -> bool {
    Format::ALL
        .iter()
        .any(|format| path.to_ascii_lowercase().ends_with(format.suffix()))
        || has_extension(path, "pth")
}

/// One weight set of a folder: the files that its index names, else those of the format.
pub(super) fn choose_in(
    draft: &mut Draft<'_>,
    texts: &Texts,
    folder: &str,
    format: Format,
) -> Result<(), SelectionError> {
    let index = index_of(draft, folder, format);
    let text = index.as_ref().and_then(|index| texts.get(index));
    let files = match index.as_deref().zip(text) {
        Some((index, text)) => indexed_files(draft, format, index, text)?,
        None => unindexed_files(draft, folder, format)?,
    };
    warn_of_pickles(draft, files.iter().copied());
    for file in files {
        draft.take(file, FileKind::Weight, format.rule());
    }
    Ok(())
}

pub(super) fn warn_of_pickles<'p>(draft: &mut Draft<'_>, files: impl IntoIterator<Item = &'p str>) {
    let pickle = |path: &str| {
        ["bin", "pt", "pth", "ckpt"]
            .iter()
            .any(|suffix| has_extension(path, suffix))
    };
    if files.into_iter().any(pickle) {
        draft.warn("the weights are pickles, which can run code when they are loaded");
    }
}

/// Folder and name.
pub(super) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

fn unindexed_files<'a>(draft: &mut Draft<'a>, folder: &str, format: Format) -> Result<Vec<&'a str>, SelectionError> {
    let files: Vec<&'a str> = draft
        .in_folder(folder)
        .into_iter()
        .map(|file| file.path.as_str())
        .filter(|path| format.fits(path))
        .collect();
    let files = drop_consolidated(draft, files, format);
    let files = drop_adapter(draft, files);
    let files = drop_beside_model(draft, files);
    let files = choose_variant(draft, &files, format)?;
    check_numbering(&files)?;
    if files.len() > 1 && files.iter().all(|path| Shard::of(path).is_none()) {
        draft.warn(format!(
            "{} weight files without an index are taken together: {}",
            files.len(),
            files.join(", ")
        ));
    }
    Ok(files)
}

/// The same weights as another library writes them, and parts that a library loads by the language that is wished.
const BESIDE_MODEL: [&str; 2] = ["open_clip_", "adapter."];

/// What transformers does not load beside `model.safetensors`.
fn drop_beside_model<'a>(draft: &mut Draft<'a>, files: Vec<&'a str>) -> Vec<&'a str> {
    let is_model = |path: &&str| split(path).1.starts_with("model.") || split(path).1.starts_with("model-");
    if !files.iter().any(is_model) {
        return files;
    }
    let beside = |path: &&str| BESIDE_MODEL.iter().any(|start| split(path).1.starts_with(start));
    let (others, rest): (Vec<_>, Vec<_>) = files.into_iter().partition(beside);
    for path in others.into_iter().filter(|path| !draft.wishes.include.names(path)) {
        draft.leave(
            path,
            "not loaded with the model; --include with its whole name takes it",
        );
    }
    rest
}

/// What changes a model is no part of it.
fn drop_adapter<'a>(draft: &mut Draft<'a>, files: Vec<&'a str>) -> Vec<&'a str> {
    let adapter = files.iter().any(|path| adapters::is_adapter(path));
    let goes_with = |path: &&str| adapters::is_adapter(path) || adapters::is_side_file(path);
    let (adapters, rest): (Vec<_>, Vec<_>) = files.iter().copied().partition(goes_with);
    if rest.is_empty() || !adapter {
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

/// What is left of the root when a set was chosen; where none was, an include pattern still takes what it names.
fn leave_other_sets(draft: &mut Draft<'_>) {
    let chosen = draft.has_weights();
    let root: Vec<&str> = draft
        .in_folder("")
        .iter()
        .map(|file| file.path.as_str())
        .filter(|path| is_weight(path))
        .collect();
    for path in root {
        if chosen && is_of_a_set(path) {
            draft.leave(
                path,
                "a second weight set; --format chooses, or --include with its whole name",
            );
        } else if !draft.wishes.include.matches(path) {
            draft.leave(path, no_set(path));
        }
    }
}

/// Whether a `--format` could choose it.
pub(super) fn is_of_a_set(path: &str) -> bool {
    Format::ALL.iter().any(|format| path.ends_with(format.suffix()))
}

/// Why weights are in none of the sets.
fn no_set(path: &str) -> &'static str {
    if has_extension(path, "pth") {
        "a pickle named *.pth, which servers do not load by themselves; --include takes it"
    } else if !is_of_a_set(path) {
        "loaders look for its extension in small letters; --include takes it"
    } else {
        "no weights that a server loads by themselves; --include takes it"
    }
}
