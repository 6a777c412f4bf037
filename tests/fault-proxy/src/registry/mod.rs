//! An in-process registry for tests: the distribution specification over memory, with logins that expire, a storage host behind
//! redirects, and scripted faults.

mod auth;
mod crowd;
mod manifests;
mod reply;
mod routes;
mod store;
mod uploads;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use tokio::net::TcpListener;

pub use auth::Auth;
pub use store::sha256;

use crate::fault::{FaultRule, FaultScript};
use crate::server::{Server, serve};
use auth::Tokens;
use crowd::Crowd;
use store::Store;

/// How the registry behaves.
#[derive(Debug)]
pub struct RegistryConfig {
    /// Who may do what.
    pub auth: Auth,
    /// Blobs are answered with a redirect to another host, which must never see a login.
    pub redirect_blobs: bool,
    /// A mount is carried out; otherwise it is answered with an upload session (202).
    pub mounts: bool,
    /// Larger request bodies are refused with 413.
    pub max_body: Option<u64>,
    /// Announced as the smallest part.
    pub min_part: Option<u64>,
    /// Whether `/referrers/` is answered.
    pub referrers: bool,
    /// Life of a token.
    pub token_life: Duration,
    /// Time before each answer, so that requests meet.
    pub latency: Duration,
    /// What goes wrong.
    pub script: FaultScript,
}

impl Default for RegistryConfig {
    fn default() -> Self {
        Self {
            auth: Auth::Open,
            redirect_blobs: false,
            mounts: true,
            max_body: None,
            min_part: None,
            referrers: true,
            token_life: Duration::from_mins(5),
            latency: Duration::ZERO,
            script: FaultScript::default(),
        }
    }
}

/// A request as the registry saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// `Range` or `Content-Range` of the request.
    pub range: Option<String>,
    /// `Authorization` of the request.
    pub authorization: Option<String>,
}

/// A running registry, stopped when it is dropped.
#[derive(Debug)]
pub struct FakeRegistry {
    server: Server,
    storage: Server,
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: RegistryConfig,
    pub(crate) store: Mutex<Store>,
    pub(crate) tokens: Tokens,
    recorded: Mutex<Vec<Recorded>>,
    leaks: Mutex<u32>,
    crowd: Crowd,
    pub(crate) storage_address: SocketAddr,
}

impl FakeRegistry {
    /// An open registry without faults on a free port of loopback.
    pub async fn open() -> std::io::Result<Self> {
        Self::start(RegistryConfig::default()).await
    }

    /// A registry on a free port of loopback.
    pub async fn start(config: RegistryConfig) -> std::io::Result<Self> {
        let storage_listener = TcpListener::bind("127.0.0.1:0").await?;
        let shared = Arc::new(Shared {
            config,
            store: Mutex::default(),
            tokens: Tokens::default(),
            recorded: Mutex::default(),
            leaks: Mutex::default(),
            crowd: Crowd::default(),
            storage_address: storage_listener.local_addr()?,
        });
        let for_storage = shared.clone();
        let storage = serve(storage_listener, move |request| {
            let shared = for_storage.clone();
            async move { Ok(routes::storage(&shared, &request)) }
        })?;
        let for_registry = shared.clone();
        let server = serve(TcpListener::bind("127.0.0.1:0").await?, move |request| {
            let shared = for_registry.clone();
            async move {
                let _present = shared.crowd.enter(request.method().as_str());
                tokio::time::sleep(shared.config.latency).await;
                routes::answer(&shared, request).await
            }
        })?;
        Ok(Self {
            server,
            storage,
            shared,
        })
    }

    /// `127.0.0.1:PORT`, as the host of references.
    pub fn host(&self) -> String {
        self.server.address.to_string()
    }

    /// Host of the storage that redirected blobs come from.
    pub fn storage_host(&self) -> String {
        self.storage.address.to_string()
    }

    /// Adds a fault.
    pub fn inject(&self, rule: FaultRule) {
        self.shared.config.script.push(rule);
    }

    /// All tokens handed out so far are refused from now on.
    pub fn expire_tokens(&self) {
        self.shared.tokens.expire();
    }

    /// How many tokens were handed out.
    pub fn tokens_issued(&self) -> u32 {
        self.shared.tokens.issued()
    }

    /// Puts a blob into a repository and returns its digest.
    pub fn add_blob(&self, repository: &str, bytes: impl Into<Bytes>) -> String {
        self.shared.store().add_blob(repository, bytes.into())
    }

    /// Puts a manifest under a tag, without looking at what it names, and returns its digest.
    pub fn add_manifest(&self, repository: &str, tag: &str, media_type: &str, bytes: impl Into<Bytes>) -> String {
        self.shared
            .store()
            .add_manifest(repository, Some(tag), media_type, bytes.into())
    }

    /// A blob of a repository.
    pub fn blob(&self, repository: &str, digest: &str) -> Option<Bytes> {
        self.shared.store().blob(repository, digest)
    }

    /// Digest and bytes of the manifest under a tag.
    pub fn manifest(&self, repository: &str, tag: &str) -> Option<(String, Bytes)> {
        let store = self.shared.store();
        store
            .manifest(repository, tag)
            .map(|(digest, manifest)| (digest, manifest.bytes.clone()))
    }

    /// Upload sessions that are neither finished nor closed.
    pub fn open_uploads(&self) -> usize {
        self.shared.store().uploads.len()
    }

    /// Forgets all upload sessions, as a restart of a registry does.
    pub fn forget_uploads(&self) {
        self.shared.store().uploads.clear();
    }

    /// The requests so far.
    pub fn recorded(&self) -> Vec<Recorded> {
        self.shared
            .recorded
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Requests of this method whose path contains this text.
    pub fn count(&self, method: &str, path: &str) -> usize {
        self.recorded()
            .iter()
            .filter(|request| request.method == method && request.path.contains(path))
            .count()
    }

    /// The most requests of this method that were there at the same time.
    pub fn busiest(&self, method: &str) -> usize {
        self.shared.crowd.busiest(method)
    }

    /// Bytes of blob uploads received so far, repeats included.
    pub fn received_bytes(&self) -> u64 {
        self.shared.store().received
    }

    /// How often the storage host saw a login.
    pub fn leaks(&self) -> u32 {
        *self.shared.leaks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, request: &http::request::Parts) {
        let text = |name: http::HeaderName| {
            request
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned)
        };
        let recorded = Recorded {
            method: request.method.to_string(),
            path: request
                .uri
                .path_and_query()
                .map_or_else(String::new, ToString::to_string),
            range: text(http::header::RANGE).or_else(|| text(http::header::CONTENT_RANGE)),
            authorization: text(AUTHORIZATION),
        };
        self.recorded
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(recorded);
    }

    fn leak(&self) {
        *self.leaks.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }
}
