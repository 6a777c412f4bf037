//! A file by one request, taken up again where it broke.

use bytes::Bytes;

use super::chunks::Chunks;
use super::fetch::{Fetch, TRIES, Written};
use crate::error::PackError;

/// Chunks that are hashed and written at a time.
const AT_A_TIME: usize = 4;

impl Fetch<'_> {
    /// An answer that is short again and again leaves the file short, which its digest tells.
    pub(super) async fn fetch_in_one(&self, mut written: Written, size: u64) -> Result<Written, PackError> {
        let mut failures = 0;
        while written.hasher.bytes() < size && failures < TRIES {
            let before = written.hasher.bytes();
            let (next, error) = self.pour(written, size).await?;
            written = next;
            failures = if written.hasher.bytes() > before {
                0
            } else {
                failures + 1
            };
            match error {
                Some(error) if !error.is_retryable() || failures == TRIES => return Err(error.into()),
                _ => {}
            }
        }
        Ok(written)
    }

    /// From where the file ends to where the answer does.
    async fn pour(&self, mut written: Written, size: u64) -> Result<(Written, Option<registry::Error>), PackError> {
        let base = self.file.payload.as_ref().map_or(0, |payload| payload.offset);
        let mut chunks = match self.open(base + written.hasher.bytes(), base + size).await {
            Ok(chunks) => chunks,
            Err(error) => return Ok((written, Some(error))),
        };
        let (mut read, mut end) = read_some(&mut chunks).await;
        loop {
            // The next ones come while these are hashed and written.
            let more = async {
                match end {
                    None => read_some(&mut chunks).await,
                    Some(_) => (Vec::new(), None),
                }
            };
            let (next, step) = tokio::join!(more, self.write(written, read, None));
            written = step?;
            if let Some(error) = end {
                return Ok((written, error));
            }
            (read, end) = next;
        }
    }
}

/// The end of an answer: as it should be, or by an error.
type End = Option<registry::Error>;

/// The next chunks, and the end when it came with them.
async fn read_some(chunks: &mut Chunks) -> (Vec<Bytes>, Option<End>) {
    let mut read = Vec::with_capacity(AT_A_TIME);
    while read.len() < AT_A_TIME {
        match chunks.next().await {
            Ok(Some(chunk)) => read.push(chunk),
            Ok(None) => return (read, Some(None)),
            Err(error) => return (read, Some(Some(error))),
        }
    }
    (read, None)
}
