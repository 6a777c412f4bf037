//! A file by several requests at once, each for a part that is kept in memory until the parts before it are written.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use tokio::sync::OwnedSemaphorePermit;

use super::fetch::{Fetch, Written};
use crate::buffers::{CHUNK, PART, PARTS};
use crate::error::PackError;
use crate::in_order::in_order;

/// Parts of one file at the same time.
pub(super) const PARTS_OF_A_FILE: usize = 4;

/// Room for a part in memory.
type Room = OwnedSemaphorePermit;

impl Fetch {
    pub(super) async fn fetch_in_parts(self: &Arc<Self>, written: &mut Written, size: u64) -> Result<(), PackError> {
        let starts = futures::stream::iter((written.hasher.bytes()..size).step_by(PART));
        // All files share the room. It is asked for in the order of the parts, before a part is a task of its own: a part that is
        // in memory must never wait for one before it that has no room.
        let with_room = starts.then(|start| {
            let budget = Arc::clone(&self.budget);
            async move { (start, budget.acquire_owned().await) }
        });
        let parts = with_room.map(|(start, room)| {
            let end = size.min(start + PART as u64);
            Arc::clone(self).part(start, end, room)
        });
        let mut parts = in_order(parts, PARTS_OF_A_FILE).boxed();
        while let Some((part, room)) = parts.try_next().await? {
            part.chunks(CHUNK).try_for_each(|chunk| self.write(written, chunk))?;
            drop((part, room));
            if self.whole_came.load(Ordering::Relaxed) {
                // Where ranges are ignored, each part would begin with all that is before it.
                drop(parts);
                return self.fetch_in_one(written, size).await;
            }
        }
        Ok(())
    }

    /// Shorter than asked for where the answers are; the digest tells.
    async fn part(
        self: Arc<Self>,
        start: u64,
        end: u64,
        room: Result<Room, tokio::sync::AcquireError>,
    ) -> Result<(Bytes, Room), PackError> {
        let room = room.map_err(|error| PackError::Internal(error.to_string()))?;
        let (mut buffer, mut length) = (PARTS.take(), 0);
        let range = self.base() + start..self.base() + end;
        let layer = self.layer();
        let read = layer.read(range, |chunk| {
            buffer.space()[length..length + chunk.len()].copy_from_slice(chunk);
            length += chunk.len();
            Ok(())
        });
        read.await?;
        Ok((buffer.filled(length), room))
    }
}
