//! The bytes of a layer in a registry, taken up again where an answer broke.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use artifact::PackedFile;
use bytes::{Buf as _, Bytes};
use futures::TryStreamExt as _;
use registry::{BlobStream, Client, ErrorKind, Reference};

use crate::error::PackError;

/// Tries without a byte between them.
pub(crate) const TRIES: usize = 3;

/// The layer of a file.
pub(crate) struct LayerReader<'a> {
    pub(crate) client: &'a Client,
    pub(crate) reference: &'a Reference,
    pub(crate) file: &'a PackedFile,
    /// Set when the whole came where a part was asked for.
    pub(crate) whole_came: &'a AtomicBool,
}

impl LayerReader<'_> {
    /// One request for a range. A layer that is shorter in the registry than the manifest says is known by any answer that tells its
    /// size.
    async fn open(&self, range: Range<u64>) -> Result<Chunks, PackError> {
        let digest = self.file.digest.as_str();
        let opened = self.client.open_blob(self.reference, digest, Some(range.clone())).await;
        let total = match &opened {
            Ok(stream) => stream.total(),
            Err(error) => total_of(error),
        };
        if let Some(found) = total.filter(|total| *total < self.file.size) {
            return Err(PackError::FewerBytes {
                what: self.file.path.to_string(),
                expected: self.file.size,
                found,
            });
        }
        let opened = opened?;
        if !opened.is_partial() && range != (0..self.file.size) {
            self.whole_came.store(true, Ordering::Relaxed);
        }
        Ok(Chunks::new(opened, range.start, range.end - range.start))
    }

    /// The range by one request, and by one more each time that an answer breaks. An answer that is short again and again leaves
    /// the rest out, which the digest of what came tells.
    pub(crate) async fn read(
        &self,
        range: Range<u64>,
        mut take: impl FnMut(&[u8]) -> Result<(), PackError>,
    ) -> Result<(), PackError> {
        let (mut at, mut failures) = (range.start, 0);
        while at < range.end && failures < TRIES {
            let before = at;
            let error = self.pour(&mut at, range.end, &mut take).await?;
            failures = if at > before { 0 } else { failures + 1 };
            match error {
                Some(error) if !error.is_retryable() || failures == TRIES => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// From here to where the answer ends.
    async fn pour(
        &self,
        at: &mut u64,
        end: u64,
        take: &mut impl FnMut(&[u8]) -> Result<(), PackError>,
    ) -> Result<Option<PackError>, PackError> {
        let mut chunks = match self.open(*at..end).await {
            Ok(chunks) => chunks,
            Err(error) => return Ok(Some(error)),
        };
        loop {
            match chunks.next().await {
                Ok(Some(chunk)) => {
                    take(&chunk)?;
                    *at += chunk.len() as u64;
                }
                Ok(None) => return Ok(None),
                Err(error) => return Ok(Some(error.into())),
            }
        }
    }
}

/// The size of a blob, by the refusal of a range behind its end.
fn total_of(error: &registry::Error) -> Option<u64> {
    match error.kind() {
        ErrorKind::RangeNotSatisfiable(total) => *total,
        _ => None,
    }
}

/// An answer on its way.
pub(crate) struct Chunks {
    stream: BlobStream,
    /// A registry that ignores ranges sends the whole; what comes before and after is dropped.
    skip: u64,
    left: u64,
}

impl Chunks {
    /// So many bytes from this offset of the blob.
    pub(crate) fn new(stream: BlobStream, start: u64, length: u64) -> Self {
        Self {
            skip: start.saturating_sub(stream.served().start),
            left: length,
            stream,
        }
    }

    /// The next ones; `None` at the end of the range or of the answer, whichever is first.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, registry::Error> {
        while self.left > 0
            && let Some(mut chunk) = self.stream.try_next().await?
        {
            let dropped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(chunk.len());
            chunk.advance(dropped);
            self.skip -= dropped as u64;
            chunk.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.left -= chunk.len() as u64;
            if !chunk.is_empty() {
                return Ok(Some(chunk));
            }
        }
        Ok(None)
    }
}
