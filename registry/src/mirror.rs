//! Other servers that hand out a registry's blobs, and the files in which a node's owner names them for its container runtime.

use std::ops::Range;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, Url};

use crate::auth::{Granted, Scope};
use crate::blob::{BlobStream, check_digest, range_headers};
use crate::client::Client;
use crate::error::{Error, ErrorKind};
use crate::failure::{Failure, failure_of};
use crate::reference::Reference;
use crate::transport::host_text;

/// Another server that hands out a registry's blobs: a mirror, a peer-to-peer daemon, a cache.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Scheme, host, port and an optional path prefix: `http://127.0.0.1:4001`.
    pub base: Url,
    /// Sent with each request.
    pub headers: HeaderMap,
    /// Whether to name the registry in the query (`ns=`), as container runtimes do.
    pub namespace: bool,
    /// Whether the registry's credential may be sent there.
    pub credentials: bool,
    /// Whether the path of `base` is the root of the API already, so that no `/v2` is added.
    pub api_root: bool,
}

impl Client {
    /// The same from a mirror. One try: whoever has several sources decides which one comes next.
    pub async fn open_blob_via(
        &self,
        endpoint: &Endpoint,
        reference: &Reference,
        digest: &str,
        range: Option<Range<u64>>,
    ) -> Result<BlobStream, Error> {
        let first = self.open_part_via(endpoint, reference, digest, range.clone()).await?;
        let (client, endpoint) = (self.clone(), endpoint.clone());
        let (reference, digest) = (reference.clone(), digest.to_owned());
        let further = move |rest| {
            let (client, endpoint) = (client.clone(), endpoint.clone());
            let (reference, digest) = (reference.clone(), digest.clone());
            async move { client.open_part_via(&endpoint, &reference, &digest, Some(rest)).await }
        };
        Ok(first.followed_by(range, further))
    }

    async fn open_part_via(
        &self,
        endpoint: &Endpoint,
        reference: &Reference,
        digest: &str,
        range: Option<Range<u64>>,
    ) -> Result<BlobStream, Error> {
        let object = format!("{digest} from {}", host_text(&endpoint.base));
        let fail = |kind| Error::new("read blob", &object, kind);
        let url = endpoint.blob_url(reference, digest).map_err(fail)?;
        let mut headers = range_headers(range.as_ref()).map_err(fail)?;
        headers.extend(endpoint.headers.clone());
        let response = self
            .ask_endpoint(endpoint, reference, url, &headers)
            .await
            .map_err(|failure| {
                let headers = Box::new(failure.headers);
                fail(ErrorKind::Mirror {
                    failure: Box::new(failure.kind),
                    headers,
                })
            })?;
        BlobStream::of(response, range.as_ref(), &object, &self.inner.transport.limits).map_err(fail)
    }

    async fn ask_endpoint(
        &self,
        endpoint: &Endpoint,
        reference: &Reference,
        url: Url,
        headers: &HeaderMap,
    ) -> Result<Response, Failure> {
        let scope = Scope::pull(reference.repository());
        let (transport, host) = (&self.inner.transport, reference.api_host());
        let ask = async |granted: &Granted| -> Result<Response, Failure> {
            let response = transport
                .follow(&http::Method::GET, url.clone(), headers, granted.header_for(true))
                .await?;
            if response.status().is_success() {
                return Ok(response);
            }
            Err(failure_of(host, response, granted.login_for(true)).await)
        };
        if !endpoint.credentials {
            return ask(&Granted::default()).await;
        }
        let granted = self.inner.tokens.current(transport, host, &scope).await?;
        match ask(&granted).await {
            Err(failure) if failure.login_expired => {
                let granted = self
                    .inner
                    .login_again(host, &scope, &granted, failure.challenge)
                    .await?;
                ask(&granted).await
            }
            done => done,
        }
    }
}

impl Endpoint {
    /// A plain mirror at this address: it is told the registry, and never its credential.
    pub fn new(base: Url) -> Self {
        Self {
            base,
            headers: HeaderMap::new(),
            namespace: true,
            credentials: false,
            api_root: false,
        }
    }

    /// Adds a header to each request.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    fn blob_url(&self, reference: &Reference, digest: &str) -> Result<Url, ErrorKind> {
        check_digest(digest)?;
        let prefix = self.base.path().trim_end_matches('/');
        let mut url = self.base.clone();
        let version = if self.api_root { "" } else { "/v2" };
        url.set_path(&format!("{prefix}{version}/{}/blobs/{digest}", reference.repository()));
        if self.namespace {
            url.query_pairs_mut().append_pair("ns", reference.registry());
        }
        Ok(url)
    }
}
