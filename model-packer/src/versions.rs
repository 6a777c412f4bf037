//! The versions of a model in a repository, and what differs between two of them.

use std::collections::{BTreeMap, BTreeSet};

use artifact::{Digest, PackedModel, annotation};
use futures::{StreamExt as _, TryStreamExt as _};
use model_facts::SafetensorsHeader;
use registry::{Client, ManifestBytes, Reference};
use serde::Serialize;

use crate::error::PackError;
use crate::packed::{Remote, content_of, size_of};

/// Manifests that are read at the same time.
const READ_AT_ONCE: usize = 4;
/// Headers above this length are not compared.
const HEADER_LIMIT: u64 = 32 << 20;

/// One tag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// The tag.
    pub tag: String,
    /// Digest of the manifest.
    pub digest: Digest,
    /// Commit of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Time of packing, where it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Bytes of the layers.
    pub size: u64,
    /// Bytes of layers that the version before it has too.
    pub shared: u64,
}

/// All versions, in the order of their names, numbers as numbers, and the tags that point to nothing. Tags of other things are
/// left out.
pub async fn versions(client: &Client, repository: &Reference) -> Result<(Vec<Version>, Vec<String>), PackError> {
    let mut tags = client.list_tags(repository).await?;
    tags.retain(|tag| !tag.starts_with("sha256-"));
    tags.sort_by_key(|left| natural(left));
    let read = tags.into_iter().map(|tag| async move {
        match client.get_manifest(&repository.with_tag(&tag)?).await {
            Ok(manifest) => Ok::<_, PackError>((tag, Some(manifest))),
            Err(error) if error.is_not_found() => Ok((tag, None)),
            Err(error) => Err(error.into()),
        }
    });
    let read: Vec<(String, Option<ManifestBytes>)> =
        futures::stream::iter(read).buffered(READ_AT_ONCE).try_collect().await?;
    let mut before: BTreeSet<Digest> = BTreeSet::new();
    let (mut found, mut dangling) = (Vec::new(), Vec::new());
    for (tag, manifest) in read {
        let Some(manifest) = manifest else {
            dangling.push(tag);
            continue;
        };
        // An index, an image: something else under a tag of this repository.
        let Ok(model) = PackedModel::read(&manifest.bytes, None) else {
            continue;
        };
        found.push(version_of(tag, &model, &before));
        before = model.blobs().into_keys().cloned().collect();
    }
    Ok((found, dangling))
}

fn version_of(tag: String, model: &PackedModel, before: &BTreeSet<Digest>) -> Version {
    let blobs = model.blobs();
    Version {
        tag,
        digest: model.digest.clone(),
        revision: model.revision.clone(),
        created: model.annotations.get(annotation::OCI_CREATED).cloned(),
        size: blobs.values().sum(),
        shared: blobs
            .iter()
            .filter(|(digest, _)| before.contains(**digest))
            .map(|(_, size)| size)
            .sum(),
    }
}

/// `v2` before `v10`: digits compare as numbers.
fn natural(text: &str) -> Vec<(u64, String)> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let word_end = rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(word_end);
        let number_end = tail.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(tail.len());
        let (number, tail) = tail.split_at(number_end);
        if !word.is_empty() {
            parts.push((0, word.to_owned()));
        }
        if !number.is_empty() {
            parts.push((number.parse().unwrap_or(u64::MAX), String::new()));
        }
        rest = tail;
    }
    parts
}

/// What differs between two models.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Files of the second only.
    pub added: Vec<String>,
    /// Files of the first only.
    pub removed: Vec<String>,
    /// Files of both with other content.
    pub changed: Vec<ChangedFile>,
    /// Bytes of layers that both have.
    pub shared: u64,
    /// Bytes of layers of the second that the first does not have: what a node that has the first fetches.
    pub new: u64,
}

/// A file with other content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedFile {
    /// Path.
    pub path: String,
    /// Sizes before and after.
    pub sizes: (u64, u64),
    /// Tensors by their headers, for safetensors: added, removed, or of other shape or type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensors: Option<ChangedTensors>,
}

/// Tensors of a changed file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ChangedTensors {
    /// Only after.
    pub added: Vec<String>,
    /// Only before.
    pub removed: Vec<String>,
    /// Of another type or shape.
    pub reshaped: Vec<String>,
    /// Of the same type and shape; their values may differ.
    pub same_shape: usize,
}

/// Compares two models; reads headers of changed safetensors files by range, no weights.
pub async fn difference(client: &Client, first: &Remote, second: &Remote) -> Result<Difference, PackError> {
    let before: BTreeMap<&str, _> = first
        .model
        .files
        .iter()
        .map(|file| (file.path.as_str(), file))
        .collect();
    let after: BTreeMap<&str, _> = second
        .model
        .files
        .iter()
        .map(|file| (file.path.as_str(), file))
        .collect();
    let old_blobs = first.model.blobs();
    let mut found = Difference::default();
    for (digest, size) in second.model.blobs() {
        *(if old_blobs.contains_key(digest) {
            &mut found.shared
        } else {
            &mut found.new
        }) += size;
    }
    found.added = after
        .keys()
        .filter(|path| !before.contains_key(**path))
        .map(|path| (*path).to_owned())
        .collect();
    found.removed = before
        .keys()
        .filter(|path| !after.contains_key(**path))
        .map(|path| (*path).to_owned())
        .collect();
    for (path, new) in &after {
        let Some(old) = before.get(path).filter(|old| content_of(old) != content_of(new)) else {
            continue;
        };
        let tensors = match (
            header_of(client, first, path).await?,
            header_of(client, second, path).await?,
        ) {
            (Some(old), Some(new)) => Some(compare(&old, &new)),
            _ => None,
        };
        found.changed.push(ChangedFile {
            path: (*path).to_owned(),
            sizes: (size_of(old), size_of(new)),
            tensors,
        });
    }
    Ok(found)
}

async fn header_of(client: &Client, remote: &Remote, path: &str) -> Result<Option<SafetensorsHeader>, PackError> {
    let Some(file) = remote
        .model
        .file(path)
        .filter(|file| file.path.as_str().ends_with(".safetensors"))
    else {
        return Ok(None);
    };
    let start = file.payload.as_ref().map_or(0, |payload| payload.offset);
    let size = size_of(file);
    let length = read(client, remote, &file.digest, start..start + 8.min(size)).await?;
    let Ok(length) = <[u8; 8]>::try_from(length.as_slice()) else {
        return Ok(None);
    };
    let end = u64::from_le_bytes(length).saturating_add(8);
    if end > HEADER_LIMIT.min(size) {
        return Ok(None);
    }
    let prefix = read(client, remote, &file.digest, start..start + end).await?;
    // A header that cannot be read has nothing to compare.
    Ok(SafetensorsHeader::parse(&prefix, Some(size)).ok())
}

async fn read(
    client: &Client,
    remote: &Remote,
    digest: &Digest,
    range: std::ops::Range<u64>,
) -> Result<Vec<u8>, PackError> {
    let wanted = usize::try_from(range.end - range.start).unwrap_or(0);
    let mut stream = client
        .open_blob(&remote.reference, digest.as_str(), Some(range.clone()))
        .await?;
    let skip = usize::try_from(range.start.saturating_sub(stream.served().start)).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.try_next().await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() >= skip.saturating_add(wanted) {
            break;
        }
    }
    Ok(bytes
        .get(skip..)
        .unwrap_or_default()
        .iter()
        .take(wanted)
        .copied()
        .collect())
}

fn compare(old: &SafetensorsHeader, new: &SafetensorsHeader) -> ChangedTensors {
    let by_name = |header: &SafetensorsHeader| -> BTreeMap<String, (String, Vec<u64>)> {
        header
            .tensors
            .iter()
            .map(|tensor| (tensor.name.clone(), (tensor.dtype.clone(), tensor.shape.clone())))
            .collect()
    };
    let (old, new) = (by_name(old), by_name(new));
    let mut found = ChangedTensors {
        added: new.keys().filter(|name| !old.contains_key(*name)).cloned().collect(),
        removed: old.keys().filter(|name| !new.contains_key(*name)).cloned().collect(),
        ..ChangedTensors::default()
    };
    for (name, shape) in &new {
        match old.get(name) {
            Some(before) if before == shape => found.same_shape += 1,
            Some(_) => found.reshaped.push(name.clone()),
            None => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_ordered_as_people_count() {
        let mut tags = ["v10", "v2", "v2.1", "latest", "v1-image", "v1", "2026-01"];
        tags.sort_by_key(|tag| natural(tag));
        assert_eq!(tags, ["latest", "v1", "v1-image", "v2", "v2.1", "v10", "2026-01"]);
    }
}
