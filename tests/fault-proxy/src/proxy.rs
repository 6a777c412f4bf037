//! The proxy: passes requests on to one upstream, except where the script says otherwise.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::header::{HOST, HeaderValue, RANGE};
use http::uri::{PathAndQuery, Scheme};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;

use crate::apply::{cut, instead, spoil};
use crate::fault::{Fault, FaultRule, FaultScript};
use crate::server::{Body, Broken, Server, full, serve};

/// A running proxy, stopped when it is dropped.
#[derive(Debug)]
pub struct FaultProxy {
    server: Server,
    script: Arc<FaultScript>,
}

struct Upstream {
    authority: http::uri::Authority,
    client: Client<HttpConnector, Body>,
    script: Arc<FaultScript>,
}

impl FaultProxy {
    /// Listens on an address (port 0 for any) in front of an upstream such as `http://127.0.0.1:5000`.
    pub async fn start(listen: &str, upstream: &str, script: FaultScript) -> Result<Self> {
        let upstream: Uri = upstream.parse().with_context(|| format!("{upstream} is no address"))?;
        ensure!(
            upstream.scheme() == Some(&Scheme::HTTP),
            "the upstream must be a plain http:// address"
        );
        let authority = upstream.authority().context("the upstream names no host")?.clone();
        let script = Arc::new(script);
        let client = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
        let shared = Arc::new(Upstream {
            authority,
            client,
            script: script.clone(),
        });
        let listener = TcpListener::bind(listen)
            .await
            .with_context(|| format!("cannot listen on {listen}"))?;
        let server = serve(listener, move |request| {
            let upstream = shared.clone();
            async move { upstream.pass(request).await }
        })?;
        Ok(Self { server, script })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Adds a fault.
    pub fn inject(&self, rule: FaultRule) {
        self.script.push(rule);
    }
}

impl Upstream {
    async fn pass(&self, request: Request<Incoming>) -> Result<Response<Body>, Broken> {
        let path = request
            .uri()
            .path_and_query()
            .map_or("/", PathAndQuery::as_str)
            .to_owned();
        let fault = self.script.take(request.method().as_str(), &path);
        if let Some(answer) = fault.as_ref().and_then(instead) {
            // The whole request first, so that the client reads the answer and not a broken pipe.
            let _ = request.into_body().collect().await;
            return Ok(answer);
        }
        let request = self.onward(request, &path, fault.as_ref());
        let answer = match self.client.request(request).await {
            Ok(answer) => answer.map(|body| body.map_err(Into::into).boxed_unsync()),
            Err(_) if matches!(fault, Some(Fault::CutUpload { .. })) => return Err(Broken),
            Err(error) => return Ok(bad_gateway(&error)),
        };
        match fault {
            Some(fault) => spoil(&fault, answer),
            None => Ok(answer),
        }
    }

    /// The request for the upstream. `Host` stays the client's, so that the upstream names sessions by the proxy's address.
    fn onward(&self, request: Request<Incoming>, path: &str, fault: Option<&Fault>) -> Request<Body> {
        let (mut head, body) = request.into_parts();
        let body = body.map_err(Into::into).boxed_unsync();
        let uri = Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(self.authority.clone())
            .path_and_query(path)
            .build();
        head.uri = uri.unwrap_or_default();
        let own_host = HeaderValue::from_str(self.authority.as_str()).ok();
        if let (false, Some(host)) = (head.headers.contains_key(HOST), own_host) {
            head.headers.insert(HOST, host);
        }
        match fault {
            Some(Fault::IgnoreRange) => drop(head.headers.remove(RANGE)),
            Some(Fault::OtherRange { shift }) => shift_range(&mut head.headers, *shift),
            Some(Fault::ShortRange { most }) => shorten_range(&mut head.headers, *most),
            Some(Fault::CutUpload { after }) => return Request::from_parts(head, cut(body, *after)),
            _ => {}
        }
        Request::from_parts(head, body)
    }
}

/// Moves the start of a `Range`, so that a consistent answer for another part comes back.
pub(crate) fn shift_range(headers: &mut http::HeaderMap, shift: u64) {
    change_range(headers, |start, end| {
        Some((start.parse::<u64>().ok()? + shift, end.to_owned()))
    });
}

/// Moves the end of a `Range`, so that no more bytes than these come back.
pub(crate) fn shorten_range(headers: &mut http::HeaderMap, most: u64) {
    change_range(headers, |start, end| {
        let start = start.parse::<u64>().ok()?;
        let last = start + most.max(1) - 1;
        Some((start, end.parse().map_or(last, |end: u64| end.min(last)).to_string()))
    });
}

fn change_range(headers: &mut http::HeaderMap, change: impl Fn(&str, &str) -> Option<(u64, String)>) {
    let text = headers.get(RANGE).and_then(|value| value.to_str().ok());
    let bounds = text.and_then(|text| text.strip_prefix("bytes=")?.split_once('-'));
    let changed = bounds.and_then(|(start, end)| change(start, end));
    let value = changed.and_then(|(start, end)| HeaderValue::from_str(&format!("bytes={start}-{end}")).ok());
    if let Some(value) = value {
        headers.insert(RANGE, value);
    }
}

fn bad_gateway(error: &hyper_util::client::legacy::Error) -> Response<Body> {
    let mut answer = Response::new(full(Bytes::from(format!("the upstream does not answer: {error}\n"))));
    *answer.status_mut() = StatusCode::BAD_GATEWAY;
    answer
}
