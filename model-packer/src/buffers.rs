//! Buffers that are used again. Fresh memory for every chunk of a large file is given back to the system by the allocator at
//! once, and the kernel's work for new pages then costs as much as hashing does.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

/// Small enough to stay in the processor's cache between hashing and writing, large enough that a call costs nothing; writes of
/// megabytes at once cost the kernel several times as much.
pub(crate) const CHUNK: usize = 256 << 10;
/// Chunks of local files on their way.
pub(crate) static CHUNKS: Buffers = Buffers::new(CHUNK, 32);
/// A part of a large file, by one request: registries read some megabytes ahead for each, so short ones cost them more than long.
pub(crate) const PART: usize = 6 << 20;
/// Parts in memory, over all files.
pub(crate) const PARTS_IN_MEMORY: usize = 4;
/// Parts on their way.
pub(crate) static PARTS: Buffers = Buffers::new(PART, PARTS_IN_MEMORY);

/// Buffers of one size.
pub(crate) struct Buffers {
    size: usize,
    /// More than are ever under way at once with the usual number of jobs.
    kept: usize,
    free: Mutex<Vec<Vec<u8>>>,
}

impl Buffers {
    /// Buffers of this size, of which so many stay when nobody uses them.
    pub(crate) const fn new(size: usize, kept: usize) -> Self {
        Self {
            size,
            kept,
            free: Mutex::new(Vec::new()),
        }
    }

    /// A buffer with whatever it held before.
    pub(crate) fn take(&'static self) -> Buffer {
        let used = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Buffer {
            content: used.unwrap_or_else(|| vec![0; self.size]),
            home: self,
        }
    }
}

/// A buffer that goes home when nobody has it any more.
pub(crate) struct Buffer {
    content: Vec<u8>,
    home: &'static Buffers,
}

impl Buffer {
    /// All of it, to be written to.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        &mut self.content
    }

    /// Its first bytes, to be passed on.
    pub(crate) fn filled(self, length: usize) -> Bytes {
        Bytes::from_owner(Filled { buffer: self, length })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut free = self.home.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < self.home.kept {
            free.push(std::mem::take(&mut self.content));
        }
    }
}

struct Filled {
    buffer: Buffer,
    length: usize,
}

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        &self.buffer.content[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_goes_home_with_the_last_slice_of_it() {
        static POOL: Buffers = Buffers::new(8, 1);
        let free = || POOL.free.lock().unwrap().len();
        let (mut one, other) = (POOL.take(), POOL.take());
        one.space()[..3].copy_from_slice(b"abc");
        let slice = one.filled(3).slice(1..);
        assert_eq!((&slice[..], free()), (&b"bc"[..], 0));
        drop(slice);
        assert_eq!(free(), 1);
        drop(other);
        assert_eq!(free(), 1, "no more are kept than was said");
        assert_eq!(POOL.take().space().len(), 8);
    }
}
