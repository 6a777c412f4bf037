//! The rules that are lists: what never goes in, what always does, and what stays out by default. In order; the first wins.

use artifact::FileKind;

use super::composites::module_folders;
use super::weights::is_weight;
use super::{Draft, Texts, indexes, is_reserved};
use crate::text::has_extension;

/// Root files up to this size go in unless something speaks against them: a list of good names is never complete.
const OPEN_LIMIT: u64 = 1 << 20;
/// Larger texts are no configuration.
pub(crate) const TEXT_LIMIT: u64 = 32 << 20;

/// Folders that hold other formats of the same weights, or the way there.
const NEVER_FOLDERS: [(&str, &str); 10] = [
    ("original/", "the original checkpoint, a second weight set"),
    ("metal/", "weights for another runtime"),
    ("coreml/", "weights for another runtime"),
    ("onnx/", "weights for another runtime"),
    ("openvino/", "weights for another runtime"),
    ("runs/", "training state"),
    ("checkpoint-", "training state"),
    (".git", "belongs to git"),
    (".cache/", "belongs to a download tool"),
    (crate::pull::OWN_NAMES, "written by a pull into this folder"),
];

const NEVER_SUFFIXES: [(&str, &str); 20] = [
    (".h5", "weights for another framework"),
    (".msgpack", "weights for another framework"),
    (".ot", "weights for another framework"),
    (".tflite", "weights for another framework"),
    (".onnx", "weights for another runtime"),
    (".mlmodel", "weights for another runtime"),
    (".imatrix", "used to quantise and not to serve"),
    (".png", "an image"),
    (".jpg", "an image"),
    (".jpeg", "an image"),
    (".gif", "an image"),
    (".svg", "an image"),
    (".webp", "an image"),
    (".mp4", "a video"),
    (".webm", "a video"),
    (".mov", "a video"),
    (".mp3", "a sound"),
    (".wav", "a sound"),
    (".pdf", "a document for people"),
    (".incomplete", "an unfinished download"),
];

const TRAINING_NAMES: [&str; 7] = [
    "training_args.bin",
    "optimizer.",
    "scheduler.pt",
    "scaler.pt",
    "trainer_state.json",
    "rng_state",
    "events.out.tfevents",
];

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

/// What never goes in by itself; an include pattern that names it takes it all the same.
pub(crate) fn apply_exclusions(draft: &mut Draft<'_>) {
    let files: Vec<_> = draft.open().collect();
    for file in files {
        let path = file.path.as_str();
        let asked = draft.wishes.include.matches(path);
        if is_reserved(path) {
            draft.leave(path, "the artifact's own source.lock takes this name");
        } else if !draft.wishes.include.is_empty() && !asked {
            draft.leave(path, "no include pattern matches");
        } else if let Some(reason) = never(path).filter(|_| !asked) {
            draft.leave(path, reason);
        } else if is_code(path) && !draft.wishes.allow_remote_code && !asked {
            draft.leave(path, "code of the repository; --allow-remote-code takes it");
        }
    }
}

fn never(path: &str) -> Option<&'static str> {
    let lower = path.to_ascii_lowercase();
    let name = lower.rsplit('/').next().unwrap_or(&lower);
    let folder = NEVER_FOLDERS
        .iter()
        .find(|(prefix, _)| lower.starts_with(prefix))
        .map(|(_, reason)| *reason);
    let suffix = || {
        NEVER_SUFFIXES
            .iter()
            .find(|(suffix, _)| lower.ends_with(suffix))
            .map(|(_, reason)| *reason)
    };
    let training = || {
        TRAINING_NAMES
            .iter()
            .any(|prefix| name.starts_with(prefix))
            .then_some("training state")
    };
    folder.or_else(suffix).or_else(training)
}

/// Everything that goes with the chosen weights.
pub(crate) fn take_companions(draft: &mut Draft<'_>, texts: &Texts) {
    let parts = module_folders(texts);
    let diffusers = texts.contains_key("model_index.json");
    let files: Vec<_> = draft.open().collect();
    for file in files {
        let path = file.path.as_str();
        if is_code(path) {
            draft.take(path, FileKind::Code, "code of the repository, allowed by the user");
        } else if names_nothing_taken(draft, path, texts) && !draft.wishes.include.matches(path) {
            draft.leave(path, "the index of weights that stay out");
        } else if let Some(kind) = always(path) {
            draft.take(path, kind, "a server or a reader needs it");
        } else if let Some((folder, _)) = path.split_once('/') {
            let part = parts.iter().any(|part| part == folder);
            let kind = if is_weight(path) {
                FileKind::Weight
            } else {
                FileKind::WeightConfig
            };
            if part && kind != FileKind::Weight {
                draft.take(path, kind, "sentence-transformers: a module's folder");
            } else if diffusers && !is_weight(path) {
                draft.take(path, kind, "diffusers: configuration of a folder");
            } else if draft.wishes.include.matches(path) {
                draft.take(path, kind, "an include pattern names it");
            }
        } else if draft.wishes.include.matches(path) || (file.size <= OPEN_LIMIT && !is_weight(path)) {
            draft.take(path, kind_of_small(path), "a small file of the root");
        }
    }
    warn_of_gaps(draft, texts);
}

fn warn_of_gaps(draft: &mut Draft<'_>, texts: &Texts) {
    let needs_code = ["config.json", "tokenizer_config.json"]
        .iter()
        .filter_map(|name| texts.get(*name))
        .any(|text| text.contains("\"auto_map\""));
    if needs_code && !draft.wishes.allow_remote_code {
        draft
            .warnings
            .push("the model needs code of its repository, which was left out; --allow-remote-code takes it".into());
    }
    let tokenizers = [
        "tokenizer.json",
        "tokenizer.model",
        "tekken.json",
        "vocab.json",
        "vocab.txt",
        "spiece.model",
        "merges.txt",
    ];
    let inside = draft
        .taken
        .keys()
        .any(|path| has_extension(path, "gguf") || has_extension(path, "tiktoken") || *path == "model_index.json");
    let adapter = draft.taken.contains_key("adapter_config.json");
    if draft.has_weights() && !inside && !adapter && !tokenizers.iter().any(|name| draft.taken.contains_key(name)) {
        draft.warnings.push("no tokenizer was found".into());
    }
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
        || has_extension(path, "tiktoken");
    let anywhere = path.ends_with(".index.json") || path.starts_with("additional_chat_templates/");
    let matched = (in_root && named) || anywhere;
    matched.then_some(FileKind::WeightConfig)
}

fn kind_of_small(path: &str) -> FileKind {
    match path.rsplit_once('.').map(|(_, suffix)| suffix) {
        Some("md" | "txt" | "rst" | "html") => FileKind::Doc,
        _ => FileKind::WeightConfig,
    }
}

/// Whether it is an index, and every file that it names stays out.
fn names_nothing_taken(draft: &Draft<'_>, path: &str, texts: &Texts) -> bool {
    let text = texts.get(path).filter(|_| indexes::is_index(path));
    let names = text.and_then(|text| indexes::names_in(path, text));
    names.is_some_and(|names| !names.iter().any(|name| draft.is_taken(name)))
}
