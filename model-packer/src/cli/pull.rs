//! `model-packer pull`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::arguments::{Output, Pull, Shared};
use super::setup;
use crate::error::PackError;
use crate::packed::read_remote;
use crate::pull::{ENOUGH_RATE, PullSettings, PullSummary, pull};
use crate::report::Event;
use crate::text;

pub(super) async fn run(command: &Pull, shared: &Shared) -> Result<(), PackError> {
    let started = Instant::now();
    let reference = setup::reference(&command.reference)?;
    let reporter = setup::reporter(shared);
    let client = setup::client(shared, &reference)?;
    reporter.tell(&Event::Phase {
        what: format!("reading {reference}"),
    });
    let remote = read_remote(&client, &reference).await?;
    if remote.model.weights_absent {
        let text = "the artifact holds facts and metadata only, no weights".into();
        reporter.tell(&Event::Warning { text });
    }
    let settings = PullSettings {
        client,
        folder: command.folder.clone(),
        jobs: usize::from(shared.jobs),
        enough_rate: ENOUGH_RATE,
        reporter: Arc::clone(&reporter),
    };
    let outcome = pull(&remote, &settings).await;
    reporter.close();
    let summary = outcome?;
    if shared.output == Output::Json {
        let mut value = serde_json::to_value(&summary).unwrap_or_default();
        value["event"] = "summary".into();
        value["digest"] = remote.model.digest.as_str().into();
        setup::print(&value.to_string())?;
        return Ok(());
    }
    setup::say(shared, &line_of(&summary, started.elapsed()));
    setup::print(&command.folder.display().to_string())?;
    Ok(())
}

fn line_of(summary: &PullSummary, elapsed: Duration) -> String {
    let (files, took) = (summary.files, text::duration(elapsed));
    let fetched = match summary.fetched {
        0 => format!("nothing fetched in {took}"),
        bytes => format!(
            "{} fetched in {took} ({})",
            text::bytes(bytes),
            text::rate(bytes, elapsed)
        ),
    };
    format!(
        "{files} files proven: {fetched}, {} there already",
        text::bytes(summary.present)
    )
}
