//! Several small files in one tar layer, so that a model of many files stays within the layers that a runtime mounts.

use serde::{Deserialize, Serialize};

use crate::media_type::{FileKind, LayerType};
use crate::oci::{Annotations, to_json};
use crate::package::{Layer, PackageFile, name_annotations};
use crate::tar::{TAR_PAYLOAD_OFFSET, append_end, append_entry, tar_size};
use crate::{Digest, Encoding, FilePath, annotation};

/// The name of the layer, for readers that do not look into it.
pub const BUNDLE_PATH: &str = "small-files.tar";
/// The two empty blocks that end an archive, once in a bundle and once in each layer of one file.
const ARCHIVE_END: u64 = 1024;

/// Small files that share a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Their paths, in order, each of them a file of the package.
    pub paths: Vec<FilePath>,
    /// sha256 of the layer that [`bundle_bytes`] makes of them.
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

/// The layer: an entry for each file as in a layer of its own, in the order of paths, and one end.
pub fn bundle_bytes<'a>(files: impl IntoIterator<Item = (&'a FilePath, &'a [u8])>) -> Vec<u8> {
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort();
    let mut bytes = Vec::new();
    for (path, content) in files {
        append_entry(&mut bytes, path, content);
    }
    append_end(&mut bytes);
    bytes
}

/// The layer of the manifest; `None` when a path is not of the package.
pub(crate) fn bundle_layer(bundle: &Bundle, files: &[PackageFile]) -> Option<Layer> {
    let mut paths: Vec<&FilePath> = bundle.paths.iter().collect();
    paths.sort();
    let (mut start, mut inside) = (0, Vec::new());
    for path in paths {
        let file = files.iter().find(|file| file.path == *path)?;
        inside.push(BundledFile {
            path: path.clone(),
            kind: file.kind,
            offset: start + TAR_PAYLOAD_OFFSET,
            size: file.size,
            digest: file.digest.clone(),
        });
        start += tar_size(file.size) - ARCHIVE_END;
    }
    let path = FilePath::of_constant(BUNDLE_PATH);
    let mut annotations: Annotations = name_annotations(&path);
    let list = String::from_utf8_lossy(&to_json(&inside)).into_owned();
    annotations.insert(annotation::BUNDLE.to_owned(), list);
    let LayerType { kind, encoding } = BUNDLE_TYPE;
    Some(Layer {
        path,
        kind,
        encoding,
        digest: bundle.digest.clone(),
        size: start + ARCHIVE_END,
        annotations,
    })
}

/// Most small files are what a server reads besides tensors.
const BUNDLE_TYPE: LayerType = LayerType {
    kind: FileKind::WeightConfig,
    encoding: Encoding::Tar,
};

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn another_reader_of_tars_finds_every_file_where_the_annotation_says(
            contents in prop::collection::btree_map("[a-z]{1,20}(/[a-z]{1,20}){0,2}z", any::<Vec<u8>>(), 1..6),
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
            let layer = bundle_layer(&Bundle { paths, digest: Digest::of(&bytes) }, &package).unwrap();
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
            prop_assert_eq!(found, told);
        }
    }
}
