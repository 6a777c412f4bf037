//! From arguments and environment to clients, settings and a reporter.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use artifact::{Layout, ModelPackage, SourceLock};
use registry::{Client, ClientConfig, Credentials, Profiles, Reference, WaitObserver};

use super::arguments::{Choice, LayoutName, Output, Shared};
use crate::error::PackError;
use crate::gather::{Gathered, gather};
use crate::journal::Journal;
use crate::prepare::PackOptions;
use crate::report::{Bars, Event, JsonLines, Lines, Reporter, Silence};
use crate::selection::{Format, Patterns, Wishes};
use crate::signing::SigningKey;
use crate::sources::{HubSettings, SourceAddress, TrustedCertificates, connect};

/// A variable of the environment.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The one of this program: two would draw over each other's bars.
pub(super) fn reporter(shared: &Shared) -> Reporter {
    static REPORTER: OnceLock<Reporter> = OnceLock::new();
    let new = || -> Reporter {
        match shared.output {
            Output::Json => Arc::new(JsonLines),
            Output::Text if shared.quiet => Arc::new(Silence),
            Output::Text if std::io::stderr().is_terminal() => Arc::new(Bars::new(shared.verbose > 0)),
            Output::Text => Arc::new(Lines::new(shared.verbose > 0)),
        }
    };
    Arc::clone(REPORTER.get_or_init(new))
}

/// A shorter wait is not worth a line.
const TOLD_WAIT: Duration = Duration::from_secs(3);

/// Says why nothing happens. In JSON that is talk too: standard output may be one document.
fn wait_observer(shared: &Shared) -> WaitObserver {
    let (reporter, talks) = (reporter(shared), shared.output == Output::Text);
    WaitObserver::new(move |cause, wait| {
        let text = format!("{cause}; going on after {} s", wait.as_secs());
        match (talks, wait >= TOLD_WAIT) {
            (true, true) => reporter.tell(&Event::Warning { text }),
            (true, false) => reporter.tell(&Event::Detail { text }),
            (false, true) => talk(&format!("warning: {text}")),
            (false, false) => {}
        }
    })
}

pub(super) fn hub_settings(shared: &Shared) -> Result<HubSettings, PackError> {
    let mut settings = HubSettings::from_environment(&variable)?;
    if let Some(endpoint) = &shared.hf_endpoint {
        settings = settings.with_hugging_face(endpoint)?;
    }
    if let Some(endpoint) = &shared.ms_endpoint {
        settings = settings.with_model_scope(endpoint)?;
    }
    if let Some(file) = &shared.ca_file {
        settings = settings.with_certificates(file.clone());
    }
    Ok(settings)
}

pub(super) fn reference(text: &str) -> Result<Reference, PackError> {
    Ok(text.parse::<Reference>()?)
}

/// The target of a choice. `--locked FILE` would take the source or the target for its file, so that it needs an equals sign; who
/// leaves it out has named the lock as the target.
pub(super) fn target(text: &str, choice: &Choice) -> Result<Reference, PackError> {
    if choice.locked.is_some() && Path::new(text).is_file() {
        return Err(PackError::FileAsTarget(text.to_owned()));
    }
    reference(text)
}

pub(super) fn client(shared: &Shared, reference: &Reference) -> Result<Client, PackError> {
    client_for(shared, &[reference])
}

/// A client for the registries of these references, with what `doctor` has measured.
pub(super) fn client_for(shared: &Shared, references: &[&Reference]) -> Result<Client, PackError> {
    let hosts = references.iter().map(|reference| reference.registry().to_owned());
    let state = shared
        .state
        .clone()
        .or_else(|| Journal::default_folder(&variable))
        .filter(|folder| folder.is_dir());
    let measured = state
        .and_then(|folder| Journal::open(&folder).ok())
        .map(|journal| journal.profiles())
        .unwrap_or_default();
    let trusted = shared.ca_file.clone().map(TrustedCertificates::of_flag);
    let trusted = trusted.or_else(|| TrustedCertificates::from_environment(&variable));
    let extra_roots = trusted.map(|trusted| trusted.pem_files()).transpose()?;
    Ok(Client::new(ClientConfig {
        plain_http: if shared.plain_http { hosts.collect() } else { Vec::new() },
        profiles: measured.into_iter().fold(Profiles::default(), Profiles::with),
        credentials: Credentials::from_environment(),
        user_agent: concat!("plimsoll-model-packer/", env!("CARGO_PKG_VERSION")).to_owned(),
        extra_roots: extra_roots.unwrap_or_default(),
        on_wait: wait_observer(shared),
        ..ClientConfig::default()
    })?)
}

/// No place to keep it is no reason to stop, but worth saying.
pub(super) fn journal(shared: &Shared, reporter: &Reporter) -> Option<Arc<Journal>> {
    let folder = shared.state.clone().or_else(|| Journal::default_folder(&variable));
    let opened = folder.map(|folder| Journal::open(&folder));
    let problem = match opened {
        Some(Ok(journal)) => return Some(Arc::new(journal)),
        Some(Err(error)) => format!("{error}"),
        None => "neither --state nor HOME is set".into(),
    };
    reporter.tell(&Event::Warning {
        text: format!("a killed push cannot be resumed: {problem}"),
    });
    None
}

/// What the flags wish for; a lock also holds what was wished for when it was written, which counts where there are no flags.
pub(super) fn wishes(choice: &Choice) -> Result<Wishes, PackError> {
    let own = own_wishes(choice)?;
    match choice.locked.as_deref().map(read_lock).transpose()? {
        Some(lock) if own.to_options().is_empty() => Ok(Wishes::from_options(&lock.options)?),
        _ => Ok(own),
    }
}

fn own_wishes(choice: &Choice) -> Result<Wishes, PackError> {
    Ok(Wishes {
        include: Patterns::new(&choice.include)?,
        exclude: Patterns::new(&choice.exclude)?,
        quant: choice.quant.clone(),
        variant: choice.variant.clone(),
        format: choice.format.as_deref().and_then(Format::from_word),
        allow_remote_code: choice.allow_remote_code,
    })
}

pub(super) fn options(choice: &Choice) -> Result<PackOptions, PackError> {
    let created = variable("SOURCE_DATE_EPOCH")
        .map(|text| text.trim().parse::<i64>())
        .transpose();
    let created =
        created.map_err(|error| PackError::No(format!("SOURCE_DATE_EPOCH is no number of seconds: {error}")))?;
    Ok(PackOptions {
        layout: match choice.layout {
            LayoutName::Raw => Layout::Raw,
            LayoutName::Tar => Layout::Tar,
        },
        facts_only: choice.facts_only,
        require_hash: choice.require_hash,
        created,
        omit_artifact_type: choice.omit_artifact_type,
        pieces: choice.pieces,
    })
}

/// Lists, chooses and derives; with a lock, refuses what moved before anything else is done.
pub(super) async fn gather_source(
    source: &str,
    choice: &Choice,
    shared: &Shared,
    reporter: &Reporter,
) -> Result<Gathered, PackError> {
    let mut address: SourceAddress = source.parse()?;
    let lock = choice.locked.as_deref().map(read_lock).transpose()?;
    if let Some(lock) = &lock {
        pin(&mut address, lock);
    }
    reporter.tell(&Event::Phase {
        what: format!("reading {address}"),
    });
    let settings = hub_settings(shared)?;
    warn_of(&settings, &address, reporter);
    let gathered = gather(connect(&address, &settings)?, &wishes(choice)?).await?;
    if let Some(lock) = &lock {
        refuse(crate::lock::moved(lock, &gathered))?;
    }
    for text in &gathered.selection.warnings {
        reporter.tell(&Event::Warning { text: text.clone() });
    }
    Ok(gathered)
}

pub(super) fn warn_of(settings: &HubSettings, address: &SourceAddress, reporter: &Reporter) {
    if let Some(text) = settings.warning(address) {
        reporter.tell(&crate::report::Event::Warning { text });
    }
}

/// Refuses content that is not the locked one where nothing is packed, which would show it.
pub(super) async fn refuse_changed(choice: &Choice, gathered: &Gathered) -> Result<(), PackError> {
    let Some(lock) = choice.locked.as_deref().map(read_lock).transpose()? else {
        return Ok(());
    };
    refuse(crate::lock::changed_unseen(&lock, gathered).await?)
}

fn refuse(differences: Vec<String>) -> Result<(), PackError> {
    if differences.is_empty() {
        Ok(())
    } else {
        Err(PackError::Moved(differences))
    }
}

/// Holds the package to the lock: files of a folder, which only packing could hash, must be those of it. Where the source was
/// asked, and by which name of the commit, is taken over, because the same lock gives the same digest.
pub(super) fn hold_to_lock(choice: &Choice, package: &mut ModelPackage) -> Result<(), PackError> {
    let Some(lock) = choice.locked.as_deref().map(read_lock).transpose()? else {
        return Ok(());
    };
    refuse(crate::lock::changed(&lock, &package.files))?;
    if let Some(own) = &mut package.lock {
        own.endpoint = lock.endpoint;
        own.revision = lock.revision;
        own.commit = lock.commit;
    }
    Ok(())
}

/// Where the user named no revision, the locked commit is asked for, or the locked revision where the hub knows no commits. A
/// lock of another hub has nothing to say about it.
fn pin(address: &mut SourceAddress, lock: &SourceLock) {
    let (revision, locked) = match (address, lock.hub.as_str()) {
        (SourceAddress::HuggingFace { revision, .. }, "hf") => (revision, &lock.commit),
        (SourceAddress::ModelScope { revision, .. }, "ms") => (revision, &lock.revision),
        _ => return,
    };
    if revision.is_none() {
        revision.clone_from(locked);
    }
}

fn read_lock(file: &Path) -> Result<SourceLock, PackError> {
    let bytes = read(file)?;
    SourceLock::from_bytes(&bytes).map_err(|source| PackError::Lock {
        place: file.display().to_string(),
        source,
    })
}

pub(super) fn read(file: &Path) -> Result<Vec<u8>, PackError> {
    std::fs::read(file).map_err(|source| PackError::File {
        step: "read",
        path: file.to_owned(),
        source,
    })
}

/// The password comes from the variable that cosign reads it from, never from an argument.
pub(super) fn signing_key(file: &Path) -> Result<Arc<SigningKey>, PackError> {
    let password = variable("COSIGN_PASSWORD").unwrap_or_default();
    Ok(Arc::new(SigningKey::read(file, &password)?))
}

/// Data for whoever reads stdout. A reader that went away wants no more; a full disk is told.
pub(super) fn print(text: &str) -> Result<(), PackError> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(source) if source.kind() != std::io::ErrorKind::BrokenPipe => Err(PackError::File {
            step: "write to",
            path: "standard output".into(),
            source,
        }),
        _ => Ok(()),
    }
}

/// Text for people, on stderr. Talk that cannot be heard is no reason to stop.
pub(super) fn talk(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Something that failed and ends nothing.
pub(super) fn warn(error: &PackError) {
    talk(&format!("warning: {}", super::text_of(error)));
}

/// Talk.
pub(super) fn say(shared: &Shared, text: &str) {
    if !shared.quiet {
        talk(text);
    }
}
