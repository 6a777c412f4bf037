//! What the user asked for, and whether it could be had.

use std::collections::BTreeMap;

use super::variants::split_variant;
use super::weights::Format;
use super::{Draft, PatternError, Patterns, SelectionError, gguf};

/// What the user asked for.
#[derive(Debug, Clone, Default)]
pub struct Wishes {
    /// Only files that match; all when empty.
    pub include: Patterns,
    /// Not the files that match.
    pub exclude: Patterns,
    /// The GGUF quantisation.
    pub quant: Option<String>,
    /// The variant of a diffusers or safetensors file: `fp16`.
    pub variant: Option<String>,
    /// The weight set, where there are several.
    pub format: Option<Format>,
    /// Whether Python of the repository may be packed.
    pub allow_remote_code: bool,
}

impl Wishes {
    /// The wishes as they stand in a source lock.
    pub fn to_options(&self) -> BTreeMap<String, String> {
        let pairs = [
            ("include", (!self.include.is_empty()).then(|| self.include.to_string())),
            ("exclude", (!self.exclude.is_empty()).then(|| self.exclude.to_string())),
            ("quant", self.quant.clone()),
            ("variant", self.variant.clone()),
            ("format", self.format.map(|format| format.word().to_owned())),
            ("allow-remote-code", self.allow_remote_code.then(|| "true".to_owned())),
        ];
        pairs
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect()
    }

    /// The wishes that a source lock holds.
    pub fn from_options(options: &BTreeMap<String, String>) -> Result<Self, PatternError> {
        let text = |key: &str| options.get(key).cloned();
        let patterns = |key: &str| Patterns::parse_lines(options.get(key).map(String::as_str).unwrap_or_default());
        Ok(Self {
            include: patterns("include")?,
            exclude: patterns("exclude")?,
            quant: text("quant"),
            variant: text("variant"),
            format: text("format").and_then(|word| Format::from_word(&word)),
            allow_remote_code: options.contains_key("allow-remote-code"),
        })
    }
}

/// A wish that nothing fulfils is refused: what is packed without it is something else.
pub(super) fn refuse_unmet(draft: &Draft<'_>) -> Result<(), SelectionError> {
    let weights: Vec<&str> = draft.taken_weights().collect();
    let wishes = draft.wishes;
    if let Some(format) = wishes
        .format
        .filter(|format| !weights.iter().any(|path| format.fits(path)))
    {
        return Err(SelectionError::NoSuchFormat(format.word()));
    }
    if let Some(wanted) = wishes
        .quant
        .as_ref()
        .filter(|_| !weights.iter().any(|path| gguf::is_gguf(path)))
    {
        return Err(SelectionError::NoSuchQuant {
            wanted: wanted.clone(),
            groups: Vec::new(),
        });
    }
    let Some(wanted) = wishes.variant.as_deref() else {
        return Ok(());
    };
    let has = |path: &&str| variant_of(draft, path) == Some(wanted);
    if weights.iter().any(has) {
        return Ok(());
    }
    let mut variants: Vec<String> = draft
        .every_path()
        .filter_map(|path| variant_of(draft, path))
        .map(str::to_owned)
        .collect();
    variants.sort();
    variants.dedup();
    Err(SelectionError::NoSuchVariant {
        wanted: wanted.to_owned(),
        variants,
    })
}

fn variant_of<'p>(draft: &Draft<'_>, path: &'p str) -> Option<&'p str> {
    let formats = [Format::Safetensors, Format::Bin, Format::Pt];
    formats
        .into_iter()
        .find_map(|format| split_variant(path, format, draft.words())?.1)
}
