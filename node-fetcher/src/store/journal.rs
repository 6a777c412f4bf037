//! What of an unfinished blob is known to be on the disk.
//!
//! One line per saved range, appended after the data itself was synced. The journal needs no sync of its own: a line
//! that a power cut loses costs a range to fetch again, and a line that survives always speaks of durable bytes.
//! A store that does not wait for the disk names the boot of the machine instead: after another boot the journal is void.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crds::node_weights::SourceKind;

use super::error::{At as _, StoreError};
use super::files::{self, Durability};
use crate::extent::Extent;

const HEADER: &str = "plimsoll journal 1";
const DURABLE: &str = "durable";

/// What stands behind the lines of a journal.
#[derive(Debug, Clone)]
pub(crate) struct Seal {
    pub(crate) durability: Durability,
    pub(crate) boot_id: String,
}

impl Seal {
    fn word(&self) -> &str {
        match self.durability {
            Durability::PowerCut => DURABLE,
            Durability::ProcessDeath => &self.boot_id,
        }
    }
}

/// A range that is on the disk, and who delivered it: the one to blame if the whole turns out wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedRange {
    /// Which bytes.
    pub extent: Extent,
    /// Who delivered them.
    pub source: SourceKind,
}

/// The journal of one blob.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens the journal of a blob of `size` bytes, with the ranges it vouches for. `None` when there is no journal,
    /// or one of another size: then nothing on the disk may be trusted.
    pub(crate) fn resume(path: &Path, size: u64, seal: &Seal) -> Result<Option<(Self, Vec<SavedRange>)>, StoreError> {
        let Some(text) = files::read_text(path)? else {
            return Ok(None);
        };
        let Some(ranges) = parse(&text, size, &seal.boot_id) else {
            return Ok(None);
        };
        let mut journal = Self::start(path, size, seal)?;
        journal.append(&ranges)?;
        Ok(Some((journal, ranges)))
    }

    /// Starts an empty journal.
    pub(crate) fn start(path: &Path, size: u64, seal: &Seal) -> Result<Self, StoreError> {
        let header = format!("{HEADER} {size} {}\n", seal.word());
        files::replace(path, header.as_bytes(), seal.durability)?;
        let file = OpenOptions::new().append(true).open(path).at("open", path)?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// Vouches for ranges whose data has been synced, as far as the seal promises.
    pub(crate) fn append(&mut self, ranges: &[SavedRange]) -> Result<(), StoreError> {
        let lines: String = ranges.iter().map(line).collect();
        self.file.write_all(lines.as_bytes()).at("append to", &self.path)
    }
}

fn line(range: &SavedRange) -> String {
    let body = format!("{} {} {}", range.extent.start, range.extent.end, range.source.as_str());
    format!("{body} {:08x}\n", check(&body))
}

/// Lines up to the first damaged one; a torn last line is the normal result of a crash.
fn parse(text: &str, size: u64, boot_id: &str) -> Option<Vec<SavedRange>> {
    let mut lines = text.split_inclusive('\n');
    let header = lines.next()?.strip_suffix('\n')?;
    let (promised, word) = header.strip_prefix(HEADER)?.trim_start().split_once(' ')?;
    let stands = word == DURABLE || word == boot_id;
    (stands && promised.parse() == Ok(size)).then(|| lines.map_while(|line| parse_line(line, size)).collect())
}

fn parse_line(line: &str, size: u64) -> Option<SavedRange> {
    let (body, sum) = line.strip_suffix('\n')?.rsplit_once(' ')?;
    if u32::from_str_radix(sum, 16).ok()? != check(body) {
        return None;
    }
    let mut words = body.split(' ');
    let extent = Extent::new(words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let source = kind(words.next()?)?;
    (extent.end <= size).then_some(SavedRange { extent, source })
}

fn kind(word: &str) -> Option<SourceKind> {
    [
        SourceKind::Local,
        SourceKind::Dragonfly,
        SourceKind::Mirror,
        SourceKind::Registry,
    ]
    .into_iter()
    .find(|kind| kind.as_str() == word)
}

/// FNV-1a: enough to see a torn or overwritten line; the proof of the bytes themselves is the blob's sha256.
fn check(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |sum, byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seal() -> Seal {
        Seal {
            durability: Durability::PowerCut,
            boot_id: "boot".to_owned(),
        }
    }

    #[test]
    fn a_journal_that_did_not_wait_for_the_disk_is_void_after_another_boot() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let hasty = |boot: &str| Seal {
            durability: Durability::ProcessDeath,
            boot_id: boot.to_owned(),
        };
        Journal::start(&path, 100, &hasty("boot-1")).unwrap();
        assert!(Journal::resume(&path, 100, &hasty("boot-1")).unwrap().is_some());
        assert!(Journal::resume(&path, 100, &seal()).unwrap().is_none());
    }

    fn range(start: u64, end: u64) -> SavedRange {
        SavedRange {
            extent: Extent::new(start, end),
            source: SourceKind::Registry,
        }
    }

    #[test]
    fn a_journal_is_read_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let ranges = [
            range(0, 10),
            SavedRange {
                extent: Extent::new(20, 30),
                source: SourceKind::Dragonfly,
            },
        ];
        let mut journal = Journal::start(&path, 100, &seal()).unwrap();
        journal.append(&ranges).unwrap();
        let (mut again, read) = Journal::resume(&path, 100, &seal()).unwrap().unwrap();
        assert_eq!(read, ranges);
        again.append(&[range(40, 50)]).unwrap();
        assert_eq!(Journal::resume(&path, 100, &seal()).unwrap().unwrap().1.len(), 3);
    }

    #[test]
    fn a_journal_of_another_size_vouches_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        Journal::start(&path, 100, &seal()).unwrap();
        assert!(Journal::resume(&path, 101, &seal()).unwrap().is_none());
        assert!(
            Journal::resume(&folder.path().join("none"), 100, &seal())
                .unwrap()
                .is_none()
        );
    }

    proptest! {
        #[test]
        fn a_cut_journal_vouches_for_whole_lines_only(cut in 0_usize..200) {
            let ranges: Vec<_> = (0..4).map(|index| range(index * 10, index * 10 + 5)).collect();
            let text: String = std::iter::once(format!("{HEADER} 100 {DURABLE}\n")).chain(ranges.iter().map(line)).collect();
            let cut = cut.min(text.len());
            let whole = text[..cut].matches('\n').count();
            match parse(&text[..cut], 100, "boot") {
                None => prop_assert_eq!(whole, 0),
                Some(read) => prop_assert_eq!(read.as_slice(), &ranges[..whole - 1]),
            }
        }
    }
}
