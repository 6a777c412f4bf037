//! Both ports, and what they share.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::serve::ListenerExt as _;
use http::{HeaderMap, header};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::answer;
use crate::content::Content;
use crate::fault::{Fault, FaultRule, FaultScript, Side};
use crate::recorder::{Recorded, Recorder};
use crate::{content_network, escape, hugging_face, model_scope};

/// How a range request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RangeMode {
    /// 206 with `Content-Range`.
    #[default]
    Partial,
    /// 200 with `Content-Range`, as ModelScope does.
    Full,
    /// 200 with the whole file.
    Ignored,
}

/// What to serve, and how.
#[derive(Debug)]
pub struct HubConfig {
    /// Folder that holds `owner/name/files`.
    pub root: PathBuf,
    /// Entries of a page of the tree listing; small, so that paging is always used.
    pub page_size: usize,
    /// Entries after which ModelScope's listing is cut without a sign.
    pub listing_cap: usize,
    /// How ModelScope answers a range.
    pub model_scope_range: RangeMode,
    /// Whether ModelScope spells hashes in capitals.
    pub capital_hashes: bool,
    /// The one token that opens private and gated repositories.
    pub token: Option<String>,
    /// The host that links to the next page name.
    pub page_host: String,
    /// Time before each answer, so that requests meet.
    pub latency: Duration,
    /// What goes wrong.
    pub script: FaultScript,
}

impl HubConfig {
    /// The usual behaviour over this folder.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            page_size: 3,
            listing_cap: 3000,
            model_scope_range: RangeMode::Full,
            capital_hashes: false,
            token: None,
            page_host: "https://huggingface.co".into(),
            latency: Duration::ZERO,
            script: FaultScript::default(),
        }
    }
}

pub(crate) struct Hub {
    pub(crate) config: HubConfig,
    pub(crate) content: Content,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) content_network_port: u16,
}

/// A running stand-in; it stops when dropped.
pub struct StandinHub {
    address: SocketAddr,
    content_network: SocketAddr,
    hub: Arc<Hub>,
    tasks: Vec<JoinHandle<io::Result<()>>>,
}

impl StandinHub {
    /// Starts on free ports of the loopback address.
    pub async fn start(config: HubConfig) -> io::Result<Self> {
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::start_on(any_port, any_port, config).await
    }

    /// Starts on these addresses.
    pub async fn start_on(hub: SocketAddr, content_network: SocketAddr, config: HubConfig) -> io::Result<Self> {
        let hub_listener = TcpListener::bind(hub).await?;
        let content_listener = TcpListener::bind(content_network).await?;
        let (address, content_address) = (hub_listener.local_addr()?, content_listener.local_addr()?);
        let hub = Arc::new(Hub {
            content: Content::new(config.root.clone()),
            config,
            recorder: Arc::default(),
            content_network_port: content_address.port(),
        });
        let serve = |listener: TcpListener, side: Side| {
            let router = Router::new().fallback(handle).with_state((side, Arc::clone(&hub)));
            // Head and body of an answer are two writes, between which a client would wait for its own acknowledgement.
            let listener = listener.tap_io(|stream| {
                let _ = stream.set_nodelay(true);
            });
            tokio::spawn(async move { axum::serve(listener, router).await })
        };
        let tasks = vec![
            serve(hub_listener, Side::Hub),
            serve(content_listener, Side::ContentNetwork),
        ];
        Ok(Self {
            address,
            content_network: content_address,
            hub,
            tasks,
        })
    }

    /// `http://address:port` of the hub.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Address of the content network's port.
    pub fn content_network(&self) -> SocketAddr {
        self.content_network
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Recorded> {
        self.hub.recorder.requests()
    }

    /// The most requests that waited for an answer at the same time, on both ports together.
    pub fn busiest(&self) -> usize {
        self.hub.recorder.busiest()
    }

    /// Bytes of file bodies sent so far.
    pub fn body_bytes(&self) -> u64 {
        self.hub.recorder.body_bytes()
    }

    /// Requests to the content network that carried a credential. Must stay empty.
    pub fn violations(&self) -> Vec<Recorded> {
        self.requests()
            .into_iter()
            .filter(|request| request.side == Side::ContentNetwork && request.credential)
            .collect()
    }

    /// Adds a fault at the end of the script.
    pub fn push_fault(&self, rule: FaultRule) {
        self.hub.config.script.push(rule);
    }

    /// Serves until a port fails.
    pub async fn join(mut self) -> io::Result<()> {
        for task in self.tasks.drain(..) {
            task.await.map_err(io::Error::other)??;
        }
        Ok(())
    }
}

impl Drop for StandinHub {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// One request, taken apart once.
pub(crate) struct Asked {
    pub(crate) method: String,
    /// Path segments, still escaped, because a revision may hold an escaped slash.
    pub(crate) segments: Vec<String>,
    pub(crate) query: String,
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) fault: Option<Fault>,
}

impl Asked {
    pub(crate) fn head(&self) -> bool {
        self.method == "HEAD"
    }

    /// The host that the client used, without its port.
    pub(crate) fn host(&self) -> String {
        let host = self
            .headers
            .get(header::HOST)
            .and_then(|value| value.to_str().ok())
            .unwrap_or("127.0.0.1");
        host.rsplit_once(':').map_or(host, |(name, _)| name).to_owned()
    }

    fn header(&self, name: &str) -> Option<String> {
        let value = self.headers.get(name)?.to_str().ok()?;
        Some(value.to_owned())
    }

    fn credential(&self) -> bool {
        self.headers.contains_key(header::AUTHORIZATION) || self.headers.contains_key(header::COOKIE)
    }
}

async fn handle(State((side, hub)): State<(Side, Arc<Hub>)>, request: Request) -> Response {
    let _present = hub.recorder.enter();
    tokio::time::sleep(hub.config.latency).await;
    let asked = match take_apart(side, &hub, request).await {
        Ok(asked) => asked,
        Err(error) => return answer::text(400, &[], error.to_string()),
    };
    hub.recorder.record(Recorded {
        side,
        method: asked.method.clone(),
        target: asked.target.clone(),
        range: asked.header("range"),
        credential: asked.credential(),
        number: asked.header("x-request-id"),
    });
    if let Some(answer) = asked
        .fault
        .as_ref()
        .and_then(|fault| answer::of_fault(fault, &asked.target))
    {
        return answer;
    }
    let fault = asked.fault.clone();
    let answered = match side {
        Side::ContentNetwork if asked.credential() => Ok(answer::text(
            400,
            &[],
            "<Error><Code>InvalidArgument</Code><Message>Only one auth mechanism allowed</Message></Error>",
        )),
        Side::ContentNetwork => content_network::answer(&hub, asked).await,
        Side::Hub if model_scope::is_for_us(&asked.segments) => model_scope::answer(&hub, asked).await,
        Side::Hub => hugging_face::answer(&hub, asked).await,
    };
    match answered {
        Ok(answered) => answer::bend_document(answered, fault.as_ref()).await,
        Err(error) => answer::text(500, &[], format!("the stand-in hub cannot read its folder: {error}")),
    }
}

async fn take_apart(side: Side, hub: &Hub, request: Request) -> io::Result<Asked> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let target = parts
        .uri
        .path_and_query()
        .map_or_else(|| path.clone(), ToString::to_string);
    let body = axum::body::to_bytes(body, 1 << 20).await.map_err(io::Error::other)?;
    Ok(Asked {
        fault: hub
            .config
            .script
            .take(side, parts.method.as_str(), &escape::decode(&target)),
        method: parts.method.to_string(),
        segments: path.split('/').skip(1).map(str::to_owned).collect(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        target,
        headers: parts.headers,
        body: body.to_vec(),
    })
}
