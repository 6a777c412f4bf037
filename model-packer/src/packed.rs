//! A packed model in a registry: its manifest, its config and its source lock.

use artifact::{Built, Digest, FileKind, PackedFile, PackedModel, SOURCE_LOCK_PATH, SourceLock, build_manifest};
use registry::{Client, Reference};

use crate::error::PackError;
use crate::gather::Gathered;
use crate::prepare::{PackOptions, Prepared, prepare};
use crate::prove::check_layers;
use crate::selection::Wishes;

/// Larger locks and configs are none.
const DOCUMENT_LIMIT: usize = 64 << 20;

/// What a reference points to.
pub struct Remote {
    /// The reference, pinned to its digest.
    pub reference: Reference,
    /// The model.
    pub model: PackedModel,
}

/// Reads manifest and config.
pub async fn read_remote(client: &Client, reference: &Reference) -> Result<Remote, PackError> {
    let manifest = client.get_manifest(reference).await?;
    let bad = |source| PackError::Read {
        reference: reference.to_string(),
        source,
    };
    let model = PackedModel::read(&manifest.bytes, None).map_err(bad)?;
    let config = model.config_descriptor.clone();
    let config = client
        .get_blob(reference, config.digest.as_str(), DOCUMENT_LIMIT)
        .await?;
    let model = PackedModel::read(&manifest.bytes, Some(&config)).map_err(bad)?;
    Ok(Remote {
        reference: reference.with_digest(model.digest.as_str())?,
        model,
    })
}

/// The content of a small file of the model, whatever its layout is.
pub async fn read_file(client: &Client, remote: &Remote, file: &PackedFile) -> Result<Vec<u8>, PackError> {
    let blob = client
        .get_blob(&remote.reference, file.digest.as_str(), DOCUMENT_LIMIT)
        .await?;
    let Some(payload) = &file.payload else { return Ok(blob) };
    let span = usize::try_from(payload.offset)
        .ok()
        .zip(usize::try_from(payload.offset + payload.size).ok());
    let content = span.and_then(|(start, end)| blob.get(start..end));
    let content = content.ok_or_else(|| {
        PackError::No(format!(
            "the layer of {} is shorter than its annotations say",
            file.path
        ))
    })?;
    let found = Digest::of(content);
    if found == payload.digest {
        Ok(content.to_vec())
    } else {
        Err(PackError::WrongDigest {
            what: file.path.to_string(),
            expected: payload.digest.clone(),
            found,
        })
    }
}

/// The source lock inside the artifact.
pub async fn read_lock(client: &Client, remote: &Remote) -> Result<Option<SourceLock>, PackError> {
    let Some(file) = remote.model.file(SOURCE_LOCK_PATH) else {
        return Ok(None);
    };
    let bytes = read_file(client, remote, file).await?;
    let bad = |source| PackError::Lock {
        place: format!("source.lock of {}", remote.reference),
        source,
    };
    SourceLock::from_bytes(&bytes).map(Some).map_err(bad)
}

/// Makes the manifest again from the source, with the wishes of the lock, asks the registry for the layers, and says what differs.
/// Reads no weights in the raw layout, where a layer is named by the digest that the source lists; in the tar layout the layers
/// are read from the registry once, because nothing else says what is in a tar.
pub async fn derive_again(
    client: &Client,
    gathered: &Gathered,
    remote: &Remote,
    lock: &SourceLock,
) -> Result<Vec<String>, PackError> {
    let wishes = Wishes::from_options(&lock.options)?;
    let model = &remote.model;
    let created = model.annotations.get(artifact::annotation::OCI_CREATED);
    let created = created
        .and_then(|text| text.parse::<jiff::Timestamp>().ok())
        .map(jiff::Timestamp::as_second);
    let options = PackOptions {
        facts_only: model.weights_absent,
        created,
        omit_artifact_type: model.artifact_type.is_none(),
        ..PackOptions::default()
    };
    let mut prepared = prepare(gathered, &wishes, &options).await?;
    adopt(&mut prepared, model, lock);
    let built = build_manifest(&prepared.package)?;
    let mut found = Vec::new();
    if built.manifest_digest != model.digest {
        found = differences(&built, &prepared, model);
    }
    found.extend(check_layers(client, remote, &prepared.package.files).await?);
    Ok(found)
}

/// What the artifact has and the source cannot say: its layout and piece map, and where the lock was resolved.
fn adopt(prepared: &mut Prepared, model: &PackedModel, lock: &SourceLock) {
    let package = &mut prepared.package;
    package.pieces.clone_from(&model.pieces);
    if let Some(own) = &mut package.lock {
        own.endpoint.clone_from(&lock.endpoint);
        own.revision.clone_from(&lock.revision);
    }
    if model.twin.is_some() {
        package.layout = artifact::Layout::Tar;
        package.bundles = model.bundles();
        for file in &mut package.files {
            let packed = model.file(file.path.as_str());
            let proven = packed.filter(|packed| {
                packed
                    .payload
                    .as_ref()
                    .is_some_and(|payload| payload.digest == file.digest)
            });
            file.tar_digest = proven
                .map(|packed| packed.digest.clone())
                .or_else(|| Some(file.digest.clone()));
        }
    }
}

fn differences(built: &Built, prepared: &Prepared, model: &PackedModel) -> Vec<String> {
    let mut found = Vec::new();
    for file in &prepared.package.files {
        match model.file(file.path.as_str()) {
            None => found.push(format!("{} is at the source and not in the artifact", file.path)),
            Some(packed) if content_of(packed) != &file.digest => {
                found.push(format!(
                    "{} is {} at the source and {} in the artifact",
                    file.path,
                    file.digest,
                    content_of(packed)
                ));
            }
            Some(_) => {}
        }
    }
    for packed in model
        .files
        .iter()
        .filter(|packed| packed.path.as_str() != SOURCE_LOCK_PATH)
    {
        if !prepared.package.files.iter().any(|file| file.path == packed.path) {
            found.push(format!("{} is in the artifact and not at the source", packed.path));
        }
    }
    if prepared.package.facts != model.facts {
        found.push("the facts in the artifact are not those that are derived now".into());
    }
    if found.is_empty() {
        found.push(format!(
            "the same files give the manifest {}, the artifact has {}: it was written by another version",
            built.manifest_digest, model.digest
        ));
    }
    found
}

/// Digest of the file itself.
pub fn content_of(file: &PackedFile) -> &Digest {
    file.payload.as_ref().map_or(&file.digest, |payload| &payload.digest)
}

/// Size of the file itself.
pub fn size_of(file: &PackedFile) -> u64 {
    file.payload.as_ref().map_or(file.size, |payload| payload.size)
}

/// The word for a kind in tables.
pub fn kind_word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Weight => "weight",
        FileKind::WeightConfig => "config",
        FileKind::Doc => "doc",
        FileKind::Code => "code",
        FileKind::Dataset => "data",
        FileKind::Unknown => "unknown",
    }
}
