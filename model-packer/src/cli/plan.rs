//! `model-packer plan`.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::json;

use super::arguments::{Output, Plan, Shared};
use super::setup;
use crate::error::PackError;
use crate::gather::Gathered;
use crate::prepare::prepare;
use crate::push::{PlannedBlob, PushSettings, bytes_to_send, plan};
use crate::text;

pub(super) async fn run(command: &Plan, shared: &Shared) -> Result<(), PackError> {
    let target = command
        .target
        .as_deref()
        .map(|text| setup::target(text, &command.choice))
        .transpose()?;
    let reporter = setup::reporter(shared);
    let gathered = setup::gather_source(&command.source, &command.choice, shared, &reporter).await?;
    if !command.choice.facts_only {
        gathered.require_weights()?;
    }
    let planned = match target {
        None => {
            setup::refuse_changed(&command.choice, &gathered).await?;
            Vec::new()
        }
        Some(target) => {
            let settings = PushSettings {
                client: setup::client(shared, &target)?,
                target,
                jobs: usize::from(shared.jobs),
                mount_from: Vec::new(),
                journal: setup::journal(shared, &reporter),
                reporter: Arc::clone(&reporter),
                spool: None,
                signer: None,
            };
            let mut prepared = prepare(
                &gathered,
                &setup::wishes(&command.choice)?,
                &setup::options(&command.choice)?,
            )
            .await?;
            setup::hold_to_lock(&command.choice, &mut prepared.package)?;
            plan(&prepared, &settings).await?
        }
    };
    reporter.close();
    if shared.output == Output::Json {
        let value = json!({
            "event": "plan", "source": gathered.snapshot.name(), "commit": gathered.snapshot.commit,
            "facts": gathered.facts, "selection": gathered.selection, "blobs": planned, "bytesToSend": bytes_to_send(&planned),
        });
        setup::print(&value.to_string())?;
    } else {
        setup::print(&plan_text(&gathered, &planned)?)?;
    }
    Ok(())
}

fn plan_text(gathered: &Gathered, planned: &[PlannedBlob]) -> Result<String, PackError> {
    let mut out = String::new();
    if let Some(facts) = &gathered.facts {
        let _ = writeln!(out, "{}", super::inspect::facts_line(facts));
    }
    let _ = writeln!(out, "taken");
    for taken in &gathered.selection.taken {
        let size = gathered.listed(taken.path.as_str())?.size;
        let blob = planned.iter().find(|blob| blob.path == taken.path.as_str());
        let place = match blob {
            Some(blob) if blob.present => "there already",
            Some(blob) if !blob.mountable_from.is_empty() => "may be mounted",
            Some(_) => "to send",
            None => "",
        };
        let _ = writeln!(
            out,
            "  {:<52} {:>10}  {:<14} {}",
            taken.path.as_str(),
            text::bytes(size),
            place,
            taken.rule
        );
    }
    if !gathered.selection.left.is_empty() {
        let _ = writeln!(out, "left out");
        for left in &gathered.selection.left {
            let _ = writeln!(
                out,
                "  {:<52} {:>10}  {}",
                left.path,
                text::bytes(left.size),
                left.reason
            );
        }
    }
    if !planned.is_empty() {
        let present: u64 = planned.iter().filter(|blob| blob.present).map(|blob| blob.size).sum();
        let _ = writeln!(
            out,
            "to send {}, there already {}",
            text::bytes(bytes_to_send(planned)),
            text::bytes(present)
        );
    }
    Ok(out.trim_end().to_owned())
}
