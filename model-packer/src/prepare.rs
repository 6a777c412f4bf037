//! From what was gathered to layers with digests, and to the package that the manifest is built from.

use artifact::{
    About, Digest, FileKind, Layout, LockedFile, ModelPackage, PackageFile, SourceLock, TAR_PAYLOAD_OFFSET, tar_bytes,
    tar_header, tar_size, tar_trailer_length,
};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};

use crate::content::{HashedFile, hash_file};
use crate::error::PackError;
use crate::gather::{Gathered, is_vouched};
use crate::hashing::GitHasher;
use crate::licence;
use crate::selection::{Taken, Wishes};
use crate::sources::{HubHash, ListedFile, SourceError};

/// Files that are hashed at the same time when their digest has to be known first.
const HASH_AT_ONCE: usize = 2;

/// How to pack.
#[derive(Debug, Clone, Default)]
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
}

/// Layers and the package.
pub struct Prepared {
    /// One per file, in the order of paths.
    pub layers: Vec<Layer>,
    /// Everything for the manifest.
    pub package: ModelPackage,
}

/// Computes what is not known yet and puts the package together.
pub async fn prepare(gathered: &Gathered, wishes: &Wishes, options: &PackOptions) -> Result<Prepared, PackError> {
    let unverified = unverified(gathered)?;
    if options.require_hash && !unverified.is_empty() {
        return Err(PackError::Unverified(unverified));
    }
    let taken = &gathered.selection.taken;
    let packed = taken
        .iter()
        .filter(|taken| !(options.facts_only && taken.kind == FileKind::Weight));
    let files: Vec<(PackageFile, Layer)> = futures::stream::iter(packed.map(|taken| file_of(gathered, taken, options)))
        .buffered(HASH_AT_ONCE)
        .try_collect()
        .await?;
    let (files, layers): (Vec<_>, Vec<_>) = files.into_iter().unzip();
    let package = ModelPackage {
        layout: options.layout,
        lock: Some(lock_of(gathered, &files, wishes)?),
        files,
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

async fn file_of(gathered: &Gathered, taken: &Taken, options: &PackOptions) -> Result<(PackageFile, Layer), PackError> {
    let listed = gathered.listed(taken.path.as_str())?;
    let kept = gathered.contents.get(&listed.path);
    let header = tar_header(&taken.path, listed.size);
    let tar = (options.layout == Layout::Tar).then_some((header.as_slice(), tar_trailer_length(listed.size)));
    let (digest, tar_digest) = match (kept, listed.hash.sha256(), tar) {
        (Some(bytes), _, None) => (Digest::of(bytes), None),
        (Some(bytes), _, Some(_)) => (Digest::of(bytes), Some(Digest::of(&tar_bytes(&taken.path, bytes)))),
        (None, Some(published), None) => (published.clone(), None),
        (None, _, tar) => hash_and_check(gathered, listed, tar).await?,
    };
    let layer_digest = tar_digest.clone().unwrap_or_else(|| digest.clone());
    let (size, content) = match (kept, tar) {
        (Some(bytes), None) => (listed.size, LayerContent::Memory(bytes.clone())),
        (Some(bytes), Some(_)) => (
            tar_size(listed.size),
            LayerContent::Memory(tar_bytes(&taken.path, bytes).into()),
        ),
        (None, None) => {
            let file = HashedFile::new(gathered.reader(listed), layer_digest.clone());
            (listed.size, LayerContent::Stream(file))
        }
        (None, Some((_, tail))) => {
            debug_assert_eq!(header.len() as u64, TAR_PAYLOAD_OFFSET);
            let file = HashedFile::wrapped(
                gathered.reader(listed),
                header.clone().into(),
                tail,
                layer_digest.clone(),
            );
            (tar_size(listed.size), LayerContent::Stream(file))
        }
    };
    let file = PackageFile {
        path: taken.path.clone(),
        kind: taken.kind,
        digest,
        size: listed.size,
        tar_digest,
    };
    Ok((
        file,
        Layer {
            path: listed.path.clone(),
            digest: layer_digest,
            size,
            content,
        },
    ))
}

/// Reads the file once for its digest, and compares with what the hub publishes.
async fn hash_and_check(
    gathered: &Gathered,
    listed: &ListedFile,
    tar: Option<(&[u8], u64)>,
) -> Result<(Digest, Option<Digest>), PackError> {
    let reader = gathered.reader(listed);
    let mismatch = |expected: String, found: String| {
        PackError::from(SourceError::Mismatch {
            path: listed.path.clone(),
            expected,
            found,
        })
    };
    let (digest, tar_digest) = hash_file(&reader, tar).await?;
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
