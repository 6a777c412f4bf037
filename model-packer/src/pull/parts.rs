//! A file by several requests at once, each for a part that is kept in memory until the parts before it are written.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::TryStreamExt as _;
use tokio::sync::OwnedSemaphorePermit;

use super::fetch::{Fetch, Written};
use crate::buffers::{CHUNK, PART, PARTS};
use crate::error::PackError;
use crate::in_order::in_order;
use crate::layer_reader::TRIES;

/// Parts of one file at the same time.
pub(super) const PARTS_OF_A_FILE: usize = 4;

impl Fetch {
    pub(super) async fn fetch_in_parts(self: &Arc<Self>, written: &mut Written, size: u64) -> Result<(), PackError> {
        let starts = (written.hasher.bytes()..size).step_by(PART);
        let parts = starts.map(|start| Arc::clone(self).part(start, size.min(start + PART as u64)));
        let mut parts = in_order(parts, PARTS_OF_A_FILE);
        while let Some((part, permit)) = parts.try_next().await? {
            part.chunks(CHUNK).try_for_each(|chunk| self.write(written, chunk))?;
            drop((part, permit));
            if self.whole_came.load(Ordering::Relaxed) {
                // Where ranges are ignored, each part would begin with all that is before it.
                drop(parts);
                return self.fetch_in_one(written, size).await;
            }
        }
        Ok(())
    }

    async fn part(self: Arc<Self>, start: u64, end: u64) -> Result<(Bytes, OwnedSemaphorePermit), PackError> {
        // Asked for in the order of the parts, and given in that order: the part that others wait for never waits for them.
        let permit = Arc::clone(&self.budget)
            .acquire_owned()
            .await
            .map_err(|error| PackError::Internal(error.to_string()))?;
        let mut tries = 1;
        loop {
            match self.read(self.base() + start, self.base() + end).await {
                Ok(part) => return Ok((part, permit)),
                Err(error) if error.is_retryable() && tries < TRIES => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Shorter than asked for where the answer is; the digest tells.
    async fn read(&self, start: u64, end: u64) -> Result<Bytes, PackError> {
        let mut chunks = self.layer().open(start..end).await?;
        if !chunks.is_partial() {
            self.whole_came.store(true, Ordering::Relaxed);
        }
        let (mut buffer, mut length) = (PARTS.take(), 0);
        while let Some(chunk) = chunks.next().await? {
            buffer.space()[length..length + chunk.len()].copy_from_slice(&chunk);
            length += chunk.len();
        }
        Ok(buffer.filled(length))
    }
}
