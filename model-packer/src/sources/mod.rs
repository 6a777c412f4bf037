//! Where weights come from: one small trait, one HTTP client, one way to read a file to its end.

mod address;
mod bodies;
mod cache;
mod certificates;
mod envelope;
mod error;
mod folder;
mod home;
mod http;
mod hugging_face;
mod model_scope;
mod parts;
mod range;
mod reader;
mod refusals;
mod request_number;
mod retry;
mod routes;
mod secret;
mod settings;
mod walk;

use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use artifact::{Digest, SourceLock};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

pub use address::{AddressError, SourceAddress};
pub use cache::CacheSource;
pub(crate) use certificates::TrustedCertificates;
pub use error::SourceError;
pub use folder::FolderSource;
pub use hugging_face::HuggingFace;
pub use model_scope::ModelScope;
pub use reader::{FileReader, read_small};
pub use retry::RetryPolicy;
pub use secret::Secret;
pub use settings::{HubSettings, SettingsError};
pub use walk::UnfitFile;

/// Bytes of a file as they arrive.
pub type ByteStream = BoxStream<'static, Result<Bytes, SourceError>>;

/// What a source says about the content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HubHash {
    /// SHA-256 of the content.
    Sha256(Digest),
    /// Git's object name, 40 hexadecimal digits.
    GitSha1(String),
    /// Nothing.
    Unknown,
}

impl HubHash {
    /// The SHA-256, where the source publishes it.
    pub fn sha256(&self) -> Option<&Digest> {
        match self {
            Self::Sha256(digest) => Some(digest),
            Self::GitSha1(_) | Self::Unknown => None,
        }
    }
}

/// A file of a listing. The path is what the source says, and is not to be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// Path in the repository.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// What the source says about the content.
    pub hash: HubHash,
}

/// A source resolved once: from here on only what is named here is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Scheme: `hf`, `ms`, `file`.
    pub hub: &'static str,
    /// The hub's address; `None` for folders.
    pub endpoint: Option<String>,
    /// Canonical `owner/name`; `None` for folders.
    pub id: Option<String>,
    /// The revision that was asked for.
    pub revision: Option<String>,
    /// The commit that it is.
    pub commit: Option<String>,
    /// The files, sorted by path.
    pub files: Vec<ListedFile>,
    /// Those of them that cannot be packed: links that lead out, pipes. Only folders have such.
    pub unfit: Vec<UnfitFile>,
}

impl Snapshot {
    /// A lock without files.
    pub fn lock(&self) -> SourceLock {
        let Self {
            hub,
            endpoint,
            id,
            revision,
            commit,
            files: _,
            unfit: _,
        } = self.clone();
        SourceLock {
            endpoint,
            id,
            revision,
            commit,
            ..SourceLock::new(hub)
        }
    }

    /// How the source is called in messages.
    pub fn name(&self) -> String {
        match &self.id {
            Some(id) => format!("{}://{id}", self.hub),
            None => "the folder".to_owned(),
        }
    }

    /// The file with this path.
    pub fn file(&self, path: &str) -> Option<&ListedFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Refuses a path of the listing that cannot be packed.
    pub fn refuse_unfit(&self, path: &str) -> Result<(), SourceError> {
        match self.unfit.iter().find(|file| file.path == path) {
            None => Ok(()),
            Some(file) => Err(SourceError::Unfit {
                path: file.place.clone(),
                problem: file.problem,
            }),
        }
    }
}

/// A place that models come from.
pub trait ModelSource: Send + Sync {
    /// Resolves the revision and lists the files, completely or not at all.
    fn snapshot(&self) -> BoxFuture<'_, Result<Snapshot, SourceError>>;

    /// Opens a part of a file, at the commit of the snapshot. One attempt; [`FileReader`] goes on where it broke.
    fn open<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        file: &'a ListedFile,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<ByteStream, SourceError>>;

    /// Whether an answer was the whole file although a part of it was asked for.
    fn ignores_ranges(&self) -> bool {
        false
    }

    /// How often and how patiently a broken stream is taken up again.
    fn retry_policy(&self) -> RetryPolicy;
}

/// The source that an address names. Where the user switched the network off, a hub's repository is looked for in its cache.
pub fn connect(address: &SourceAddress, settings: &HubSettings) -> Result<Arc<dyn ModelSource>, SourceError> {
    match address {
        SourceAddress::HuggingFace { id, revision } => {
            let Some(variable) = &settings.offline else {
                return Ok(Arc::new(HuggingFace::new(id.clone(), revision.clone(), settings)?));
            };
            let revision = revision.as_deref().unwrap_or("main");
            let found = match &settings.cache {
                Some(cache) => CacheSource::find(cache, id, revision),
                None => Err("neither HF_HUB_CACHE nor HOME names a cache".into()),
            };
            match found {
                Ok(cache) => Ok(Arc::new(cache)),
                Err(missing) => Err(SourceError::Offline {
                    variable: variable.clone(),
                    hub: "Hugging Face",
                    missing: Some(missing),
                }),
            }
        }
        SourceAddress::ModelScope { id, revision } => {
            Ok(Arc::new(ModelScope::new(id.clone(), revision.clone(), settings)?))
        }
        // Said before anything else, because it may be no path that was meant.
        SourceAddress::Path(path) if is_missing(path) => Err(SourceError::Missing { path: path.clone() }),
        SourceAddress::Path(path) => match CacheSource::recognise(path)? {
            Some(cache) => Ok(Arc::new(cache)),
            None => Ok(Arc::new(FolderSource::new(path.clone())?)),
        },
    }
}

fn is_missing(path: &Path) -> bool {
    let kind = path.symlink_metadata().map_err(|error| error.kind());
    matches!(kind, Err(ErrorKind::NotFound | ErrorKind::NotADirectory))
}
