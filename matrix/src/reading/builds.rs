//! `Builds` documents.

use super::{Contents, Reader};
use crate::{
    build::{Build, BuildEntry, BuildsHead, Channel, Image, ImageEntry, Pull},
    decode::DecodeError,
    tree::Node,
    version::{EngineVersion, VersionScheme},
    words::{OneOrMany, Words},
};

pub(super) fn read(mut root: Node, reader: &mut Reader<'_>, contents: &mut Contents) {
    let entries = reader.rows(&mut root, "builds");
    let Some(head) = reader.decode::<BuildsHead>(&root) else {
        // The rows may still have faults of their own.
        for node in entries {
            let _ = reader.decode::<BuildEntry>(&node);
        }
        return;
    };
    for node in entries {
        let Some(entry) = reader.decode::<BuildEntry>(&node) else {
            continue;
        };
        if let Some(build) = complete(&head, entry, &node, reader) {
            contents.builds.push(build);
        }
    }
}

fn complete(head: &BuildsHead, entry: BuildEntry, node: &Node, reader: &mut Reader<'_>) -> Option<Build> {
    let scheme = entry.scheme.unwrap_or(head.scheme);
    let version = version(&entry.version, scheme, node, reader)?;
    let upstream = match &entry.upstream {
        Some(text) => Some(self::version(text, VersionScheme::Pep440, node, reader)?),
        None => None,
    };
    if entry.channel == Channel::ModelSpecific && entry.models.is_none() {
        let error = DecodeError::at(node.place, "a model-specific build names no models");
        reader.push(error.with_hint("add `models: {checkpoints: [...]}`, or `architectures` or `families`"));
    }
    let flavor = entry
        .flavor
        .as_deref()
        .map(|flavor| format!("-{flavor}"))
        .unwrap_or_default();
    let pull = entry.pull.or(head.pull).unwrap_or_default();
    let architectures = if entry.architectures.is_unset() {
        &head.architectures
    } else {
        &entry.architectures
    };
    let images = entry
        .images
        .into_iter()
        .map(|(key, list)| (key, complete_images(list, architectures, pull)))
        .collect();
    Some(Build {
        id: format!("{}-{}{flavor}", head.distribution, version.text()),
        distribution: head.distribution.clone(),
        engine: head.engine.clone(),
        version,
        upstream,
        upstream_engine: head.upstream_engine.clone().unwrap_or_else(|| head.engine.clone()),
        channel: entry.channel,
        models: entry.models,
        stack: entry.stack,
        driver: entry.driver,
        images,
        vendors: head.vendor.0.clone(),
        launch: entry.launch.or_else(|| head.launch.clone()),
        metrics: entry.metrics.or_else(|| head.metrics.clone()),
        loads: if entry.loads.is_unset() {
            head.loads.clone()
        } else {
            entry.loads
        },
        released: entry.released,
        evidence: entry.evidence.over(&head.evidence),
        note: entry.note,
        row: reader.row(node),
    })
}

fn version(text: &str, scheme: VersionScheme, node: &Node, reader: &mut Reader<'_>) -> Option<EngineVersion> {
    match EngineVersion::parse(text, scheme) {
        Ok(version) => Some(version),
        Err(error) => {
            reader.push(DecodeError::at(node.place, error.to_string()).with_hint(error.hint()));
            None
        }
    }
}

fn complete_images(list: OneOrMany<ImageEntry>, architectures: &Words, pull: Pull) -> Vec<Image> {
    let complete = |entry: ImageEntry| Image {
        image: entry.image,
        architectures: if entry.architectures.is_unset() {
            architectures.clone()
        } else {
            entry.architectures
        },
        digest: entry.digest,
        pull: entry.pull.unwrap_or(pull),
    };
    list.0.into_iter().map(complete).collect()
}
