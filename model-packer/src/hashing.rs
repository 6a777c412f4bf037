//! Hashers that go on: SHA-256 whose state can be kept in a journal, and git's object name.

use artifact::Digest;
use sha1::Sha1;
use sha2::Sha256;
use sha2::digest::Digest as _;
use sha2::digest::common::hazmat::SerializableState as _;

/// SHA-256 of a stream, with a state that survives the process.
#[derive(Clone)]
pub struct Sha256Hasher {
    hasher: Sha256,
    bytes: u64,
}

impl Default for Sha256Hasher {
    fn default() -> Self {
        Self {
            hasher: Sha256::new(),
            bytes: 0,
        }
    }
}

impl Sha256Hasher {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// Bytes taken so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The digest of what was taken.
    pub fn finish(self) -> Digest {
        Digest::from_raw(&self.hasher.finalize().into())
    }

    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest::of(bytes)
    }

    /// The state, to go on from another process.
    pub fn save(&self) -> Vec<u8> {
        self.hasher.serialize().to_vec()
    }

    /// Goes on from a state that [`Self::save`] gave after `bytes` bytes.
    pub fn restore(state: &[u8], bytes: u64) -> Option<Self> {
        let state = state.try_into().ok()?;
        Sha256::deserialize(state).ok().map(|hasher| Self { hasher, bytes })
    }
}

/// Git's name of a blob: SHA-1 over a header with the length, and the content.
pub struct GitHasher(Sha1);

impl GitHasher {
    /// For a blob of this size.
    pub fn new(size: u64) -> Self {
        let mut hasher = Sha1::new();
        hasher.update(format!("blob {size}\0"));
        Self(hasher)
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The name, 40 hexadecimal digits.
    pub fn finish(self) -> String {
        use std::fmt::Write as _;
        self.0.finalize().iter().fold(String::new(), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// The name of these bytes.
    pub fn of(bytes: &[u8]) -> String {
        let mut hasher = Self::new(bytes.len() as u64);
        hasher.update(bytes);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn git_names_are_the_ones_that_git_gives() {
        assert_eq!(GitHasher::of(b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(GitHasher::of(b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
    }

    proptest! {
        #[test]
        fn a_hash_that_was_put_down_and_taken_up_is_the_same(bytes in any::<Vec<u8>>(), cut in any::<prop::sample::Index>()) {
            let cut = cut.index(bytes.len() + 1);
            let mut first = Sha256Hasher::default();
            first.update(&bytes[..cut]);
            let mut second = Sha256Hasher::restore(&first.save(), cut as u64).unwrap();
            second.update(&bytes[cut..]);
            prop_assert_eq!(second.bytes(), bytes.len() as u64);
            prop_assert_eq!(second.finish(), Digest::of(&bytes));
        }
    }
}
