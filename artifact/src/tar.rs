//! Tars whose files start at multiples of 4096 bytes: a layer of one file at byte 4096, a shared layer wherever the next multiple is.
//! A range of the layer is then a range of the file, aligned to pages, and the hub's sha256 of the file stays provable inside a
//! layer that a container runtime can mount.

use crate::FilePath;

/// Where the file's content starts in its layer.
pub const TAR_PAYLOAD_OFFSET: u64 = HEADER as u64;

const HEADER: usize = 4096;

const BLOCK: usize = 512;
/// Between the header of the pax records and the header of the file.
const PAX_SPACE: usize = HEADER - 2 * BLOCK;
/// The two empty blocks that end an archive.
pub(crate) const ARCHIVE_END: u64 = 2 * BLOCK as u64;
/// Largest size that eleven octal digits hold.
const OCTAL_LIMIT: u64 = 0o777_7777_7777;

/// The 4096 bytes before the content: pax records padded with a comment, then the file's own header.
/// Mode 0644, owner 0:0, time 0: nothing of the machine that packs.
pub fn tar_header(path: &FilePath, size: u64) -> Vec<u8> {
    tar_header_at(path, size, 0)
}

/// The same for a header that starts at this offset of a layer, a multiple of 512: as much longer as brings the content to a
/// multiple of 4096.
pub(crate) fn tar_header_at(path: &FilePath, size: u64, start: u64) -> Vec<u8> {
    let longer = start.next_multiple_of(TAR_PAYLOAD_OFFSET) - start;
    let pax_space = PAX_SPACE + usize::try_from(longer).unwrap_or(0);
    let mut bytes = Vec::with_capacity(2 * HEADER);
    bytes.extend(ustar_header("PaxHeaders.0/file", pax_space as u64, b'x'));
    bytes.extend(pax_records(path, size, pax_space));
    // A reader that takes the pax size must not meet another one here, so a size that does not fit is zero.
    let short_size = if size <= OCTAL_LIMIT { size } else { 0 };
    bytes.extend(ustar_header(path.as_str(), short_size, b'0'));
    bytes
}

/// Zero bytes after the content: to the end of its block, and two empty blocks that end the archive.
pub fn tar_trailer_length(size: u64) -> u64 {
    tar_padding(size) + ARCHIVE_END
}

/// Zero bytes to the end of the content's block.
pub(crate) fn tar_padding(size: u64) -> u64 {
    size.next_multiple_of(BLOCK as u64) - size
}

/// Size of the whole layer for a file of this size.
pub fn tar_size(size: u64) -> u64 {
    TAR_PAYLOAD_OFFSET + size + tar_trailer_length(size)
}

/// A whole layer, for small content that is in memory.
pub fn tar_bytes(path: &FilePath, content: &[u8]) -> Vec<u8> {
    let mut bytes = tar_header(path, content.len() as u64);
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    bytes
}

fn pax_records(path: &FilePath, size: u64, space: usize) -> Vec<u8> {
    let mut records = pax_record("path", path.as_str());
    records.extend(pax_record("size", &size.to_string()));
    let rest = space - records.len();
    records.extend(pax_filler(rest));
    records
}

/// `LENGTH key=value\n`, where the length counts its own digits.
fn pax_record(key: &str, value: &str) -> Vec<u8> {
    let without_length = key.len() + value.len() + 3;
    let mut length = without_length + 1;
    while length != without_length + length.to_string().len() {
        length = without_length + length.to_string().len();
    }
    format!("{length} {key}={value}\n").into_bytes()
}

/// A comment record of exactly this length. A path is at most 2048 bytes, so the length always has three or four digits.
fn pax_filler(length: usize) -> Vec<u8> {
    let mut record = format!("{length} comment=").into_bytes();
    record.resize(length - 1, b' ');
    record.push(b'\n');
    record
}

fn ustar_header(name: &str, size: u64, kind: u8) -> Vec<u8> {
    let mut header = vec![0; BLOCK];
    let shown = &name.as_bytes()[..name.floor_char_boundary(100)];
    header[..shown.len()].copy_from_slice(shown);
    put(&mut header, 100, "0000644\0");
    put(&mut header, 108, "0000000\0");
    put(&mut header, 116, "0000000\0");
    put(&mut header, 124, &format!("{size:011o}\0"));
    put(&mut header, 136, "00000000000\0");
    put(&mut header, 148, "        ");
    header[156] = kind;
    put(&mut header, 257, "ustar\x0000");
    put(&mut header, 329, "0000000\0");
    put(&mut header, 337, "0000000\0");
    let sum: u32 = header.iter().copied().map(u32::from).sum();
    put(&mut header, 148, &format!("{sum:06o}\0 "));
    header
}

fn put(header: &mut [u8], at: usize, text: &str) {
    header[at..at + text.len()].copy_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;

    use super::*;

    fn read_back(bytes: &[u8]) -> (String, u64, Vec<u8>, u32, u64) {
        let mut archive = tar::Archive::new(bytes);
        let mut entries = archive.entries().unwrap();
        let mut entry = entries.next().unwrap().unwrap();
        let name = entry.path().unwrap().to_str().unwrap().to_owned();
        let header = entry.header().clone();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        let offset = entry.raw_file_position();
        drop(entry);
        assert!(entries.next().is_none(), "a layer holds one file");
        (name, offset, content, header.mode().unwrap(), header.mtime().unwrap())
    }

    proptest! {
        #[test]
        fn another_reader_finds_the_file_at_byte_4096(name in "[a-zé模]{1,60}(/[a-z.]{1,60}z){0,8}", content in any::<Vec<u8>>()) {
            // A random name may be one that no path may have, such as `prn.z`.
            let path: Result<FilePath, _> = name.parse();
            prop_assume!(path.is_ok());
            let bytes = tar_bytes(&path.unwrap(), &content);
            prop_assert_eq!(bytes.len() as u64, tar_size(content.len() as u64));
            prop_assert_eq!(read_back(&bytes), (name, TAR_PAYLOAD_OFFSET, content, 0o644, 0));
        }
    }

    #[test]
    fn a_file_beyond_eight_gibibytes_keeps_its_size() {
        let size = 55_000_000_000;
        let header = tar_header(&"model.safetensors".parse().unwrap(), size);
        assert_eq!(header.len() as u64, TAR_PAYLOAD_OFFSET);
        let mut archive = tar::Archive::new(header.as_slice());
        let entry = archive.entries().unwrap().next().unwrap().unwrap();
        assert_eq!(entry.size(), size);
    }

    #[test]
    fn the_longest_name_still_leaves_the_content_at_byte_4096() {
        let name = vec!["x".repeat(255); 8].join("/");
        let bytes = tar_bytes(&name.parse().unwrap(), b"content");
        assert_eq!(
            read_back(&bytes),
            (name, TAR_PAYLOAD_OFFSET, b"content".to_vec(), 0o644, 0)
        );
    }
}
