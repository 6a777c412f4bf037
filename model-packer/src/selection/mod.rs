//! Which files a server needs. Pure: a listing, a few small texts and the user's wishes in; a choice with a reason for
//! every file out, in both directions.

mod composites;
mod gguf;
mod indexes;
mod patterns;
mod rules;
mod variants;
mod weights;

use std::collections::{BTreeMap, BTreeSet};

use artifact::{FileKind, FilePath, PathError, PathProblem, SOURCE_LOCK_PATH, check_collisions};
use serde::Serialize;

pub use gguf::{QuantGroup, quant_of};
pub(crate) use indexes::is_index;
pub use patterns::{PatternError, Patterns};
pub use weights::Format;

use crate::sources::ListedFile;

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
        let largest = self.left.iter().max_by_key(|left| left.size);
        SelectionError::NoWeights {
            seen: largest.map(|left| format!("the largest file that stays out is {} ({})", left.path, left.reason)),
        }
    }
}

/// No choice that a server could use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// A name that is not safe anywhere.
    #[error("the source lists a hostile name")]
    Hostile(#[source] PathError),
    /// A name, or a pair of names, that is not safe somewhere.
    #[error("a file cannot be packed under its name")]
    Name(#[source] PathError),
    /// Nothing to load.
    #[error("no weight file was found{}", .seen.as_ref().map(|seen| format!("; {seen}")).unwrap_or_default())]
    NoWeights {
        /// What was there instead.
        seen: Option<String>,
    },
    /// The index names files that are not there.
    #[error("{index} names what {why}: {}", .missing.join(", "))]
    MissingShards {
        /// The index.
        index: String,
        /// The shards.
        missing: Vec<String>,
        /// Absent, or left out by the user.
        why: &'static str,
    },
    /// The index cannot be read.
    #[error("{index} is no index: {problem}")]
    BadIndex {
        /// The index.
        index: String,
        /// What is wrong.
        problem: String,
    },
    /// A numbered set with holes.
    #[error("the set {name} has {found} of {total} parts")]
    IncompleteSet {
        /// Common name.
        name: String,
        /// Parts that are there.
        found: usize,
        /// Parts by the names.
        total: usize,
    },
    /// Several quantisations and no wish.
    #[error("{} quantisations are there: {}", .groups.len(), listing(.groups))]
    SeveralQuants {
        /// What is there.
        groups: Vec<QuantGroup>,
    },
    /// Several variants, none of them the plain one, and no wish.
    #[error("{name} is there as {}", .variants.join(", "))]
    SeveralVariants {
        /// What they are variants of.
        name: String,
        /// Their words.
        variants: Vec<String>,
    },
    /// A quantisation that is not there.
    #[error("quantisation `{wanted}` is not there; there are: {}", listing(.groups))]
    NoSuchQuant {
        /// What was asked for.
        wanted: String,
        /// What is there.
        groups: Vec<QuantGroup>,
    },
    /// GGUF cut by bytes.
    #[error("{name} is cut into {parts} raw parts, none of which is a model by itself")]
    RawParts {
        /// The file that they make.
        name: String,
        /// How many.
        parts: usize,
    },
    /// A weight set that was asked for and is not there.
    #[error("no weights of format `{0}` are there")]
    NoSuchFormat(&'static str),
}

/// Whether no wish could tell them apart.
fn are_alike(groups: &[QuantGroup]) -> bool {
    groups
        .windows(2)
        .all(|pair| pair[0].label.eq_ignore_ascii_case(&pair[1].label))
}

fn listing(groups: &[QuantGroup]) -> String {
    let alike = groups.len() > 1 && are_alike(groups);
    let text = |group: &QuantGroup| {
        let name = group.files.first().filter(|_| alike).map_or(&group.label, |file| file);
        format!("{name} ({})", crate::text::bytes(group.size))
    };
    groups.iter().map(text).collect::<Vec<_>>().join(", ")
}

impl SelectionError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Hostile(_) => "do not use this repository before its owner explains the name; --exclude leaves single files out".into(),
            Self::Name(_) => "leave the file out with --exclude, or rename it at the source".into(),
            Self::NoWeights { .. } => "check --include and --exclude; --facts-only packs metadata without weights".into(),
            Self::MissingShards { .. } => "the repository is incomplete or the patterns are too narrow: take the missing files in, or use another revision".into(),
            Self::BadIndex { .. } => "download the index again, or correct it at the source".into(),
            Self::IncompleteSet { .. } => "the repository is incomplete: look for the missing parts, or use another revision".into(),
            Self::SeveralVariants { variants, .. } => {
                format!("choose one, for example --variant {}", variants.first().map_or("fp16", String::as_str))
            }
            Self::SeveralQuants { groups } if are_alike(groups) => {
                format!("they are files of several models: leave the others out, for example --exclude '{}'", groups.last().and_then(|group| group.files.first()).map_or("*", String::as_str))
            }
            Self::SeveralQuants { groups } => {
                format!("choose one, for example --quant {}", groups.first().map_or("Q4_K_M", |group| group.label.as_str()))
            }
            Self::NoSuchQuant { .. } => "give --quant one of these names".into(),
            Self::RawParts { name, .. } => format!("join them byte by byte, in order, and pack the result: cat {name}* > {name}"),
            Self::NoSuchFormat(_) => "leave --format out to see what is taken by itself".into(),
        }
    }
}

/// Files of the root whose text decides.
const TEXTS: [&str; 4] = [
    "config.json",
    "model_index.json",
    "modules.json",
    "tokenizer_config.json",
];

/// The small files whose text [`select`] wants to see.
pub fn wanted_texts(files: &[ListedFile]) -> Vec<&ListedFile> {
    let wanted = |file: &&ListedFile| {
        let root = !file.path.contains('/');
        let index = indexes::is_index(&file.path);
        (root && TEXTS.contains(&file.path.as_str())) || index
    };
    files
        .iter()
        .filter(wanted)
        .filter(|file| file.size <= rules::TEXT_LIMIT)
        .collect()
}

/// Chooses, or says why no choice is right.
pub fn select(files: &[ListedFile], texts: &Texts, wishes: &Wishes) -> Result<Selection, SelectionError> {
    let mut draft = Draft::new(files, wishes)?;
    rules::apply_exclusions(&mut draft);
    weights::choose(&mut draft, texts)?;
    rules::take_companions(&mut draft, texts);
    draft.finish()
}

/// A choice under way: every file is open until a rule decides.
pub(crate) struct Draft<'a> {
    pub(crate) wishes: &'a Wishes,
    open: BTreeMap<&'a str, &'a ListedFile>,
    taken: BTreeMap<&'a str, (FileKind, &'static str)>,
    left: BTreeMap<&'a str, (u64, String)>,
    pub(crate) warnings: Vec<String>,
    all: BTreeSet<&'a str>,
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

    /// Open files in this folder itself; the root is the empty name.
    pub(crate) fn in_folder(&self, folder: &str) -> Vec<&'a ListedFile> {
        let inside = |file: &&ListedFile| match file.path.rsplit_once('/') {
            Some((parent, _)) => parent == folder,
            None => folder.is_empty(),
        };
        self.open().filter(inside).collect()
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
        self.taken.values().any(|(kind, _)| *kind == FileKind::Weight)
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
