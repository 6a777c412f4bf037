//! From what was gathered to layers with digests, and to the package that the manifest is built from.

use std::sync::Arc;

use artifact::{
    About, Digest, FileKind, Layout, LockedFile, ModelPackage, PackageFile, SourceLock, TAR_PAYLOAD_OFFSET,
    plan_pieces, tar_bytes, tar_header, tar_trailer_length,
};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};

use crate::bundle;
use crate::content::{HashedFile, PieceRecorder, hash_file};
use crate::error::PackError;
use crate::gather::{Gathered, is_vouched};
use crate::hashing::GitHasher;
use crate::header::Header;
use crate::licence;
use crate::selection::{Taken, Wishes};
use crate::sources::{HubHash, ListedFile, SourceError};

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
    /// Path of the file.
    pub path: String,
    /// Digest of the layer.
    pub digest: Digest,
    /// Bytes of the layer.
    pub size: u64,
    /// Its bytes.
    pub content: LayerContent,
    /// The file inside, when a piece map is to be made of it.
    pub pieced: Option<Pieced>,
}

/// A file of which a piece map is made.
#[derive(Clone)]
pub struct Pieced {
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
    /// One per file, in the order of paths; then the bundle of small files, when there is one.
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
    let unverified = unverified(gathered)?;
    if options.require_hash && !unverified.is_empty() {
        return Err(PackError::Unverified(unverified));
    }
    let taken = &gathered.selection.taken;
    let packed: Vec<&Taken> = taken
        .iter()
        .filter(|taken| !(options.facts_only && taken.kind == FileKind::Weight))
        .collect();
    let bundled = bundle::choose(gathered, &packed, options.layout)?;
    let bundle = bundle::make(gathered, &bundled).await?;
    let shared = |taken: &Taken| bundled.iter().any(|other| other.path == taken.path);
    let files: Vec<(PackageFile, Option<Layer>)> = futures::stream::iter(packed)
        .map(|taken| file_of(gathered, taken, options, shared(taken)))
        .buffered(HASH_AT_ONCE)
        .inspect_ok(|(_, layer)| layer.iter().for_each(known))
        .try_collect()
        .await?;
    let (files, layers): (Vec<_>, Vec<_>) = files.into_iter().unzip();
    let mut layers: Vec<Layer> = layers.into_iter().flatten().collect();
    let (bundle, bundle_layer) = bundle.unzip();
    layers.extend(bundle_layer);
    let package = ModelPackage {
        layout: options.layout,
        lock: Some(lock_of(gathered, &files, wishes)?),
        files,
        bundle,
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

/// A file, with a layer of its own unless it shares one.
async fn file_of(
    gathered: &Gathered,
    taken: &Taken,
    options: &PackOptions,
    shared: bool,
) -> Result<(PackageFile, Option<Layer>), PackError> {
    let listed = gathered.listed(taken.path.as_str())?;
    let wrap = Wrap::of(taken, listed, if shared { Layout::Raw } else { options.layout });
    let recorder = recorder(gathered, taken, listed, options);
    let (digest, tar_digest) = digests_of(gathered, taken, listed, &wrap, recorder.clone()).await?;
    let file = PackageFile {
        path: taken.path.clone(),
        kind: taken.kind,
        digest,
        size: listed.size,
        tar_digest,
    };
    let layer = (!shared).then(|| layer_of(gathered, &file, listed, wrap, recorder, options.layout));
    Ok((file, layer))
}

fn layer_of(
    gathered: &Gathered,
    file: &PackageFile,
    listed: &ListedFile,
    wrap: Wrap,
    recorder: Option<Arc<PieceRecorder>>,
    layout: Layout,
) -> Layer {
    let digest = file.tar_digest.clone().unwrap_or_else(|| file.digest.clone());
    let size = wrap.head.len() as u64 + file.size + wrap.tail;
    let content = match gathered.contents.get(&listed.path) {
        Some(bytes) if layout == Layout::Tar => LayerContent::Memory(tar_bytes(&file.path, bytes).into()),
        Some(bytes) => LayerContent::Memory(bytes.clone()),
        None => {
            let stream = HashedFile::wrapped(gathered.reader(listed), wrap.head.into(), wrap.tail, digest.clone());
            LayerContent::Stream(stream.with_pieces(recorder.clone()).hashed_here(is_local(gathered)))
        }
    };
    let pieced = recorder.map(|recorder| Pieced {
        digest: file.digest.clone(),
        size: file.size,
        offset: if layout == Layout::Tar { TAR_PAYLOAD_OFFSET } else { 0 },
        recorder,
    });
    Layer {
        path: listed.path.clone(),
        digest,
        size,
        content,
        pieced,
    }
}

/// A folder gives the same bytes twice; a hub may not.
fn is_local(gathered: &Gathered) -> bool {
    gathered.snapshot.hub == "file"
}

/// What a layout puts around a file.
struct Wrap {
    head: Vec<u8>,
    tail: u64,
}

impl Wrap {
    fn of(taken: &Taken, listed: &ListedFile, layout: Layout) -> Self {
        match layout {
            Layout::Raw => Self {
                head: Vec::new(),
                tail: 0,
            },
            Layout::Tar => Self {
                head: tar_header(&taken.path, listed.size),
                tail: tar_trailer_length(listed.size),
            },
        }
    }
}

/// Of the file and, in the tar layout, of its layer.
async fn digests_of(
    gathered: &Gathered,
    taken: &Taken,
    listed: &ListedFile,
    wrap: &Wrap,
    recorder: Option<Arc<PieceRecorder>>,
) -> Result<(Digest, Option<Digest>), PackError> {
    let tar = (!wrap.head.is_empty()).then_some((wrap.head.as_slice(), wrap.tail));
    match (gathered.contents.get(&listed.path), listed.hash.sha256(), tar) {
        (Some(bytes), _, None) => Ok((Digest::of(bytes), None)),
        (Some(bytes), _, Some(_)) => Ok((Digest::of(bytes), Some(Digest::of(&tar_bytes(&taken.path, bytes))))),
        (None, Some(published), None) => Ok((published.clone(), None)),
        (None, _, tar) => hash_and_check(gathered, listed, tar, recorder).await,
    }
}

/// Collects the pieces of a weight file, when a piece map is to be made.
fn recorder(
    gathered: &Gathered,
    taken: &Taken,
    listed: &ListedFile,
    options: &PackOptions,
) -> Option<Arc<PieceRecorder>> {
    if !options.pieces || taken.kind != FileKind::Weight {
        return None;
    }
    let header = gathered.headers.get(&listed.path);
    let starts = header.map(Header::tensor_starts).unwrap_or_default();
    Some(Arc::new(PieceRecorder::new(plan_pieces(listed.size, &starts))))
}

/// Reads the file once for its digest, and compares with what the hub publishes.
async fn hash_and_check(
    gathered: &Gathered,
    listed: &ListedFile,
    tar: Option<(&[u8], u64)>,
    recorder: Option<Arc<PieceRecorder>>,
) -> Result<(Digest, Option<Digest>), PackError> {
    let reader = gathered.reader(listed);
    let mismatch = |expected: String, found: String| {
        PackError::from(SourceError::Mismatch {
            path: listed.path.clone(),
            expected,
            found,
        })
    };
    let (digest, tar_digest) = hash_file(&reader, tar, recorder).await?;
    match &listed.hash {
        HubHash::Sha256(published) if *published != digest => Err(mismatch(published.to_string(), digest.to_string())),
        HubHash::GitSha1(published) => {
            let found = git_name(gathered, listed).await?;
            if found == *published {
                Ok((digest, tar_digest))
            } else {
                Err(mismatch(published.clone(), found))
            }
        }
        _ => Ok((digest, tar_digest)),
    }
}

async fn git_name(gathered: &Gathered, listed: &ListedFile) -> Result<String, PackError> {
    let mut hasher = GitHasher::new(listed.size);
    let mut stream = gathered.reader(listed).stream(0..listed.size);
    while let Some(chunk) = stream.try_next().await? {
        hasher.update(&chunk);
    }
    Ok(hasher.finish())
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
