//! How much of the disk the store may take: a floor that stays free, and promises to running fetches.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::{At as _, StoreError};

/// How much of the file system stays free whatever happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Floor {
    /// So many bytes.
    Bytes(u64),
    /// So many hundredths of what ordinary users could fill.
    Percent(u8),
}

impl Floor {
    /// In bytes, on a file system of this size.
    pub fn bytes(self, total: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => total / 100 * u64::from(percent),
        }
    }
}

/// Why a text is not a floor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a percentage (10%) nor a number of bytes (20Gi, 512Mi, 1000000)")]
pub struct FloorError(String);

impl std::str::FromStr for Floor {
    type Err = FloorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || FloorError(text.to_owned());
        if let Some(percent) = text.strip_suffix('%') {
            // Fractions are rounded up: more stays free than was asked for.
            let percent: f64 = percent.trim().parse().map_err(|_| refuse())?;
            let whole = (0..=100_u8).find(|whole| f64::from(*whole) >= percent);
            return whole.filter(|_| percent >= 0.0).map(Self::Percent).ok_or_else(refuse);
        }
        let units = [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("Ti", 1_u64 << 40)];
        let decimal = [
            ("k", 1_000),
            ("M", 1_000_000),
            ("G", 1_000_000_000),
            ("T", 1_000_000_000_000),
        ];
        let (number, unit) = units
            .iter()
            .chain(&decimal)
            .find_map(|(suffix, unit)| text.strip_suffix(suffix).map(|number| (number, *unit)))
            .unwrap_or((text, 1));
        let number: u64 = number.trim().parse().map_err(|_| refuse())?;
        number.checked_mul(unit).map(Self::Bytes).ok_or_else(refuse)
    }
}

/// Numbers of a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capacity {
    /// What could be used: used and available together, without blocks that only root may take.
    pub total: u64,
    /// Free.
    pub free: u64,
    /// Stays free.
    pub floor: u64,
    /// Promised, not yet allocated.
    pub reserved: u64,
}

impl Capacity {
    /// What may still be promised.
    pub fn available(&self) -> u64 {
        self.free.saturating_sub(self.floor).saturating_sub(self.reserved)
    }
}

/// The accounts of one store.
#[derive(Debug)]
pub struct Space {
    root: PathBuf,
    floor: Floor,
    promised: Arc<Mutex<u64>>,
}

impl Space {
    pub(crate) fn new(root: &Path, floor: Floor) -> Self {
        Self {
            root: root.to_owned(),
            floor,
            promised: Arc::default(),
        }
    }

    /// The numbers of this moment.
    pub fn capacity(&self) -> Result<Capacity, StoreError> {
        let numbers = rustix::fs::statvfs(&self.root).at("measure the file system of", &self.root)?;
        let used = numbers.f_blocks.saturating_sub(numbers.f_bfree);
        let total = (used + numbers.f_bavail) * numbers.f_frsize;
        let free = numbers.f_bavail * numbers.f_frsize;
        let reserved = *self.promised.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Capacity {
            total,
            free,
            floor: self.floor.bytes(total),
            reserved,
        })
    }

    /// Promises bytes, or says how many there are.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<Result<Reservation, Capacity>, StoreError> {
        let capacity = self.capacity()?;
        let mut promised = self.promised.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Capacity {
            reserved: *promised,
            ..capacity
        };
        if bytes > now.available() && bytes > 0 {
            return Ok(Err(now));
        }
        *promised += bytes;
        Ok(Ok(Reservation {
            bytes: Mutex::new(bytes),
            promised: Arc::clone(&self.promised),
        }))
    }
}

/// A promise of disk space; what was not allocated is given back when it is dropped.
#[derive(Debug)]
pub struct Reservation {
    bytes: Mutex<u64>,
    promised: Arc<Mutex<u64>>,
}

impl Reservation {
    /// These bytes are allocated now, so the file system counts them itself.
    pub fn redeem(&self, bytes: u64) {
        let mut left = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let redeemed = bytes.min(*left);
        *left -= redeemed;
        *self.promised.lock().unwrap_or_else(PoisonError::into_inner) -= redeemed;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.redeem(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_are_read_as_people_write_them() {
        let cases = [
            ("10%", Ok(Floor::Percent(10))),
            ("7.5%", Ok(Floor::Percent(8))),
            ("0%", Ok(Floor::Percent(0))),
            ("20Gi", Ok(Floor::Bytes(20 << 30))),
            ("20G", Ok(Floor::Bytes(20_000_000_000))),
            ("4096", Ok(Floor::Bytes(4096))),
            ("0", Ok(Floor::Bytes(0))),
            ("101%", Err(())),
            ("-1%", Err(())),
            ("NaN%", Err(())),
            ("ten", Err(())),
            ("99999999999Ti", Err(())),
            ("", Err(())),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Floor>().map_err(|_| ()), expected, "{text}");
        }
    }

    #[test]
    fn promises_are_counted_and_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let space = Space::new(folder.path(), Floor::Bytes(0));
        let first = space.reserve(1000).unwrap().unwrap();
        assert_eq!(space.capacity().unwrap().reserved, 1000);
        first.redeem(400);
        assert_eq!(space.capacity().unwrap().reserved, 600);
        drop(first);
        assert_eq!(space.capacity().unwrap().reserved, 0);
    }

    #[test]
    fn more_than_there_is_is_not_promised() {
        let folder = tempfile::tempdir().unwrap();
        let space = Space::new(folder.path(), Floor::Percent(100));
        let refused = space.reserve(1).unwrap().unwrap_err();
        assert_eq!(refused.available(), 0);
        assert!(
            space.reserve(0).unwrap().is_ok(),
            "an artifact that is all there needs no space"
        );
    }
}
