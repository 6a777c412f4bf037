//! The store of a node: blobs under their digests, unfinished blobs apart from them, and views for pods.
//!
//! ```text
//! blobs/sha256/HEX     proven bytes, read-only, never written again
//! partial/HEX          a blob on its way, with HEX.journal that says which bytes are durable
//! views/HEX/files/     an artifact's files under their names, links to blobs; HEX is its manifest's digest
//! views/HEX/artifact.json
//! store-id state lock  identity of this disk, how the last run ended, who works here
//! ```
//!
//! All calls block: asynchronous callers use `spawn_blocking`.

mod error;
mod evict;
pub(crate) mod files;
mod folder;
mod hold;
mod journal;
mod lease;
mod partial;
mod record;
mod space;
pub(crate) mod stop;
#[cfg(test)]
mod tests;
pub(crate) mod view;

pub(crate) use error::At;
pub use error::StoreError;
pub use files::Durability;
pub(crate) use folder::hash_file;
use folder::{bytes_in, clear_leftovers, digests_in, identity, lock};
pub use hold::Hold;
pub use journal::SavedRange;
use journal::Seal;
pub use lease::Leases;
pub use partial::Partial;
pub use record::{Record, RecordedFile};
pub use space::{Capacity, Floor, FloorError, Reservation, Space};
pub use view::LinkMode;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use artifact::Digest;
use stop::StopMarker;

/// Whether a blob can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobState {
    /// Not here.
    Missing,
    /// Here, but the machine stopped since it was proven.
    Suspect,
    /// Here and proven.
    Proven,
}

/// One store. Cloning is by `Arc`; one process at a time may have it open.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    blobs: PathBuf,
    partials: PathBuf,
    views: PathBuf,
    id: String,
    link_mode: LinkMode,
    seal: Seal,
    space: Space,
    state: Mutex<State>,
    /// Holds the lock as long as the store is open.
    _lock: File,
}

#[derive(Debug)]
struct State {
    leases: Leases,
    /// Blobs and artifacts that running fetches work on, with how many do.
    holds: BTreeMap<Digest, usize>,
    marker: StopMarker,
}

impl Store {
    /// Opens the store, or makes one in an empty or missing folder.
    pub fn open(root: &Path, floor: Floor, durability: Durability) -> Result<Arc<Self>, StoreError> {
        Self::open_at_boot(root, floor, durability, &stop::boot_id()?)
    }

    pub(crate) fn open_at_boot(
        root: &Path,
        floor: Floor,
        durability: Durability,
        boot_id: &str,
    ) -> Result<Arc<Self>, StoreError> {
        let [blobs, partials, views] = ["blobs/sha256", "partial", "views"].map(|name| root.join(name));
        // Only the store itself is closed to others, not the folders that lead to it.
        if let Some(parent) = root.parent() {
            fs::create_dir_all(parent).at("create folder", parent)?;
        }
        for folder in [&blobs, &partials, &views] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .at("create folder", folder)?;
        }
        let lock = lock(root)?;
        let id = identity(root)?;
        let marker = StopMarker::begin(root, boot_id, || digests_in(&blobs))?;
        clear_leftovers(&views, marker.was_unclean())?;
        let link_mode = LinkMode::probe(&partials)?.ok_or_else(|| StoreError::NoLinks { path: root.to_owned() })?;
        let state = Mutex::new(State {
            leases: Leases::default(),
            holds: BTreeMap::new(),
            marker,
        });
        let space = Space::new(root, floor);
        let seal = Seal {
            durability,
            boot_id: boot_id.to_owned(),
        };
        Ok(Arc::new(Self {
            root: root.to_owned(),
            blobs,
            partials,
            views,
            id,
            link_mode,
            seal,
            space,
            state,
            _lock: lock,
        }))
    }

    /// Closes cleanly: the next run trusts what is here without hashing it again.
    pub fn close(&self) -> Result<(), StoreError> {
        if self.durability() == Durability::ProcessDeath {
            // Not waited for, so not vouched for: the marker stays, and the next boot proves again.
            return Ok(());
        }
        let root = File::open(&self.root).at("open", &self.root)?;
        // What an earlier run without waiting left must not hide behind this marker.
        rustix::fs::syncfs(&root).at("sync", &self.root)?;
        self.lock().marker.finish()
    }

    /// What the names here survive.
    pub fn durability(&self) -> Durability {
        self.seal.durability
    }

    /// The folder of the store.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of all views.
    pub fn views(&self) -> &Path {
        &self.views
    }

    /// Made when the store was; a new disk has another one.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How views share bytes with blobs here.
    pub fn link_mode(&self) -> LinkMode {
        self.link_mode
    }

    /// The disk's numbers.
    pub fn capacity(&self) -> Result<Capacity, StoreError> {
        self.space.capacity()
    }

    /// Bytes of proven blobs.
    pub fn stored_bytes(&self) -> Result<u64, StoreError> {
        bytes_in(&self.blobs)
    }

    fn partial_bytes(&self) -> Result<u64, StoreError> {
        bytes_in(&self.partials)
    }

    /// Works on the leases.
    pub fn with_leases<T>(&self, work: impl FnOnce(&mut Leases) -> T) -> T {
        work(&mut self.lock().leases)
    }

    /// Whether a blob can be used.
    pub fn blob_state(&self, digest: &Digest) -> BlobState {
        let state = self.lock();
        if !self.blob_path(digest).is_file() {
            BlobState::Missing
        } else if state.marker.is_suspect(digest) {
            BlobState::Suspect
        } else {
            BlobState::Proven
        }
    }

    /// Where a blob's bytes are, once proven.
    pub fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.blobs.join(digest.hex())
    }

    /// Reads a small proven blob, such as a manifest, and proves it once more.
    pub fn read_small(&self, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.blob_path(digest);
        match fs::read(&path) {
            Ok(bytes) => Ok((Digest::of(&bytes) == *digest).then_some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).at("read", &path),
        }
    }

    /// Stores small bytes under their own digest.
    pub fn write_small(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let digest = Digest::of(bytes);
        if self.blob_state(&digest) != BlobState::Proven {
            let partial = self.begin(&digest, bytes.len() as u64)?;
            partial.write_at(bytes, 0)?;
            self.publish(&partial)?;
        }
        Ok(digest)
    }

    /// Takes up or starts an unfinished blob.
    pub fn begin(&self, digest: &Digest, size: u64) -> Result<Partial, StoreError> {
        Partial::open(&self.partials, digest, size, &self.seal)
    }

    /// Gives a blob its name. The caller has proven the bytes.
    pub fn publish(&self, partial: &Partial) -> Result<(), StoreError> {
        partial.publish(&self.blob_path(partial.digest()))?;
        self.lock().marker.clear(partial.digest())
    }

    /// Throws an unfinished blob away.
    pub fn discard(&self, partial: &Partial) -> Result<(), StoreError> {
        partial.discard()
    }

    /// How many bytes of an unfinished blob are allocated already.
    pub fn allocated(&self, digest: &Digest) -> u64 {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(self.partial_path(digest)).map_or(0, |metadata| metadata.blocks() * 512)
    }

    /// Hashes a blob again. A wrong one is removed, with the views that show it.
    pub fn prove_again(&self, digest: &Digest) -> Result<bool, StoreError> {
        let path = self.blob_path(digest);
        let right = path.is_file() && hash_file(&path)? == *digest;
        let mut state = self.lock();
        if right {
            state.marker.clear(digest)?;
        } else {
            tracing::warn!(blob = %digest, "a blob on the disk is not what its name says, removing it");
            for record in self
                .records()?
                .iter()
                .filter(|record| record.blobs().any(|blob| blob == digest))
            {
                self.remove_view(&record.digest)?;
            }
            self.remove_blob(&mut state, digest)?;
        }
        Ok(right)
    }

    /// Blobs that are to be hashed again.
    pub fn suspects(&self) -> Vec<Digest> {
        self.lock().marker.suspects()
    }

    /// Keeps blobs and artifacts from being evicted while somebody works on them.
    pub fn hold(self: &Arc<Self>, digests: impl IntoIterator<Item = Digest>) -> Hold {
        let digests: Vec<_> = digests.into_iter().collect();
        let mut state = self.lock();
        for digest in &digests {
            *state.holds.entry(digest.clone()).or_default() += 1;
        }
        Hold {
            store: Arc::clone(self),
            digests,
        }
    }

    /// Makes the view of an artifact whose blobs are all proven, and remembers it.
    pub fn make_view(&self, record: &Record) -> Result<PathBuf, StoreError> {
        let view = self.view_path(&record.digest);
        let files_folder = view.join("files");
        if !files_folder.is_dir() {
            let new = self.views.join(format!(".new-{}", record.digest.hex()));
            files::remove_folder(&new)?;
            fs::create_dir(&new).at("create folder", &new)?;
            view::fill(&new.join("files"), self.durability(), &record.files, |file, path| {
                self.link_mode
                    .link(&self.blob_path(&file.digest), path)
                    .at("link", path)
            })?;
            record.write(&new.join("artifact.json"), self.durability())?;
            files::remove_folder(&view)?;
            fs::rename(&new, &view).at("rename into place", &view)?;
            self.durability().sync_folder(&self.views)?;
        }
        Ok(files_folder)
    }

    /// Whether an artifact can be mounted now.
    pub fn is_complete(&self, artifact: &Digest) -> Result<bool, StoreError> {
        let Some(record) = self.record(artifact)? else {
            return Ok(false);
        };
        let proven = record.blobs().all(|blob| self.blob_state(blob) == BlobState::Proven);
        Ok(proven && self.view_path(artifact).join("files").is_dir())
    }

    /// The folder of an artifact's files, when it is complete; marks it as used.
    pub fn open_view(&self, artifact: &Digest) -> Result<Option<PathBuf>, StoreError> {
        let folder = self.view_path(artifact).join("files");
        if !self.is_complete(artifact)? {
            return Ok(None);
        }
        record::touch(&self.record_path(artifact), SystemTime::now())?;
        Ok(Some(folder))
    }

    /// What is remembered of an artifact.
    pub fn record(&self, artifact: &Digest) -> Result<Option<Record>, StoreError> {
        Record::read(&self.record_path(artifact))
    }

    /// What is remembered of all artifacts.
    pub fn records(&self) -> Result<Vec<Record>, StoreError> {
        let artifacts = digests_in(&self.views)?;
        Ok(artifacts
            .iter()
            .map(|artifact| self.record(artifact))
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .flatten()
            .collect())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn view_path(&self, artifact: &Digest) -> PathBuf {
        self.views.join(artifact.hex())
    }

    fn record_path(&self, artifact: &Digest) -> PathBuf {
        self.view_path(artifact).join("artifact.json")
    }

    fn partial_path(&self, digest: &Digest) -> PathBuf {
        self.partials.join(digest.hex())
    }

    fn blob_digests(&self) -> Result<BTreeSet<Digest>, StoreError> {
        digests_in(&self.blobs)
    }

    fn partial_digests(&self) -> Result<BTreeSet<Digest>, StoreError> {
        digests_in(&self.partials)
    }

    fn remove_blob(&self, state: &mut State, digest: &Digest) -> Result<(), StoreError> {
        files::remove_file(&self.blob_path(digest))?;
        state.marker.clear(digest)
    }

    fn remove_partial(&self, digest: &Digest) -> Result<(), StoreError> {
        files::remove_file(&self.partials.join(format!("{}.journal", digest.hex())))?;
        files::remove_file(&self.partial_path(digest))
    }
}
