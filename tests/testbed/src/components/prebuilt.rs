//! Prebuilt components: `NAME-VERSION.xz` beside a `MANIFEST`, taken only when they are exactly the pinned ones.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use super::{Component, hexadecimal};
use crate::debian;
use crate::error::Error;

/// One line of a `MANIFEST`.
#[derive(Debug, PartialEq, Eq)]
struct Entry<'a> {
    name: &'a str,
    version: &'a str,
    sha256: &'a str,
}

/// Whether the folder holds this component in this version, with the pinned digest promised.
pub(super) fn offers(folder: &Path, component: &Component) -> bool {
    if std::env::consts::ARCH != "x86_64" {
        return false;
    }
    let text = fs::read_to_string(folder.join("MANIFEST")).unwrap_or_default();
    let listed = parse_manifest(&text).any(|entry| entry.name == component.name && entry.version == component.version);
    listed && component.prebuilt_sha256.is_some() && archive(folder, component).is_file()
}

/// Unpacks a component into `target` and proves it.
pub(super) fn unpack(folder: &Path, component: &Component, target: &Path) -> Result<(), Error> {
    debian::ensure(&["xz-utils"])?;
    let pinned = component.prebuilt_sha256.unwrap_or_default();
    let text = fs::read_to_string(folder.join("MANIFEST")).map_err(Error::io("read", folder.join("MANIFEST")))?;
    let listed = parse_manifest(&text).find(|entry| entry.name == component.name && entry.version == component.version);
    let promised = listed.map_or("", |entry| entry.sha256);
    if promised != pinned {
        return Err(mismatch(folder, component, promised));
    }
    let found = decompress(&archive(folder, component), target)?;
    if found == pinned {
        return Ok(());
    }
    fs::remove_file(target).map_err(Error::io("remove", target))?;
    Err(mismatch(folder, component, &found))
}

fn archive(folder: &Path, component: &Component) -> std::path::PathBuf {
    folder.join(format!("{}-{}.xz", component.name, component.version))
}

fn mismatch(folder: &Path, component: &Component, found: &str) -> Error {
    Error::PrebuiltMismatch {
        name: component.name.into(),
        version: component.version.into(),
        folder: folder.into(),
        found: found.into(),
        pinned: component.prebuilt_sha256.unwrap_or_default().into(),
    }
}

/// Decompresses and hashes in one pass; returns the digest.
fn decompress(archive: &Path, target: &Path) -> Result<String, Error> {
    let mut child = Command::new("xz")
        .args(["--decompress", "--stdout"])
        .arg(archive)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Error::io("start", "xz"))?;
    let mut hash = Sha256::new();
    if let Some(mut output) = child.stdout.take() {
        let mut file = File::create(target).map_err(Error::io("write", target))?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            let count = output.read(&mut buffer).map_err(Error::io("read", archive))?;
            if count == 0 {
                break;
            }
            hash.update(&buffer[..count]);
            file.write_all(&buffer[..count]).map_err(Error::io("write", target))?;
        }
    }
    let output = child.wait_with_output().map_err(Error::io("wait for", "xz"))?;
    if !output.status.success() {
        return Err(Error::Command {
            step: "unpack a prebuilt component".into(),
            program: format!("xz --decompress {}", archive.display()),
            status: output.status.to_string(),
            output: String::from_utf8_lossy(&output.stderr).into_owned(),
        });
    }
    Ok(hexadecimal(&hash.finalize()))
}

/// Tab-separated: name, version, sha256 of the unpacked binary, and more that is for people.
fn parse_manifest(text: &str) -> impl Iterator<Item = Entry<'_>> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut fields = line.split('\t');
        Some(Entry {
            name: fields.next()?,
            version: fields.next()?,
            sha256: fields.next()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_is_read_without_comments_and_short_lines() {
        let text = "# name version sha256\netcd\t3.6.16\tabc\t27250850\ta recipe\nhalf\t1\n\nhelm\t3.22.0\tdef\n";
        let entries: Vec<_> = parse_manifest(text).collect();
        let expected = vec![
            Entry {
                name: "etcd",
                version: "3.6.16",
                sha256: "abc",
            },
            Entry {
                name: "helm",
                version: "3.22.0",
                sha256: "def",
            },
        ];
        assert_eq!(entries, expected);
    }
}
