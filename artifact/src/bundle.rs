//! Several files in one tar layer, so that a model of many files stays within the layers that a runtime mounts.

use serde::{Deserialize, Serialize};

use crate::media_type::{FileKind, LayerType};
use crate::oci::{Annotations, to_json};
use crate::package::{Layer, PackageFile, name_annotations};
use crate::tar::{ARCHIVE_END, tar_header_at, tar_padding};
use crate::{Digest, Encoding, FilePath, annotation};

/// The name of the layer of small files, for readers that do not look into it.
pub const BUNDLE_PATH: &str = "small-files.tar";

/// The name of the shared layer with this number.
pub fn shared_layer_path(number: usize) -> FilePath {
    FilePath::of_constant(format!("shared-{number:05}.tar"))
}

/// Files that share a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Name of the layer.
    pub name: FilePath,
    /// The files' paths, in any order, each of them a file of the package.
    pub paths: Vec<FilePath>,
    /// sha256 of the layer that [`bundle_entries`] describes.
    pub digest: Digest,
}

/// A file inside a bundle, as the annotation tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BundledFile {
    pub(crate) path: FilePath,
    pub(crate) kind: FileKind,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) digest: Digest,
}

/// A file of a shared layer, with what the tar puts around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleEntry {
    /// The file.
    pub path: FilePath,
    /// Its size.
    pub size: u64,
    /// The bytes before it, which begin where the entry before ends.
    pub head: Vec<u8>,
    /// Its first byte in the layer, a multiple of 4096.
    pub offset: u64,
    /// Zero bytes after it; those of the last one end the archive.
    pub tail: u64,
}

impl BundleEntry {
    fn end(&self) -> u64 {
        self.offset + self.size + self.tail
    }
}

/// The layer of these files, entry after entry in the order of paths.
pub fn bundle_entries<'a>(files: impl IntoIterator<Item = (&'a FilePath, u64)>) -> Vec<BundleEntry> {
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort();
    let mut entries: Vec<BundleEntry> = Vec::with_capacity(files.len());
    for (path, size) in files {
        let start = entries.last().map_or(0, BundleEntry::end);
        let head = tar_header_at(path, size, start);
        entries.push(BundleEntry {
            path: path.clone(),
            size,
            offset: start + head.len() as u64,
            head,
            tail: tar_padding(size),
        });
    }
    if let Some(last) = entries.last_mut() {
        last.tail += ARCHIVE_END;
    }
    entries
}

/// The whole layer, for files that are in memory.
pub fn bundle_bytes<'a>(files: impl IntoIterator<Item = (&'a FilePath, &'a [u8])>) -> Vec<u8> {
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort();
    let entries = bundle_entries(files.iter().map(|(path, content)| (*path, content.len() as u64)));
    let mut bytes = Vec::new();
    for (entry, (_, content)) in entries.iter().zip(files) {
        bytes.extend_from_slice(&entry.head);
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len() + usize::try_from(entry.tail).unwrap_or(0), 0);
    }
    bytes
}

/// The layer of the manifest; `None` when there is nothing in it, or a path is not of the package.
pub(crate) fn bundle_layer(bundle: &Bundle, files: &[PackageFile]) -> Option<Layer> {
    let Bundle { name, paths, digest } = bundle;
    let found = |path: &FilePath| files.iter().find(|file| file.path == *path);
    let inside: Vec<&PackageFile> = paths.iter().map(found).collect::<Option<_>>()?;
    let entries = bundle_entries(inside.iter().map(|file| (&file.path, file.size)));
    let size = entries.last()?.end();
    let told = entries.into_iter().filter_map(|entry| {
        let file = found(&entry.path)?;
        Some(BundledFile {
            path: entry.path,
            kind: file.kind,
            offset: entry.offset,
            size: entry.size,
            digest: file.digest.clone(),
        })
    });
    let list = String::from_utf8_lossy(&to_json(&told.collect::<Vec<_>>())).into_owned();
    let mut annotations: Annotations = name_annotations(name);
    annotations.insert(annotation::BUNDLE.to_owned(), list);
    let LayerType { kind, encoding } = type_of(&inside);
    Some(Layer {
        path: name.clone(),
        kind,
        encoding,
        digest: digest.clone(),
        size,
        annotations,
    })
}

/// A layer with tensors is one of tensors; of the rest most is what a server reads besides.
fn type_of(inside: &[&PackageFile]) -> LayerType {
    let weights = inside.iter().any(|file| file.kind == FileKind::Weight);
    LayerType {
        kind: if weights {
            FileKind::Weight
        } else {
            FileKind::WeightConfig
        },
        encoding: Encoding::Tar,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn another_reader_of_tars_finds_every_file_where_the_annotation_says(
            contents in prop::collection::btree_map("[a-z]{1,20}(/[a-z]{1,20}){0,2}z", prop::collection::vec(any::<u8>(), 0..6000), 1..6),
        ) {
            let files: Vec<(FilePath, Vec<u8>)> = contents.into_iter().map(|(path, content)| (path.parse().unwrap(), content)).collect();
            let bytes = bundle_bytes(files.iter().map(|(path, content)| (path, content.as_slice())));
            let package: Vec<PackageFile> = files.iter().map(|(path, content)| PackageFile {
                path: path.clone(),
                kind: FileKind::Doc,
                digest: Digest::of(content),
                size: content.len() as u64,
                tar_digest: None,
            }).collect();
            let paths = files.iter().map(|(path, _)| path.clone()).rev().collect();
            let bundle = Bundle { name: shared_layer_path(1), paths, digest: Digest::of(&bytes) };
            let layer = bundle_layer(&bundle, &package).unwrap();
            prop_assert_eq!(layer.size, bytes.len() as u64);
            let told: Vec<BundledFile> = serde_json::from_str(&layer.annotations[annotation::BUNDLE]).unwrap();
            let mut archive = tar::Archive::new(bytes.as_slice());
            let found: Vec<(String, u64, Vec<u8>)> = archive.entries().unwrap().map(|entry| {
                let mut entry = entry.unwrap();
                let mut content = Vec::new();
                entry.read_to_end(&mut content).unwrap();
                (entry.path().unwrap().to_str().unwrap().to_owned(), entry.raw_file_position(), content)
            }).collect();
            let told: Vec<(String, u64, Vec<u8>)> = told.iter().map(|file| {
                let start = usize::try_from(file.offset).unwrap();
                let content = bytes[start..start + usize::try_from(file.size).unwrap()].to_vec();
                (file.path.to_string(), file.offset, content)
            }).collect();
            prop_assert!(found.iter().all(|(_, offset, _)| offset.is_multiple_of(4096)));
            prop_assert_eq!(found, told);
        }
    }
}
