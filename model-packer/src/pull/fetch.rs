//! One file: what is there already is taken, the rest is fetched, hashed in order and given its name.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use artifact::{Digest, FilePieces, PackedFile};
use registry::Reference;
use tokio::sync::Semaphore;

use super::claim::Claim;
use super::folder::unmark;
use super::pieces::LocalPieces;
use super::place::{has_content, hash_prefix, place_of, settle};
use super::{PARTIAL, PullSettings};
use crate::error::PackError;
use crate::hashing::Sha256Hasher;
use crate::layer_reader::{LayerReader, TRIES};
use crate::packed::{content_of, size_of};
use crate::report::{Arrival, Event};

/// Progress is told each time so many bytes came.
const TELL_EVERY: u64 = 1 << 20;
/// How much of a large file is brought by one request before it is known whether more would help.
const TRIAL: u64 = 16 << 20;

/// A file on its way from a registry to the folder.
pub(super) struct Fetch {
    pub(super) settings: PullSettings,
    pub(super) reference: Reference,
    pub(super) file: PackedFile,
    pub(super) budget: Arc<Semaphore>,
    pub(super) map: Option<FilePieces>,
    pub(super) local: Arc<LocalPieces>,
    /// One request for the whole file; otherwise several, each for a part.
    pub(super) in_one: bool,
    /// The registry sent the whole where a part was asked for.
    pub(super) whole_came: AtomicBool,
}

/// A file as far as it has come.
pub(super) struct Written {
    pub(super) hasher: Sha256Hasher,
    file: std::fs::File,
    /// How far it was when that was told last.
    told: u64,
}

impl Written {
    fn take(&mut self, chunk: &[u8]) -> std::io::Result<()> {
        self.hasher.update(chunk);
        self.file.write_all(chunk)
    }
}

impl Fetch {
    pub(super) async fn run(self: Arc<Self>) -> Result<(u64, Arrival), PackError> {
        let place = place_of(&self.settings.folder, &self.file.path)?;
        let (size, digest) = (size_of(&self.file), content_of(&self.file).clone());
        if has_content(&place, size, &digest).await? {
            return Ok((size, self.finished(Arrival::Reused)));
        }
        unmark(&self.settings.folder)?;
        let claim = self.claim()?;
        let mut tries = 0;
        loop {
            let (found, fetched) = match &self.map {
                Some(map) => self.fetch_pieces(&claim.path, map).await?,
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
        Claim::of(&folder, &partial_name(&self.file)).map_err(|source| PackError::File {
            step: "write into",
            path: folder,
            source,
        })
    }

    fn finished(&self, arrival: Arrival) -> Arrival {
        self.settings.reporter.tell(&Event::Finished {
            path: self.file.path.to_string(),
            digest: content_of(&self.file).to_string(),
            size: size_of(&self.file),
            arrival: arrival.clone(),
        });
        arrival
    }

    /// Goes on behind what an earlier run left, which is hashed again; returns the digest and the bytes that came.
    async fn fetch(self: &Arc<Self>, partial: &Path, size: u64) -> Result<(Digest, u64), PackError> {
        let mut written = take_up(partial, size).await?;
        let start = written.hasher.bytes();
        self.settings.reporter.tell(&Event::Started {
            path: self.file.path.to_string(),
            size,
            offset: start,
        });
        if self.in_one || self.one_is_fast(&mut written, size).await? {
            self.fetch_in_one(&mut written, size).await?;
        } else {
            self.fetch_in_parts(&mut written, size).await?;
        }
        Ok((written.hasher.finish(), size - start))
    }

    /// Hashes and writes where the bytes are: to hand them to another thread takes longer than the work itself.
    pub(super) fn write(&self, written: &mut Written, chunk: &[u8]) -> Result<(), PackError> {
        written.take(chunk).map_err(|source| PackError::File {
            step: "write",
            path: self.settings.folder.join(self.file.path.as_str()),
            source,
        })?;
        let offset = written.hasher.bytes();
        if offset - written.told >= TELL_EVERY {
            written.told = offset;
            let path = self.file.path.to_string();
            self.settings.reporter.tell(&Event::Progress { path, offset });
        }
        Ok(())
    }

    /// Whether one connection brings the first megabytes so fast that several would only cost the registry more.
    async fn one_is_fast(&self, written: &mut Written, size: u64) -> Result<bool, PackError> {
        let (start, begun) = (written.hasher.bytes(), Instant::now());
        self.fetch_in_one(written, size.min(start + TRIAL)).await?;
        let came = written.hasher.bytes() - start;
        let enough = came.saturating_mul(1000) / self.settings.enough_rate.max(1);
        Ok(begun.elapsed() <= Duration::from_millis(enough))
    }

    /// An answer that is short again and again leaves the file short, which its digest tells.
    pub(super) async fn fetch_in_one(&self, written: &mut Written, size: u64) -> Result<(), PackError> {
        let range = self.base() + written.hasher.bytes()..self.base() + size;
        self.layer().read(range, |chunk| self.write(written, chunk)).await
    }

    pub(super) fn layer(&self) -> LayerReader<'_> {
        LayerReader {
            client: &self.settings.client,
            reference: &self.reference,
            file: &self.file,
            whole_came: &self.whole_came,
        }
    }

    /// Where the file begins in its layer.
    pub(super) fn base(&self) -> u64 {
        self.file.payload.as_ref().map_or(0, |payload| payload.offset)
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
    if held > size {
        // Never where it is empty already: ext4 writes a file to the disk on its close once it was emptied.
        file.set_len(0).map_err(failed)?;
    }
    let hasher = match held {
        1.. if held <= size => hash_prefix(partial.to_owned(), held).await?,
        _ => Sha256Hasher::default(),
    };
    file.seek(SeekFrom::Start(hasher.bytes())).map_err(failed)?;
    let told = hasher.bytes();
    Ok(Written { hasher, file, told })
}
