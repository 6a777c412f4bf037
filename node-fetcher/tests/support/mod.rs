//! A registry in this process that misbehaves as it is told, and artifacts to fetch from it.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test binary uses its own part; a bed that fails stops its test"
)]

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use artifact::Digest;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, Response, StatusCode};
use futures::StreamExt as _;
use node_fetcher::fetch::{Fetcher, Limits};
use node_fetcher::metrics::Metrics;
use node_fetcher::source::{Access, AccessPool, RegistrySettings, Source};
use node_fetcher::store::{Durability, Floor, Store};
use registry::Reference;

/// What happens to one answer with a blob's bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// This status instead, with headers.
    Status(u16, Vec<(&'static str, &'static str)>),
    /// The connection ends after so many bytes.
    Cut(usize),
    /// The body ends cleanly after so many bytes, with a chunked coding that hides it.
    Short(usize),
    /// Nothing more comes after so many bytes.
    Stall(usize),
    /// The byte at this place of the answer is another one.
    Flip(usize),
    /// The whole blob comes whatever was asked.
    IgnoreRange,
}

/// One answered request for a blob.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) digest: String,
    pub(crate) start: u64,
    pub(crate) asked: u64,
    pub(crate) authorization: Option<String>,
}

#[derive(Default)]
struct Inner {
    blobs: BTreeMap<String, Bytes>,
    manifests: BTreeMap<String, Bytes>,
    faults: VecDeque<Fault>,
    seen: Vec<Seen>,
    manifest_requests: usize,
    login: Option<String>,
}

/// The registry. It listens on a port of its own.
#[derive(Clone)]
pub(crate) struct FakeRegistry {
    pub(crate) address: SocketAddr,
    inner: Arc<Mutex<Inner>>,
}

impl FakeRegistry {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let registry = Self {
            address: listener.local_addr().unwrap(),
            inner: Arc::default(),
        };
        let app = Router::new()
            .route("/v2/{*rest}", axum::routing::any(answer))
            .with_state(registry.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        registry
    }

    pub(crate) fn add_blob(&self, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        self.inner
            .lock()
            .unwrap()
            .blobs
            .insert(digest.to_string(), Bytes::copy_from_slice(bytes));
        digest
    }

    /// Packs files as a model and tags it nowhere: it is named by its digest.
    pub(crate) fn add_model(&self, files: &[(&str, Vec<u8>)]) -> (Reference, Digest) {
        let layers: Vec<_> = files
            .iter()
            .map(|(name, bytes)| {
                serde_json::json!({
                    "mediaType": "application/vnd.cncf.model.weight.v1.raw",
                    "digest": self.add_blob(bytes).to_string(),
                    "size": bytes.len(),
                    "annotations": {"org.cncf.model.filepath": name},
                })
            })
            .collect();
        self.add_manifest(&layers)
    }

    pub(crate) fn add_manifest(&self, layers: &[serde_json::Value]) -> (Reference, Digest) {
        let config = self.add_blob(b"{}");
        let manifest = serde_json::json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "artifactType": "application/vnd.cncf.model.manifest.v1+json",
            "config": {"mediaType": "application/vnd.cncf.model.config.v1+json", "digest": config.to_string(), "size": 2},
            "layers": layers,
        });
        let bytes = serde_json::to_vec(&manifest).unwrap();
        let digest = Digest::of(&bytes);
        let mut inner = self.inner.lock().unwrap();
        inner.manifests.insert(digest.to_string(), Bytes::from(bytes));
        let reference = format!("{}/models/test@{digest}", self.address).parse().unwrap();
        (reference, digest)
    }

    /// The same content on another port, as a peer has it.
    pub(crate) async fn mirror(&self) -> Self {
        let mirror = Self::start().await;
        {
            let ours = self.inner.lock().unwrap();
            let mut theirs = mirror.inner.lock().unwrap();
            theirs.blobs.clone_from(&ours.blobs);
            theirs.manifests.clone_from(&ours.manifests);
        }
        mirror
    }

    pub(crate) fn script(&self, faults: impl IntoIterator<Item = Fault>) {
        self.inner.lock().unwrap().faults = faults.into_iter().collect();
    }

    /// From now on only this `Authorization` is accepted.
    pub(crate) fn require_login(&self, authorization: &str) {
        self.inner.lock().unwrap().login = Some(authorization.to_owned());
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.inner.lock().unwrap().seen.clone()
    }

    pub(crate) fn manifest_requests(&self) -> usize {
        self.inner.lock().unwrap().manifest_requests
    }

    pub(crate) fn url(&self) -> registry::Url {
        registry::Url::parse(&format!("http://{}", self.address)).unwrap()
    }

    pub(crate) fn settings() -> RegistrySettings {
        RegistrySettings {
            plain_http: vec!["127.0.0.1".to_owned()],
            extra_roots: Vec::new(),
        }
    }

    pub(crate) fn access() -> Access {
        AccessPool::new(Self::settings()).anonymous().unwrap()
    }
}

/// Limits for tests: nobody waits long.
pub(crate) fn quick_limits() -> Limits {
    Limits {
        stall: Duration::from_millis(150),
        slow_window: Duration::from_secs(30),
        range: 32 << 10,
        connections: 3,
        pause: Duration::from_millis(1),
    }
}

pub(crate) fn open_store(root: &std::path::Path) -> Arc<Store> {
    Store::open(root, Floor::Bytes(0), Durability::PowerCut).unwrap()
}

pub(crate) fn fetcher(store: &Arc<Store>, sources: Vec<Arc<dyn Source>>) -> Arc<Fetcher> {
    Fetcher::new(Arc::clone(store), sources, quick_limits(), Arc::new(Metrics::default()))
}

/// Bytes that repeat nowhere.
pub(crate) fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

async fn answer(
    State(registry): State<FakeRegistry>,
    method: Method,
    Path(rest): Path<String>,
    headers: HeaderMap,
) -> Response<Body> {
    let mut inner = registry.inner.lock().unwrap();
    let authorization = headers
        .get("authorization")
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    if inner.login.is_some() && inner.login != authorization {
        let response = Response::builder()
            .status(401)
            .header("www-authenticate", "Basic realm=\"test\"");
        return response.body(Body::empty()).unwrap();
    }
    let (path, name) = rest.rsplit_once('/').unwrap_or_default();
    if path.ends_with("manifests") {
        inner.manifest_requests += 1;
        return match inner.manifests.get(name) {
            None => Response::builder().status(404).body(Body::empty()).unwrap(),
            Some(bytes) => manifest(&method, name, bytes.clone()),
        };
    }
    let Some(bytes) = inner.blobs.get(name).cloned() else {
        return Response::builder().status(404).body(Body::empty()).unwrap();
    };
    let fault = inner.faults.pop_front().unwrap_or(Fault::None);
    let size = bytes.len();
    let range = headers.get("range").and_then(|value| parse_range(value.to_str().ok()?));
    let (start, end) = match range.filter(|_| fault != Fault::IgnoreRange) {
        Some((start, end)) => (start, end.min(size - 1) + 1),
        None => (0, size),
    };
    inner.seen.push(Seen {
        digest: name.to_owned(),
        start: start as u64,
        asked: (end - start) as u64,
        authorization,
    });
    let partial = range.is_some() && fault != Fault::IgnoreRange;
    blob(bytes.slice(start..end), start, size, partial, &fault)
}

fn manifest(method: &Method, digest: &str, bytes: Bytes) -> Response<Body> {
    let response = Response::builder()
        .header("docker-content-digest", digest)
        .header("content-type", "application/vnd.oci.image.manifest.v1+json")
        .header("content-length", bytes.len());
    response
        .body(if method == Method::HEAD {
            Body::empty()
        } else {
            Body::from(bytes)
        })
        .unwrap()
}

fn blob(mut bytes: Bytes, start: usize, size: usize, partial: bool, fault: &Fault) -> Response<Body> {
    let mut response = Response::builder().status(if partial {
        StatusCode::PARTIAL_CONTENT
    } else {
        StatusCode::OK
    });
    if partial {
        response = response.header(
            "content-range",
            format!("bytes {start}-{}/{size}", start + bytes.len() - 1),
        );
    }
    if let Fault::Status(status, headers) = fault {
        let response = Response::builder().status(*status);
        let response = headers
            .iter()
            .fold(response, |response, (name, value)| response.header(*name, *value));
        return response.body(Body::empty()).unwrap();
    }
    if !matches!(fault, Fault::Short(_)) {
        response = response.header("content-length", bytes.len());
    }
    let body = match fault {
        Fault::Cut(after) => {
            let part = bytes.slice(..(*after).min(bytes.len().saturating_sub(1)));
            let sent = futures::stream::once(async move { Ok::<_, std::io::Error>(part) });
            let broken = futures::stream::once(async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                Err(std::io::Error::other("cut"))
            });
            Body::from_stream(sent.chain(broken))
        }
        Fault::Short(after) => {
            let part = bytes.slice(..(*after).min(bytes.len()));
            Body::from_stream(futures::stream::once(async move { Ok::<_, Infallible>(part) }))
        }
        Fault::Stall(after) => {
            let part = bytes.slice(..(*after).min(bytes.len().saturating_sub(1)));
            let sent = futures::stream::once(async move { Ok::<_, Infallible>(part) });
            Body::from_stream(sent.chain(futures::stream::pending()))
        }
        Fault::Flip(at) if !bytes.is_empty() => {
            let mut flipped = bytes.to_vec();
            let at = at % flipped.len();
            flipped[at] ^= 0x20;
            bytes = Bytes::from(flipped);
            Body::from(bytes)
        }
        _ => Body::from(bytes),
    };
    response.body(body).unwrap()
}

fn parse_range(text: &str) -> Option<(usize, usize)> {
    let (start, end) = text.strip_prefix("bytes=")?.split_once('-')?;
    Some((start.parse().ok()?, end.parse().ok()?))
}
