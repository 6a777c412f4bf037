//! The same weights in another precision, whole or in shards.

use std::collections::{BTreeMap, BTreeSet};

use super::shards::Shard;
use super::weights::{Format, split};
use super::{Draft, SelectionError};

/// `model.safetensors` and `model.fp16.safetensors`: the same tensors twice, whole or in shards.
pub(super) fn choose_variant<'a>(
    draft: &mut Draft<'a>,
    files: &[&'a str],
    format: Format,
) -> Result<Vec<&'a str>, SelectionError> {
    let words = draft.words();
    let mut families: BTreeMap<String, BTreeSet<Option<&str>>> = BTreeMap::new();
    for path in files {
        if let Some((family, variant)) = split_variant(path, format, words) {
            families.entry(family).or_default().insert(variant);
        }
    }
    let mut chosen = BTreeMap::new();
    for (family, variants) in families {
        let variant = variant_to_take(&family, &variants, draft.wishes.variant.as_deref())?;
        chosen.insert(family, variant);
    }
    let keep = |path: &&str| {
        split_variant(path, format, words).is_none_or(|(family, variant)| chosen.get(&family) == Some(&variant))
    };
    let (kept, dropped): (Vec<&str>, Vec<&str>) = files.iter().copied().partition(keep);
    for path in dropped {
        draft.leave(path, "another variant of the same weights; --variant chooses");
    }
    Ok(kept)
}

/// The one that is wished for, else the plain one, else the only one.
fn variant_to_take<'v>(
    family: &str,
    variants: &BTreeSet<Option<&'v str>>,
    wanted: Option<&str>,
) -> Result<Option<&'v str>, SelectionError> {
    let wished = variants
        .iter()
        .copied()
        .find(|variant| variant.is_some() && *variant == wanted);
    let plain = variants.contains(&None).then_some(None);
    let only = variants.first().copied().filter(|_| variants.len() == 1);
    wished
        .or(plain)
        .or(only)
        .ok_or_else(|| SelectionError::SeveralVariants {
            name: family.to_owned(),
            variants: variants.iter().flatten().map(|variant| (*variant).to_owned()).collect(),
        })
}

/// The names that transformers and diffusers give to the weights of a model.
const FAMILIES: [&str; 3] = ["model", "pytorch_model", "diffusion_pytorch_model"];

/// What counts as the word of a variant, beside those that are known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words<'w> {
    /// The one that is wished for.
    pub(super) wished: Option<&'w str>,
    /// Any word, behind a name that diffusers knows.
    pub(super) any: bool,
}

const VARIANTS: [&str; 8] = ["fp16", "bf16", "fp32", "fp8", "int8", "int4", "non_ema", "ema"];

/// `unet/model.fp16-00001-of-00002.safetensors`, and `unet/model-00001-of-00002.fp16.safetensors`, -> (`unet/model`, `fp16`).
pub(super) fn split_variant<'p>(path: &'p str, format: Format, words: Words<'_>) -> Option<(String, Option<&'p str>)> {
    let without_number = |stem| Shard::of_stem(stem).map_or(stem, |shard| shard.prefix_of(stem));
    let stem = without_number(path.strip_suffix(format.suffix())?);
    let is_word = |base: &str, word: &str| {
        let known = VARIANTS.contains(&word) || words.wished == Some(word);
        known || (words.any && FAMILIES.contains(&split(base).1))
    };
    let variant = stem
        .rsplit_once('.')
        .map(|(base, word)| (without_number(base), word))
        .filter(|(base, word)| is_word(base, word));
    let (family, variant) = variant.map_or((stem, None), |(base, word)| (base, Some(word)));
    Some((family.to_owned(), variant))
}

/// Whether diffusers loads a file of this name from a folder of a pipeline.
pub(super) fn is_of_a_family(path: &str, format: Format, words: Words<'_>) -> bool {
    split_variant(path, format, words).is_some_and(|(family, _)| FAMILIES.contains(&split(&family).1))
}
