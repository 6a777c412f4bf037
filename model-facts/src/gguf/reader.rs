//! Little-endian bytes with a position, limits, and the length to ask for when they run out.

use super::GgufError;

/// All texts of a header together: the largest vocabularies and templates are some 10 MiB.
const TEXT_LIMIT: u64 = 64 << 20;

/// Counts are limited to this when the size of the file is not known.
const COUNT_LIMIT: u64 = 1 << 24;

pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
    file_size: Option<u64>,
    texts: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], file_size: Option<u64>) -> Self {
        Self {
            bytes,
            position: 0,
            file_size,
            texts: 0,
        }
    }

    pub(super) fn position(&self) -> u64 {
        self.position as u64
    }

    pub(super) fn take(&mut self, length: u64) -> Result<&'a [u8], GgufError> {
        let end = self.end_of(length)?;
        let taken = &self.bytes[self.position..end];
        self.position = end;
        Ok(taken)
    }

    pub(super) fn u32(&mut self) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, GgufError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64)?);
        Ok(array)
    }

    /// The bytes of a text, counted against the limit of all texts.
    pub(super) fn text(&mut self) -> Result<&'a [u8], GgufError> {
        let length = self.u64()?;
        self.texts = self.texts.saturating_add(length);
        if self.texts > TEXT_LIMIT {
            return Err(GgufError::Texts { limit: TEXT_LIMIT });
        }
        self.take(length)
    }

    /// A name: a text that must be UTF-8.
    pub(super) fn name(&mut self) -> Result<String, GgufError> {
        let text = self.text()?;
        std::str::from_utf8(text)
            .map(str::to_owned)
            .map_err(|_| GgufError::NotUtf8)
    }

    /// Refuses a count whose smallest possible entries do not fit into the rest of the file.
    pub(super) fn check_count(&self, what: &'static str, count: u64, smallest: u64) -> Result<(), GgufError> {
        let most = match self.file_size {
            Some(size) => size.saturating_sub(self.position()) / smallest,
            None => COUNT_LIMIT,
        };
        if count > most {
            Err(GgufError::Count { what, count })
        } else {
            Ok(())
        }
    }

    fn end_of(&self, length: u64) -> Result<usize, GgufError> {
        let end = self.position().checked_add(length).ok_or(GgufError::Count {
            what: "bytes",
            count: length,
        })?;
        if let Some(size) = self.file_size.filter(|size| *size < end) {
            return Err(GgufError::Truncated { size });
        }
        match usize::try_from(end) {
            Ok(end) if end <= self.bytes.len() => Ok(end),
            _ => Err(GgufError::NeedMore {
                bytes: self.next_length(end),
            }),
        }
    }

    /// At least what is known to be missing, and at least twice what was there, but no more than the file.
    fn next_length(&self, end: u64) -> u64 {
        let doubled = (self.bytes.len() as u64).saturating_mul(2);
        let wanted = end.max(doubled);
        self.file_size.map_or(wanted, |size| wanted.min(size))
    }
}
