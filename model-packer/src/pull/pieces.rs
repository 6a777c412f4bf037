//! A file from its pieces: those that are in the folder already are copied, the others fetched, each proven by itself.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use artifact::{Digest, FilePieces, Piece, plan_pieces};
use futures::{StreamExt as _, TryStreamExt as _};
use model_facts::SafetensorsHeader;

use super::fetch::Fetch;
use super::parts::PARTS_OF_A_FILE;
use super::place::hash_prefix;
use crate::buffers::CHUNK;
use crate::error::PackError;
use crate::hashing::Sha256Hasher;
use crate::header::Header;
use crate::layer_reader::TRIES;
use crate::report::Event;

/// Headers of local files are read up to this length.
const LOCAL_HEADER_LIMIT: u64 = 16 << 20;

/// Pieces that the folder holds, in whatever file.
#[derive(Debug, Default)]
pub(super) struct LocalPieces(HashMap<Digest, (PathBuf, u64)>);

impl LocalPieces {
    /// Reads these files and finds their pieces.
    pub(super) fn find(files: Vec<PathBuf>) -> Self {
        let mut found = HashMap::new();
        for path in files {
            // A file that cannot be read has no pieces to give.
            let _ = add_pieces(&path, &mut found);
        }
        Self(found)
    }
}

fn add_pieces(path: &Path, found: &mut HashMap<Digest, (PathBuf, u64)>) -> std::io::Result<()> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut offset = 0;
    let starts = read_header(&file, size)
        .map(|header| header.tensor_starts())
        .unwrap_or_default();
    for length in plan_pieces(size, &starts) {
        found.insert(hash_range(&file, offset, length)?, (path.to_owned(), offset));
        offset += length;
    }
    Ok(())
}

fn read_header(file: &File, size: u64) -> Option<Header> {
    let mut start = [0; 8];
    file.read_exact_at(&mut start, 0).ok()?;
    let length = u64::from_le_bytes(start)
        .checked_add(8)
        .filter(|length| *length <= LOCAL_HEADER_LIMIT.min(size))?;
    let mut header = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut header, 0).ok()?;
    SafetensorsHeader::parse(&header, Some(size))
        .ok()
        .map(Header::Safetensors)
}

fn hash_range(file: &File, offset: u64, length: u64) -> std::io::Result<Digest> {
    let (mut hasher, mut buffer) = (Sha256Hasher::default(), vec![0; CHUNK]);
    let mut at = offset;
    while at < offset + length {
        let wanted = usize::try_from(offset + length - at).unwrap_or(CHUNK).min(CHUNK);
        let chunk = &mut buffer[..wanted];
        file.read_exact_at(chunk, at)?;
        hasher.update(chunk);
        at += wanted as u64;
    }
    Ok(hasher.finish())
}

impl Fetch {
    /// Fills the unfinished file piece by piece; returns the digest of the whole and the bytes that came.
    pub(super) async fn fetch_pieces(&self, partial: &Path, map: &FilePieces) -> Result<(Digest, u64), PackError> {
        let file = Arc::new(open_sized(partial, map.size).map_err(|source| PackError::File {
            step: "write",
            path: partial.to_owned(),
            source,
        })?);
        let path = self.file.path.to_string();
        self.settings.reporter.tell(&Event::Started {
            path: path.clone(),
            size: map.size,
            offset: 0,
        });
        let (mut done, mut fetched) = (0, 0);
        let all = map.pieces();
        let pieces = all.into_iter().map(|piece| self.bring_piece(&file, partial, piece));
        let mut pieces = futures::stream::iter(pieces).buffer_unordered(PARTS_OF_A_FILE);
        while let Some((size, came)) = pieces.try_next().await? {
            done += size;
            fetched += came;
            self.settings.reporter.tell(&Event::Progress {
                path: path.clone(),
                offset: done,
            });
        }
        drop(pieces);
        let hasher = hash_prefix(partial.to_owned(), map.size).await?;
        Ok((hasher.finish(), fetched))
    }

    /// The size of the piece and the bytes that came for it.
    async fn bring_piece(&self, file: &Arc<File>, partial: &Path, piece: Piece) -> Result<(u64, u64), PackError> {
        let failed = |source| PackError::File {
            step: "write",
            path: partial.to_owned(),
            source,
        };
        let (target, wanted, known) = (Arc::clone(file), piece.clone(), Arc::clone(&self.local));
        let before = self.settings.folder.join(self.file.path.as_str());
        let there = tokio::task::spawn_blocking(move || take_local(&target, &wanted, &known, &before)).await;
        if there?.map_err(failed)? {
            return Ok((piece.length, 0));
        }
        let mut came = 0;
        for _ in 0..TRIES {
            came += piece.length;
            match self.fetch_piece(file, piece.offset, piece.length).await {
                Ok(found) if found == piece.digest => return Ok((piece.length, came)),
                Ok(_) => {
                    let text = format!(
                        "{}: the piece at byte {} came wrong; fetching it again",
                        self.file.path, piece.offset
                    );
                    self.settings.reporter.tell(&Event::Warning { text });
                }
                Err(error) => return Err(error),
            }
        }
        Err(PackError::No(format!(
            "{}: the piece at byte {} came wrong {TRIES} times",
            self.file.path, piece.offset
        )))
    }

    /// Written while it comes, without a copy in memory; wrong bytes are in a file that has no name yet.
    async fn fetch_piece(&self, file: &Arc<File>, offset: u64, size: u64) -> Result<Digest, PackError> {
        let (mut hasher, mut at) = (Sha256Hasher::default(), offset);
        let range = self.base() + offset..self.base() + offset + size;
        let layer = self.layer();
        let read = layer.read(range, |chunk| {
            hasher.update(chunk);
            let place = at;
            at += chunk.len() as u64;
            file.write_all_at(chunk, place).map_err(|source| PackError::File {
                step: "write",
                path: self.settings.folder.join(self.file.path.as_str()),
                source,
            })
        });
        read.await?;
        Ok(hasher.finish())
    }
}

/// From the unfinished file itself, else from another file of the folder, else from the file that it replaces: a damaged header
/// hides where the tensors of that one begin, but not the tensors.
fn take_local(file: &File, piece: &Piece, local: &LocalPieces, before: &Path) -> std::io::Result<bool> {
    let Piece { offset, length, digest } = piece;
    if has_data(file, *offset, *length) && hash_range(file, *offset, *length)? == *digest {
        return Ok(true);
    }
    let known = local.0.get(digest).map(|(path, start)| (path.as_path(), *start));
    let places = known.into_iter().chain([(before, *offset)]);
    for (path, start) in places {
        // What cannot be read there is fetched.
        let Ok(other) = File::open(path) else { continue };
        let holds = hash_range(&other, start, *length).is_ok_and(|found| found == *digest);
        if holds && copy_range(&other, start, file, *offset, *length)? == *digest {
            return Ok(true);
        }
    }
    Ok(false)
}

/// False where an unfinished file has nothing but a hole, which needs no hashing to be known as missing. File systems that do not
/// tell holes say true.
fn has_data(file: &File, offset: u64, length: u64) -> bool {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(offset)) {
        Ok(data) => data < offset + length,
        Err(error) => error != rustix::io::Errno::NXIO,
    }
}

/// The unfinished file, made where it is not there, as long as the whole.
fn open_sized(path: &Path, size: u64) -> std::io::Result<File> {
    let file = crate::hold::open(path)?;
    file.set_len(size)?;
    Ok(file)
}

/// Copies a range and returns the digest of what was written: files change, and what is copied is proven like what is fetched.
fn copy_range(from: &File, start: u64, to: &File, offset: u64, length: u64) -> std::io::Result<Digest> {
    let (mut hasher, mut buffer) = (Sha256Hasher::default(), vec![0; CHUNK]);
    let mut done = 0;
    while done < length {
        let wanted = usize::try_from(length - done).unwrap_or(CHUNK).min(CHUNK);
        let chunk = &mut buffer[..wanted];
        from.read_exact_at(chunk, start + done)?;
        hasher.update(chunk);
        to.write_all_at(chunk, offset + done)?;
        done += wanted as u64;
    }
    Ok(hasher.finish())
}
