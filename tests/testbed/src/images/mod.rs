//! Container images from files, without a container engine: one tar layer, a config, a manifest, all reproducible.

mod push;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub use push::push;

use crate::components::hexadecimal;
use crate::error::Error;

/// An image of one layer, ready to be pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The layer: a plain tar, so that its digest is also its diff id.
    pub(crate) layer: Blob,
    /// The image config.
    pub(crate) config: Blob,
    /// The manifest.
    pub(crate) manifest: Blob,
}

/// Bytes with their digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// `sha256:` and 64 digits.
    pub digest: String,
    /// The content.
    pub bytes: Vec<u8>,
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Self {
        Self {
            digest: format!("sha256:{}", hexadecimal(&Sha256::digest(&bytes))),
            bytes,
        }
    }
}

/// One file or folder of an image. Folders that only hold others need not be named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFile {
    /// Its absolute path inside.
    pub path: String,
    /// Its content; none for a folder.
    pub content: Option<Vec<u8>>,
    /// Its permission bits.
    pub mode: u32,
}

impl ImageFile {
    /// A file read from disk.
    pub fn read(source: &Path, path: &str, mode: u32) -> Result<Self, Error> {
        let content = fs::read(source).map_err(Error::io("read", source))?;
        Ok(Self {
            path: path.into(),
            content: Some(content),
            mode,
        })
    }

    /// An empty folder.
    pub fn folder(path: &str, mode: u32) -> Self {
        Self {
            path: path.into(),
            content: None,
            mode,
        }
    }
}

/// What a container of the image runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// The program and its first arguments.
    pub entrypoint: Vec<String>,
    /// `NAME=value`.
    pub environment: Vec<String>,
    /// Numeric user and group, or empty for root.
    pub user: String,
}

impl Image {
    /// An image of these files.
    pub fn build(files: &[ImageFile], config: &ImageConfig) -> Result<Self, Error> {
        let layer = Blob::new(tar_of(files).map_err(Error::io("pack", "an image layer"))?);
        let config = Blob::new(image_config(config, &layer.digest).to_string().into_bytes());
        let manifest = Blob::new(manifest(&config, &layer).to_string().into_bytes());
        Ok(Self {
            layer,
            config,
            manifest,
        })
    }

    /// An image that runs one static program.
    pub fn of_program(program: &Path, path: &str) -> Result<Self, Error> {
        let config = ImageConfig {
            entrypoint: vec![path.into()],
            ..ImageConfig::default()
        };
        Self::build(&[ImageFile::read(program, path, 0o755)?], &config)
    }

    /// The digest of the manifest.
    pub fn digest(&self) -> &str {
        &self.manifest.digest
    }
}

/// Sorted, owned by root, without times: the same files are the same layer on every machine.
fn tar_of(files: &[ImageFile]) -> std::io::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut entries = BTreeMap::new();
    for file in files {
        let path = file.path.trim_start_matches('/');
        for (end, _) in path.match_indices('/') {
            entries.entry(&path[..end]).or_insert((None, 0o755));
        }
        entries.insert(path, (file.content.as_deref(), file.mode));
    }
    for (path, (content, mode)) in entries {
        let kind = if content.is_some() {
            tar::EntryType::Regular
        } else {
            tar::EntryType::Directory
        };
        append(&mut builder, path, kind, mode, content.unwrap_or_default())?;
    }
    builder.into_inner()
}

fn append(
    builder: &mut tar::Builder<Vec<u8>>,
    path: &str,
    kind: tar::EntryType,
    mode: u32,
    content: &[u8],
) -> std::io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(content.len() as u64);
    builder.append_data(&mut header, path, content)
}

fn image_config(config: &ImageConfig, layer: &str) -> Value {
    let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned();
    let environment: Vec<_> = std::iter::once(&path).chain(&config.environment).collect();
    json!({
        "created": "1970-01-01T00:00:00Z",
        "architecture": architecture(),
        "os": "linux",
        "config": { "Entrypoint": config.entrypoint, "Env": environment, "User": config.user, "WorkingDir": "/" },
        "rootfs": { "type": "layers", "diff_ids": [layer] },
        "history": [{ "created": "1970-01-01T00:00:00Z", "created_by": "cargo xtask images" }],
    })
}

fn manifest(config: &Blob, layer: &Blob) -> Value {
    let descriptor = |kind: &str, blob: &Blob| json!({ "mediaType": format!("application/vnd.oci.image.{kind}"), "digest": blob.digest, "size": blob.bytes.len() });
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": descriptor("config.v1+json", config),
        "layers": [descriptor("layer.v1.tar", layer)],
    })
}

const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, content: &str) -> ImageFile {
        ImageFile {
            path: path.into(),
            content: Some(content.into()),
            mode: 0o644,
        }
    }

    #[test]
    fn the_same_files_in_any_order_are_the_same_image() {
        let (one, two) = (file("/etc/a", "a"), file("/usr/bin/b", "b"));
        let config = ImageConfig::default();
        let forward = Image::build(&[one.clone(), two.clone()], &config).unwrap();
        let backward = Image::build(&[two.clone(), one], &config).unwrap();
        assert_eq!(forward, backward);
        assert_ne!(Image::build(&[two], &config).unwrap().digest(), forward.digest());
    }

    #[test]
    fn the_layer_holds_folders_before_their_files() {
        let layer = tar_of(&[
            file("/usr/bin/b", "b"),
            file("/etc/a", "a"),
            file("/usr/lib/c", "c"),
            ImageFile::folder("/tmp", 0o1777),
        ])
        .unwrap();
        let mut archive = tar::Archive::new(layer.as_slice());
        let names: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(
            names,
            [
                "etc",
                "etc/a",
                "tmp",
                "usr",
                "usr/bin",
                "usr/bin/b",
                "usr/lib",
                "usr/lib/c"
            ]
        );
    }

    #[test]
    fn the_manifest_names_what_it_is_made_of() {
        let image = Image::build(&[file("/a", "a")], &ImageConfig::default()).unwrap();
        let manifest: Value = serde_json::from_slice(&image.manifest.bytes).unwrap();
        assert_eq!(manifest["config"]["digest"], image.config.digest);
        assert_eq!(manifest["layers"][0]["digest"], image.layer.digest);
        assert_eq!(manifest["layers"][0]["size"], image.layer.bytes.len());
        let config: Value = serde_json::from_slice(&image.config.bytes).unwrap();
        assert_eq!(
            config["rootfs"]["diff_ids"],
            json!([image.layer.digest]),
            "a plain tar is its own diff id"
        );
    }
}
