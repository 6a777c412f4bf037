//! Manifests and tags.

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Response, Url};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::auth::Scope;
use crate::client::{Call, Client};
use crate::error::{Error, ErrorKind};
use crate::links::next_link;
use crate::reference::{Reference, is_digest};
use crate::transport::host_text;

/// Registries accept at most 4 MiB.
pub(crate) const MANIFEST_LIMIT: usize = 4 << 20;
const TAG_PAGE_LIMIT: usize = 10_000;

const ACCEPTED: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json, */*;q=0.1";

/// What a reference resolves to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestDescriptor {
    /// `sha256:…`
    pub digest: String,
    /// Media type, when the registry says it.
    pub media_type: Option<String>,
    /// Size in bytes, when the registry says it.
    pub size: Option<u64>,
}

/// A manifest whose digest has been computed from its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestBytes {
    /// The bytes, exactly as stored.
    pub bytes: Vec<u8>,
    /// `sha256:…` of the bytes.
    pub digest: String,
    /// Media type by the `Content-Type` of the answer.
    pub media_type: Option<String>,
}

#[derive(Deserialize)]
struct TagList {
    tags: Option<Vec<String>>,
}

impl Client {
    /// The digest behind a reference, without its bytes where the registry can tell.
    pub async fn resolve(&self, reference: &Reference) -> Result<ManifestDescriptor, Error> {
        let fail = |kind| Error::new("resolve", reference, kind);
        let scope = Scope::pull(reference.repository());
        let url = self.manifest_url(reference).map_err(fail)?;
        let call = Call {
            headers: accept_headers(),
            ..Call::head(reference.api_host(), url, &scope)
        };
        let descriptor = match self.inner.call(&call).await {
            Ok(response) => descriptor_of(&response),
            // Some registries and proxies do not take HEAD.
            Err(ErrorKind::Status {
                status: 405 | 400 | 501,
                ..
            }) => None,
            Err(other) => return Err(fail(other)),
        };
        if let Some(descriptor) = descriptor
            && reference.digest().is_none_or(|digest| digest == descriptor.digest)
        {
            return Ok(descriptor);
        }
        let manifest = self.get_manifest(reference).await?;
        let size = Some(manifest.bytes.len() as u64);
        Ok(ManifestDescriptor {
            digest: manifest.digest,
            media_type: manifest.media_type,
            size,
        })
    }

    /// The manifest, with its digest computed here and compared with what was asked for.
    pub async fn get_manifest(&self, reference: &Reference) -> Result<ManifestBytes, Error> {
        let fail = |kind| Error::new("read manifest", reference, kind);
        let scope = Scope::pull(reference.repository());
        let url = self.manifest_url(reference).map_err(fail)?;
        let call = Call {
            headers: accept_headers(),
            ..Call::get(reference.api_host(), url, &scope)
        };
        let get = || async {
            let response = self.inner.call_once(&call).await.map_err(|failure| failure.kind)?;
            let media_type = content_type(response.headers());
            let bytes = self.inner.transport.read_limited(response, MANIFEST_LIMIT).await?;
            Ok((media_type, bytes))
        };
        let (media_type, bytes) = self.inner.retrying(get).await.map_err(fail)?;
        let digest = sha256_of(&bytes);
        match reference.digest() {
            Some(expected) if expected != digest => Err(fail(ErrorKind::DigestMismatch {
                expected: expected.to_owned(),
                found: digest,
            })),
            _ => Ok(ManifestBytes {
                bytes,
                digest,
                media_type,
            }),
        }
    }

    /// Stores a manifest under the reference's digest or tag; returns its digest.
    pub async fn put_manifest(&self, reference: &Reference, media_type: &str, bytes: &[u8]) -> Result<String, Error> {
        self.put_manifest_with_headers(reference, media_type, bytes)
            .await
            .map(|(digest, _)| digest)
    }

    /// The same, with the headers of the answer (`OCI-Subject` tells whether the registry keeps referrers).
    pub(crate) async fn put_manifest_with_headers(
        &self,
        reference: &Reference,
        media_type: &str,
        bytes: &[u8],
    ) -> Result<(String, HeaderMap), Error> {
        let fail = |kind| Error::new("store manifest", reference, kind);
        let digest = sha256_of(bytes);
        if let Some(expected) = reference.digest().filter(|expected| *expected != digest) {
            return Err(fail(ErrorKind::DigestMismatch {
                expected: expected.to_owned(),
                found: digest,
            }));
        }
        let content_type = HeaderValue::from_str(media_type)
            .map_err(|_| fail(ErrorKind::Input(format!("{media_type:?} is no media type"))))?;
        let scope = Scope::push(reference.repository());
        let url = self.manifest_url(reference).map_err(fail)?;
        let mut call = Call::new(http::Method::PUT, reference.api_host(), url, &scope);
        call.headers.insert(CONTENT_TYPE, content_type);
        call.body = bytes::Bytes::copy_from_slice(bytes);
        let response = self.inner.call(&call).await.map_err(fail)?;
        match header_text(response.headers(), "docker-content-digest") {
            Some(stored) if is_digest(stored) && stored != digest => Err(fail(ErrorKind::DigestMismatch {
                expected: digest,
                found: stored.to_owned(),
            })),
            _ => Ok((digest, response.headers().clone())),
        }
    }

    /// Deletes what the reference names: a tag where the registry can do that, else a manifest by its digest.
    pub async fn delete_manifest(&self, reference: &Reference) -> Result<(), Error> {
        let fail = |kind| Error::new("delete", reference, kind);
        let scope = Scope::delete(reference.repository());
        let url = self.manifest_url(reference).map_err(fail)?;
        let call = Call::new(http::Method::DELETE, reference.api_host(), url, &scope);
        self.inner.call(&call).await.map(drop).map_err(fail)
    }

    /// All tags of the repository, in the registry's order.
    pub async fn list_tags(&self, reference: &Reference) -> Result<Vec<String>, Error> {
        let fail = |kind| Error::new("list tags of", reference, kind);
        let scope = Scope::pull(reference.repository());
        let path = format!("{}/tags/list?n=1000", reference.repository());
        let mut next = Some(self.inner.transport.url(reference.api_host(), &path).map_err(fail)?);
        let mut tags = Vec::new();
        while let Some(url) = next {
            let call = Call::get(reference.api_host(), url.clone(), &scope);
            let response = self.inner.call(&call).await.map_err(fail)?;
            next = next_page(&url, response.headers());
            let host = host_text(response.url());
            let body = self
                .inner
                .transport
                .read_limited(response, MANIFEST_LIMIT)
                .await
                .map_err(fail)?;
            let page: TagList = serde_json::from_slice(&body).map_err(|error| {
                fail(ErrorKind::Protocol {
                    host,
                    problem: format!("its tag list is {error}"),
                })
            })?;
            let page = page.tags.unwrap_or_default();
            if page.is_empty() || tags.len() > TAG_PAGE_LIMIT * 10 {
                break;
            }
            tags.extend(page);
        }
        Ok(tags)
    }

    pub(crate) fn manifest_url(&self, reference: &Reference) -> Result<Url, ErrorKind> {
        let path = format!("{}/manifests/{}", reference.repository(), reference.identifier());
        self.inner.transport.url(reference.api_host(), &path)
    }
}

/// The next page, kept on the registry's own origin whatever host the link names.
pub(crate) fn next_page(url: &Url, headers: &HeaderMap) -> Option<Url> {
    let linked = url.join(&next_link(headers).ok()??).ok()?;
    let mut next = url.clone();
    next.set_path(linked.path());
    next.set_query(linked.query());
    (next != *url).then_some(next)
}

fn descriptor_of(response: &Response) -> Option<ManifestDescriptor> {
    let headers = response.headers();
    let digest = header_text(headers, "docker-content-digest")
        .filter(|digest| is_digest(digest))?
        .to_owned();
    let media_type = content_type(headers);
    let size = header_text(headers, "content-length").and_then(|length| length.parse().ok());
    Some(ManifestDescriptor {
        digest,
        media_type,
        size,
    })
}

fn accept_headers() -> HeaderMap {
    HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(ACCEPTED))])
}

pub(crate) fn header_text<K: http::header::AsHeaderName>(headers: &HeaderMap, name: K) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// The media type, without its parameters.
pub(crate) fn content_type(headers: &HeaderMap) -> Option<String> {
    let value = header_text(headers, &CONTENT_TYPE)?;
    Some(value.split(';').next().unwrap_or_default().trim().to_owned())
}

pub(crate) fn sha256_of(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = "sha256:".to_owned();
    for byte in Sha256::digest(bytes) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
