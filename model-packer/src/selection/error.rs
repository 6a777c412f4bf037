//! Why there is no choice, with the hint of what to do about it.

use artifact::PathError;

use super::QuantGroup;

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
    /// A variant that is not there.
    #[error("variant `{wanted}` is not there; {}", there_are(.variants))]
    NoSuchVariant {
        /// What was asked for.
        wanted: String,
        /// What is there.
        variants: Vec<String>,
    },
    /// A quantisation that is not there.
    #[error("quantisation `{wanted}` is not there; {}", others_than(.groups))]
    NoSuchQuant {
        /// What was asked for.
        wanted: String,
        /// What is there.
        groups: Vec<QuantGroup>,
    },
    /// A file cut by bytes.
    #[error("{name} is cut into {} raw parts, none of which is a model by itself{}", .parts.len() + .missing.len(), lacking(.missing))]
    RawParts {
        /// The file that they make.
        name: String,
        /// Those that are there, in their order.
        parts: Vec<String>,
        /// Numbers of those that are not.
        missing: Vec<u32>,
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

fn others_than(groups: &[QuantGroup]) -> String {
    if groups.is_empty() {
        return "no GGUF model is taken".into();
    }
    format!("there are: {}", listing(groups))
}

fn there_are(words: &[String]) -> String {
    if words.is_empty() {
        return "the weights have no variants".into();
    }
    format!("there are: {}", words.join(", "))
}

fn lacking(parts: &[u32]) -> String {
    /// More numbers are not read.
    const SHOWN: usize = 8;
    let numbers: Vec<String> = parts.iter().take(SHOWN).map(u32::to_string).collect();
    match parts.len() {
        0 => String::new(),
        1 => format!("; part {} is not there", numbers[0]),
        2..=SHOWN => format!("; parts {} are not there", numbers.join(", ")),
        more => format!("; parts {} and {} more are not there", numbers.join(", "), more - SHOWN),
    }
}

/// A name as a shell reads it.
fn quoted(name: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./+".contains(letter);
    if name.chars().all(plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', r"'\''"))
}

impl SelectionError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Hostile(_) => "do not use this repository before its owner explains the name; --exclude leaves single files out".into(),
            Self::Name(_) => "leave the file out with --exclude, or rename it at the source".into(),
            Self::NoWeights { .. } => "check --include and --exclude; --facts-only packs metadata without weights".into(),
            Self::MissingShards { .. } => "the repository is incomplete or the patterns are too narrow: take the missing files in, or use another revision".into(),
            Self::BadIndex { .. } => "download the index again, correct it at the source, or leave it out with --exclude".into(),
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
            Self::NoSuchVariant { variants, .. } if variants.is_empty() => "leave --variant out".into(),
            Self::NoSuchVariant { .. } => "give --variant one of these names".into(),
            Self::NoSuchQuant { groups, .. } if groups.is_empty() => "--quant chooses among GGUF models: leave it out, or a --format or a pattern that keeps them out".into(),
            Self::NoSuchQuant { .. } => "give --quant one of these names".into(),
            Self::RawParts { missing, .. } if !missing.is_empty() => "the repository is incomplete: look for the missing parts, or use another revision".into(),
            Self::RawParts { name, parts, .. } => {
                let parts: Vec<String> = parts.iter().map(|part| quoted(part)).collect();
                format!("join them byte by byte, in order, and pack the result: cat {} > {}", parts.join(" "), quoted(name))
            }
            Self::NoSuchFormat(_) => "leave --format out to see what is taken by itself".into(),
        }
    }
}
