//! From a registry to a folder: parallel ranges, one hash in order, a name only for what is proven.

mod chunks;
mod claim;
mod pieces;
mod whole;

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use artifact::{Digest, Encoding, FileKind, FilePath, FilePieces, PackedFile, PieceMap};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use registry::{Client, Reference};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use chunks::Chunks;
use claim::Claim;
use pieces::LocalPieces;

use crate::error::PackError;
use crate::hashing::Sha256Hasher;
use crate::packed::{Remote, content_of, size_of};
use crate::report::{Arrival, Event, Reporter};

/// A part of a file: one request.
const PART: u64 = 4 << 20;
/// Parts in memory, over all files.
const PARTS_IN_MEMORY: usize = 8;
/// Parts of one file at the same time.
const PARTS_OF_A_FILE: usize = 4;
/// Tries of one part, and of one whole file whose hash is wrong.
const TRIES: usize = 3;
/// What a pull itself writes into the folder begins like this, and no file of a model does.
pub(crate) const OWN_NAMES: &str = ".plimsoll-";
/// Unfinished files; the name says whose they are.
const PARTIAL: &str = ".plimsoll-partial";

/// A larger piece map is none: the largest model makes a few megabytes.
const PIECE_MAP_LIMIT: usize = 256 << 20;
/// Names the model whose files are all here; written last, and gone as long as one of them is not.
const COMPLETE: &str = ".plimsoll-complete";

/// How to pull.
#[derive(Clone)]
pub struct PullSettings {
    /// The registry client.
    pub client: Client,
    /// The folder.
    pub folder: PathBuf,
    /// Files at the same time.
    pub jobs: usize,
    /// Who is told.
    pub reporter: Reporter,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PullSummary {
    /// Files of the model.
    pub files: usize,
    /// Bytes that came over the network.
    pub fetched: u64,
    /// Bytes that were there and right.
    pub present: u64,
}

/// Brings all files of the model into the folder.
pub async fn pull(remote: &Remote, settings: &PullSettings) -> Result<PullSummary, PackError> {
    let files = &remote.model.files;
    if let Some(file) = files.iter().find(|file| is_opaque(file)) {
        return Err(PackError::No(format!(
            "{} lies in a layer of type {}, which is not unpacked here",
            file.path, file.media_type
        )));
    }
    if let Some(file) = files.iter().find(|file| has_own_name(&file.path)) {
        return Err(PackError::No(format!(
            "{} has a name that only this program writes into a folder",
            file.path
        )));
    }
    if settings.folder.join(PARTIAL).is_symlink() {
        return Err(PackError::No(format!(
            "{} is a link, and unfinished files would be written behind it",
            settings.folder.join(PARTIAL).display()
        )));
    }
    make_folder(&settings.folder.join(PARTIAL))?;
    let bytes = files.iter().map(size_of).sum();
    settings.reporter.tell(&Event::Planned {
        files: files.len(),
        bytes,
    });
    let budget = Arc::new(Semaphore::new(PARTS_IN_MEMORY));
    let map = read_map(remote, settings).await?;
    let local = match &map {
        Some(_) => find_local(remote, settings).await?,
        None => Arc::default(),
    };
    let mut order: Vec<&PackedFile> = files.iter().collect();
    order.sort_by_key(|file| std::cmp::Reverse(size_of(file)));
    // As many large files as there are jobs keep as many connections busy, and a request for each part is work for the registry.
    let large = order.iter().filter(|file| size_of(file) > 2 * PART).count();
    let pulls = order.into_iter().map(|file| {
        let fetch = Fetch {
            settings,
            reference: &remote.reference,
            file,
            budget: Arc::clone(&budget),
            map: map.as_ref().and_then(|map| map.file(content_of(file))),
            local: &local,
            in_one: large >= settings.jobs,
        };
        async move { fetch.run().await }
    });
    let arrivals: Vec<(u64, Arrival)> = futures::stream::iter(pulls)
        .buffer_unordered(settings.jobs.max(1))
        .try_collect()
        .await?;
    // Empty again when everything is in its place; anything else in it belongs to another run.
    let _ = std::fs::remove_dir(settings.folder.join(PARTIAL));
    crate::journal::write_whole(
        &settings.folder.join(COMPLETE),
        format!("{}\n", remote.model.digest).as_bytes(),
    )?;
    let mut summary = PullSummary {
        files: files.len(),
        ..PullSummary::default()
    };
    for (size, arrival) in arrivals {
        match arrival {
            Arrival::Fetched(fetched) => summary.fetched += fetched,
            _ => summary.present += size,
        }
    }
    Ok(summary)
}

/// The piece map that the manifest names, proven by its digest. A model without one is pulled as a whole.
async fn read_map(remote: &Remote, settings: &PullSettings) -> Result<Option<PieceMap>, PackError> {
    let Some(digest) = &remote.model.pieces else {
        return Ok(None);
    };
    match settings
        .client
        .get_blob(&remote.reference, digest.as_str(), PIECE_MAP_LIMIT)
        .await
    {
        Ok(bytes) => PieceMap::from_bytes(&bytes)
            .map(Some)
            .map_err(|error| PackError::No(error.to_string())),
        Err(error) if error.is_not_found() => {
            let text = "the piece map is gone from the registry; files are pulled as a whole".to_owned();
            settings.reporter.tell(&Event::Warning { text });
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// What the folder holds of other versions, for files that are not right yet.
async fn find_local(remote: &Remote, settings: &PullSettings) -> Result<Arc<LocalPieces>, PackError> {
    let weights = remote.model.files.iter().filter(|file| file.kind == FileKind::Weight);
    let mut places: Vec<PathBuf> = weights.map(|file| settings.folder.join(file.path.as_str())).collect();
    let others = std::fs::read_dir(&settings.folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|item| item.path());
    places.extend(others.filter(|path| path.extension().is_some_and(|extension| extension == "safetensors")));
    places.sort();
    places.dedup();
    places.retain(|path| std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()));
    if everything_is_there(remote, settings, &places) {
        return Ok(Arc::default());
    }
    let found = tokio::task::spawn_blocking(move || LocalPieces::find(places)).await;
    found
        .map(Arc::new)
        .map_err(|error| PackError::Internal(error.to_string()))
}

/// By size alone: whether it is worth looking for pieces at all.
fn everything_is_there(remote: &Remote, settings: &PullSettings, places: &[PathBuf]) -> bool {
    let there = |file: &PackedFile| {
        let place = settings.folder.join(file.path.as_str());
        std::fs::metadata(place).is_ok_and(|metadata| metadata.len() == size_of(file))
    };
    places.is_empty() || (remote.model.files.iter().all(there) && is_marked(settings, remote))
}

/// Whether this very model was completed here before.
fn is_marked(settings: &PullSettings, remote: &Remote) -> bool {
    std::fs::read_to_string(settings.folder.join(COMPLETE))
        .is_ok_and(|text| text.trim() == remote.model.digest.as_str())
}

fn has_own_name(path: &FilePath) -> bool {
    path.as_str().to_ascii_lowercase().starts_with(OWN_NAMES)
}

/// A tar without a recorded payload, or something compressed.
fn is_opaque(file: &PackedFile) -> bool {
    file.encoding == Encoding::Compressed || (file.encoding == Encoding::Tar && file.payload.is_none())
}

struct Fetch<'a> {
    settings: &'a PullSettings,
    reference: &'a Reference,
    file: &'a PackedFile,
    budget: Arc<Semaphore>,
    map: Option<&'a FilePieces>,
    local: &'a Arc<LocalPieces>,
    /// One request for the whole file; otherwise several, each for a part.
    in_one: bool,
}

/// A file as far as it has come.
struct Written {
    hasher: Sha256Hasher,
    file: std::fs::File,
}

impl Written {
    fn take(&mut self, chunks: Vec<Bytes>) -> std::io::Result<()> {
        chunks.into_iter().try_for_each(|chunk| {
            self.hasher.update(&chunk);
            self.file.write_all(&chunk)
        })
    }
}

impl Fetch<'_> {
    async fn run(&self) -> Result<(u64, Arrival), PackError> {
        let place = place_of(&self.settings.folder, &self.file.path)?;
        let (size, digest) = (size_of(self.file), content_of(self.file).clone());
        if has_content(&place, size, &digest).await? {
            return Ok((size, self.finished(Arrival::Reused)));
        }
        remove(&self.settings.folder.join(COMPLETE))?;
        let claim = self.claim()?;
        let mut tries = 0;
        loop {
            let (found, fetched) = match self.map {
                Some(map) => self.fetch_pieces(&claim.path, map, self.local).await?,
                None => self.fetch(&claim.path, size).await?,
            };
            if found == digest {
                settle(&claim.path, &place)?;
                return Ok((size, self.finished(Arrival::Fetched(fetched))));
            }
            claim.empty().map_err(|source| PackError::File {
                step: "empty",
                path: claim.path.clone(),
                source,
            })?;
            tries += 1;
            if tries == TRIES {
                return Err(PackError::WrongDigest {
                    what: self.file.path.to_string(),
                    expected: digest,
                    found,
                });
            }
            let text = format!("{} came with digest {found}; fetching it again", self.file.path);
            self.settings.reporter.tell(&Event::Warning { text });
        }
    }

    fn claim(&self) -> Result<Claim, PackError> {
        let folder = self.settings.folder.join(PARTIAL);
        Claim::of(&folder, &partial_name(self.file)).map_err(|source| PackError::File {
            step: "write into",
            path: folder,
            source,
        })
    }

    fn finished(&self, arrival: Arrival) -> Arrival {
        self.settings.reporter.tell(&Event::Finished {
            path: self.file.path.to_string(),
            digest: content_of(self.file).to_string(),
            size: size_of(self.file),
            arrival: arrival.clone(),
        });
        arrival
    }

    /// Goes on behind what an earlier run left, which is hashed again; returns the digest and the bytes that came.
    async fn fetch(&self, partial: &Path, size: u64) -> Result<(Digest, u64), PackError> {
        let written = take_up(partial, size).await?;
        let start = written.hasher.bytes();
        self.settings.reporter.tell(&Event::Started {
            path: self.file.path.to_string(),
            size,
            offset: start,
        });
        let written = if self.in_one {
            self.fetch_in_one(written, size).await?
        } else {
            self.fetch_in_parts(written, size).await?
        };
        Ok((written.hasher.finish(), size - start))
    }

    async fn fetch_in_parts(&self, mut written: Written, size: u64) -> Result<Written, PackError> {
        let start = written.hasher.bytes();
        let starts = (0..).map(|number| start + number * PART).take_while(|at| *at < size);
        let mut parts =
            futures::stream::iter(starts.map(|at| self.part(at, (at + PART).min(size)))).buffered(PARTS_OF_A_FILE);
        while let Some((chunks, permit)) = parts.try_next().await? {
            written = self.write(written, chunks, Some(permit)).await?;
        }
        Ok(written)
    }

    /// Hashes and writes, on a thread that may block.
    async fn write(
        &self,
        mut written: Written,
        chunks: Vec<Bytes>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Written, PackError> {
        let step = tokio::task::spawn_blocking(move || {
            let done = written.take(chunks);
            drop(permit);
            done.map(|()| written)
        });
        let step = step.await.map_err(|error| PackError::Internal(error.to_string()))?;
        let written = step.map_err(|source| PackError::File {
            step: "write",
            path: self.settings.folder.join(self.file.path.as_str()),
            source,
        })?;
        self.settings.reporter.tell(&Event::Progress {
            path: self.file.path.to_string(),
            offset: written.hasher.bytes(),
        });
        Ok(written)
    }

    async fn part(&self, start: u64, end: u64) -> Result<(Vec<Bytes>, OwnedSemaphorePermit), PackError> {
        let permit = Arc::clone(&self.budget)
            .acquire_owned()
            .await
            .map_err(|error| PackError::Internal(error.to_string()))?;
        let base = self.file.payload.as_ref().map_or(0, |payload| payload.offset);
        let mut last = None;
        for _ in 0..TRIES {
            match self.read(base + start, base + end).await {
                Ok(chunks) => return Ok((chunks, permit)),
                Err(error) if error.is_retryable() => last = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        Err(last.map_or_else(|| PackError::Internal("no try was made".into()), PackError::from))
    }

    async fn read(&self, start: u64, end: u64) -> Result<Vec<Bytes>, registry::Error> {
        let mut chunks = self.open(start, end).await?;
        let mut read = Vec::new();
        while let Some(chunk) = chunks.next().await? {
            read.push(chunk);
        }
        Ok(read)
    }

    /// A range of the layer.
    async fn open(&self, start: u64, end: u64) -> Result<Chunks, registry::Error> {
        let digest = self.file.digest.as_str();
        let client = &self.settings.client;
        let stream = client.open_blob(self.reference, digest, Some(start..end)).await?;
        Ok(Chunks::new(stream, start, end - start))
    }
}

/// Equal files are fetched at the same time, each to a place of its own.
fn partial_name(file: &PackedFile) -> String {
    let path = Digest::of(file.path.as_str().as_bytes());
    format!("{}-{}", content_of(file).hex(), &path.hex()[..8])
}

fn place_of(folder: &Path, path: &FilePath) -> Result<PathBuf, PackError> {
    let mut place = folder.to_owned();
    let segments: Vec<&str> = path.segments().collect();
    for segment in &segments[..segments.len().saturating_sub(1)] {
        place.push(segment);
        // A link in the target folder must not lead the files out of it.
        if place.is_symlink() {
            return Err(PackError::No(format!(
                "{} is a link, and {path} would be written behind it",
                place.display()
            )));
        }
    }
    make_folder(&place)?;
    Ok(place.join(path.name()))
}

fn make_folder(folder: &Path) -> Result<(), PackError> {
    std::fs::create_dir_all(folder).map_err(|source| PackError::File {
        step: "make the folder",
        path: folder.to_owned(),
        source,
    })
}

fn remove(path: &Path) -> Result<(), PackError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(PackError::File {
            step: "remove",
            path: path.to_owned(),
            source,
        }),
        _ => Ok(()),
    }
}

/// Whether a regular file with this content is there.
async fn has_content(place: &Path, size: u64, digest: &Digest) -> Result<bool, PackError> {
    match std::fs::symlink_metadata(place) {
        Ok(metadata) if metadata.is_file() && metadata.len() == size => {}
        _ => return Ok(false),
    }
    let (hasher, _) = hash_prefix(place.to_owned(), size).await?;
    Ok(hasher.finish() == *digest)
}

/// Opens the unfinished file behind what it holds.
async fn take_up(partial: &Path, size: u64) -> Result<Written, PackError> {
    let failed = |source| PackError::File {
        step: "open",
        path: partial.to_owned(),
        source,
    };
    let mut file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(partial)
        .map_err(failed)?;
    let held = file.metadata().map_err(failed)?.len();
    let (hasher, _) = if held > 0 && held <= size {
        hash_prefix(partial.to_owned(), held).await?
    } else {
        file.set_len(0).map_err(failed)?;
        (Sha256Hasher::default(), 0)
    };
    file.seek(SeekFrom::Start(hasher.bytes())).map_err(failed)?;
    Ok(Written { hasher, file })
}

async fn hash_prefix(path: PathBuf, length: u64) -> Result<(Sha256Hasher, u64), PackError> {
    let failed = path.clone();
    let hashed = tokio::task::spawn_blocking(move || {
        let file = std::fs::File::open(&path)?;
        let mut hasher = Sha256Hasher::default();
        let mut buffer = vec![0; 1 << 20];
        let mut reader = (&file).take(length);
        loop {
            let read = reader.read(&mut buffer)?;
            if read == 0 {
                return Ok((hasher, length));
            }
            hasher.update(&buffer[..read]);
        }
    });
    let hashed: std::io::Result<_> = hashed.await.map_err(|error| PackError::Internal(error.to_string()))?;
    hashed.map_err(|source| PackError::File {
        step: "read",
        path: failed,
        source,
    })
}

/// Gives it its name. The content is proven, and a later run proves it again before it relies on it, so nothing waits for the
/// disk here: that would take longer than everything else.
fn settle(partial: &Path, place: &Path) -> Result<(), PackError> {
    std::fs::rename(partial, place).map_err(|source| PackError::File {
        step: "rename",
        path: place.to_owned(),
        source,
    })
}
