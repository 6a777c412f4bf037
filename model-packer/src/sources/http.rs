//! One HTTP client for all hubs: redirects by hand, credentials for the configured host only, one gate for waiting.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{self, HeaderMap};
use reqwest::{Response, Url};

use super::SourceError;
use super::refusals::{connection, status_error, wait_of};
use super::request_number::{self, RequestNumber, with_number};
use super::retry::{Gate, RetryPolicy};
use super::routes::Routes;
use super::settings::{Credential, HubSettings};
use crate::text::with_causes;

const REDIRECT_LIMIT: usize = 5;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client bound to one hub.
pub(crate) struct HubClient {
    client: reqwest::Client,
    pub(crate) endpoint: Url,
    /// Hosts by which the hub calls itself, also behind a mirror.
    own_names: &'static [&'static str],
    pub(crate) credential: Option<Credential>,
    /// Whether the token is sent as a session cookie too.
    cookie: Option<&'static str>,
    /// Whether each request carries a number.
    numbered: bool,
    gate: Gate,
    routes: Routes,
    pub(super) ignores_ranges: AtomicBool,
    pub(crate) policy: RetryPolicy,
}

/// The last answer of a chain of redirects, and what the hub itself said at its start.
pub(crate) struct Answer {
    pub(crate) response: Response,
    pub(crate) first_headers: HeaderMap,
    /// False when the answer comes from the content network.
    pub(crate) from_hub: bool,
}

impl HubClient {
    pub(crate) fn new(
        endpoint: Url,
        own_names: &'static [&'static str],
        credential: Option<Credential>,
        cookie: Option<&'static str>,
        settings: &HubSettings,
    ) -> Result<Self, SourceError> {
        let client = build_client(settings)?;
        Ok(Self {
            client,
            endpoint,
            own_names,
            credential,
            cookie,
            numbered: false,
            gate: Gate::default(),
            routes: Routes::default(),
            ignores_ranges: AtomicBool::new(false),
            policy: settings.retry,
        })
    }

    /// The same, with a number of its own for each request.
    pub(crate) fn numbering_requests(self) -> Self {
        Self { numbered: true, ..self }
    }

    /// An address on the configured endpoint; `path` is escaped already.
    pub(crate) fn url(&self, path_and_query: &str) -> Result<Url, SourceError> {
        let base = self.endpoint.as_str().trim_end_matches('/');
        Url::parse(&format!("{base}{path_and_query}"))
            .map_err(|error| SourceError::Setup(format!("{path_and_query} is no address: {error}")))
    }

    /// The same path and query on the configured endpoint: hubs name themselves in links, also behind a mirror. A mirror that
    /// writes its links itself has its own path in them already.
    pub(crate) fn on_endpoint(&self, url: &Url) -> Result<Url, SourceError> {
        let own_path = self.endpoint.path().trim_end_matches('/');
        let rest = url.path().strip_prefix(own_path).filter(|rest| rest.starts_with('/'));
        let path = rest.filter(|_| !self.names_hub(url)).unwrap_or(url.path());
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        self.url(&format!("{path}{query}"))
    }

    /// Whether it names the hub itself, from behind a mirror.
    fn names_hub(&self, url: &Url) -> bool {
        url.host_str().is_some_and(|host| self.own_names.contains(&host)) && !self.is_ours(url)
    }

    /// A range of a file: from where an earlier redirect led, as long as that answers, else by the hub.
    pub(crate) async fn get_range(&self, what: &str, asked: Url, range: &Range<u64>) -> Result<Answer, SourceError> {
        if let Some(route) = self.routes.find(&asked) {
            match self.send(&route.url, Some(range)).await {
                Ok(response) if response.status().is_success() => {
                    return Ok(Answer {
                        response,
                        first_headers: route.first_headers,
                        from_hub: false,
                    });
                }
                _ => self.routes.forget(&asked),
            }
        }
        let answer = self.get(what, asked.clone(), Some(range)).await?;
        if !answer.from_hub && answer.response.status().is_success() {
            let url = answer.response.url().clone();
            self.routes.keep(asked, url, answer.first_headers.clone());
        }
        Ok(answer)
    }

    /// One GET with its redirects. Every status is an answer, except that 429 also closes the gate.
    pub(crate) async fn get(&self, what: &str, url: Url, range: Option<&Range<u64>>) -> Result<Answer, SourceError> {
        let mut url = url;
        let mut first_headers = None;
        for _ in 0..=REDIRECT_LIMIT {
            self.gate.pass().await;
            let response = self.send(&url, range).await?;
            self.mind_limits(&response);
            let first_headers = first_headers.get_or_insert_with(|| response.headers().clone());
            let Some(next) = self.next_hop(what, &url, &response)? else {
                let from_hub = self.is_ours(&url);
                return Ok(Answer {
                    first_headers: std::mem::take(first_headers),
                    response,
                    from_hub,
                });
            };
            tracing::debug!(
                host = next.host_str().unwrap_or_default(),
                path = next.path(),
                "redirected"
            );
            url = next;
        }
        Err(SourceError::Redirect {
            what: what.to_owned(),
            problem: "more than five in a row",
        })
    }

    /// A small document, with the policy's patience.
    pub(crate) async fn document(&self, what: &str, url: &Url) -> Result<Document, SourceError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let outcome = self.document_once(what, url.clone()).await;
            match outcome {
                Err(error) if error.is_transient() && attempt < self.policy.attempts => {
                    self.wait(&error, attempt).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn document_once(&self, what: &str, url: Url) -> Result<Document, SourceError> {
        let answer = self.get(what, url, None).await?;
        let status = answer.response.status().as_u16();
        let headers = answer.response.headers().clone();
        if matches!(status, 408 | 425 | 429 | 500..=599) {
            return Err(status_error(what, answer.response).await);
        }
        let host = host_of(answer.response.url());
        let number = RequestNumber::of(&answer.response);
        let body = answer.response.bytes().await;
        let body = body.map_err(|error| connection(&host, number.as_ref(), error))?;
        let document = Document {
            status,
            headers,
            number,
            body,
        };
        match document.damage() {
            Some(problem) if (200..300).contains(&status) => Err(SourceError::Part {
                path: what.to_owned(),
                problem: with_number(problem, document.number.as_ref()),
            }),
            _ => Ok(document),
        }
    }

    pub(crate) async fn wait(&self, error: &SourceError, attempt: u32) {
        let pause = error.wait().unwrap_or_else(|| self.policy.pause(attempt));
        tracing::info!(%error, seconds = pause.as_secs_f32(), attempt, "asking again");
        tokio::time::sleep(pause.min(self.policy.longest_wait)).await;
    }

    async fn send(&self, url: &Url, range: Option<&Range<u64>>) -> Result<Response, SourceError> {
        let mut request = self.client.get(url.clone()).header(header::ACCEPT_ENCODING, "identity");
        if let Some(range) = range {
            request = request.header(
                header::RANGE,
                format!("bytes={}-{}", range.start, range.end.saturating_sub(1)),
            );
        }
        if let Some(credential) = self.credential.as_ref().filter(|_| self.is_ours(url)) {
            request = request.header(
                header::AUTHORIZATION,
                sensitive(&format!("Bearer {}", credential.secret.expose()))?,
            );
            if let Some(name) = self.cookie {
                request = request.header(
                    header::COOKIE,
                    sensitive(&format!("{name}={}", credential.secret.expose()))?,
                );
            }
        }
        let number = RequestNumber::fresh();
        let numbered = self.numbered && self.is_ours(url);
        if numbered {
            request = request.header(request_number::HEADER, number.as_str());
        }
        let sent = request.send().await;
        let mut response =
            sent.map_err(|error| connection(&host_of(url), Some(&number).filter(|_| numbered), error))?;
        if numbered {
            response.extensions_mut().insert(number);
        }
        Ok(response)
    }

    /// Scheme, host and port as configured: only there the credential goes.
    fn is_ours(&self, url: &Url) -> bool {
        url.origin() == self.endpoint.origin()
    }

    fn next_hop(&self, what: &str, url: &Url, response: &Response) -> Result<Option<Url>, SourceError> {
        if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let refuse = |problem| SourceError::Redirect {
            what: what.to_owned(),
            problem,
        };
        let location = response
            .headers()
            .get(header::LOCATION)
            .and_then(|value| value.to_str().ok());
        let next = url
            .join(location.ok_or_else(|| refuse("it has no Location"))?)
            .map_err(|_| refuse("its Location is no address"))?;
        // A mirror passes on the hub's absolute redirects; followed as they are, they would leave the mirror.
        if self.names_hub(&next) {
            return self.on_endpoint(&next).map(Some);
        }
        match (url.scheme(), next.scheme()) {
            ("https", "http") => Err(refuse("it leads from https to http")),
            (_, "http" | "https") => Ok(Some(next)),
            _ => Err(refuse("it leads away from http")),
        }
    }

    /// Closes the gate where the hub says that its budget is used up.
    fn mind_limits(&self, response: &Response) {
        if let Some(wait) = wait_of(response) {
            self.gate.close_for(wait.min(self.policy.longest_wait));
        }
    }
}

/// A small answer, read whole.
pub(crate) struct Document {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) number: Option<RequestNumber>,
    pub(crate) body: Bytes,
}

impl Document {
    /// What happened to the answer on its way: proxies cut, code and replace documents as they do files, and the next one may
    /// come whole.
    fn damage(&self) -> Option<String> {
        if let Some(coding) = self
            .header("content-encoding")
            .filter(|coding| !coding.eq_ignore_ascii_case("identity"))
        {
            return Some(format!("it came {coding}-coded although that was not asked for"));
        }
        if self
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("text/html"))
        {
            return Some("a web page came instead of the answer: a proxy or a login page of this network".into());
        }
        let read = serde_json::from_slice::<serde::de::IgnoredAny>(&self.body);
        read.err()
            .filter(serde_json::Error::is_eof)
            .map(|_| format!("the answer ends after {} bytes, in the middle", self.body.len()))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

fn build_client(settings: &HubSettings) -> Result<reqwest::Client, SourceError> {
    let mut builder = registry::mind_no_proxy(reqwest::Client::builder())
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        // Many connections carry more than many streams of one connection.
        .http1_only()
        .tcp_nodelay(true)
        // Another crate of the same build may switch decoding on; bytes must stay what the hub sent.
        .no_gzip()
        .no_brotli()
        .no_deflate()
        .no_zstd()
        .user_agent(concat!("plimsoll-model-packer/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(settings.retry.idle);
    if let Some(trusted) = &settings.certificates {
        builder = builder.tls_certs_merge(trusted.read()?);
    }
    builder.build().map_err(|error| match &settings.certificates {
        Some(trusted) => trusted.refuse(&error),
        None => SourceError::Setup(with_causes(&error)),
    })
}

fn sensitive(text: &str) -> Result<header::HeaderValue, SourceError> {
    let mut value = header::HeaderValue::from_str(text)
        .map_err(|_| SourceError::Setup("the token holds characters that no header can carry".into()))?;
    value.set_sensitive(true);
    Ok(value)
}

pub(crate) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or("the hub");
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Escapes everything but the unreserved characters, and keeps slashes where asked.
pub(crate) fn escape(text: &str, keep_slashes: bool) -> String {
    use std::fmt::Write as _;
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || (keep_slashes && byte == b'/') {
            escaped.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(endpoint: &str) -> HubClient {
        let settings = HubSettings::from_environment(&|_| None).unwrap();
        HubClient::new(endpoint.parse().unwrap(), &["huggingface.co"], None, None, &settings).unwrap()
    }

    fn hop(client: &HubClient, from: &str, location: &str) -> Result<Option<String>, String> {
        let answer = http::Response::builder()
            .status(302)
            .header("location", location)
            .body("")
            .unwrap();
        let next = client.next_hop("x", &from.parse().unwrap(), &answer.into());
        next.map(|next| next.map(String::from))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_redirect_never_leads_from_https_to_http() {
        let hub = client("https://huggingface.co");
        let from = "https://huggingface.co/a/b";
        assert_eq!(
            hop(&hub, from, "https://cdn.example/x?s=1"),
            Ok(Some("https://cdn.example/x?s=1".into()))
        );
        assert_eq!(hop(&hub, from, "/c"), Ok(Some("https://huggingface.co/c".into())));
        // The hub's own name is followed at the endpoint, with its scheme.
        assert_eq!(
            hop(&hub, from, "http://huggingface.co/c"),
            Ok(Some("https://huggingface.co/c".into()))
        );
        for location in [
            "http://cdn.example/x",
            "file:///etc/passwd",
            "ftp://cdn.example/x",
            "https://",
        ] {
            assert!(hop(&hub, from, location).is_err(), "{location}");
        }
        let mirror = client("https://mirror.example/hf");
        let next = hop(&mirror, "https://mirror.example/hf/a", "https://huggingface.co/b?c=d");
        assert_eq!(next, Ok(Some("https://mirror.example/hf/b?c=d".into())));
    }

    #[test]
    fn a_link_to_the_next_page_is_asked_for_below_the_path_of_the_endpoint() {
        let first = "http://127.0.0.1:18220/hf/api/models/a/b/tree/main?limit=1000";
        let asked = "http://127.0.0.1:18220/hf/api/models/a/b/tree/main?cursor=2";
        let mirror = client("http://127.0.0.1:18220/hf/");
        for link in [
            "https://huggingface.co/api/models/a/b/tree/main?cursor=2",
            "http://127.0.0.1:18220/hf/api/models/a/b/tree/main?cursor=2",
            // Inside the mirror's own network it has another name.
            "http://mirror.internal/hf/api/models/a/b/tree/main?cursor=2",
            "/hf/api/models/a/b/tree/main?cursor=2",
            "/api/models/a/b/tree/main?cursor=2",
            "?cursor=2",
        ] {
            let link = Url::parse(first).unwrap().join(link).unwrap();
            assert_eq!(mirror.on_endpoint(&link).unwrap().as_str(), asked, "{link}");
        }
        // An owner may be called like the path of the mirror.
        let file = "https://huggingface.co/hf/b/resolve/main/x".parse().unwrap();
        assert_eq!(
            mirror.on_endpoint(&file).unwrap().as_str(),
            "http://127.0.0.1:18220/hf/hf/b/resolve/main/x"
        );
        let plain = client("http://127.0.0.1:18220");
        let link = "http://127.0.0.1:18220/api/x?cursor=2".parse().unwrap();
        assert_eq!(plain.on_endpoint(&link).unwrap(), link);
    }
}
