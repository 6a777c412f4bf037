//! From a registry to a folder: parallel ranges, one hash in order, a name only for what is proven.

mod claim;
mod fetch;
mod folder;
mod parts;
mod pieces;
mod place;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use artifact::{Encoding, FileKind, FilePath, PackedFile, PieceMap};
use registry::Client;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use fetch::Fetch;
use folder::TargetFolder;
use pieces::LocalPieces;

use crate::buffers::{PART, PARTS_IN_MEMORY};
use crate::error::PackError;
use crate::packed::{Remote, content_of, size_of};
use crate::report::{Arrival, Event, Reporter};

/// What a pull itself writes into the folder begins like this, and no file of a model does.
pub(crate) const OWN_NAMES: &str = ".plimsoll-";
/// Unfinished files; the name says whose they are.
const PARTIAL: &str = ".plimsoll-partial";

/// A larger piece map is none: the largest model makes a few megabytes.
const PIECE_MAP_LIMIT: usize = 256 << 20;
/// How the names of weights end that engines look for in a folder.
const WEIGHT_ENDS: [&str; 2] = [".safetensors", ".gguf"];

/// About half of what one core hashes; above that more connections for a file bring little, and registries read ahead for each
/// range.
pub const ENOUGH_RATE: u64 = 400 << 20;

/// How to pull.
#[derive(Clone)]
pub struct PullSettings {
    /// The registry client.
    pub client: Client,
    /// The folder.
    pub folder: PathBuf,
    /// Files at the same time.
    pub jobs: usize,
    /// Bytes per second of one connection at which a large file needs no other: see [`ENOUGH_RATE`].
    pub enough_rate: u64,
    /// Who is told.
    pub reporter: Reporter,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PullSummary {
    /// Files of the model.
    pub files: usize,
    /// Bytes that came over the network.
    pub fetched: u64,
    /// Bytes that were there and right.
    pub present: u64,
}

/// Brings all files of the model into the folder.
pub async fn pull(remote: &Remote, settings: &PullSettings) -> Result<PullSummary, PackError> {
    let files = &remote.model.files;
    if let Some(file) = files.iter().find(|file| is_opaque(file)) {
        return Err(PackError::No(format!(
            "{} lies in a layer of type {}, which is not unpacked here; use the tool that packed it (oras, modctl)",
            file.path, file.media_type
        )));
    }
    if let Some(file) = files.iter().find(|file| has_own_name(&file.path)) {
        return Err(PackError::No(format!(
            "{} has a name that only this program writes into a folder",
            file.path
        )));
    }
    let folder = TargetFolder::take(&settings.folder, &remote.model.digest)?;
    let bytes = files.iter().map(size_of).sum();
    settings.reporter.tell(&Event::Planned {
        files: files.len(),
        bytes,
    });
    let budget = Arc::new(Semaphore::new(PARTS_IN_MEMORY));
    let map = read_map(remote, settings).await?;
    let local = match &map {
        Some(_) => find_local(remote, settings, &folder).await?,
        None => Arc::default(),
    };
    let mut order: Vec<&PackedFile> = files.iter().collect();
    order.sort_by_key(|file| std::cmp::Reverse(size_of(file)));
    // As many large files as there are jobs keep as many connections busy, and a request for each part is work for the registry.
    let large = order.iter().filter(|file| size_of(file) > PART as u64).count();
    let tasks = order.into_iter().map(|file| Fetch {
        settings: settings.clone(),
        reference: remote.reference.clone(),
        file: file.clone(),
        budget: Arc::clone(&budget),
        map: map.as_ref().and_then(|map| map.file(content_of(file)).cloned()),
        local: Arc::clone(&local),
        in_one: large >= settings.jobs,
        whole_came: AtomicBool::new(false),
    });
    let arrivals = run_all(tasks, settings.jobs).await?;
    folder.mark()?;
    tell_strangers(remote, settings);
    let mut summary = PullSummary {
        files: files.len(),
        ..PullSummary::default()
    };
    for (size, arrival) in arrivals {
        match arrival {
            Arrival::Fetched(bytes) => summary.fetched += bytes,
            _ => summary.present += size,
        }
    }
    Ok(summary)
}

/// Each file is a task of its own, so many at a time; all end with the first that fails.
async fn run_all(tasks: impl Iterator<Item = Fetch>, jobs: usize) -> Result<Vec<(u64, Arrival)>, PackError> {
    let (mut running, mut arrivals) = (JoinSet::new(), Vec::new());
    for fetch in tasks {
        if running.len() >= jobs.max(1) {
            arrivals.extend(next_of(&mut running).await?);
        }
        running.spawn(Arc::new(fetch).run());
    }
    while let Some(arrival) = next_of(&mut running).await? {
        arrivals.push(arrival);
    }
    Ok(arrivals)
}

async fn next_of(
    running: &mut JoinSet<Result<(u64, Arrival), PackError>>,
) -> Result<Option<(u64, Arrival)>, PackError> {
    running.join_next().await.transpose()?.transpose()
}

/// The piece map that the manifest names, proven by its digest. A model without one is pulled as a whole.
async fn read_map(remote: &Remote, settings: &PullSettings) -> Result<Option<PieceMap>, PackError> {
    let Some(digest) = &remote.model.pieces else {
        return Ok(None);
    };
    match settings
        .client
        .get_blob(&remote.reference, digest.as_str(), PIECE_MAP_LIMIT)
        .await
    {
        Ok(bytes) => PieceMap::from_bytes(&bytes)
            .map(Some)
            .map_err(|error| PackError::No(error.to_string())),
        Err(error) if error.is_not_found() => {
            let text = "the piece map is gone from the registry; files are pulled as a whole".to_owned();
            settings.reporter.tell(&Event::Warning { text });
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// What the folder holds of other versions, for files that are not right yet.
async fn find_local(
    remote: &Remote,
    settings: &PullSettings,
    folder: &TargetFolder,
) -> Result<Arc<LocalPieces>, PackError> {
    let weights = remote.model.files.iter().filter(|file| file.kind == FileKind::Weight);
    let mut places: Vec<PathBuf> = weights.map(|file| settings.folder.join(file.path.as_str())).collect();
    let others = std::fs::read_dir(&settings.folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|item| item.path());
    places.extend(others.filter(|path| path.extension().is_some_and(|extension| extension == "safetensors")));
    places.sort();
    places.dedup();
    places.retain(|path| std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()));
    if everything_is_there(remote, settings, folder, &places) {
        return Ok(Arc::default());
    }
    let found = tokio::task::spawn_blocking(move || LocalPieces::find(places)).await?;
    Ok(Arc::new(found))
}

/// By size alone: whether it is worth looking for pieces at all.
fn everything_is_there(remote: &Remote, settings: &PullSettings, folder: &TargetFolder, places: &[PathBuf]) -> bool {
    let there = |file: &PackedFile| {
        let place = settings.folder.join(file.path.as_str());
        std::fs::metadata(place).is_ok_and(|metadata| metadata.len() == size_of(file))
    };
    places.is_empty() || (remote.model.files.iter().all(there) && folder.is_marked())
}

/// Weights of another model beside those of this one: what serves a folder may read both.
fn tell_strangers(remote: &Remote, settings: &PullSettings) {
    let entries = std::fs::read_dir(&settings.folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut strangers: Vec<String> = names
        .filter(|name| WEIGHT_ENDS.iter().any(|end| name.ends_with(end)) && remote.model.file(name).is_none())
        .collect();
    strangers.sort();
    if !strangers.is_empty() {
        let text = format!(
            "{} holds weights that are not of this model: {}; remove them before the folder is served",
            settings.folder.display(),
            strangers.join(", ")
        );
        settings.reporter.tell(&Event::Warning { text });
    }
}

fn has_own_name(path: &FilePath) -> bool {
    path.as_str().to_ascii_lowercase().starts_with(OWN_NAMES)
}

/// A tar without a recorded payload, or something compressed.
fn is_opaque(file: &PackedFile) -> bool {
    file.encoding == Encoding::Compressed || (file.encoding == Encoding::Tar && file.payload.is_none())
}
