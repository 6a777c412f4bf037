//! The bytes of one range, in chunks of one size whatever the network's are.

use bytes::{Buf as _, Bytes};
use futures::TryStreamExt as _;
use registry::BlobStream;

/// An answer on its way.
pub(super) struct Chunks {
    stream: BlobStream,
    /// A registry that ignores ranges sends the whole; what comes before and after is dropped.
    skip: u64,
    left: u64,
}

impl Chunks {
    /// So many bytes from this offset of the blob.
    pub(super) fn new(stream: BlobStream, start: u64, length: u64) -> Self {
        Self {
            skip: start.saturating_sub(stream.served().start),
            left: length,
            stream,
        }
    }

    /// Whether a range comes, and not the whole of which it is a part.
    pub(super) fn is_partial(&self) -> bool {
        self.stream.is_partial()
    }

    /// The next ones; `None` at the end of the range or of the answer, whichever is first.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, registry::Error> {
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
