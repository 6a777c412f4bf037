//! Whether the last run ended cleanly. After a power cut every blob is hashed again before it is used.
//!
//! A process that was killed is no reason for doubt: what it wrote is in the kernel's hands. A machine that stopped is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use artifact::Digest;

use super::error::{At as _, StoreError};
use super::files::{self, Durability};

const CLEAN: &str = "clean";

/// The marker of a store, and the blobs in doubt.
#[derive(Debug)]
pub(crate) struct StopMarker {
    path: PathBuf,
    suspects_path: PathBuf,
    suspects: BTreeSet<Digest>,
    unclean: bool,
}

impl StopMarker {
    /// Reads how the last run ended and marks this one as running. `blobs` lists what is there.
    pub(crate) fn begin(
        root: &Path,
        boot_id: &str,
        blobs: impl FnOnce() -> Result<BTreeSet<Digest>, StoreError>,
    ) -> Result<Self, StoreError> {
        let path = root.join("state");
        let suspects_path = root.join("suspects");
        let last = files::read_text(&path)?;
        let unclean = last
            .as_deref()
            .is_some_and(|last| last.trim() != CLEAN && last.trim() != boot_id);
        let mut suspects = read_suspects(&suspects_path)?;
        if unclean {
            suspects.extend(blobs()?);
        }
        let marker = Self {
            path,
            suspects_path,
            suspects,
            unclean,
        };
        // The doubt is written first: a crash in between must not forget it.
        marker.write_suspects()?;
        files::replace(&marker.path, boot_id.as_bytes(), Durability::PowerCut)?;
        Ok(marker)
    }

    /// Whether the machine stopped while the store was open.
    pub(crate) fn was_unclean(&self) -> bool {
        self.unclean
    }

    pub(crate) fn is_suspect(&self, digest: &Digest) -> bool {
        self.suspects.contains(digest)
    }

    pub(crate) fn suspects(&self) -> Vec<Digest> {
        self.suspects.iter().cloned().collect()
    }

    /// The blob was proven again, or removed.
    pub(crate) fn clear(&mut self, digest: &Digest) -> Result<(), StoreError> {
        if self.suspects.remove(digest) {
            self.write_suspects()
        } else {
            Ok(())
        }
    }

    /// The store is closed with everything synced.
    pub(crate) fn finish(&self) -> Result<(), StoreError> {
        files::replace(&self.path, CLEAN.as_bytes(), Durability::PowerCut)
    }

    fn write_suspects(&self) -> Result<(), StoreError> {
        if self.suspects.is_empty() {
            return files::remove_file(&self.suspects_path);
        }
        let lines: Vec<_> = self.suspects.iter().map(Digest::as_str).collect();
        files::replace(&self.suspects_path, lines.join("\n").as_bytes(), Durability::PowerCut)
    }
}

fn read_suspects(path: &Path) -> Result<BTreeSet<Digest>, StoreError> {
    let text = files::read_text(path)?.unwrap_or_default();
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// The identity of this boot of the machine.
pub(crate) fn boot_id() -> Result<String, StoreError> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    std::fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .at("read", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(root: &Path, boot: &str) -> StopMarker {
        StopMarker::begin(root, boot, || Ok(BTreeSet::from([Digest::of(b"a"), Digest::of(b"b")]))).unwrap()
    }

    #[test]
    fn only_a_machine_that_stopped_puts_blobs_in_doubt() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!begin(folder.path(), "boot-1").was_unclean(), "a new store");
        assert!(!begin(folder.path(), "boot-1").was_unclean(), "a killed process");
        let mut marker = begin(folder.path(), "boot-2");
        assert!(marker.was_unclean(), "a power cut");
        marker.clear(&Digest::of(b"a")).unwrap();
        let marker = begin(folder.path(), "boot-2");
        assert_eq!(marker.suspects(), [Digest::of(b"b")], "doubt outlives the process");
        marker.finish().unwrap();
        assert!(!begin(folder.path(), "boot-3").was_unclean(), "a clean stop");
    }
}
