//! A file by one request, taken up again where it broke.

use super::fetch::{Fetch, TRIES, Written};
use crate::error::PackError;

impl Fetch {
    /// An answer that is short again and again leaves the file short, which its digest tells.
    pub(super) async fn fetch_in_one(&self, written: &mut Written, size: u64) -> Result<(), PackError> {
        let mut failures = 0;
        while written.hasher.bytes() < size && failures < TRIES {
            let before = written.hasher.bytes();
            let error = self.pour(written, size).await?;
            failures = if written.hasher.bytes() > before {
                0
            } else {
                failures + 1
            };
            match error {
                Some(error) if !error.is_retryable() || failures == TRIES => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// From where the file ends to where the answer does.
    async fn pour(&self, written: &mut Written, size: u64) -> Result<Option<PackError>, PackError> {
        let base = self.file.payload.as_ref().map_or(0, |payload| payload.offset);
        let mut chunks = match self.open(base + written.hasher.bytes(), base + size).await {
            Ok(chunks) => chunks,
            Err(error) => return Ok(Some(error)),
        };
        loop {
            match chunks.next().await {
                Ok(Some(chunk)) => self.write(written, &chunk)?,
                Ok(None) => return Ok(None),
                Err(error) => return Ok(Some(error.into())),
            }
        }
    }
}
