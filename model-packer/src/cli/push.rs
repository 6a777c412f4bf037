//! `model-packer push`.

use std::sync::Arc;
use std::time::Instant;

use artifact::{Built, Layout, ModelPackage};
use registry::Reference;

use super::arguments::{Output, Push, Shared};
use super::setup;
use crate::attest::attestations;
use crate::error::PackError;
use crate::gather::Gathered;
use crate::journal::{check_place, write_whole};
use crate::prepare::{Layer, prepare_telling};
use crate::push::{Early, PushSettings, PushSummary, check_limits, push_with};
use crate::report::{Event, Reporter};
use crate::text;

pub(super) async fn run(command: &Push, shared: &Shared) -> Result<(), PackError> {
    let started = Instant::now();
    let target = setup::target(&command.target, &command.choice)?;
    // Not after the model has been pushed and tagged.
    command.write_lock.as_deref().map(check_place).transpose()?;
    if target.digest().is_some() {
        return Err(PackError::No("a push goes to a tag: leave the digest out".into()));
    }
    let reporter = setup::reporter(shared);
    let settings = PushSettings {
        client: setup::client(shared, &target)?,
        mount_from: mount_from(command, &target)?,
        target,
        jobs: usize::from(shared.jobs),
        journal: setup::journal(shared, &reporter),
        reporter: Arc::clone(&reporter),
        spool: command.spool.clone(),
        signer: command.sign.as_deref().map(setup::signing_key).transpose()?,
    };
    // A registry that does not answer should be known before a hub is read.
    settings.client.ping(&settings.target).await?;
    let gathered = setup::gather_source(&command.source, &command.choice, shared, &reporter).await?;
    tell_choice(&gathered, &reporter);
    reporter.tell(&Event::Phase {
        what: format!("pushing to {}", settings.target),
    });
    let early = early(command, &gathered, &settings)?;
    let known = |layer: &Layer| early.iter().for_each(|early| early.send(layer));
    let (wishes, options) = (setup::wishes(&command.choice)?, setup::options(&command.choice)?);
    let mut prepared = prepare_telling(&gathered, &wishes, &options, &known).await?;
    setup::hold_to_lock(&command.choice, &mut prepared.package)?;
    let name = format!("{}/{}", settings.target.registry(), settings.target.repository());
    let attach = |built: &Built| {
        Ok(if command.attest {
            attestations(&prepared.package, built, &name)
        } else {
            Vec::new()
        })
    };
    let outcome = push_with(&prepared, &settings, &attach, early).await;
    reporter.close();
    let summary = outcome?;
    if let Some(file) = &command.write_lock {
        let lock = prepared
            .package
            .lock
            .as_ref()
            .map(artifact::SourceLock::to_bytes)
            .unwrap_or_default();
        write_whole(file, &lock)?;
    }
    show(&summary, &prepared.package, shared, started.elapsed())
}

/// Repositories of the target's registry, by their names or as references with the registry in front.
fn mount_from(command: &Push, target: &Reference) -> Result<Vec<String>, PackError> {
    let no = |text: &str| {
        PackError::No(format!(
            "--mount-from {text}: this is no repository of {}; blobs are taken over within a registry only",
            target.registry()
        ))
    };
    let name_of = |text: &String| {
        let own = format!("{}/", target.registry());
        let name = text.strip_prefix(&own).unwrap_or(text);
        // Only the name of a registry has a dot or a port in front of the first slash.
        let of_other = name == text
            && name
                .split_once('/')
                .is_some_and(|(first, _)| first.contains(['.', ':']));
        let parsed = format!("{own}{name}").parse::<Reference>().ok().filter(|_| !of_other);
        parsed
            .map(|parsed| parsed.repository().to_owned())
            .ok_or_else(|| no(text))
    };
    command.mount_from.iter().map(name_of).collect()
}

/// The files of a folder are sent while others are hashed; unless something is to be compared before the first byte leaves.
fn early(command: &Push, gathered: &Gathered, settings: &PushSettings) -> Result<Option<Early>, PackError> {
    let choice = &command.choice;
    let profile = settings.client.profile(&settings.target);
    let limited = profile.max_layers.is_some() || profile.max_blob_bytes.is_some();
    // Which files share a layer, and how large it becomes, is not known before.
    let unknown = limited && setup::options(choice)?.layout == Layout::Tar;
    if gathered.snapshot.hub != "file" || choice.locked.is_some() || choice.facts_only || unknown {
        return Ok(None);
    }
    let taken = &gathered.selection.taken;
    let sizes = taken
        .iter()
        .map(|taken| Ok((taken.path.as_str(), gathered.listed(taken.path.as_str())?.size)))
        .collect::<Result<Vec<_>, PackError>>()?;
    check_limits(sizes.iter().copied(), settings)?;
    let bytes = sizes.iter().map(|(_, size)| size).sum();
    Ok(Some(Early::start(settings, taken.len(), bytes)))
}

fn tell_choice(gathered: &Gathered, reporter: &Reporter) {
    let (taken, left) = (&gathered.selection.taken, &gathered.selection.left);
    let commit = gathered
        .snapshot
        .commit
        .as_ref()
        .map(|commit| format!(" at commit {commit}"))
        .unwrap_or_default();
    reporter.tell(&Event::Phase {
        what: format!(
            "{}{commit}: {} files taken, {} left out",
            gathered.snapshot.name(),
            taken.len(),
            left.len()
        ),
    });
    for file in left {
        reporter.tell(&Event::Detail {
            text: format!("left out {}: {}", file.path, file.reason),
        });
    }
}

fn show(
    summary: &PushSummary,
    package: &ModelPackage,
    shared: &Shared,
    elapsed: std::time::Duration,
) -> Result<(), PackError> {
    if shared.output == Output::Json {
        let mut value = serde_json::to_value(summary).unwrap_or_default();
        value["event"] = "summary".into();
        value["seconds"] = elapsed.as_secs_f64().into();
        return setup::print(&value.to_string());
    }
    let plain = if shared.plain_http { " --plain-http" } else { "" };
    setup::say(shared, &format!("{}{plain}", summary_text(summary, package, elapsed)));
    setup::print(&summary.reference)
}

fn summary_text(summary: &PushSummary, package: &ModelPackage, elapsed: std::time::Duration) -> String {
    let facts = package
        .facts
        .as_ref()
        .map(|facts| format!("{}\n", crate::cli::inspect::facts_line(facts)))
        .unwrap_or_default();
    let absent = if package.weights_absent {
        "weights  not packed (facts only)\n"
    } else {
        ""
    };
    let image = summary
        .image
        .as_ref()
        .map(|image| format!("image    {image} (mountable)\n"))
        .unwrap_or_default();
    let state = if summary.unchanged {
        " (the tag was there already)"
    } else {
        ""
    };
    format!(
        "{facts}{absent}{image}sent     {}, {} there already, {} mounted\ndigest   {}{state}\nnext     model-packer inspect {}",
        sent_text(summary.sent, elapsed),
        text::bytes(summary.present),
        text::bytes(summary.mounted),
        summary.digest,
        summary.reference,
    )
}

fn sent_text(sent: u64, elapsed: std::time::Duration) -> String {
    match sent {
        0 => format!("nothing in {}", text::duration(elapsed)),
        _ => format!(
            "{} in {} ({})",
            text::bytes(sent),
            text::duration(elapsed),
            text::rate(sent, elapsed)
        ),
    }
}
