//! Whether a registry holds what a manifest says: each layer with its size, and in the mountable layout, whose tars are what a
//! runtime mounts, that a tar is made of the files of the source and of nothing else.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicBool;

use artifact::{Digest, PackageFile, PackedFile, SOURCE_LOCK_PATH, bundle_entries, tar_header, tar_trailer_length};
use futures::{StreamExt as _, TryStreamExt as _};
use registry::Client;

use crate::error::PackError;
use crate::hashing::Sha256Hasher;
use crate::layer_reader::LayerReader;
use crate::packed::Remote;

/// Layers at the same time.
const AT_ONCE: usize = 4;

/// What is wrong with the layers; `files` are those of the source.
pub(crate) async fn check_layers(
    client: &Client,
    remote: &Remote,
    files: &[PackageFile],
) -> Result<Vec<String>, PackError> {
    let mut layers: BTreeMap<&Digest, Vec<&PackedFile>> = BTreeMap::new();
    for file in &remote.model.files {
        layers.entry(&file.digest).or_default().push(file);
    }
    let checks = layers
        .into_values()
        .map(|packed| check_layer(client, remote, packed, files));
    let found: Vec<Option<String>> = futures::stream::iter(checks).buffered(AT_ONCE).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

async fn check_layer(
    client: &Client,
    remote: &Remote,
    packed: Vec<&PackedFile>,
    files: &[PackageFile],
) -> Result<Option<String>, PackError> {
    let Some(first) = packed.first() else { return Ok(None) };
    let name = first.shared.as_ref().unwrap_or(&first.path);
    match client.blob_exists(&remote.reference, first.digest.as_str()).await? {
        None => {
            return Ok(Some(format!(
                "the registry has lost {}, the layer of {name}",
                first.digest
            )));
        }
        Some(size) if size != first.size => {
            let expected = first.size;
            return Ok(Some(format!(
                "the registry has {size} of the {expected} bytes of {name}"
            )));
        }
        Some(_) => {}
    }
    // A layer that is the file is named by the file's own digest, which was compared; the lock is made again.
    if first.payload.is_none() || first.path.as_str() == SOURCE_LOCK_PATH {
        return Ok(None);
    }
    let Some(mut proof) = Proof::of(&packed, files) else {
        // A file that the source has not is told by itself.
        return Ok(None);
    };
    let layer = LayerReader {
        client,
        reference: &remote.reference,
        file: first,
        whole_came: &AtomicBool::new(false),
    };
    let read = layer.read(0..first.size, |chunk| {
        proof.take(chunk);
        Ok(())
    });
    read.await?;
    let holds = proof.holds(&first.digest);
    Ok((!holds).then(|| format!("the layer {} is not a tar of {name} as the source has it", first.digest)))
}

/// A stretch of a layer.
enum Stretch {
    Exactly(Vec<u8>),
    File { size: u64, digest: Digest },
    Zeros(u64),
}

impl Stretch {
    fn length(&self) -> u64 {
        match self {
            Self::Exactly(bytes) => bytes.len() as u64,
            Self::File { size, .. } => *size,
            Self::Zeros(count) => *count,
        }
    }
}

/// Compares a layer with what it must be, while it comes.
struct Proof {
    stretches: VecDeque<Stretch>,
    /// Bytes of the first of them that have come.
    done: u64,
    file: Sha256Hasher,
    layer: Sha256Hasher,
    right: bool,
}

impl Proof {
    /// `None` when the source does not have one of these files.
    fn of(packed: &[&PackedFile], files: &[PackageFile]) -> Option<Self> {
        let at_source = |packed: &&PackedFile| files.iter().find(|file| file.path == packed.path);
        let inside: Vec<&PackageFile> = packed.iter().map(at_source).collect::<Option<_>>()?;
        let stretches = match inside.as_slice() {
            [file] if packed.iter().all(|packed| packed.shared.is_none()) => alone(file),
            several => shared(several)?,
        };
        Some(Self::by(stretches))
    }

    fn by(stretches: Vec<Stretch>) -> Self {
        Self {
            stretches: stretches.into(),
            done: 0,
            file: Sha256Hasher::default(),
            layer: Sha256Hasher::default(),
            right: true,
        }
    }

    fn take(&mut self, mut bytes: &[u8]) {
        self.layer.update(bytes);
        self.pass_finished();
        while let Some(stretch) = self.stretches.front().filter(|_| !bytes.is_empty()) {
            let left = usize::try_from(stretch.length() - self.done).unwrap_or(usize::MAX);
            let (now, rest) = bytes.split_at(left.min(bytes.len()));
            match stretch {
                Stretch::Exactly(expected) => {
                    let from = usize::try_from(self.done).unwrap_or(usize::MAX);
                    self.right &= expected.get(from..).is_some_and(|expected| expected.starts_with(now));
                }
                Stretch::Zeros(_) => self.right &= now.iter().all(|byte| *byte == 0),
                Stretch::File { .. } => self.file.update(now),
            }
            self.done += now.len() as u64;
            bytes = rest;
            self.pass_finished();
        }
        self.right &= bytes.is_empty();
    }

    fn pass_finished(&mut self) {
        while let Some(stretch) = self.stretches.pop_front_if(|stretch| stretch.length() == self.done) {
            self.done = 0;
            if let Stretch::File { digest, .. } = stretch {
                self.right &= std::mem::take(&mut self.file).finish() == digest;
            }
        }
    }

    fn holds(self, digest: &Digest) -> bool {
        self.right && self.stretches.is_empty() && self.layer.finish() == *digest
    }
}

fn alone(file: &PackageFile) -> Vec<Stretch> {
    vec![
        Stretch::Exactly(tar_header(&file.path, file.size)),
        content_of(file),
        Stretch::Zeros(tar_trailer_length(file.size)),
    ]
}

fn shared(files: &[&PackageFile]) -> Option<Vec<Stretch>> {
    let entries = bundle_entries(files.iter().map(|file| (&file.path, file.size)));
    let mut stretches = Vec::with_capacity(3 * entries.len());
    for entry in entries {
        let file = files.iter().find(|file| file.path == entry.path)?;
        stretches.push(Stretch::Exactly(entry.head));
        stretches.push(content_of(file));
        stretches.push(Stretch::Zeros(entry.tail));
    }
    Some(stretches)
}

fn content_of(file: &PackageFile) -> Stretch {
    Stretch::File {
        size: file.size,
        digest: file.digest.clone(),
    }
}

#[cfg(test)]
mod tests {
    use artifact::{FileKind, bundle_bytes, tar_bytes};
    use proptest::prelude::*;

    use super::*;

    fn package_file(path: &str, content: &[u8]) -> PackageFile {
        PackageFile {
            path: path.parse().unwrap(),
            kind: FileKind::Weight,
            digest: Digest::of(content),
            size: content.len() as u64,
            tar_digest: None,
        }
    }

    type Maker<'a> = &'a dyn Fn() -> Vec<Stretch>;

    fn holds(stretches: Vec<Stretch>, layer: &[u8], cuts: usize) -> bool {
        let mut proof = Proof::by(stretches);
        layer.chunks(cuts).for_each(|chunk| proof.take(chunk));
        proof.holds(&Digest::of(layer))
    }

    proptest! {
        #[test]
        fn a_layer_holds_its_files_and_no_byte_else(
            contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..1500), 1..4),
            cuts in 1_usize..9000,
            changed in any::<prop::sample::Index>(),
        ) {
            let files: Vec<PackageFile> = contents
                .iter()
                .enumerate()
                .map(|(number, content)| package_file(&format!("f{number}"), content))
                .collect();
            let refs: Vec<&PackageFile> = files.iter().collect();
            let several = contents.iter().zip(&files).map(|(content, file)| (&file.path, &content[..]));
            let alone: (Vec<u8>, Maker<'_>) = (tar_bytes(&files[0].path, &contents[0]), &|| alone(&files[0]));
            let together: (Vec<u8>, Maker<'_>) = (bundle_bytes(several), &|| shared(&refs).unwrap());
            for (mut layer, expected) in [alone, together] {
                prop_assert!(holds(expected(), &layer, cuts));
                prop_assert!(!holds(expected(), &layer[..layer.len() - 1], cuts));
                layer.push(0);
                prop_assert!(!holds(expected(), &layer, cuts));
                layer.pop();
                let at = changed.index(layer.len());
                layer[at] ^= 1;
                prop_assert!(!holds(expected(), &layer, cuts), "byte {at}");
            }
        }
    }
}
