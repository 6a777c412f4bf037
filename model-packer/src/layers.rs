//! Layers: one file, several that share one, or the small files together; each with its digest and with what streams it.

use std::sync::Arc;

use artifact::{
    BUNDLE_PATH, Bundle, BundleEntry, Digest, FileKind, FilePath, Layout, PackageFile, bundle_bytes, bundle_entries,
    plan_pieces, shared_layer_path, tar_bytes, tar_header, tar_trailer_length,
};
use bytes::Bytes;
use futures::TryStreamExt as _;

use crate::bundle::Unit;
use crate::content::{HashedFile, LayerPart, PieceRecorder, hash_parts};
use crate::error::PackError;
use crate::gather::Gathered;
use crate::hashing::GitHasher;
use crate::header::Header;
use crate::prepare::{Layer, LayerContent, PackOptions, Pieced};
use crate::selection::Taken;
use crate::sources::{HubHash, ListedFile, SourceError, read_small};

/// A layer with the files in it.
pub(crate) struct Made {
    pub(crate) files: Vec<PackageFile>,
    pub(crate) bundle: Option<Bundle>,
    pub(crate) layer: Layer,
}

/// Reads what has to be read for it, and puts it together.
pub(crate) async fn make(gathered: &Gathered, unit: Unit<'_>, options: &PackOptions) -> Result<Made, PackError> {
    match unit {
        Unit::Alone(taken) => alone(gathered, taken, options).await,
        Unit::Shared { number, files } => shared(gathered, number, &files, options).await,
        Unit::Small(files) => small(gathered, &files).await,
    }
}

/// A file with a layer of its own.
async fn alone(gathered: &Gathered, taken: &Taken, options: &PackOptions) -> Result<Made, PackError> {
    let listed = gathered.listed(taken.path.as_str())?;
    let recorder = recorder(gathered, taken, listed, options);
    let mut part = LayerPart::plain(gathered.reader(listed), recorder.clone());
    if options.layout == Layout::Tar {
        part.head = tar_header(&taken.path, listed.size).into();
        part.tail = tar_trailer_length(listed.size);
    }
    let (digest, tar_digest) = digests_of(gathered, taken, listed, &part).await?;
    let layer_digest = tar_digest.clone().unwrap_or_else(|| digest.clone());
    let pieced = recorder.map(|recorder| Pieced {
        path: taken.path.clone(),
        digest: digest.clone(),
        size: listed.size,
        offset: part.head.len() as u64,
        recorder,
    });
    let layer = Layer {
        path: listed.path.clone(),
        digest: layer_digest.clone(),
        size: part.size(),
        pieced: pieced.into_iter().collect(),
        content: match gathered.contents.get(&listed.path) {
            Some(bytes) if options.layout == Layout::Tar => LayerContent::Memory(tar_bytes(&taken.path, bytes).into()),
            Some(bytes) => LayerContent::Memory(bytes.clone()),
            None => stream_of(gathered, vec![part], layer_digest),
        },
    };
    let file = PackageFile {
        path: taken.path.clone(),
        kind: taken.kind,
        digest,
        size: listed.size,
        tar_digest,
    };
    Ok(Made {
        files: vec![file],
        bundle: None,
        layer,
    })
}

fn stream_of(gathered: &Gathered, parts: Vec<LayerPart>, digest: Digest) -> LayerContent {
    LayerContent::Stream(HashedFile::new(parts, digest).hashed_here(is_local(gathered)))
}

/// Files one after the other in a layer, in the order of their names.
async fn shared(
    gathered: &Gathered,
    number: usize,
    taken: &[&Taken],
    options: &PackOptions,
) -> Result<Made, PackError> {
    let (entries, parts) = shared_parts(gathered, taken, options)?;
    let (digests, layer_digest) = hash_and_check(gathered, &parts).await?;
    let layer_digest = layer_digest.ok_or_else(|| PackError::Internal("a shared layer without headers".into()))?;
    let (mut files, mut pieced) = (Vec::new(), Vec::new());
    for (((entry, taken), part), digest) in entries.into_iter().zip(taken).zip(&parts).zip(digests) {
        pieced.extend(part.pieces.clone().map(|recorder| Pieced {
            path: entry.path.clone(),
            digest: digest.clone(),
            size: entry.size,
            offset: entry.offset,
            recorder,
        }));
        files.push(PackageFile {
            path: entry.path,
            kind: taken.kind,
            digest,
            size: entry.size,
            tar_digest: None,
        });
    }
    let bundle = bundle_of(shared_layer_path(number), &files, &layer_digest);
    let layer = Layer {
        path: bundle.name.to_string(),
        digest: layer_digest.clone(),
        size: parts.iter().map(LayerPart::size).sum(),
        content: stream_of(gathered, parts, layer_digest),
        pieced,
    };
    Ok(Made {
        files,
        bundle: Some(bundle),
        layer,
    })
}

/// Where each of them lies, and what has to be read for it.
fn shared_parts(
    gathered: &Gathered,
    taken: &[&Taken],
    options: &PackOptions,
) -> Result<(Vec<BundleEntry>, Vec<LayerPart>), PackError> {
    let listed: Vec<&ListedFile> = taken
        .iter()
        .map(|taken| gathered.listed(taken.path.as_str()))
        .collect::<Result<_, _>>()?;
    let sizes = taken
        .iter()
        .zip(&listed)
        .map(|(taken, listed)| (&taken.path, listed.size));
    let entries = bundle_entries(sizes);
    let parts = entries
        .iter()
        .zip(taken)
        .zip(listed)
        .map(|((entry, taken), listed)| LayerPart {
            head: entry.head.clone().into(),
            tail: entry.tail,
            ..LayerPart::plain(gathered.reader(listed), recorder(gathered, taken, listed, options))
        });
    let parts = parts.collect();
    Ok((entries, parts))
}

/// Small files together, from memory.
async fn small(gathered: &Gathered, taken: &[&Taken]) -> Result<Made, PackError> {
    let mut contents: Vec<(&Taken, Bytes)> = Vec::with_capacity(taken.len());
    for taken in taken {
        contents.push((taken, small_content(gathered, taken).await?));
    }
    let files: Vec<PackageFile> = contents
        .iter()
        .map(|(taken, content)| PackageFile {
            path: taken.path.clone(),
            kind: taken.kind,
            digest: Digest::of(content),
            size: content.len() as u64,
            tar_digest: None,
        })
        .collect();
    let bytes = Bytes::from(bundle_bytes(
        contents.iter().map(|(taken, content)| (&taken.path, &content[..])),
    ));
    let digest = Digest::of(&bytes);
    let name = BUNDLE_PATH
        .parse()
        .map_err(|error| PackError::Internal(format!("{error}")))?;
    let layer = Layer {
        path: BUNDLE_PATH.to_owned(),
        digest: digest.clone(),
        size: bytes.len() as u64,
        content: LayerContent::Memory(bytes),
        pieced: Vec::new(),
    };
    Ok(Made {
        bundle: Some(bundle_of(name, &files, &digest)),
        files,
        layer,
    })
}

fn bundle_of(name: FilePath, files: &[PackageFile], digest: &Digest) -> Bundle {
    Bundle {
        name,
        paths: files.iter().map(|file| file.path.clone()).collect(),
        digest: digest.clone(),
    }
}

async fn small_content(gathered: &Gathered, taken: &Taken) -> Result<Bytes, PackError> {
    if let Some(bytes) = gathered.contents.get(taken.path.as_str()) {
        return Ok(bytes.clone());
    }
    let reader = gathered.reader(gathered.listed(taken.path.as_str())?);
    Ok(read_small(&reader).await?.into())
}

/// A folder gives the same bytes twice; a hub may not.
fn is_local(gathered: &Gathered) -> bool {
    gathered.snapshot.hub == "file"
}

/// Of the file and, in the tar layout, of its layer.
async fn digests_of(
    gathered: &Gathered,
    taken: &Taken,
    listed: &ListedFile,
    part: &LayerPart,
) -> Result<(Digest, Option<Digest>), PackError> {
    let wrapped = !part.head.is_empty();
    match (gathered.contents.get(&listed.path), listed.hash.sha256()) {
        (Some(bytes), _) => {
            let tar_digest = wrapped.then(|| Digest::of(&tar_bytes(&taken.path, bytes)));
            Ok((Digest::of(bytes), tar_digest))
        }
        (None, Some(published)) if !wrapped => Ok((published.clone(), None)),
        (None, _) => {
            let (digests, tar_digest) = hash_and_check(gathered, std::slice::from_ref(part)).await?;
            let digest = digests.into_iter().next();
            let digest = digest.ok_or_else(|| PackError::Internal(format!("{} was not hashed", listed.path)))?;
            Ok((digest, tar_digest))
        }
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

/// Reads the files once for their digests, and compares with what the hub publishes.
async fn hash_and_check(gathered: &Gathered, parts: &[LayerPart]) -> Result<(Vec<Digest>, Option<Digest>), PackError> {
    let (digests, layer_digest) = hash_parts(parts).await?;
    for (part, digest) in parts.iter().zip(&digests) {
        check_published(gathered, part.reader.file(), digest).await?;
    }
    Ok((digests, layer_digest))
}

async fn check_published(gathered: &Gathered, listed: &ListedFile, digest: &Digest) -> Result<(), PackError> {
    let (expected, found) = match &listed.hash {
        HubHash::Sha256(published) => (published.to_string(), digest.to_string()),
        HubHash::GitSha1(published) => (published.clone(), git_name(gathered, listed).await?),
        HubHash::Unknown => return Ok(()),
    };
    if expected == found {
        return Ok(());
    }
    let path = listed.path.clone();
    Err(SourceError::Mismatch { path, expected, found }.into())
}

async fn git_name(gathered: &Gathered, listed: &ListedFile) -> Result<String, PackError> {
    let mut hasher = GitHasher::new(listed.size);
    let mut stream = gathered.reader(listed).stream(0..listed.size);
    while let Some(chunk) = stream.try_next().await? {
        hasher.update(&chunk);
    }
    Ok(hasher.finish())
}
