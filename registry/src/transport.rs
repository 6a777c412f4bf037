//! Requests and answers: time limits, redirects by hand, no decoding.

use std::time::Duration;

use futures::StreamExt as _;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, LOCATION};
use http::{HeaderMap, HeaderValue, Method};
use reqwest::{RequestBuilder, Response, Url};

use crate::client::{ClientConfig, Limits};
use crate::error::ErrorKind;

const REDIRECT_LIMIT: usize = 5;

/// The connections of a client.
pub(crate) struct Transport {
    http: reqwest::Client,
    plain_http: Vec<String>,
    pub(crate) limits: Limits,
}

impl Transport {
    pub(crate) fn new(config: &ClientConfig) -> Result<Self, ErrorKind> {
        let input =
            |error: reqwest::Error| ErrorKind::Input(format!("the HTTP client cannot be set up: {}", cause_of(&error)));
        let roots = config
            .extra_roots
            .iter()
            .map(|pem| reqwest::Certificate::from_pem(pem).map_err(input))
            .collect::<Result<Vec<_>, _>>()?;
        let built = builder(config).tls_certs_merge(roots.clone()).build().or_else(|error| {
            // Images from scratch hold no CA certificates. Plain http and private roots must work there all the same.
            tracing::warn!(cause = %cause_of(&error), "the system's CA certificates cannot be used, https needs an extra root");
            builder(config).tls_certs_only(roots).build()
        });
        Ok(Self {
            http: built.map_err(input)?,
            plain_http: config.plain_http.clone(),
            limits: config.limits.clone(),
        })
    }

    /// Whether this host (with or without its port) was declared to speak plain http.
    pub(crate) fn is_plain(&self, host: &str) -> bool {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        self.plain_http.iter().any(|plain| plain == host || plain == name)
    }

    /// `https://host/v2/…`, or http where that was declared.
    pub(crate) fn url(&self, host: &str, path: &str) -> Result<Url, ErrorKind> {
        let scheme = if self.is_plain(host) { "http" } else { "https" };
        Url::parse(&format!("{scheme}://{host}/v2/{path}"))
            .map_err(|error| ErrorKind::Input(format!("{host} gives no address: {error}")))
    }

    pub(crate) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        // Gzip on the way would break lengths, ranges and digests.
        self.http
            .request(method, url)
            .header(ACCEPT_ENCODING, HeaderValue::from_static("identity"))
    }

    /// Sends and waits for the head of the answer, not longer than bytes may take to come.
    pub(crate) async fn answer(&self, request: RequestBuilder) -> Result<Response, ErrorKind> {
        self.answer_within(request, self.limits.answer).await
    }

    pub(crate) async fn answer_within(&self, request: RequestBuilder, limit: Duration) -> Result<Response, ErrorKind> {
        let (http, request) = request.build_split();
        let request =
            request.map_err(|error| ErrorKind::Input(format!("the request cannot be made: {}", cause_of(&error))))?;
        let url = request.url().clone();
        match tokio::time::timeout(limit, http.execute(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(unreachable(&url, &error)),
            Err(_) => Err(ErrorKind::Stalled {
                host: host_text(&url),
                idle: limit,
            }),
        }
    }

    /// A GET or HEAD with its redirects. The credential goes to the first origin only.
    pub(crate) async fn follow(
        &self,
        method: &Method,
        url: Url,
        headers: &HeaderMap,
        credential: Option<&HeaderValue>,
    ) -> Result<Response, ErrorKind> {
        let home = url.origin();
        let mut url = url;
        for _ in 0..=REDIRECT_LIMIT {
            let mut request = self.request(method.clone(), url.clone()).headers(headers.clone());
            if let Some(credential) = credential.filter(|_| url.origin() == home) {
                request = request.header(AUTHORIZATION, credential);
            }
            let response = self.answer(request).await?;
            match redirect_target(&response)? {
                None => return Ok(response),
                Some(next) => url = next,
            }
        }
        Err(ErrorKind::Redirect(format!(
            "more than {REDIRECT_LIMIT} in a row from {}",
            origin_text(&url)
        )))
    }

    /// A small body, whole, with the time limits of bodies.
    pub(crate) async fn read_limited(&self, response: Response, limit: usize) -> Result<Vec<u8>, ErrorKind> {
        let host = host_text(response.url());
        let url = response.url().clone();
        let mut stream = response.bytes_stream();
        let mut body = Vec::new();
        loop {
            let next = tokio::time::timeout(self.limits.idle, stream.next()).await;
            match next.map_err(|_| ErrorKind::Stalled {
                host: host.clone(),
                idle: self.limits.idle,
            })? {
                None => return Ok(body),
                Some(Err(error)) => return Err(unreachable(&url, &error)),
                Some(Ok(chunk)) if body.len() + chunk.len() > limit => {
                    return Err(ErrorKind::Protocol {
                        host,
                        problem: format!("more than {limit} bytes came"),
                    });
                }
                Some(Ok(chunk)) => body.extend_from_slice(&chunk),
            }
        }
    }
}

fn builder(config: &ClientConfig) -> reqwest::ClientBuilder {
    crate::mind_no_proxy(reqwest::Client::builder())
        .user_agent(config.user_agent.clone())
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .connect_timeout(config.limits.connect)
        // Many connections carry more than many streams of one connection.
        .http1_only()
        .tcp_nodelay(true)
        // Another crate of the build may switch these features on; bytes must arrive as they are stored.
        .no_gzip()
        .no_brotli()
        .no_deflate()
        .no_zstd()
}

/// Where an answer points to, when it is a redirect that may be followed.
pub(crate) fn redirect_target(response: &Response) -> Result<Option<Url>, ErrorKind> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let host = host_text(response.url());
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let location = location.ok_or_else(|| ErrorKind::Protocol {
        host,
        problem: "it redirects without a location".to_owned(),
    })?;
    let next = response
        .url()
        .join(location)
        .map_err(|_| ErrorKind::Redirect("its target is no address".to_owned()))?;
    match (response.url().scheme(), next.scheme()) {
        ("https", "https") | ("http", "http" | "https") => Ok(Some(next)),
        (from, to) => Err(ErrorKind::Redirect(format!(
            "from {from} to {to} at {}",
            host_text(&next)
        ))),
    }
}

/// Scheme, host and port: never a path or a query, which may hold signatures.
pub(crate) fn origin_text(url: &Url) -> String {
    format!("{}://{}", url.scheme(), host_text(url))
}

pub(crate) fn host_text(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

pub(crate) fn unreachable(url: &Url, error: &reqwest::Error) -> ErrorKind {
    ErrorKind::Unreachable {
        address: origin_text(url),
        cause: cause_of(error),
    }
}

/// The innermost cause: outer ones repeat the address with its query.
fn cause_of(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let outermost = std::ptr::addr_eq(std::ptr::from_ref(cause), std::ptr::from_ref(error));
    if outermost && error.is_timeout() {
        return "no connection in time".to_owned();
    }
    if outermost {
        "the request fails".to_owned()
    } else {
        cause.to_string()
    }
}
