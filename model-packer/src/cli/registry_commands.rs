//! `model-packer versions | tag | untag | diff | doctor`.

use std::fmt::Write as _;

use registry::Reference;
use registry::doctor::{Outcome, Report, examine};
use serde_json::json;

use super::arguments::{Diff, Doctor, Index, Output, Shared, Tag, Untag, Versions};
use super::setup;
use crate::error::PackError;
use crate::packed::read_remote;
use crate::tags::{ImageTag, move_tag, remove_tag};
use crate::text;
use crate::variants::{INDEX_SUFFIX, index_of};
use crate::versions::{Difference, Version, difference, versions};

pub(super) async fn list_versions(command: &Versions, shared: &Shared) -> Result<(), PackError> {
    let repository = setup::reference(&command.repository)?;
    let (found, dangling) = versions(&setup::client(shared, &repository)?, &repository).await?;
    for tag in dangling {
        setup::say(
            shared,
            &format!("warning: the tag {tag} points to nothing: the registry has lost its manifest"),
        );
    }
    match shared.output {
        Output::Json => setup::print(&json!({"event": "versions", "versions": found}).to_string())?,
        Output::Text => setup::print(&versions_text(&found))?,
    }
    Ok(())
}

fn versions_text(found: &[Version]) -> String {
    if found.is_empty() {
        return "no packed models".into();
    }
    let width = found.iter().map(|version| version.tag.len()).max().unwrap_or(0).max(3);
    let mut out = format!(
        "{:width$}  {:<19}  {:<12}  {:>10}  {:>10}",
        "TAG", "DIGEST", "REVISION", "SIZE", "SHARED"
    );
    for version in found {
        let revision: String = version.revision.as_deref().unwrap_or("-").chars().take(12).collect();
        let (digest, size, shared) = (
            &version.digest.as_str()[..19],
            text::bytes(version.size),
            text::bytes(version.shared),
        );
        let _ = write!(
            out,
            "\n{:width$}  {digest}  {revision:<12}  {size:>10}  {shared:>10}",
            version.tag
        );
    }
    out
}

pub(super) async fn tag(command: &Tag, shared: &Shared) -> Result<(), PackError> {
    let reference = setup::reference(&command.reference)?;
    let client = setup::client(shared, &reference)?;
    let target = reference.with_tag(&command.tag)?;
    let moved = move_tag(&client, &reference, &target).await?;
    let pin = pinned(&target, &moved.digest)?.to_string();
    match moved.before.as_ref().filter(|before| **before != moved.digest) {
        Some(before) => setup::say(
            shared,
            &format!(
                "{target} pointed to {before}; to go back: model-packer tag {} {}",
                pinned(&target, before)?,
                command.tag
            ),
        ),
        None => setup::say(shared, &format!("{target} points to {}", moved.digest)),
    }
    say_image(shared, &moved.image);
    match shared.output {
        Output::Json => setup::print(&json!({"event": "tag", "reference": pin, "moved": moved}).to_string()),
        Output::Text => setup::print(&pin),
    }
}

/// What became of the mountable image's own tag.
fn say_image(shared: &Shared, image: &ImageTag) {
    match (image, image.warning()) {
        (_, Some(text)) => setup::say(shared, &format!("warning: {text}")),
        (ImageTag::Follows(tag), None) => setup::say(shared, &format!("{tag} follows")),
        _ => {}
    }
}

fn pinned(reference: &Reference, digest: &str) -> Result<Reference, PackError> {
    Ok(reference.with_digest(digest)?)
}

pub(super) async fn untag(command: &Untag, shared: &Shared) -> Result<(), PackError> {
    let reference = setup::reference(&command.reference)?;
    if reference.tag().is_none() || reference.digest().is_some() {
        return Err(PackError::No(
            "untag takes repository:tag; a digest would remove the model under all its tags".into(),
        ));
    }
    let removed = remove_tag(&setup::client(shared, &reference)?, &reference).await?;
    let stays = pinned(&reference, &removed.digest)?.to_string();
    setup::say(
        shared,
        &format!("removed; the model stays as {stays} until the registry collects garbage"),
    );
    say_image(shared, &removed.image);
    match shared.output {
        Output::Json => setup::print(&json!({"event": "untag", "stays": stays, "removed": removed}).to_string()),
        Output::Text => Ok(()),
    }
}

pub(super) async fn diff(command: &Diff, shared: &Shared) -> Result<(), PackError> {
    let first = setup::reference(&command.first)?;
    // A bare tag on the right means the same repository.
    let second = if command.second.contains('/') {
        setup::reference(&command.second)?
    } else {
        first.with_tag(&command.second)?
    };
    let client = setup::client_for(shared, &[&first, &second])?;
    let (first, second) = (
        read_remote(&client, &first).await?,
        read_remote(&client, &second).await?,
    );
    let found = difference(&client, &first, &second).await?;
    match shared.output {
        Output::Json => setup::print(&json!({"event": "diff", "difference": found}).to_string())?,
        Output::Text => setup::print(&difference_text(&found))?,
    }
    Ok(())
}

fn difference_text(found: &Difference) -> String {
    let mut out = String::new();
    let listed = found
        .added
        .iter()
        .map(|path| ('+', path))
        .chain(found.removed.iter().map(|path| ('-', path)));
    for (sign, path) in listed {
        let _ = writeln!(out, "{sign} {path}");
    }
    for file in &found.changed {
        let _ = writeln!(
            out,
            "~ {} ({} -> {})",
            file.path,
            text::bytes(file.sizes.0),
            text::bytes(file.sizes.1)
        );
        let Some(tensors) = &file.tensors else { continue };
        let names = [("+", &tensors.added), ("-", &tensors.removed), ("~", &tensors.reshaped)];
        for (sign, name) in names
            .iter()
            .flat_map(|(sign, names)| names.iter().map(move |name| (sign, name)))
        {
            let _ = writeln!(out, "    {sign} tensor {name}");
        }
        let _ = writeln!(out, "    {} tensors of the same type and shape", tensors.same_shape);
    }
    if out.is_empty() {
        out.push_str("the same files\n");
    }
    let _ = write!(
        out,
        "shared {}, new {}",
        text::bytes(found.shared),
        text::bytes(found.new)
    );
    out
}

pub(super) async fn index(command: &Index, shared: &Shared) -> Result<(), PackError> {
    let target = setup::reference(&command.target)?;
    if !target.tag().is_some_and(|tag| tag.ends_with(INDEX_SUFFIX)) || target.digest().is_some() {
        return Err(PackError::No(format!(
            "the tag of an index ends in {INDEX_SUFFIX}: readers of models see an index as empty"
        )));
    }
    let client = setup::client(shared, &target)?;
    let mut models = Vec::new();
    for variant in &command.variants {
        let reference = if variant.starts_with("sha256:") {
            target.with_digest(variant)?
        } else {
            target.with_tag(variant)?
        };
        let size = client.get_manifest(&reference).await?.bytes.len() as u64;
        models.push((read_remote(&client, &reference).await?, size));
    }
    let document = index_of(&models)?;
    client
        .put_manifest(&target, &document.media_type, &document.bytes)
        .await?;
    let pin = pinned(&target, document.digest.as_str())?.to_string();
    match shared.output {
        Output::Json => {
            setup::print(&json!({"event": "index", "reference": pin, "digest": document.digest}).to_string())
        }
        Output::Text => setup::print(&pin),
    }
}

pub(super) async fn doctor(command: &Doctor, shared: &Shared) -> Result<(), PackError> {
    let place = if command.registry.contains('/') {
        command.registry.clone()
    } else {
        format!("{}/plimsoll-doctor", command.registry)
    };
    let target = setup::reference(&place)?;
    let reporter = setup::reporter(shared);
    let report = examine(&setup::client(shared, &target)?, &target).await;
    let kept = match setup::journal(shared, &reporter).filter(|_| report.healthy()) {
        Some(journal) => Some(journal.keep_profile(target.registry(), &report.profile)?),
        None => None,
    };
    match shared.output {
        Output::Json => setup::print(&json!({"event": "doctor", "report": report}).to_string())?,
        Output::Text => setup::print(&report_text(&report))?,
    }
    if let Some(file) = kept {
        setup::say(shared, &format!("kept in {}; pushes from here use it", file.display()));
    }
    if report.healthy() {
        Ok(())
    } else {
        Err(PackError::No(format!("{} is not fit for models", report.registry)))
    }
}

fn report_text(report: &Report) -> String {
    let mut out = format!("{}\n", report.registry);
    for finding in &report.findings {
        let mark = match finding.outcome {
            Outcome::Good => "good",
            Outcome::Missing => "none",
            Outcome::Bad => "BAD",
        };
        let _ = writeln!(out, "  {mark:<5} {:<26} {}", finding.probe, finding.detail);
        if let Some(hint) = &finding.hint {
            let _ = writeln!(out, "        fix: {hint}");
        }
    }
    let profile = &report.profile;
    let mode = match profile.upload {
        registry::UploadMode::Parts => format!("in parts of {}", text::bytes(profile.part_bytes)),
        registry::UploadMode::OnePut => "each blob in one request; a killed push starts the file again".to_owned(),
    };
    let _ = write!(out, "uploads {mode}");
    if let Some(limit) = profile.max_blob_bytes {
        let _ = write!(out, ", blobs up to {}", text::bytes(limit));
    }
    if let Some(limit) = profile.max_layers {
        let _ = write!(out, ", at most {limit} layers");
    }
    out
}
