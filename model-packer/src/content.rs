//! The bytes of a layer on their way into a registry: hashed once while they pass, the last piece held back until the hash
//! is right, and ready to go on anywhere after a failure.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use artifact::Digest;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use registry::{BlobSource, SourceStream};

use crate::hashing::Sha256Hasher;
use crate::sources::{ByteStream, FileReader, SourceError};

/// The state of the hash is kept each time this many bytes have passed, so that a resume hashes at most that much again.
pub(crate) const CHECKPOINT: u64 = 1 << 20;

/// A hash on its way: how far, and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Bytes that went in.
    pub offset: u64,
    /// State of the hasher.
    pub state: Vec<u8>,
}

/// Collects the sha256 of each piece of a file while the file passes.
#[derive(Debug)]
pub struct PieceRecorder {
    sizes: Vec<u64>,
    found: Mutex<BTreeMap<usize, Digest>>,
}

impl PieceRecorder {
    /// For pieces of these sizes, in order.
    pub fn new(sizes: Vec<u64>) -> Self {
        Self {
            sizes,
            found: Mutex::default(),
        }
    }

    /// The sizes.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// The digests of all pieces, once each of them has passed whole.
    pub fn digests(&self) -> Option<Vec<Digest>> {
        let found = self.found.lock().ok()?;
        (0..self.sizes.len()).map(|at| found.get(&at).cloned()).collect()
    }

    fn record(&self, at: usize, digest: Digest) {
        if let Ok(mut found) = self.found.lock() {
            found.insert(at, digest);
        }
    }

    fn clear(&self) {
        if let Ok(mut found) = self.found.lock() {
            found.clear();
        }
    }
}

/// Hashes pieces on the way. A pass that starts inside a piece begins with the next one.
pub(crate) struct PieceHasher {
    recorder: Arc<PieceRecorder>,
    at: usize,
    left: u64,
    hasher: Option<Sha256Hasher>,
}

impl PieceHasher {
    /// From this offset of the file.
    pub(crate) fn from(recorder: Arc<PieceRecorder>, offset: u64) -> Self {
        let (mut at, mut start) = (0, 0);
        while let Some(size) = recorder.sizes.get(at).filter(|size| start + **size <= offset) {
            start += size;
            at += 1;
        }
        let left = recorder.sizes.get(at).map_or(0, |size| start + size - offset);
        let hasher = (start == offset).then(Sha256Hasher::default);
        Self {
            recorder,
            at,
            left,
            hasher,
        }
    }

    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.at < self.recorder.sizes.len() {
            let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
            let (piece, rest) = bytes.split_at(length);
            if let Some(hasher) = &mut self.hasher {
                hasher.update(piece);
            }
            self.left -= length as u64;
            bytes = rest;
            if self.left == 0 {
                if let Some(hasher) = self.hasher.take() {
                    self.recorder.record(self.at, hasher.finish());
                }
                self.at += 1;
                self.left = self.recorder.sizes.get(self.at).copied().unwrap_or(0);
                self.hasher = Some(Sha256Hasher::default());
            }
        }
    }
}

/// A file in its layer, with what a tar puts around it.
#[derive(Clone)]
pub struct LayerPart {
    /// The file.
    pub reader: FileReader,
    /// Bytes before it.
    pub head: Bytes,
    /// Zero bytes after it.
    pub tail: u64,
    /// Where its pieces are collected, when they are wanted.
    pub pieces: Option<Arc<PieceRecorder>>,
}

impl LayerPart {
    /// The file and nothing else.
    pub fn plain(reader: FileReader, pieces: Option<Arc<PieceRecorder>>) -> Self {
        Self {
            reader,
            head: Bytes::new(),
            tail: 0,
            pieces,
        }
    }

    /// Bytes of it in the layer.
    pub fn size(&self) -> u64 {
        self.head.len() as u64 + self.reader.file().size + self.tail
    }

    /// From this byte of it to its end.
    fn stream(&self, start: u64, at_once: usize) -> ByteStream {
        let head_length = self.head.len() as u64;
        let file_end = head_length + self.reader.file().size;
        let head = usize::try_from(start.min(head_length)).map_or(Bytes::new(), |at| self.head.slice(at..));
        let file_start = start.clamp(head_length, file_end) - head_length;
        let file = self
            .reader
            .stream_in_parts(file_start..self.reader.file().size, at_once);
        let zeros = (self.size() - start.max(file_end)).min(self.tail);
        let zeros = Bytes::from(vec![0; usize::try_from(zeros).unwrap_or(0)]);
        let parts = |bytes: Bytes| futures::stream::iter((!bytes.is_empty()).then_some(Ok::<_, SourceError>(bytes)));
        parts(head).chain(file).chain(parts(zeros)).boxed()
    }
}

/// One file of a source as a blob, or several that share a layer.
#[derive(Clone)]
pub struct HashedFile {
    parts: Arc<[LayerPart]>,
    digest: Digest,
    checkpoints: Arc<Mutex<BTreeMap<u64, Sha256Hasher>>>,
    hashed_here: bool,
    requests: usize,
}

impl HashedFile {
    /// These parts, one after the other; `digest` is what they must have together.
    pub fn new(parts: Vec<LayerPart>, digest: Digest) -> Self {
        let checkpoints = Arc::new(Mutex::new(BTreeMap::from([(0, Sha256Hasher::default())])));
        Self {
            parts: parts.into(),
            digest,
            checkpoints,
            hashed_here: false,
            requests: 1,
        }
    }

    /// The same, read from its source by so many requests at once where it is large.
    #[must_use]
    pub fn by_requests(self, requests: usize) -> Self {
        Self { requests, ..self }
    }

    /// The same, of which the digest was computed from these very bytes a moment ago: they are not hashed again on their way.
    /// The registry still does; a file that changed meanwhile is refused there.
    #[must_use]
    pub fn hashed_here(self, hashed_here: bool) -> Self {
        Self { hashed_here, ..self }
    }

    /// Whether the bytes lie on this machine and have been hashed.
    pub(crate) fn is_hashed_here(&self) -> bool {
        self.hashed_here
    }

    /// Bytes of the layer.
    pub fn size(&self) -> u64 {
        self.parts.iter().map(LayerPart::size).sum()
    }

    /// How it is called in messages.
    fn name(&self) -> String {
        let names = self.parts.iter().map(|part| part.reader.file().path.as_str());
        names.collect::<Vec<_>>().join(" or ")
    }

    /// Takes up the hash of an earlier process.
    pub fn restore(&self, checkpoint: &Checkpoint) {
        let hasher = Sha256Hasher::restore(&checkpoint.state, checkpoint.offset);
        if let (Some(hasher), Ok(mut checkpoints)) = (hasher, self.checkpoints.lock()) {
            checkpoints.insert(checkpoint.offset, hasher);
        }
    }

    /// The last state at or before this offset.
    pub fn checkpoint(&self, offset: u64) -> Checkpoint {
        let hasher = self.hasher_before(offset);
        Checkpoint {
            offset: hasher.bytes(),
            state: hasher.save(),
        }
    }

    fn hasher_before(&self, offset: u64) -> Sha256Hasher {
        let checkpoints = self.checkpoints.lock().ok();
        checkpoints
            .and_then(|known| known.range(..=offset).next_back().map(|(_, hasher)| hasher.clone()))
            .unwrap_or_default()
    }

    /// The layer's bytes from here to the end.
    fn raw(&self, start: u64) -> ByteStream {
        let (mut base, mut streams) = (0, Vec::new());
        for part in self.parts.iter() {
            let end = base + part.size();
            if start < end {
                streams.push(part.stream(start.saturating_sub(base), self.requests));
            }
            base = end;
        }
        futures::stream::iter(streams).flatten().boxed()
    }

    /// What hashes the pieces of its files, from this byte of the layer.
    fn piece_hashers(&self, start: u64) -> Vec<PlacedPieces> {
        let (mut base, mut placed) = (0, Vec::new());
        for part in self.parts.iter() {
            let begin = base + part.head.len() as u64;
            let end = begin + part.reader.file().size;
            if let Some(recorder) = &part.pieces {
                let hasher = PieceHasher::from(Arc::clone(recorder), start.clamp(begin, end) - begin);
                placed.push(PlacedPieces { begin, end, hasher });
            }
            base += part.size();
        }
        placed
    }
}

/// A file's place in its layer, and what hashes its pieces.
struct PlacedPieces {
    begin: u64,
    end: u64,
    hasher: PieceHasher,
}

impl PlacedPieces {
    /// Takes what of the chunk, which starts at this byte of the layer, belongs to the file.
    fn take(&mut self, chunk: &[u8], start: u64) {
        let inside = |offset: u64| {
            let offset = offset.clamp(self.begin, self.end).saturating_sub(start);
            usize::try_from(offset).unwrap_or(usize::MAX).min(chunk.len())
        };
        let (from, to) = (inside(start), inside(start + chunk.len() as u64));
        self.hasher.update(&chunk[from..to]);
    }
}

impl BlobSource for HashedFile {
    fn open(&self, offset: u64) -> BoxFuture<'_, io::Result<SourceStream>> {
        if self.hashed_here {
            let raw = self.raw(offset).map_err(io::Error::other);
            return std::future::ready(Ok(raw.boxed())).boxed();
        }
        let hasher = self.hasher_before(offset);
        let raw = self.raw(hasher.bytes());
        let pieces = self.piece_hashers(hasher.bytes());
        let state = Hashing {
            file: self.clone(),
            hasher,
            skip_to: offset,
            raw,
            held: None,
            proven: false,
            pieces,
        };
        let stream = futures::stream::try_unfold(state, |mut state| async move {
            let chunk = state.next().await?;
            Ok(chunk.map(|chunk| (chunk, state)))
        });
        std::future::ready(Ok(stream.boxed())).boxed()
    }
}

/// The stream: one piece behind, so that the last one goes out only when the hash is right.
struct Hashing {
    file: HashedFile,
    hasher: Sha256Hasher,
    skip_to: u64,
    raw: ByteStream,
    held: Option<Bytes>,
    proven: bool,
    pieces: Vec<PlacedPieces>,
}

impl Hashing {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let Some(chunk) = self.raw.try_next().await.map_err(io::Error::other)? else {
                self.prove()?;
                return Ok(self.held.take());
            };
            let start = self.hasher.bytes();
            self.take(&chunk);
            let skipped = usize::try_from(self.skip_to.saturating_sub(start))
                .unwrap_or(usize::MAX)
                .min(chunk.len());
            if skipped == chunk.len() {
                continue;
            }
            if let Some(before) = self.held.replace(chunk.slice(skipped..)) {
                return Ok(Some(before));
            }
        }
    }

    /// Hashes the chunk, and keeps the state wherever it crosses a checkpoint.
    fn take(&mut self, chunk: &Bytes) {
        let start = self.hasher.bytes();
        for placed in &mut self.pieces {
            placed.take(chunk, start);
        }
        let mut rest = chunk.clone();
        while !rest.is_empty() {
            let to_checkpoint = CHECKPOINT - self.hasher.bytes() % CHECKPOINT;
            let piece = rest.split_to(usize::try_from(to_checkpoint).unwrap_or(usize::MAX).min(rest.len()));
            self.hasher.update(&piece);
            if self.hasher.bytes().is_multiple_of(CHECKPOINT)
                && let Ok(mut checkpoints) = self.file.checkpoints.lock()
            {
                checkpoints.insert(self.hasher.bytes(), self.hasher.clone());
            }
        }
    }

    fn prove(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.proven, true) {
            return Ok(());
        }
        let found = std::mem::take(&mut self.hasher).finish();
        if found == self.file.digest {
            return Ok(());
        }
        self.held = None;
        for pieces in self.file.parts.iter().filter_map(|part| part.pieces.as_ref()) {
            pieces.clear();
        }
        // A wrong prefix must not be gone on from.
        if let Ok(mut checkpoints) = self.file.checkpoints.lock() {
            checkpoints.retain(|offset, _| *offset == 0);
        }
        let error = SourceError::Mismatch {
            path: self.file.name(),
            expected: self.file.digest.to_string(),
            found: found.to_string(),
        };
        Err(io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

/// The digest of each file of a layer, of the layer itself where a tar is around them, and their pieces: one pass, nothing kept.
pub async fn hash_parts(parts: &[LayerPart]) -> Result<(Vec<Digest>, Option<Digest>), SourceError> {
    let wrapped = parts.iter().any(|part| !part.head.is_empty());
    let mut layer = wrapped.then(Sha256Hasher::default);
    let mut digests = Vec::with_capacity(parts.len());
    for part in parts {
        let mut around = |bytes: &[u8]| {
            if let Some(layer) = &mut layer {
                layer.update(bytes);
            }
        };
        let mut plain = Sha256Hasher::default();
        let mut pieces = part.pieces.clone().map(|pieces| PieceHasher::from(pieces, 0));
        around(&part.head);
        let mut stream = part.reader.stream(0..part.reader.file().size);
        while let Some(chunk) = stream.try_next().await? {
            plain.update(&chunk);
            if let Some(pieces) = &mut pieces {
                pieces.update(&chunk);
            }
            around(&chunk);
        }
        around(&vec![0; usize::try_from(part.tail).unwrap_or(0)]);
        digests.push(plain.finish());
    }
    Ok((digests, layer.map(Sha256Hasher::finish)))
}
