//! The bytes of one range, in chunks of one size whatever the network's are.

use bytes::{Buf as _, Bytes};
use futures::TryStreamExt as _;
use registry::BlobStream;

use crate::buffers::{CHUNK, CHUNKS};

/// An answer on its way.
pub(super) struct Chunks {
    stream: BlobStream,
    rest: Bytes,
    /// A registry that ignores ranges sends the whole; what comes before and after is dropped.
    skip: u64,
    left: u64,
}

impl Chunks {
    /// So many bytes from this offset of the blob.
    pub(super) fn new(stream: BlobStream, start: u64, length: u64) -> Self {
        Self {
            skip: start.saturating_sub(stream.served().start),
            rest: Bytes::new(),
            left: length,
            stream,
        }
    }

    /// The next ones; `None` at the end of the range or of the answer, whichever is first.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, registry::Error> {
        let wanted = usize::try_from(self.left).unwrap_or(CHUNK).min(CHUNK);
        let (mut buffer, mut length) = (CHUNKS.take(), 0);
        while length < wanted {
            if self.rest.is_empty() {
                match self.stream.try_next().await? {
                    Some(chunk) => self.rest = chunk,
                    None => break,
                }
            }
            let dropped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(self.rest.len());
            self.rest.advance(dropped);
            self.skip -= dropped as u64;
            let taken = self.rest.len().min(wanted - length);
            self.rest.copy_to_slice(&mut buffer.space()[length..length + taken]);
            length += taken;
        }
        self.left -= length as u64;
        Ok((length > 0).then(|| buffer.filled(length)))
    }
}
