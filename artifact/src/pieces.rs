//! The piece map: sha256 of short pieces of each file, cut where tensors begin. With it a range is proven before the whole file has
//! come, one bad piece is fetched again instead of the file, and a new version takes from an old one what did not change.
//! Layers stay whole files; the map is a referrer, and the model's manifest names its digest.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::media_type::PIECE_MAP;
use crate::oci::to_json;
use crate::package::Document;
use crate::{Digest, FilePath};

/// Longest piece.
pub const PIECE_LIMIT: u64 = 16 << 20;
/// Shorter tensors share a piece with their neighbours.
pub const PIECE_FLOOR: u64 = 1 << 20;
/// A file of 16 TiB has a million longest pieces.
const PIECE_COUNT_LIMIT: u64 = 4 << 20;
const VERSION: u32 = 1;

/// Pieces of the files of one model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceMap {
    version: u32,
    files: Vec<FilePieces>,
}

/// Pieces of one file, as they are stored: a list of a million pieces has to stay short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePieces {
    /// Path in the model.
    pub path: FilePath,
    /// sha256 of the whole file.
    pub digest: Digest,
    /// Size of the whole file.
    pub size: u64,
    /// Runs of `[length, count]`: so many pieces of that length, one after the other.
    pub lengths: Vec<(u64, u64)>,
    /// sha256 of each piece, 32 bytes each, all together in base64.
    pub sha256: String,
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// First byte in the file.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// sha256 of these bytes.
    pub digest: Digest,
}

/// A map that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PieceError {
    /// Not the document.
    #[error("the piece map cannot be read")]
    Form(#[source] serde_json::Error),
    /// From a newer program.
    #[error("the piece map has version {0}, this program reads version {VERSION}")]
    Version(u32),
    /// A file whose pieces do not make up the file.
    #[error("the pieces of `{path}` are not usable: {problem}")]
    File {
        /// The file.
        path: FilePath,
        /// What is wrong.
        problem: String,
    },
}

/// Where to cut a file of this size, as lengths of pieces in order. `tensor_starts` are offsets in the file, in any order; none
/// for files that are no tensors, which are cut every 16 MiB.
///
/// The bytes before the first tensor (the header) are pieces of their own, because they change with every edit of the metadata.
/// A tensor of 1 MiB or more begins a piece and shares it with nobody, so that it is found again in another file or another place.
pub fn plan_pieces(size: u64, tensor_starts: &[u64]) -> Vec<u64> {
    let inside = tensor_starts
        .iter()
        .copied()
        .filter(|start| *start > 0 && *start < size);
    let mut cuts: Vec<u64> = inside.chain([size]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut lengths = Vec::new();
    let (mut start, mut group) = (0, 0);
    for (at, cut) in cuts.iter().enumerate() {
        let segment = cut - start;
        let alone = at == 0 || segment >= PIECE_FLOOR;
        if alone || group + segment > PIECE_LIMIT {
            push_group(&mut lengths, &mut group);
        }
        if alone {
            push_long(&mut lengths, segment);
        } else {
            group += segment;
        }
        start = *cut;
    }
    push_group(&mut lengths, &mut group);
    lengths
}

fn push_group(lengths: &mut Vec<u64>, group: &mut u64) {
    if *group > 0 {
        lengths.push(std::mem::take(group));
    }
}

fn push_long(lengths: &mut Vec<u64>, segment: u64) {
    let mut left = segment;
    while left > 0 {
        let length = left.min(PIECE_LIMIT);
        lengths.push(length);
        left -= length;
    }
}

fn runs_of(lengths: &[u64]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for length in lengths {
        match runs.last_mut() {
            Some((same, count)) if same == length => *count += 1,
            _ => runs.push((*length, 1)),
        }
    }
    runs
}

impl FilePieces {
    /// From the lengths of [`plan_pieces`] and the digest of each piece; `None` when there is not one digest for each.
    pub fn of_pieces(path: FilePath, digest: Digest, lengths: &[u64], digests: &[Digest]) -> Option<Self> {
        let raw: Vec<[u8; 32]> = digests.iter().map(Digest::to_raw).collect();
        let size = lengths.iter().sum();
        let pieces = Self {
            path,
            digest,
            size,
            lengths: runs_of(lengths),
            sha256: STANDARD.encode(raw.concat()),
        };
        (lengths.len() == digests.len()).then_some(pieces)
    }

    /// The pieces in the order of the file. What [`PieceMap::from_bytes`] returned has been checked.
    pub fn pieces(&self) -> Vec<Piece> {
        let raw = STANDARD.decode(&self.sha256).unwrap_or_default();
        let (digests, _) = raw.as_chunks::<32>();
        let lengths = self
            .lengths
            .iter()
            .flat_map(|(length, count)| (0..*count).map(move |_| *length));
        let mut end = 0_u64;
        let place = |(length, digest): (u64, &[u8; 32])| {
            let offset = end;
            end = end.saturating_add(length);
            Piece {
                offset,
                length,
                digest: Digest::from_raw(digest),
            }
        };
        lengths.zip(digests).map(place).collect()
    }

    fn check(&self) -> Result<(), PieceError> {
        self.problem().map_or(Ok(()), |problem| {
            Err(PieceError::File {
                path: self.path.clone(),
                problem,
            })
        })
    }

    fn problem(&self) -> Option<String> {
        let (mut total, mut count) = (0_u64, 0_u64);
        for (length, times) in &self.lengths {
            if *length == 0 || *length > PIECE_LIMIT {
                return Some(format!("a piece has {length} bytes"));
            }
            count = count.saturating_add(*times);
            total = total.saturating_add(length.saturating_mul(*times));
        }
        if count > PIECE_COUNT_LIMIT {
            return Some(format!("{count} pieces are more than {PIECE_COUNT_LIMIT}"));
        }
        if total != self.size {
            return Some(format!("they have {total} bytes together, the file has {}", self.size));
        }
        match STANDARD.decode(&self.sha256) {
            Ok(digests) if digests.len() as u64 == count * 32 => None,
            Ok(digests) => Some(format!("{} bytes of digests for {count} pieces", digests.len())),
            Err(error) => Some(format!("the digests are no base64: {error}")),
        }
    }
}

impl PieceMap {
    /// A map of these files, in the order of their paths.
    pub fn new(mut files: Vec<FilePieces>) -> Self {
        files.sort_by(|left, right| left.path.cmp(&right.path));
        Self {
            version: VERSION,
            files,
        }
    }

    /// The files.
    pub fn files(&self) -> &[FilePieces] {
        &self.files
    }

    /// The pieces of the file with this digest.
    pub fn file(&self, digest: &Digest) -> Option<&FilePieces> {
        self.files.iter().find(|file| file.digest == *digest)
    }

    /// The blob to push, and whose digest goes into the model's manifest.
    pub fn document(&self) -> Document {
        Document::new(PIECE_MAP, to_json(self))
    }

    /// Reads and checks what [`Self::document`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PieceError> {
        let map: Self = serde_json::from_slice(bytes).map_err(PieceError::Form)?;
        if map.version != VERSION {
            return Err(PieceError::Version(map.version));
        }
        map.files.iter().try_for_each(FilePieces::check)?;
        Ok(map)
    }
}

#[cfg(test)]
mod tests;
