//! Names of tokenizers: a model without its own answers nothing, however large the file is.

use crate::sources::ListedFile;
use crate::text::has_extension;

/// The largest known has 34 MB.
const LIMIT: u64 = 64 << 20;

/// Whether it holds a vocabulary or the rules of one: `tokenizer.json`, `spm.model`, `vocab.txt`, `bpe.codes` ...
pub(super) fn is_tokenizer(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let prefixes = [
        "tokenizer.json",
        "tokenizer.model",
        "tekken.json",
        "merges.",
        "sentencepiece",
    ];
    let vocabulary = name.contains("vocab")
        && ["json", "txt", "bpe", "model"]
            .iter()
            .any(|suffix| has_extension(name, suffix));
    let suffixes = ["model", "spm", "tiktoken", "codes", "bpe"];
    vocabulary
        || name.starts_with("vocab.")
        || (name.starts_with("tokenizer.") && has_extension(name, "json"))
        || name == "seg_dict"
        || prefixes.iter().any(|prefix| name.starts_with(prefix))
        || suffixes.iter().any(|suffix| has_extension(name, suffix))
}

/// The same, where the size is one of tokenizers.
pub(super) fn is_likely_tokenizer(file: &ListedFile) -> bool {
    file.size <= LIMIT && is_tokenizer(&file.path)
}
