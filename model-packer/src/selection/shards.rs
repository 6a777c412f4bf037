//! Weights in numbered files.

use std::collections::BTreeMap;

use super::SelectionError;

/// `name-00001-of-00005.ext`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) number: usize,
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
            number: number.parse().ok()?,
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

pub(super) fn check_numbering(files: &[&str]) -> Result<(), SelectionError> {
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
