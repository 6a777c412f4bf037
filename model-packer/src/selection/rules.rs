//! The rules for everything but the choice of the weights: what stays out first, and what goes with them. In order; the first wins.

use artifact::FileKind;

use super::composites::{diffusers_folders, is_below, module_folders};
use super::never::{is_foreign_weight, is_secret, never};
use super::tokenizers::{is_likely_tokenizer, is_tokenizer};
use super::weights::{Format, is_weight, warn_of_pickles};
use super::{Draft, Texts, indexes, is_reserved};
use crate::sources::ListedFile;
use crate::text::has_extension;

/// Root files up to this size go in unless something speaks against them: a list of good names is never complete.
const OPEN_LIMIT: u64 = 1 << 20;
/// Larger texts are no configuration.
pub(crate) const TEXT_LIMIT: u64 = 32 << 20;

/// Names that a server reads, whatever their size is.
const ALWAYS_NAMES: [&str; 22] = [
    "config.json",
    "generation_config.json",
    "params.json",
    "tekken.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "merges.txt",
    "spiece.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.json",
    "chat_template.jinja",
    "preprocessor_config.json",
    "quantize_config.json",
    "quant_config.json",
    "hf_quant_config.json",
    "adapter_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "model_index.json",
    "configuration.json",
];

/// What never goes in by itself; an include pattern takes it all the same. Code and secrets are not meant by a wildcard.
pub(crate) fn apply_exclusions(draft: &mut Draft<'_>) {
    let files: Vec<_> = draft.open().collect();
    for file in files {
        let path = file.path.as_str();
        let include = &draft.wishes.include;
        let (asked, named) = (include.matches(path), include.names(path));
        if is_reserved(path) {
            draft.leave(path, "the artifact's own source.lock takes this name");
        } else if !include.is_empty() && !asked {
            draft.leave(path, "no include pattern matches");
        } else if let Some(reason) = never(path).filter(|_| !asked || (is_secret(path) && !named)) {
            draft.leave(path, reason);
        } else if draft.is_foreign(path) && !asked {
            draft.leave(path, "weights for another runtime");
        } else if is_code(path) && !draft.wishes.allow_remote_code && !named {
            draft.leave(path, "code of the repository; --allow-remote-code takes it");
        }
    }
}

/// The parts of a composed model.
struct Parts {
    /// Folders of a sentence encoder's modules.
    modules: Vec<String>,
    /// Folders of a pipeline.
    pipeline: Vec<String>,
}

/// Everything that goes with the chosen weights.
pub(crate) fn take_companions(draft: &mut Draft<'_>, texts: &Texts) {
    let parts = Parts {
        modules: module_folders(draft, texts),
        // A list that cannot be read was refused before.
        pipeline: diffusers_folders(draft, texts).ok().flatten().unwrap_or_default(),
    };
    let files: Vec<_> = draft.open().collect();
    for file in files {
        let path = file.path.as_str();
        let asked = draft.wishes.include.matches(path);
        let needed = index_is_needed(draft, path, texts);
        if is_code(path) {
            draft.take(path, FileKind::Code, "code of the repository, allowed by the user");
        } else if needed == Some(false) && !asked {
            draft.leave(path, "the index of weights that stay out");
        } else if needed == Some(true) {
            draft.take(path, FileKind::WeightConfig, "a server or a reader needs it");
        } else if let Some(kind) = always(path) {
            draft.take(path, kind, "a server or a reader needs it");
        } else if let Some((kind, rule)) = rule_of(file, &parts) {
            draft.take(path, kind, rule);
        } else if asked {
            let kind = kind_of_asked(path);
            draft.take(path, kind, "an include pattern names it");
        }
    }
    warn_of_gaps(draft, texts);
}

/// The rule of a file that is no weight.
fn rule_of(file: &ListedFile, parts: &Parts) -> Option<(FileKind, &'static str)> {
    let path = file.path.as_str();
    let inside = |folders: &[String]| folders.iter().any(|folder| is_below(path, folder));
    let small = file.size <= OPEN_LIMIT || is_likely_tokenizer(file);
    let text = ["json", "txt"].iter().any(|suffix| has_extension(path, suffix)) && file.size <= TEXT_LIMIT;
    if is_weight(path) || never(path).is_some() {
        None
    } else if inside(&parts.modules) && (small || text) {
        Some((FileKind::WeightConfig, "sentence-transformers: a module's folder"))
    } else if inside(&parts.pipeline) && (small || text) {
        Some((FileKind::WeightConfig, "diffusers: configuration of a folder"))
    } else if !path.contains('/') && is_tokenizer(path) && small {
        Some((FileKind::WeightConfig, "a tokenizer"))
    } else if !path.contains('/') && small {
        Some((kind_of_small(path), "a small file of the root"))
    } else {
        None
    }
}

fn kind_of_asked(path: &str) -> FileKind {
    if is_weight(path) || is_foreign_weight(path) {
        FileKind::Weight
    } else {
        kind_of_small(path)
    }
}

fn warn_of_gaps(draft: &mut Draft<'_>, texts: &Texts) {
    let needs_code = ["config.json", "tokenizer_config.json"]
        .iter()
        .filter_map(|name| texts.get(*name))
        .any(|text| text.contains("\"auto_map\""));
    if needs_code && !draft.taken.values().any(|(kind, _)| *kind == FileKind::Code) {
        draft.warn("the model needs code of its repository, which is not taken; --allow-remote-code takes it");
    }
    let weights: Vec<&str> = draft.taken_weights().collect();
    warn_of_pickles(draft, weights.iter().copied());
    if !weights.is_empty() && weights.iter().all(|path| is_of_no_set(draft, path)) {
        draft.warn("the weights are of no kind that the engines load by themselves: only the runtime that they were made for can use them");
    }
    let inside = draft
        .taken
        .keys()
        .any(|path| is_tokenizer(path) || has_extension(path, "gguf"));
    let composed = ["model_index.json", "adapter_config.json"];
    let elsewhere = composed.iter().any(|name| draft.taken.contains_key(name));
    if !weights.is_empty() && !elsewhere && !inside {
        draft.warn("no tokenizer was found");
    }
}

fn is_of_no_set(draft: &Draft<'_>, path: &str) -> bool {
    draft.is_foreign(path) || !Format::ALL.iter().any(|format| format.fits(path))
}

fn is_code(path: &str) -> bool {
    has_extension(path, "py")
}

fn always(path: &str) -> Option<FileKind> {
    let in_root = !path.contains('/');
    let documents = ["README.md", "LICENSE", "LICENCE", "NOTICE", "USE_POLICY"];
    if in_root && documents.iter().any(|name| path.starts_with(name)) {
        return Some(FileKind::Doc);
    }
    let named = ALWAYS_NAMES.contains(&path)
        || ["tokenizer.model", "vocab.", "sentencepiece", "quant_model_description"]
            .iter()
            .any(|prefix| path.starts_with(prefix))
        || path.ends_with("processor_config.json")
        || path.ends_with(".index.json")
        || has_extension(path, "tiktoken");
    let matched = (in_root && named) || path.starts_with("additional_chat_templates/");
    matched.then_some(FileKind::WeightConfig)
}

fn kind_of_small(path: &str) -> FileKind {
    match path.rsplit_once('.').map(|(_, suffix)| suffix) {
        Some("md" | "txt" | "rst" | "html") => FileKind::Doc,
        _ => FileKind::WeightConfig,
    }
}

/// Whether a file that an index names is taken; unknown where it is no index that can be read.
fn index_is_needed(draft: &Draft<'_>, path: &str, texts: &Texts) -> Option<bool> {
    let text = texts.get(path).filter(|_| indexes::is_index(path))?;
    let names = indexes::names_in(path, text)?;
    Some(names.iter().any(|name| draft.is_taken(name)))
}
