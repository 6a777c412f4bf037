//! From a request to the part of the specification that answers it.

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, RANGE};
use http::request::Parts;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::reply::{content, refuse, reply, with};
use super::{Shared, auth, manifests, uploads};
use crate::apply::{instead, spoil};
use crate::fault::Fault;
use crate::proxy::{shift_range, shorten_range};
use crate::server::{Body, Broken};

/// A path under `/v2/`, taken apart.
enum Route<'a> {
    Ping,
    Token,
    Manifest { repository: &'a str, reference: &'a str },
    Blob { repository: &'a str, digest: &'a str },
    OpenUpload { repository: &'a str },
    Upload { repository: &'a str, id: &'a str },
    Tags { repository: &'a str },
    Referrers { repository: &'a str, digest: &'a str },
    Unknown,
}

impl<'a> Route<'a> {
    fn of(path: &'a str) -> Self {
        if path == "/token" {
            return Self::Token;
        }
        let Some(rest) = path.strip_prefix("/v2/") else {
            return Self::Unknown;
        };
        if rest.is_empty() {
            return Self::Ping;
        }
        if let Some(repository) = rest.strip_suffix("/blobs/uploads/") {
            return Self::OpenUpload { repository };
        }
        if let Some(repository) = rest.strip_suffix("/tags/list") {
            return Self::Tags { repository };
        }
        let split = |word: &str| rest.rsplit_once(word);
        if let Some((repository, id)) = split("/blobs/uploads/") {
            return Self::Upload { repository, id };
        }
        if let Some((repository, digest)) = split("/blobs/") {
            return Self::Blob { repository, digest };
        }
        if let Some((repository, digest)) = split("/referrers/") {
            return Self::Referrers { repository, digest };
        }
        split("/manifests/").map_or(Self::Unknown, |(repository, reference)| Self::Manifest {
            repository,
            reference,
        })
    }

    fn repository(&self) -> &'a str {
        match *self {
            Self::Ping | Self::Token | Self::Unknown => "",
            Self::Manifest { repository, .. }
            | Self::Blob { repository, .. }
            | Self::OpenUpload { repository }
            | Self::Upload { repository, .. }
            | Self::Tags { repository }
            | Self::Referrers { repository, .. } => repository,
        }
    }
}

pub(crate) async fn answer(shared: &Shared, request: Request<Incoming>) -> Result<Response<Body>, Broken> {
    let (mut head, body) = request.into_parts();
    shared.record(&head);
    let path = head.uri.path_and_query().map_or_else(String::new, ToString::to_string);
    let fault = shared.config.script.take(head.method.as_str(), &path);
    if let Some(answer) = fault.as_ref().and_then(instead) {
        // The whole request first, so that the client reads the answer and not a broken pipe.
        let _ = body.collect().await;
        return Ok(answer);
    }
    match &fault {
        Some(Fault::IgnoreRange) => drop(head.headers.remove(RANGE)),
        Some(Fault::OtherRange { shift }) => shift_range(&mut head.headers, *shift),
        Some(Fault::ShortRange { most }) => shorten_range(&mut head.headers, *most),
        _ => {}
    }
    let answer = route(shared, &head, body, fault.as_ref()).await?;
    match fault {
        Some(fault) => spoil(&fault, answer),
        None => Ok(answer),
    }
}

async fn route(shared: &Shared, head: &Parts, body: Incoming, fault: Option<&Fault>) -> Result<Response<Body>, Broken> {
    let route = Route::of(head.uri.path());
    if let Route::Token = route {
        let form = body
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes)
            .unwrap_or_default();
        return Ok(auth::token(shared, head, &String::from_utf8_lossy(&form)));
    }
    if let Some(refusal) = auth::check(shared, head, route.repository()) {
        let _ = body.collect().await;
        return Ok(refusal);
    }
    Ok(match route {
        Route::Ping => reply(200, "{}"),
        Route::Manifest { repository, reference } => manifests::answer(shared, head, body, repository, reference).await,
        Route::Blob { repository, digest } => blob(shared, head, repository, digest),
        Route::OpenUpload { repository } => uploads::open(shared, head, repository),
        Route::Upload { repository, id } => uploads::answer(shared, head, body, repository, id, fault).await?,
        Route::Tags { repository } => manifests::tags(shared, head, repository),
        Route::Referrers { repository, digest } if shared.config.referrers => {
            manifests::referrers(shared, head, repository, digest)
        }
        Route::Referrers { .. } | Route::Token | Route::Unknown => reply(404, "404 page not found"),
    })
}

fn blob(shared: &Shared, head: &Parts, repository: &str, digest: &str) -> Response<Body> {
    let Some(bytes) = shared.store().blob(repository, digest) else {
        return refuse(404, "BLOB_UNKNOWN", "blob unknown to registry");
    };
    if head.method == Method::HEAD {
        return with(content(true, bytes), "docker-content-digest", digest);
    }
    if shared.config.redirect_blobs {
        let target = format!("http://{}/{digest}?signature=secret", shared.storage_address);
        return with(reply(307, ""), "location", &target);
    }
    ranged(&head.headers, bytes)
}

/// The storage behind redirects: refuses whoever shows it a login.
pub(crate) fn storage(shared: &Shared, request: &Request<Incoming>) -> Response<Body> {
    if request.headers().contains_key(AUTHORIZATION) {
        shared.leak();
        return reply(400, "only one authentication mechanism is allowed");
    }
    let digest = request.uri().path().trim_start_matches('/').to_owned();
    match shared.store().content(&digest) {
        Some(bytes) => ranged(request.headers(), bytes),
        None => reply(404, "no such key"),
    }
}

fn ranged(headers: &HeaderMap, bytes: Bytes) -> Response<Body> {
    let total = bytes.len();
    let text = headers.get(RANGE).and_then(|value| value.to_str().ok());
    let Some((start, end)) = text.and_then(|text| text.strip_prefix("bytes=")?.split_once('-')) else {
        return content(false, bytes);
    };
    let start: usize = start.parse().unwrap_or(0);
    let end = end.parse().map_or(total, |end: usize| end.saturating_add(1).min(total));
    if start >= total || start >= end {
        return with(reply(416, ""), "content-range", &format!("bytes */{total}"));
    }
    let mut answer = with(
        content(false, bytes.slice(start..end)),
        "content-range",
        &format!("bytes {start}-{}/{total}", end - 1),
    );
    *answer.status_mut() = http::StatusCode::PARTIAL_CONTENT;
    answer
}
