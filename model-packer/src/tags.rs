//! Tags that move: the model's, and beside it the one of its mountable image, which pods mount.

use artifact::{PackedModel, media_type};
use registry::{Client, ErrorKind, ManifestBytes, Reference};
use serde::Serialize;

use crate::error::PackError;

/// What became of the tag of the mountable image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "image", content = "tag", rename_all = "kebab-case")]
pub enum ImageTag {
    /// There is none.
    None,
    /// It went where the model's went.
    Follows(String),
    /// It is there and belongs to another version.
    Stays(String),
}

impl ImageTag {
    /// What a user should know of an image that stays.
    pub fn warning(&self) -> Option<String> {
        let Self::Stays(tag) = self else { return None };
        Some(format!(
            "{tag} stays the image of another version; to remove it: model-packer untag {tag}"
        ))
    }
}

/// A tag that was moved or removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Digest of the manifest.
    pub digest: String,
    /// What the tag pointed to before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The tag beside it.
    #[serde(flatten)]
    pub image: ImageTag,
}

/// Points the tag of `target` to the manifest of `reference`, of the same repository. The image first: whoever sees the model's
/// tag finds the image behind its own.
pub async fn move_tag(client: &Client, reference: &Reference, target: &Reference) -> Result<Moved, PackError> {
    let manifest = client.get_manifest(reference).await?;
    let before = current(client, target).await?;
    let image = match (twin_of(&manifest), room_for_image(target)) {
        (Some(twin), Some(image)) => {
            let twin = client.get_manifest(&reference.with_digest(&twin)?).await?;
            put(client, &image, &twin).await?;
            ImageTag::Follows(image.to_string())
        }
        _ => left_behind(client, target).await?,
    };
    put(client, target, &manifest).await?;
    Ok(Moved {
        digest: manifest.digest,
        before,
        image,
    })
}

/// Removes a tag, and the one of its image.
pub async fn remove_tag(client: &Client, reference: &Reference) -> Result<Moved, PackError> {
    let manifest = client.get_manifest(reference).await?;
    delete(client, reference).await?;
    let image = match room_for_image(reference) {
        None => ImageTag::None,
        Some(image) => match (current(client, &image).await?, twin_of(&manifest)) {
            (Some(there), Some(twin)) if there == twin => {
                delete(client, &image).await?;
                ImageTag::Follows(image.to_string())
            }
            (Some(_), _) => ImageTag::Stays(image.to_string()),
            (None, _) => ImageTag::None,
        },
    };
    Ok(Moved {
        digest: manifest.digest,
        before: None,
        image,
    })
}

/// The tag of a mountable image that is there although the model's tag points to a model without one.
pub(crate) async fn left_behind(client: &Client, target: &Reference) -> Result<ImageTag, PackError> {
    let Some(image) = room_for_image(target) else {
        return Ok(ImageTag::None);
    };
    let there = current(client, &image).await?;
    Ok(there.map_or(ImageTag::None, |_| ImageTag::Stays(image.to_string())))
}

/// Where the mountable image of this tag is; `None` without a tag, an error where the name would be too long for one.
pub(crate) fn image_of(target: &Reference) -> Result<Option<Reference>, PackError> {
    let tag = target.tag().map(image_tag);
    Ok(tag.map(|tag| target.with_tag(&tag)).transpose()?)
}

/// The same for tags that are there already: where the name would be too long, no image can be.
fn room_for_image(target: &Reference) -> Option<Reference> {
    image_of(target).ok().flatten()
}

/// The tag of the mountable image beside a model.
pub fn image_tag(tag: &str) -> String {
    format!("{tag}-image")
}

fn twin_of(manifest: &ManifestBytes) -> Option<String> {
    let model = PackedModel::read(&manifest.bytes, None).ok()?;
    model.twin.map(|twin| twin.to_string())
}

/// What a tag points to.
pub(crate) async fn current(client: &Client, target: &Reference) -> Result<Option<String>, PackError> {
    match client.resolve(target).await {
        Ok(descriptor) => Ok(Some(descriptor.digest)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn put(client: &Client, target: &Reference, manifest: &ManifestBytes) -> Result<(), PackError> {
    let kind = manifest.media_type.as_deref().unwrap_or(media_type::OCI_MANIFEST);
    client.put_manifest(target, kind, &manifest.bytes).await?;
    Ok(())
}

async fn delete(client: &Client, reference: &Reference) -> Result<(), PackError> {
    let removed = client.delete_manifest(reference).await;
    removed.map_err(|error| match error.kind() {
        // Registries that delete by digest only take the tag for a digest, or refuse the method.
        ErrorKind::DigestInvalid { .. } | ErrorKind::Status { status: 400 | 405, .. } => PackError::No(format!(
            "{} does not remove the tag {tag}: it may be read-only, have deleting switched off, or remove only a model with all \
             its tags; a tag can be moved instead: model-packer tag REFERENCE {tag}",
            reference.registry(),
            tag = reference.tag().unwrap_or_default()
        )),
        _ => error.into(),
    })
}
