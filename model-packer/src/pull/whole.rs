//! A file by one request, taken up again where it broke.

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
        loop {
            let (mut read, mut end) = (Vec::with_capacity(AT_A_TIME), None);
            while read.len() < AT_A_TIME && end.is_none() {
                match chunks.next().await {
                    Ok(Some(chunk)) => read.push(chunk),
                    Ok(None) => end = Some(None),
                    Err(error) => end = Some(Some(error)),
                }
            }
            if !read.is_empty() {
                written = self.write(written, read, None).await?;
            }
            if let Some(error) = end {
                return Ok((written, error));
            }
        }
    }
}
