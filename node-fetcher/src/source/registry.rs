//! The registry itself: the last source, and the only one that says what exists and who may have it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::registry::{
    BlobStream, Client, ClientConfig, Credentials, Endpoint, Error, ErrorKind, Limits, Reference, Retry, Secret,
};
use artifact::Digest;
use crds::node_weights::{FetchReason, SourceKind};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};

use super::{BlobRequest, Body, Source, SourceError};

/// Tries for the small answers that everything starts with: manifests and permissions.
const TRIES: u32 = 4;
/// A registry that wants more patience gets it from the next attempt, not from this call.
const PATIENCE: Duration = Duration::from_secs(10);
/// Distinct credentials whose connections and tokens are kept.
const POOL: usize = 64;

/// How registries are reached.
#[derive(Debug, Clone, Default)]
pub struct RegistrySettings {
    /// Hosts that speak plain http.
    pub plain_http: Vec<String>,
    /// Certificates of private authorities, PEM.
    pub extra_roots: Vec<Vec<u8>>,
}

impl RegistrySettings {
    /// Whether this host (with or without its port) speaks plain http.
    pub fn is_plain(&self, host: &str) -> bool {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        self.plain_http.iter().any(|plain| plain == host || plain == name)
    }
}

/// The right of one tenant to ask registries. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct Access {
    client: Client,
    identity: Digest,
}

impl Access {
    /// Tells tenants apart without holding their secret.
    pub fn identity(&self) -> &Digest {
        &self.identity
    }

    /// The digest behind a reference; also the question whether this tenant may read it.
    pub async fn resolve(&self, reference: &Reference) -> Result<String, Error> {
        patiently(|| self.client.resolve(reference))
            .await
            .map(|descriptor| descriptor.digest)
    }

    /// A manifest's bytes.
    pub(crate) async fn manifest(&self, reference: &Reference) -> Result<Vec<u8>, Error> {
        patiently(|| self.client.get_manifest(reference))
            .await
            .map(|manifest| manifest.bytes)
    }

    pub(super) async fn open(&self, endpoint: Option<&Endpoint>, request: &BlobRequest<'_>) -> Result<Body, Error> {
        let whole = request.extent.start == 0 && request.extent.end == request.size;
        let range = (!whole).then_some(request.extent.start..request.extent.end);
        let (reference, digest) = (request.reference, request.digest.as_str());
        let stream = match endpoint {
            None => self.client.open_blob(reference, digest, range).await?,
            Some(endpoint) => self.client.open_blob_via(endpoint, reference, digest, range).await?,
        };
        Ok(body(stream))
    }
}

fn body(stream: BlobStream) -> Body {
    let (start, ranged) = (stream.served().start, stream.is_partial());
    Body {
        start,
        ranged,
        stream: stream
            .map(|chunk| chunk.map_err(|error| source_error(error, reason_of)))
            .boxed(),
    }
}

/// Clients by credentials, so that connections and tokens outlive one pull.
#[derive(Debug)]
pub struct AccessPool {
    settings: RegistrySettings,
    clients: Mutex<HashMap<Digest, Access>>,
}

impl AccessPool {
    /// An empty pool.
    pub fn new(settings: RegistrySettings) -> Self {
        Self {
            settings,
            clients: Mutex::default(),
        }
    }

    /// How registries are reached.
    pub fn settings(&self) -> &RegistrySettings {
        &self.settings
    }

    /// For a tenant without a secret.
    pub fn anonymous(&self) -> Result<Access, Error> {
        self.get("anonymous", || Credentials::Anonymous)
    }

    /// For whoever runs this program.
    pub fn of_user(&self) -> Result<Access, Error> {
        self.get("user", Credentials::from_environment)
    }

    /// For the holder of a pull secret.
    pub fn of_secret(&self, docker_config_json: &str) -> Result<Access, Error> {
        let key = format!("secret {docker_config_json}");
        self.get(&key, || Credentials::DockerConfigJson(Secret::new(docker_config_json)))
    }

    fn get(&self, key: &str, credentials: impl FnOnce() -> Credentials) -> Result<Access, Error> {
        let identity = Digest::of(key.as_bytes());
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(access) = clients.get(&identity) {
            return Ok(access.clone());
        }
        if clients.len() >= POOL {
            // Old secrets are never asked for again; losing a live one costs a token request.
            clients.clear();
        }
        let client = Client::new(client_config(&self.settings, credentials()))?;
        let access = Access {
            client,
            identity: identity.clone(),
        };
        clients.insert(identity, access.clone());
        Ok(access)
    }
}

/// No retries below: the ladder decides what comes after an error.
fn client_config(settings: &RegistrySettings, credentials: Credentials) -> ClientConfig {
    ClientConfig {
        plain_http: settings.plain_http.clone(),
        credentials,
        user_agent: concat!("plimsoll-node-fetcher/", env!("CARGO_PKG_VERSION")).to_owned(),
        extra_roots: settings.extra_roots.clone(),
        limits: Limits::default(),
        retry: Retry {
            times: 0,
            ..Retry::default()
        },
        ..ClientConfig::default()
    }
}

async fn patiently<T, F: Future<Output = Result<T, Error>>>(mut ask: impl FnMut() -> F) -> Result<T, Error> {
    let mut tries = 0;
    loop {
        match ask().await {
            Err(error) if error.is_retryable() && tries + 1 < TRIES => {
                let pause = retry_after(&error).unwrap_or(Duration::from_millis(250 << tries));
                if pause > PATIENCE {
                    return Err(error);
                }
                tokio::time::sleep(pause).await;
                tries += 1;
            }
            other => return other,
        }
    }
}

/// The registry as a source.
#[derive(Debug)]
pub struct RegistrySource;

impl Source for RegistrySource {
    fn kind(&self) -> SourceKind {
        SourceKind::Registry
    }

    fn open<'a>(&'a self, request: &'a BlobRequest<'a>) -> BoxFuture<'a, Result<Body, SourceError>> {
        async {
            request
                .access
                .open(None, request)
                .await
                .map_err(|error| source_error(error, reason_of))
        }
        .boxed()
    }
}

/// An error of the registry client in the closed words.
pub(super) fn source_error(error: Error, reason: impl Fn(&Error) -> FetchReason) -> SourceError {
    let (reason, retry_after) = (reason(&error), retry_after(&error));
    let detail = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
    SourceError::caused(reason, detail, error).after(retry_after)
}

fn retry_after(error: &Error) -> Option<Duration> {
    error.kind().retry_after()
}

/// The closed word for an error of the registry client.
pub(crate) fn reason_of(error: &Error) -> FetchReason {
    reason_of_kind(error.kind())
}

fn reason_of_kind(kind: &ErrorKind) -> FetchReason {
    match kind {
        ErrorKind::Unauthorized { .. } | ErrorKind::Denied { .. } | ErrorKind::Credentials { .. } => {
            FetchReason::Unauthorized
        }
        ErrorKind::NotFound { .. } | ErrorKind::BlobUnknown { .. } => FetchReason::NotFound,
        ErrorKind::RateLimited { .. } => FetchReason::RateLimited,
        ErrorKind::Stalled { .. } | ErrorKind::TooSlow { .. } => FetchReason::Stalled,
        ErrorKind::DigestMismatch { .. } | ErrorKind::DigestInvalid { .. } => FetchReason::Corrupt,
        ErrorKind::Input(_) => FetchReason::InvalidArtifact,
        ErrorKind::Token { source, .. } => reason_of_kind(source),
        _ => FetchReason::EngineDown,
    }
}

/// The registry alone, for those who have nothing else.
pub fn registry_only() -> Vec<Arc<dyn Source>> {
    vec![Arc::new(RegistrySource)]
}
