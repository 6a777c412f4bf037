//! `model-packer verify`.

use serde_json::json;

use super::arguments::{Output, Shared, Verify};
use super::setup;
use crate::error::PackError;
use crate::gather::gather;
use crate::packed::{Remote, derive_again, read_lock, read_remote};
use crate::report::Event;
use crate::selection::Wishes;
use crate::signing::{VerifyingKey, is_signed};
use crate::sources::{SourceAddress, connect};
use artifact::SourceLock;
use registry::Client;

pub(super) async fn run(command: &Verify, shared: &Shared) -> Result<(), PackError> {
    let reference = setup::reference(&command.reference)?;
    let client = setup::client(shared, &reference)?;
    let remote = read_remote(&client, &reference).await?;
    check_signature(command, shared, &client, &remote).await?;
    if command.signature_only {
        let (reference, digest) = (remote.reference.to_string(), &remote.model.digest);
        return match shared.output {
            Output::Json => {
                setup::print(&json!({"event": "signed", "reference": reference, "digest": digest}).to_string())
            }
            Output::Text => setup::print(&reference),
        };
    }
    let lock = read_lock(&client, &remote).await?;
    let lock = lock.ok_or_else(|| {
        PackError::No(format!(
            "{reference} holds no source.lock: it was packed by another tool"
        ))
    })?;
    let address = address_of(command, &lock)?;
    let mut settings = setup::hub_settings(shared)?;
    // The hub that the lock names, unless the user names another.
    if let (Some(endpoint), None, "hf") = (&lock.endpoint, &shared.hf_endpoint, lock.hub.as_str()) {
        settings = settings.with_hugging_face(endpoint)?;
    }
    if let (Some(endpoint), None, "ms") = (&lock.endpoint, &shared.ms_endpoint, lock.hub.as_str()) {
        settings = settings.with_model_scope(endpoint)?;
    }
    let reporter = setup::reporter(shared);
    reporter.tell(&Event::Phase {
        what: format!("reading {address}"),
    });
    setup::warn_of(&settings, &address, &reporter);
    let gathered = gather(connect(&address, &settings)?, &Wishes::from_options(&lock.options)?).await?;
    let differences = derive_again(&client, &gathered, &remote, &lock).await?;
    reporter.close();
    if shared.output == Output::Json {
        let digest = &remote.model.digest;
        setup::print(
            &json!({"event": "verified", "digest": digest, "same": differences.is_empty(), "differences": differences})
                .to_string(),
        )?;
    }
    if differences.is_empty() {
        if shared.output == Output::Text {
            setup::print(&format!("{} is what {address} gives", remote.reference))?;
        }
        return Ok(());
    }
    Err(PackError::No(format!(
        "{} is not what {address} gives: {}",
        remote.reference,
        differences.join("; ")
    )))
}

async fn check_signature(command: &Verify, shared: &Shared, client: &Client, remote: &Remote) -> Result<(), PackError> {
    let Some(file) = &command.key else { return Ok(()) };
    let key = VerifyingKey::read(file)?;
    if is_signed(client, &remote.reference, &remote.model.digest, &key).await? {
        setup::say(shared, &format!("signed with the private half of {}", file.display()));
        return Ok(());
    }
    Err(PackError::No(format!(
        "{} has no signature of {}",
        remote.reference,
        file.display()
    )))
}

fn address_of(command: &Verify, lock: &SourceLock) -> Result<SourceAddress, PackError> {
    if let Some(source) = &command.source {
        return Ok(source.parse()?);
    }
    let source = lock
        .source()
        .ok_or_else(|| PackError::No("the artifact was packed from a folder: name it with --source".into()))?;
    let pinned = match (lock.hub.as_str(), &lock.commit, &lock.revision) {
        ("hf", Some(commit), _) => format!("{source}@{commit}"),
        (_, _, Some(revision)) => format!("{source}@{revision}"),
        _ => source,
    };
    Ok(pinned.parse()?)
}
