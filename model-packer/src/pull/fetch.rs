//! One file: what is there already is taken, the rest is fetched, hashed in order and given its name.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;

use artifact::{Digest, FilePieces, PackedFile};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use registry::Reference;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::chunks::Chunks;
use super::claim::Claim;
use super::pieces::LocalPieces;
use super::place::{has_content, hash_prefix, place_of, remove, settle};
use super::{COMPLETE, PARTIAL, PullSettings};
use crate::error::PackError;
use crate::hashing::Sha256Hasher;
use crate::packed::{content_of, size_of};
use crate::report::{Arrival, Event};

/// A part of a file: one request.
pub(super) const PART: u64 = 4 << 20;
/// Parts of one file at the same time.
pub(super) const PARTS_OF_A_FILE: usize = 4;
/// Tries of one part, and of one whole file whose hash is wrong.
pub(super) const TRIES: usize = 3;

/// A file on its way from a registry to the folder.
pub(super) struct Fetch<'a> {
    pub(super) settings: &'a PullSettings,
    pub(super) reference: &'a Reference,
    pub(super) file: &'a PackedFile,
    pub(super) budget: Arc<Semaphore>,
    pub(super) map: Option<&'a FilePieces>,
    pub(super) local: &'a Arc<LocalPieces>,
    /// One request for the whole file; otherwise several, each for a part.
    pub(super) in_one: bool,
}

/// A file as far as it has come.
pub(super) struct Written {
    pub(super) hasher: Sha256Hasher,
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
    pub(super) async fn run(&self) -> Result<(u64, Arrival), PackError> {
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
    pub(super) async fn write(
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

    pub(super) async fn part(&self, start: u64, end: u64) -> Result<(Vec<Bytes>, OwnedSemaphorePermit), PackError> {
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

    pub(super) async fn read(&self, start: u64, end: u64) -> Result<Vec<Bytes>, registry::Error> {
        let mut chunks = self.open(start, end).await?;
        let mut read = Vec::new();
        while let Some(chunk) = chunks.next().await? {
            read.push(chunk);
        }
        Ok(read)
    }

    /// A range of the layer.
    pub(super) async fn open(&self, start: u64, end: u64) -> Result<Chunks, registry::Error> {
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
    let hasher = if held > 0 && held <= size {
        hash_prefix(partial.to_owned(), held).await?
    } else {
        file.set_len(0).map_err(failed)?;
        Sha256Hasher::default()
    };
    file.seek(SeekFrom::Start(hasher.bytes())).map_err(failed)?;
    Ok(Written { hasher, file })
}
