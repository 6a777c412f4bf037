//! `model-packer inspect`.

use std::fmt::Write as _;

use artifact::{Digest, Index, ReadError};
use model_facts::ModelFacts;
use registry::{Client, Reference, Referrer};
use serde_json::json;

use super::arguments::{Inspect, Output, Shared};
use super::setup;
use crate::error::PackError;
use crate::packed::{Remote, content_of, kind_word, read_remote, size_of};
use crate::{text, variants};

pub(super) async fn run(command: &Inspect, shared: &Shared) -> Result<(), PackError> {
    let reference = setup::reference(&command.reference)?;
    let client = setup::client(shared, &reference)?;
    let remote = match read_remote(&client, &reference).await {
        Err(PackError::Read {
            source: ReadError::Index { .. },
            ..
        }) => return show_index(&client, &reference, shared).await,
        read => read?,
    };
    let listed = client
        .referrers(&remote.reference, remote.model.digest.as_str(), None)
        .await;
    // What the model is does not depend on what others say about it.
    let referrers = listed.map_err(|error| setup::warn(&error.into())).ok();
    match shared.output {
        Output::Json => setup::print(&document(&remote, referrers.as_deref()).to_string())?,
        Output::Text => setup::print(&page(&remote, referrers.as_deref()))?,
    }
    Ok(())
}

/// The variants under a tag for controllers, or the platforms of a mountable image.
async fn show_index(client: &Client, reference: &Reference, shared: &Shared) -> Result<(), PackError> {
    let manifest = client.get_manifest(reference).await?;
    let index: Index = serde_json::from_slice(&manifest.bytes)
        .map_err(|error| PackError::No(format!("the index of {reference} cannot be read: {error}")))?;
    if shared.output == Output::Json {
        let digest = Digest::of(&manifest.bytes).to_string();
        let pinned = reference.with_digest(&digest)?.to_string();
        let document = json!({"event": "inspect", "reference": pinned, "digest": digest, "manifests": index.manifests});
        setup::print(&document.to_string())?;
    } else {
        setup::print(&index_page(reference, &index))?;
    }
    Ok(())
}

fn index_page(reference: &Reference, index: &Index) -> String {
    let mut out = format!("{reference} is an index of {} manifests\n", index.manifests.len());
    for entry in &index.manifests {
        let note = |key: &str| entry.annotations.get(key).map(String::as_str);
        let bytes = note(variants::WEIGHT_BYTES).and_then(|bytes| bytes.parse().ok());
        let platform = entry
            .platform
            .as_ref()
            .filter(|platform| platform.os != "unknown")
            .map(|platform| format!("{}/{}", platform.os, platform.architecture));
        let parts = [
            note(variants::TAG).map(str::to_owned),
            platform,
            note(variants::QUANTIZATION).map(str::to_owned),
            note(variants::FORMAT).map(str::to_owned),
            note(variants::LAYOUT).map(str::to_owned),
            bytes.map(|bytes| format!("{} of weights", text::bytes(bytes))),
        ];
        let said: Vec<String> = parts.into_iter().flatten().collect();
        let _ = writeln!(out, "  {}  {}", entry.digest, said.join(", "));
    }
    out.trim_end().to_owned()
}

/// Referrers that could not be listed are null: unknown, and not none.
fn document(remote: &Remote, referrers: Option<&[Referrer]>) -> serde_json::Value {
    let model = &remote.model;
    let files = model.files.iter().map(|file| {
        json!({"path": file.path, "kind": kind_word(file.kind), "size": size_of(file), "digest": content_of(file), "layer": file.digest,
            "mediaType": file.media_type})
    });
    json!({
        "event": "inspect", "reference": remote.reference.to_string(), "digest": model.digest, "source": model.source, "revision": model.revision,
        "facts": model.facts, "weightsAbsent": model.weights_absent, "pieces": model.pieces, "twin": model.twin,
        "config": model.config, "files": files.collect::<Vec<_>>(), "referrers": referrers,
    })
}

fn page(remote: &Remote, referrers: Option<&[Referrer]>) -> String {
    let model = &remote.model;
    let mut out = format!("{}\n", remote.reference);
    let licenses = model
        .config
        .as_ref()
        .map(|config| config.descriptor.licenses.join(" AND "))
        .filter(|text| !text.is_empty());
    let weights = model
        .weights_absent
        .then(|| "absent: facts and metadata only".to_owned());
    let rows = [
        ("model", model.facts.as_ref().map(facts_line)),
        ("source", model.source.clone()),
        ("commit", model.revision.clone()),
        ("licence", licenses),
        ("weights", weights),
        ("pieces", model.pieces.as_ref().map(ToString::to_string)),
        ("twin", model.twin.as_ref().map(ToString::to_string)),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            let _ = writeln!(out, "{name:<8} {value}");
        }
    }
    for unknown in model.facts.iter().flat_map(|facts| &facts.unknown) {
        let _ = writeln!(out, "unknown  {}: {}", unknown.fact, unknown.missing);
    }
    let _ = writeln!(
        out,
        "files    {} ({})",
        model.files.len(),
        text::bytes(model.files.iter().map(size_of).sum())
    );
    for file in &model.files {
        let digest = &content_of(file).hex()[..12];
        let _ = writeln!(
            out,
            "  {:<52} {:>10}  {:<7} {digest}",
            file.path.as_str(),
            text::bytes(size_of(file)),
            kind_word(file.kind)
        );
    }
    if referrers.is_none() {
        let _ = writeln!(out, "attached unknown");
    }
    for referrer in referrers.unwrap_or_default() {
        let kind = referrer.artifact_type.as_deref().unwrap_or("of unknown type");
        let _ = writeln!(out, "attached {kind} {}", referrer.digest);
    }
    out.trim_end().to_owned()
}

/// One line that an engineer would say about the model.
pub(super) fn facts_line(facts: &ModelFacts) -> String {
    let name = facts.architectures.first().or(facts.family.as_ref()).cloned();
    let parameters = facts.parameters.map(count);
    let quantization = facts
        .quantization
        .detail
        .clone()
        .or_else(|| facts.quantization.label.clone())
        .or_else(|| facts.dtype.clone());
    let weights = facts
        .weight_bytes
        .map(|bytes| format!("{} of weights", text::bytes(bytes)));
    let context = facts.context_length.map(|tokens| format!("context {tokens}"));
    let parts = [name, parameters, quantization, weights, context];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
fn count(parameters: u64) -> String {
    match parameters {
        0..1_000_000 => format!("{parameters} parameters"),
        1_000_000..1_000_000_000 => format!("{:.0}M parameters", parameters as f64 / 1e6),
        _ => format!("{:.1}B parameters", parameters as f64 / 1e9),
    }
}
