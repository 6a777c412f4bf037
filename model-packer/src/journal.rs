//! What survives a kill: for each blob under way the upload session and the state of its hash, and for each registry which
//! repository has which blob.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use artifact::{Digest, FilePieces};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use registry::{Profile, Reference, SavedSession};
use serde::{Deserialize, Serialize};

use crate::content::Checkpoint;
use crate::error::PackError;
use crate::hold;

/// Blobs below this size are not worth a mount.
const WORTH_A_MOUNT: u64 = 64 << 10;

/// A folder with one file per blob under way.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    known: Mutex<()>,
}

/// An upload that no other run works on, until this is dropped.
#[derive(Debug)]
pub struct HeldUpload {
    path: PathBuf,
    _file: fs::File,
}

impl Drop for HeldUpload {
    fn drop(&mut self) {
        // What stays behind is taken by the next run.
        let _ = fs::remove_file(&self.path);
    }
}

/// An upload under way.
#[derive(Debug, Clone)]
pub struct Resume {
    /// The registry's session.
    pub session: SavedSession,
    /// The hash of what was sent.
    pub checkpoint: Checkpoint,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    repository: String,
    digest: Digest,
    session: SavedSession,
    offset: u64,
    hash_state: String,
}

/// Blob digest -> repositories of one registry.
type Known = BTreeMap<String, Vec<String>>;

impl Journal {
    /// A journal below this folder, which is made when it is not there. Only its owner may read it: a session is a permission.
    pub fn open(folder: &Path) -> Result<Self, PackError> {
        let failed = |source| PackError::File {
            step: "make the folder",
            path: folder.to_owned(),
            source,
        };
        let mut builder = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(folder.join("uploads")).map_err(failed)?;
        for name in ["known", "pieces", "profiles"] {
            builder.create(folder.join(name)).map_err(failed)?;
        }
        Ok(Self {
            folder: folder.to_owned(),
            known: Mutex::new(()),
        })
    }

    /// `$XDG_STATE_HOME/plimsoll/packer`, else below `~/.local/state`.
    pub fn default_folder(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
        state.map(|state| state.join("plimsoll/packer"))
    }

    /// This upload for this run alone; `None` where another one works on it, and then has the journal of it.
    pub fn hold(&self, target: &Reference, digest: &Digest) -> Option<HeldUpload> {
        let path = self.upload_file(target, digest).with_extension("lock");
        // Without it the upload is not remembered, which is no reason to fail.
        let file = hold::hold(&path).ok().flatten()?;
        Some(HeldUpload { path, _file: file })
    }

    /// The upload of this blob that an earlier run left.
    pub fn resume(&self, target: &Reference, digest: &Digest) -> Option<Resume> {
        let text = fs::read(self.upload_file(target, digest)).ok()?;
        let entry: Entry = serde_json::from_slice(&text).ok()?;
        let state = STANDARD.decode(entry.hash_state).ok()?;
        let fits = entry.repository == repository_of(target) && entry.digest == *digest;
        fits.then_some(Resume {
            session: entry.session,
            checkpoint: Checkpoint {
                offset: entry.offset,
                state,
            },
        })
    }

    /// Keeps an upload under way, whole or not at all.
    pub fn keep(&self, target: &Reference, digest: &Digest, resume: &Resume) -> Result<(), PackError> {
        let entry = Entry {
            repository: repository_of(target),
            digest: digest.clone(),
            session: resume.session.clone(),
            offset: resume.checkpoint.offset,
            hash_state: STANDARD.encode(&resume.checkpoint.state),
        };
        let bytes = serde_json::to_vec(&entry).map_err(|error| PackError::Internal(error.to_string()))?;
        write_whole(&self.upload_file(target, digest), &bytes)
    }

    /// Forgets an upload.
    pub fn forget(&self, target: &Reference, digest: &Digest) {
        // A file that is not there is forgotten already.
        let _ = fs::remove_file(self.upload_file(target, digest));
    }

    /// Repositories of the same registry that have had this blob.
    pub fn repositories_with(&self, target: &Reference, digest: &Digest) -> Vec<String> {
        let mut known = self.read_known(target).remove(digest.as_str()).unwrap_or_default();
        known.retain(|repository| repository != target.repository());
        known
    }

    /// Remembers that the repository of the target has these blobs.
    pub fn remember<'a>(
        &self,
        target: &Reference,
        blobs: impl Iterator<Item = (&'a Digest, u64)>,
    ) -> Result<(), PackError> {
        let _one_at_a_time = self.known.lock();
        let mut known = self.read_known(target);
        for (digest, _) in blobs.filter(|(_, size)| *size >= WORTH_A_MOUNT) {
            let repositories = known.entry(digest.to_string()).or_default();
            if !repositories.iter().any(|repository| repository == target.repository()) {
                repositories.push(target.repository().to_owned());
            }
        }
        let bytes = serde_json::to_vec(&known).map_err(|error| PackError::Internal(error.to_string()))?;
        write_whole(&self.known_file(target), &bytes)
    }

    /// The pieces of a file with this content, when an earlier push made them.
    pub fn pieces(&self, digest: &Digest) -> Option<FilePieces> {
        let bytes = fs::read(self.pieces_file(digest)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Keeps the pieces of a file, so that they need not be read back from a registry.
    pub fn keep_pieces(&self, pieces: &FilePieces) -> Result<(), PackError> {
        let bytes = serde_json::to_vec(pieces).map_err(|error| PackError::Internal(error.to_string()))?;
        write_whole(&self.pieces_file(&pieces.digest), &bytes)
    }

    /// Profiles of registries that were measured.
    pub fn profiles(&self) -> Vec<Profile> {
        let files = fs::read_dir(self.folder.join("profiles"))
            .into_iter()
            .flatten()
            .flatten();
        // One that cannot be read is one that was not measured.
        files
            .filter_map(|file| serde_json::from_slice(&fs::read(file.path()).ok()?).ok())
            .collect()
    }

    /// Keeps a measured profile.
    pub fn keep_profile(&self, registry: &str, profile: &Profile) -> Result<PathBuf, PackError> {
        let file = self
            .folder
            .join("profiles")
            .join(format!("{}.json", Digest::of(registry.as_bytes()).hex()));
        let bytes = serde_json::to_vec_pretty(profile).map_err(|error| PackError::Internal(error.to_string()))?;
        write_whole(&file, &bytes)?;
        Ok(file)
    }

    fn pieces_file(&self, digest: &Digest) -> PathBuf {
        self.folder.join("pieces").join(format!("{}.json", digest.hex()))
    }

    fn read_known(&self, target: &Reference) -> Known {
        // It only saves work: a file that cannot be read is as good as none.
        fs::read(self.known_file(target))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default()
    }

    fn upload_file(&self, target: &Reference, digest: &Digest) -> PathBuf {
        let repository = Digest::of(repository_of(target).as_bytes());
        self.folder
            .join("uploads")
            .join(format!("{}-{}.json", &repository.hex()[..16], digest.hex()))
    }

    fn known_file(&self, target: &Reference) -> PathBuf {
        self.folder
            .join("known")
            .join(format!("{}.json", Digest::of(target.registry().as_bytes()).hex()))
    }
}

fn repository_of(target: &Reference) -> String {
    format!("{}/{}", target.registry(), target.repository())
}

/// Writes beside the file and renames: a reader sees the old content or the new one.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), PackError> {
    let (beside, mut file) = create_beside(path)?;
    file.write_all(bytes).map_err(|source| unwritten(path, source))?;
    fs::rename(&beside, path).map_err(|source| unwritten(path, source))
}

/// Whether [`write_whole`] will be able to write this file, for whom a failure at the end would come too late.
pub(crate) fn check_place(path: &Path) -> Result<(), PackError> {
    if path.is_dir() {
        return Err(unwritten(path, std::io::ErrorKind::IsADirectory.into()));
    }
    let (beside, _) = create_beside(path)?;
    fs::remove_file(beside).map_err(|source| unwritten(path, source))
}

fn create_beside(path: &Path) -> Result<(PathBuf, fs::File), PackError> {
    let beside = path.with_extension(format!("{}.new", hold::unique_suffix()));
    let mut options = fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.create(true).write(true).truncate(true);
    match options.open(&beside) {
        Ok(file) => Ok((beside, file)),
        Err(source) => Err(unwritten(path, source)),
    }
}

fn unwritten(path: &Path, source: std::io::Error) -> PackError {
    PackError::File {
        step: "write",
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_repositories_are_remembered_by_registry_without_the_target_itself() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        let (one, two): (Reference, Reference) = ("r.example/a:v1".parse().unwrap(), "r.example/b:v1".parse().unwrap());
        let (large, small) = (Digest::of(b"large"), Digest::of(b"small"));
        journal
            .remember(&one, [(&large, 1 << 20), (&small, 10)].into_iter())
            .unwrap();
        assert_eq!(journal.repositories_with(&two, &large), ["a"]);
        assert_eq!(journal.repositories_with(&one, &large), Vec::<String>::new());
        assert_eq!(journal.repositories_with(&two, &small), Vec::<String>::new());
        assert_eq!(
            journal.repositories_with(&"other.example/b".parse().unwrap(), &large),
            Vec::<String>::new()
        );
    }

    #[test]
    fn the_state_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let journal = Journal::open(&state).unwrap();
        let target: Reference = "r.example/a".parse().unwrap();
        journal
            .remember(&target, [(&Digest::of(b"x"), 1 << 20)].into_iter())
            .unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&state), mode(&journal.known_file(&target))), (0o700, 0o600));
    }
}
