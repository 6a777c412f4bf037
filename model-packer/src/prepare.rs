//! From what was gathered to layers with digests, and to the package that the manifest is built from.

use std::sync::Arc;

use artifact::{About, Digest, FileKind, FilePath, Layout, LockedFile, ModelPackage, PackageFile, SourceLock};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};

use crate::bundle::arrange;
use crate::content::{HashedFile, PieceRecorder};
use crate::error::PackError;
use crate::gather::{Gathered, is_vouched};
use crate::layers::{Made, make};
use crate::licence;
use crate::selection::{Taken, Wishes};
use crate::sources::HubHash;

/// Files that are hashed at the same time when their digest has to be known first.
const HASH_AT_ONCE: usize = 2;

/// How to pack.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct PackOptions {
    /// How files become layers.
    pub layout: Layout,
    /// Metadata without weights.
    pub facts_only: bool,
    /// Refuse files that no hash vouches for.
    pub require_hash: bool,
    /// Time to write into the artifact, seconds since 1970 (`SOURCE_DATE_EPOCH`).
    pub created: Option<i64>,
    /// Leave out `artifactType`, for registries that refuse it.
    pub omit_artifact_type: bool,
    /// Make a piece map of the weights.
    pub pieces: bool,
}

/// The bytes of a layer.
#[derive(Clone)]
pub enum LayerContent {
    /// In memory, proven already.
    Memory(Bytes),
    /// Read from the source while it is pushed.
    Stream(HashedFile),
}

/// A layer that is ready to be pushed.
#[derive(Clone)]
pub struct Layer {
    /// Path of the file, or name of the layer that several share.
    pub path: String,
    /// Digest of the layer.
    pub digest: Digest,
    /// Bytes of the layer.
    pub size: u64,
    /// Its bytes.
    pub content: LayerContent,
    /// The files inside of which a piece map is to be made.
    pub pieced: Vec<Pieced>,
}

/// A file of which a piece map is made.
#[derive(Clone)]
pub struct Pieced {
    /// Path of the file.
    pub path: FilePath,
    /// Digest of the file.
    pub digest: Digest,
    /// Size of the file.
    pub size: u64,
    /// Where it starts in its layer.
    pub offset: u64,
    /// Its pieces, as they pass.
    pub recorder: Arc<PieceRecorder>,
}

/// Layers and the package.
pub struct Prepared {
    /// In the order of the files' paths; then the one of small files, when there is one.
    pub layers: Vec<Layer>,
    /// Everything for the manifest.
    pub package: ModelPackage,
}

/// Computes what is not known yet and puts the package together.
pub async fn prepare(gathered: &Gathered, wishes: &Wishes, options: &PackOptions) -> Result<Prepared, PackError> {
    prepare_telling(gathered, wishes, options, &|_| {}).await
}

/// The same, and tells each layer as soon as it is known.
pub async fn prepare_telling(
    gathered: &Gathered,
    wishes: &Wishes,
    options: &PackOptions,
    known: &(dyn Fn(&Layer) + Send + Sync),
) -> Result<Prepared, PackError> {
    if !options.facts_only {
        gathered.require_weights()?;
    }
    let unverified = unverified(gathered)?;
    if options.require_hash && !unverified.is_empty() {
        return Err(PackError::Unverified(unverified));
    }
    let taken = &gathered.selection.taken;
    let packed: Vec<&Taken> = taken
        .iter()
        .filter(|taken| !(options.facts_only && taken.kind == FileKind::Weight))
        .collect();
    let units = arrange(gathered, &packed, options.layout)?;
    let made: Vec<Made> = futures::stream::iter(units)
        .map(|unit| make(gathered, unit, options))
        .buffered(HASH_AT_ONCE)
        .inspect_ok(|made| known(&made.layer))
        .try_collect()
        .await?;
    let (mut files, mut bundles, mut layers) = (Vec::new(), Vec::new(), Vec::new());
    for made in made {
        files.extend(made.files);
        bundles.extend(made.bundle);
        layers.push(made.layer);
    }
    let package = ModelPackage {
        layout: options.layout,
        lock: Some(lock_of(gathered, &files, wishes)?),
        files,
        bundles,
        facts: gathered.facts.clone(),
        about: about(gathered, options)?,
        weights_absent: options.facts_only,
        pieces: None,
        omit_artifact_type: options.omit_artifact_type,
    };
    Ok(Prepared { layers, package })
}

fn unverified(gathered: &Gathered) -> Result<Vec<String>, PackError> {
    let mut names = Vec::new();
    for taken in &gathered.selection.taken {
        let file = gathered.listed(taken.path.as_str())?;
        if gathered.snapshot.hub != "file" && !is_vouched(file) {
            names.push(file.path.clone());
        }
    }
    Ok(names)
}

fn lock_of(gathered: &Gathered, files: &[PackageFile], wishes: &Wishes) -> Result<SourceLock, PackError> {
    let mut lock = gathered.snapshot.lock();
    lock.options = wishes.to_options();
    for taken in &gathered.selection.taken {
        let listed = gathered.listed(taken.path.as_str())?;
        let packed = files
            .iter()
            .find(|file| file.path == taken.path)
            .map(|file| file.digest.clone());
        lock.files.push(LockedFile {
            path: taken.path.clone(),
            size: listed.size,
            sha256: packed.or_else(|| listed.hash.sha256().cloned()),
            git_sha1: if let HubHash::GitSha1(name) = &listed.hash {
                Some(name.clone())
            } else {
                None
            },
            unverified: gathered.snapshot.hub != "file" && !is_vouched(listed),
        });
    }
    Ok(lock)
}

fn about(gathered: &Gathered, options: &PackOptions) -> Result<About, PackError> {
    let created_at = options
        .created
        .map(|seconds| jiff::Timestamp::from_second(seconds).map(|time| time.to_string()))
        .transpose()
        .map_err(|error| PackError::No(format!("SOURCE_DATE_EPOCH is no time: {error}")))?;
    let readme = gathered
        .contents
        .get("README.md")
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let id = gathered.snapshot.id.as_deref();
    Ok(About {
        created_at,
        name: id.and_then(|id| id.rsplit('/').next()).map(str::to_owned),
        vendor: id.and_then(|id| id.split_once('/')).map(|(owner, _)| owner.to_owned()),
        licenses: readme.as_deref().map(licence::of_model_card).unwrap_or_default(),
        ..About::default()
    })
}
