//! Which files a server needs. Pure: a listing, a few small texts and the user's wishes in; a choice with a reason for
//! every file out, in both directions.

mod adapters;
mod composites;
mod error;
mod folders;
mod gguf;
mod indexes;
mod never;
mod patterns;
mod raw_parts;
mod rules;
mod shards;
mod tokenizers;
mod variants;
mod weights;
mod wishes;

use std::collections::{BTreeMap, BTreeSet};

use artifact::{FileKind, FilePath, PathProblem, SOURCE_LOCK_PATH, check_collisions};
use serde::Serialize;

pub use error::SelectionError;
pub use gguf::{QuantGroup, quant_of};
pub(crate) use indexes::names_in;
pub use patterns::{PatternError, Patterns};
pub(crate) use shards::Shard;
pub use weights::Format;
pub use wishes::Wishes;

use crate::sources::ListedFile;

/// Small files whose text decides, by path.
pub type Texts = BTreeMap<String, String>;

/// A file that goes into the artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Taken {
    /// Path.
    pub path: FilePath,
    /// What it is for.
    #[serde(skip)]
    pub kind: FileKind,
    /// The rule that took it.
    pub rule: &'static str,
}

/// A file that stays out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    /// Path, as the source spells it.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Why.
    pub reason: String,
}

/// The choice.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Selection {
    /// What goes in, by path.
    pub taken: Vec<Taken>,
    /// What stays out, by path.
    pub left: Vec<Left>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

impl Selection {
    /// The error of a choice without weights, with what may have been meant.
    pub(crate) fn no_weights(&self) -> SelectionError {
        let weight = |left: &Left| weights::is_weight(&left.path) || never::is_foreign_weight(&left.path);
        let largest = self.left.iter().max_by_key(|left| (weight(left), left.size));
        SelectionError::NoWeights {
            seen: largest.map(|left| format!("the largest file that stays out is {} ({})", left.path, left.reason)),
        }
    }
}

/// Files of the root whose text decides.
const TEXTS: [&str; 5] = [
    "config.json",
    "model_index.json",
    "modules.json",
    "router_config.json",
    "tokenizer_config.json",
];

/// The small files whose text [`select`] wants to see: none of those that stay out whatever they say.
pub fn wanted_texts<'a>(files: &'a [ListedFile], wishes: &'a Wishes) -> Result<Vec<&'a ListedFile>, SelectionError> {
    let mut draft = Draft::new(files, wishes)?;
    rules::apply_exclusions(&mut draft);
    let wanted = |file: &&ListedFile| {
        let root = !file.path.contains('/');
        let index = indexes::is_index(&file.path);
        (root && TEXTS.contains(&file.path.as_str())) || index
    };
    Ok(draft
        .open()
        .filter(wanted)
        .filter(|file| file.size <= rules::TEXT_LIMIT)
        .collect())
}

/// Chooses, or says why no choice is right.
pub fn select(files: &[ListedFile], texts: &Texts, wishes: &Wishes) -> Result<Selection, SelectionError> {
    let mut draft = Draft::new(files, wishes)?;
    rules::apply_exclusions(&mut draft);
    weights::choose(&mut draft, texts)?;
    rules::take_companions(&mut draft, texts);
    wishes::refuse_unmet(&draft)?;
    draft.finish()
}

/// A choice under way: every file is open until a rule decides.
pub(crate) struct Draft<'a> {
    pub(crate) wishes: &'a Wishes,
    open: BTreeMap<&'a str, &'a ListedFile>,
    taken: BTreeMap<&'a str, (FileKind, &'static str)>,
    left: BTreeMap<&'a str, (u64, String)>,
    warnings: Vec<String>,
    all: BTreeSet<&'a str>,
    /// Whether it is a pipeline, of which loaders take files by name and by any word for a variant.
    pipeline: bool,
}

impl<'a> Draft<'a> {
    fn new(files: &'a [ListedFile], wishes: &'a Wishes) -> Result<Self, SelectionError> {
        let mut draft = Self {
            wishes,
            open: BTreeMap::new(),
            taken: BTreeMap::new(),
            left: BTreeMap::new(),
            warnings: Vec::new(),
            all: files.iter().map(|file| file.path.as_str()).collect(),
            pipeline: false,
        };
        for file in files {
            if wishes.exclude.matches(&file.path) {
                draft
                    .left
                    .insert(&file.path, (file.size, "excluded by the user".into()));
                continue;
            }
            // Whoever spells such a name means harm; nothing else of that listing is to be trusted.
            match file.path.parse::<FilePath>() {
                Err(error) if is_hostile(&error.reason) => return Err(SelectionError::Hostile(error)),
                _ => draft.open.insert(&file.path, file),
            };
        }
        Ok(draft)
    }

    /// Open files, by path.
    pub(crate) fn open(&self) -> impl Iterator<Item = &'a ListedFile> + use<'a, '_> {
        self.open.values().copied()
    }

    /// Open files in this folder itself, without those of other runtimes; the root is the empty name.
    pub(crate) fn in_folder(&self, folder: &str) -> Vec<&'a ListedFile> {
        self.open()
            .filter(|file| weights::split(&file.path).0 == folder && !self.is_foreign(&file.path))
            .collect()
    }

    /// Whether it belongs to a runtime that none of the weight sets is for. `OpenVINO` describes each `.bin` in a `.xml` beside it.
    pub(crate) fn is_foreign(&self, path: &str) -> bool {
        let beside = |own: &str, other: &str| {
            let stem = path.strip_suffix(own);
            stem.is_some_and(|stem| self.exists(&format!("{stem}{other}")))
        };
        never::is_foreign(path) || beside(".bin", ".xml") || beside(".xml", ".bin")
    }

    pub(crate) fn is_taken(&self, path: &str) -> bool {
        self.taken.contains_key(path)
    }

    pub(crate) fn is_open(&self, path: &str) -> bool {
        self.open.contains_key(path)
    }

    /// Whether the source has it, whatever became of it.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.all.contains(path)
    }

    pub(crate) fn take(&mut self, path: &'a str, kind: FileKind, rule: &'static str) {
        if self.open.remove(path).is_some() {
            self.taken.insert(path, (kind, rule));
        }
    }

    pub(crate) fn leave(&mut self, path: &'a str, reason: impl Into<String>) {
        if let Some(file) = self.open.remove(path) {
            self.left.insert(path, (file.size, reason.into()));
        }
    }

    pub(crate) fn has_weights(&self) -> bool {
        self.taken_weights().next().is_some()
    }

    /// Weights that are taken, by path.
    pub(crate) fn taken_weights(&self) -> impl Iterator<Item = &'a str> + use<'a, '_> {
        let weights = self.taken.iter().filter(|(_, (kind, _))| *kind == FileKind::Weight);
        weights.map(|(path, _)| *path)
    }

    /// Everything that the source has, by path.
    pub(crate) fn every_path(&self) -> impl Iterator<Item = &'a str> + use<'a, '_> {
        self.all.iter().copied()
    }

    /// What counts as the word of a variant.
    pub(crate) fn words(&self) -> variants::Words<'a> {
        variants::Words {
            wished: self.wishes.variant.as_deref(),
            any: self.pipeline,
        }
    }

    /// Says it once.
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    fn finish(mut self) -> Result<Selection, SelectionError> {
        for (path, file) in std::mem::take(&mut self.open) {
            self.left
                .insert(path, (file.size, "no rule needs it; --include takes it".into()));
        }
        let name = |path: &&str| path.parse::<FilePath>().map_err(SelectionError::Name);
        let taken = self.taken.iter().map(|(path, (kind, rule))| {
            Ok(Taken {
                path: name(path)?,
                kind: *kind,
                rule,
            })
        });
        let taken = taken.collect::<Result<Vec<_>, _>>()?;
        check_collisions(taken.iter().map(|file| &file.path)).map_err(SelectionError::Name)?;
        let left = self.left.into_iter().map(|(path, (size, reason))| Left {
            path: path.to_owned(),
            size,
            reason,
        });
        Ok(Selection {
            left: left.collect(),
            taken,
            warnings: self.warnings,
        })
    }
}

fn is_hostile(problem: &PathProblem) -> bool {
    matches!(
        problem,
        PathProblem::Dots(_)
            | PathProblem::Absolute
            | PathProblem::Backslash
            | PathProblem::Control(_)
            | PathProblem::Empty
    )
}

/// The one name that the artifact itself uses.
pub(crate) fn is_reserved(path: &str) -> bool {
    path.eq_ignore_ascii_case(SOURCE_LOCK_PATH)
}

#[cfg(test)]
mod tests;
