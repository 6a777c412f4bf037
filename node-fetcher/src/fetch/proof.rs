//! The proof: sha256 over the bytes that are in the file, following the writers.

use artifact::Digest;
use sha2::{Digest as _, Sha256};

use super::board::Board;
use crate::store::{Partial, StoreError};

const BUFFER: u64 = 1 << 20;

/// Hashes the file from its first byte as it grows; `None` when it was closed before the end. Blocks.
///
/// The bytes are read back from the file (from the page cache, mostly): what is proven is what is stored, and ranges
/// that arrive out of order or were kept from an earlier run need no other path.
pub(crate) fn follow(partial: &Partial, board: &Board) -> Result<Option<Digest>, StoreError> {
    let mut hasher = Sha256::new();
    let mut buffer = Vec::new();
    let mut position = 0;
    while position < partial.size() {
        let Some(written) = board.wait_beyond(position) else {
            return Ok(None);
        };
        while position < written {
            let length = (written - position).min(BUFFER);
            buffer.resize(usize::try_from(length).unwrap_or(usize::MAX), 0);
            partial.read_at(&mut buffer, position)?;
            hasher.update(&buffer);
            position += length;
        }
    }
    Ok(Some(Digest::from_raw(&hasher.finalize().into())))
}
