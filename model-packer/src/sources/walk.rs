//! A walk over a local folder that never leaves it. What cannot be packed is set aside with its reason: it counts only when the
//! choice wants it.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{HubHash, ListedFile, SourceError};

/// An entry of a folder that is no file to be packed. It is listed, without a size, so that rules and patterns apply to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfitFile {
    /// Path in the listing.
    pub path: String,
    /// Where it lies.
    pub place: PathBuf,
    /// Why it is not packed.
    pub problem: &'static str,
}

/// What was found so far.
pub(crate) struct Walk<'a> {
    /// Links are followed inside of it.
    boundary: &'a Path,
    pub(crate) files: Vec<ListedFile>,
    pub(crate) unfit: Vec<UnfitFile>,
}

impl<'a> Walk<'a> {
    /// Everything below the folder, by path.
    pub(crate) fn over(folder: &Path, boundary: &'a Path) -> Result<Self, SourceError> {
        let mut walk = Self {
            boundary,
            files: Vec::new(),
            unfit: Vec::new(),
        };
        walk.enter(folder, "", &mut BTreeSet::from([canonical(folder)?]))?;
        walk.files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(walk)
    }

    /// `above` holds the folders on the way down, so that a link to one of them does not go round for ever.
    fn enter(&mut self, folder: &Path, prefix: &str, above: &mut BTreeSet<PathBuf>) -> Result<(), SourceError> {
        let failed = |source| unreadable(folder, source);
        for item in fs::read_dir(folder).map_err(failed)? {
            let item = item.map_err(failed)?;
            let name = item.file_name();
            let readable = name.to_string_lossy();
            if readable == ".git" {
                continue;
            }
            let path = if prefix.is_empty() {
                readable.to_string()
            } else {
                format!("{prefix}/{readable}")
            };
            let outcome = match name.to_str() {
                Some(_) => self.visit(&item.path(), &path, above),
                None => Err(unfit(&item.path(), "its name is no UTF-8 text")),
            };
            match outcome {
                Err(SourceError::Unfit { path: place, problem }) => self.set_aside(path, place, problem),
                outcome => outcome?,
            }
        }
        Ok(())
    }

    fn set_aside(&mut self, path: String, place: PathBuf, problem: &'static str) {
        self.files.push(ListedFile {
            path: path.clone(),
            size: 0,
            hash: HubHash::Unknown,
        });
        self.unfit.push(UnfitFile { path, place, problem });
    }

    fn visit(&mut self, place: &Path, path: &str, above: &mut BTreeSet<PathBuf>) -> Result<(), SourceError> {
        let target = canonical(place)?;
        if !target.starts_with(self.boundary) {
            return Err(unfit(place, "the link leads out of the folder"));
        }
        if !target.is_dir() {
            self.files.push(regular_file(place, &target, path)?);
            return Ok(());
        }
        if !above.insert(target.clone()) {
            return Err(unfit(place, "the link leads to a folder that holds it"));
        }
        let outcome = self.enter(place, path, above);
        above.remove(&target);
        outcome
    }
}

/// The file at the end of all links, under its path in the listing.
pub(crate) fn regular_file(place: &Path, target: &Path, path: &str) -> Result<ListedFile, SourceError> {
    let metadata = fs::metadata(target).map_err(|source| unreadable(place, source))?;
    if !metadata.is_file() {
        return Err(unfit(place, "it is neither a file nor a folder"));
    }
    Ok(ListedFile {
        path: path.to_owned(),
        size: metadata.len(),
        hash: hash_of_name(target),
    })
}

/// Files of a Hugging Face cache are named after their hash; elsewhere a name proves nothing and is not read.
fn hash_of_name(target: &Path) -> HubHash {
    let in_cache = target.parent().is_some_and(|parent| {
        parent.ends_with("blobs")
            && parent
                .parent()
                .and_then(Path::file_name)
                .is_some_and(|name| name.to_string_lossy().starts_with("models--"))
    });
    let name = target
        .file_name()
        .and_then(|name| name.to_str())
        .filter(|_| in_cache)
        .unwrap_or_default();
    match artifact::Digest::from_hex(name) {
        Ok(digest) => HubHash::Sha256(digest),
        Err(_) if super::hugging_face::is_hex(name, 40) => HubHash::GitSha1(name.to_owned()),
        Err(_) => HubHash::Unknown,
    }
}

pub(crate) fn canonical(path: &Path) -> Result<PathBuf, SourceError> {
    fs::canonicalize(path).map_err(|source| match source.kind() {
        ErrorKind::PermissionDenied => unreadable(path, source),
        _ if path.is_symlink() => unfit(path, "the link leads nowhere"),
        _ => unreadable(path, source),
    })
}

/// What this user may not read is unfit for him; anything else is a fault of the machine.
fn unreadable(path: &Path, source: std::io::Error) -> SourceError {
    match source.kind() {
        ErrorKind::PermissionDenied => unfit(path, "this user may not read it"),
        _ => SourceError::File {
            path: path.to_owned(),
            source,
        },
    }
}

pub(crate) fn unfit(path: &Path, problem: &'static str) -> SourceError {
    SourceError::Unfit {
        path: path.to_owned(),
        problem,
    }
}
