//! Half-open byte ranges, and sets of them: which parts of a file are there.

use std::fmt;

/// The bytes from `start` up to, not including, `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl Extent {
    /// From the first byte to one past the last.
    pub const fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }

    /// Number of bytes; a reversed extent has none.
    pub const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether it holds no byte.
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// The same start, at most `limit` bytes.
    #[must_use]
    pub fn limited_to(self, limit: u64) -> Self {
        Self::new(self.start, self.end.min(self.start.saturating_add(limit)))
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "bytes {}..{}", self.start, self.end)
    }
}

/// A set of bytes as disjoint extents in ascending order, never touching each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtentSet {
    extents: Vec<Extent>,
}

impl ExtentSet {
    /// Adds bytes; those already there count once.
    pub fn insert(&mut self, extent: Extent) {
        if extent.is_empty() {
            return;
        }
        let first = self.extents.partition_point(|known| known.end < extent.start);
        let last = self.extents.partition_point(|known| known.start <= extent.end);
        let merged = self.extents[first..last].iter().fold(extent, |all, known| {
            Extent::new(all.start.min(known.start), all.end.max(known.end))
        });
        self.extents.splice(first..last, [merged]);
    }

    /// Number of bytes in the set.
    pub fn bytes(&self) -> u64 {
        self.extents.iter().map(|extent| extent.len()).sum()
    }

    /// How many bytes from zero on are in the set without a hole.
    pub fn prefix(&self) -> u64 {
        self.extents
            .first()
            .filter(|first| first.start == 0)
            .map_or(0, |first| first.end)
    }

    /// The first hole at or after `from`, below `size`.
    pub fn first_hole(&self, from: u64, size: u64) -> Option<Extent> {
        let mut start = from;
        for extent in &self.extents {
            if extent.start > start {
                break;
            }
            start = start.max(extent.end);
        }
        let end = self
            .extents
            .iter()
            .map(|extent| extent.start)
            .find(|next| *next > start)
            .unwrap_or(size)
            .min(size);
        (start < end).then(|| Extent::new(start, end))
    }

    /// Whether all bytes below `size` are there.
    pub fn covers(&self, size: u64) -> bool {
        self.prefix() >= size
    }

    /// The extents, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.extents.iter().copied()
    }
}

impl FromIterator<Extent> for ExtentSet {
    fn from_iter<I: IntoIterator<Item = Extent>>(extents: I) -> Self {
        let mut set = Self::default();
        for extent in extents {
            set.insert(extent);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u64 = 64;

    fn extents() -> impl Strategy<Value = Vec<Extent>> {
        proptest::collection::vec(
            (0..SIZE, 0..SIZE).prop_map(|(a, b)| Extent::new(a.min(b), a.max(b))),
            0..12,
        )
    }

    fn model(extents: &[Extent]) -> Vec<bool> {
        (0..SIZE)
            .map(|byte| extents.iter().any(|extent| extent.start <= byte && byte < extent.end))
            .collect()
    }

    proptest! {
        #[test]
        fn a_set_of_extents_is_a_set_of_bytes(inserted in extents(), from in 0..SIZE) {
            let set: ExtentSet = inserted.iter().copied().collect();
            let model = model(&inserted);
            prop_assert_eq!(set.bytes(), model.iter().filter(|there| **there).count() as u64);
            let prefix = model.iter().take_while(|there| **there).count() as u64;
            prop_assert_eq!(set.prefix(), prefix);
            let hole_start = (from..SIZE).find(|byte| !model[usize::try_from(*byte).unwrap()]);
            let hole = hole_start.map(|start| {
                let length = model[usize::try_from(start).unwrap()..].iter().take_while(|there| !**there).count();
                Extent::new(start, start + length as u64)
            });
            prop_assert_eq!(set.first_hole(from, SIZE), hole);
        }

        #[test]
        fn extents_stay_sorted_and_apart(inserted in extents()) {
            let set: ExtentSet = inserted.into_iter().collect();
            let list: Vec<_> = set.iter().collect();
            prop_assert!(list.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
