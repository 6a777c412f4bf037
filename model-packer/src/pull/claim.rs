//! Unfinished files: one run takes up what an earlier one left, and two runs at the same time never write into the same file.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::hold;

/// An unfinished file that nobody else writes to.
#[derive(Debug)]
pub(super) struct Claim {
    /// Where it is.
    pub(super) path: PathBuf,
    /// Holds the lock; the kernel gives it back when this run ends, however that is.
    file: File,
}

impl Claim {
    /// The file of this name, as far as an earlier run brought it; one of our own where another run is at it, or where the file
    /// system has no locks.
    pub(super) fn of(folder: &Path, name: &str) -> io::Result<Self> {
        let path = folder.join(name);
        if let Some(file) = hold::hold(&path)? {
            return Ok(Self { path, file });
        }
        let path = folder.join(format!("{name}.{}", hold::unique_suffix()));
        // Held as well: a run that ends removes what nobody holds.
        let file = match hold::hold(&path)? {
            Some(file) => file,
            None => hold::open(&path)?,
        };
        Ok(Self { path, file })
    }

    /// Begins again. The file stays, because the lock is on it.
    pub(super) fn empty(&self) -> io::Result<()> {
        self.file.set_len(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_gets_a_file_of_its_own_and_a_later_one_takes_up_what_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let first = Claim::of(folder.path(), "x").unwrap();
        std::fs::write(&first.path, "half").unwrap();
        let second = Claim::of(folder.path(), "x").unwrap();
        assert_ne!(first.path, second.path);
        for claim in [&first, &second] {
            assert!(File::open(&claim.path).unwrap().try_lock().is_err());
        }
        drop(first);
        let third = Claim::of(folder.path(), "x").unwrap();
        assert_eq!(std::fs::read_to_string(&third.path).unwrap(), "half");
        third.empty().unwrap();
        assert_eq!(std::fs::read_to_string(&third.path).unwrap(), "");
    }

    #[test]
    fn a_file_that_got_its_name_meanwhile_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let first = Claim::of(folder.path(), "x").unwrap();
        std::fs::rename(&first.path, folder.path().join("finished")).unwrap();
        let second = Claim::of(folder.path(), "x").unwrap();
        std::fs::write(&second.path, "other").unwrap();
        assert_eq!(std::fs::read(folder.path().join("finished")).unwrap(), b"");
    }
}
