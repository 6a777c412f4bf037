//! Upload sessions: what arrives is kept, also when the connection breaks.

use http::header::CONTENT_RANGE;
use http::request::Parts;
use http::{Method, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::Shared;
use super::reply::{query_value, refuse, reply, with};
use super::store::{Upload, sha256};
use crate::fault::Fault;
use crate::server::{Body, Broken};

pub(crate) fn open(shared: &Shared, head: &Parts, repository: &str) -> Response<Body> {
    let query = head.uri.query().unwrap_or_default();
    let mut store = shared.store();
    if let (Some(digest), Some(from)) = (query_value(query, "mount"), query_value(query, "from"))
        && shared.config.mounts
        && store.mount(repository, &from, &digest)
    {
        return with(reply(201, ""), "docker-content-digest", &digest);
    }
    store.next_upload += 1;
    let id = format!("upload-{}", store.next_upload);
    store.uploads.insert(
        id.clone(),
        Upload {
            repository: repository.to_owned(),
            data: Vec::new(),
            state: 0,
        },
    );
    let answer = with(reply(202, ""), "location", &location(repository, &id, 0));
    match shared.config.min_part {
        Some(bytes) => with(answer, "oci-chunk-min-length", &bytes.to_string()),
        None => answer,
    }
}

fn location(repository: &str, id: &str, state: u64) -> String {
    format!("/v2/{repository}/blobs/uploads/{id}?state={state}")
}

pub(crate) async fn answer(
    shared: &Shared,
    head: &Parts,
    body: Incoming,
    repository: &str,
    id: &str,
    fault: Option<&Fault>,
) -> Result<Response<Body>, Broken> {
    if let Some(refusal) = check(shared, head, repository, id) {
        let _ = body.collect().await;
        return Ok(refusal);
    }
    match head.method {
        Method::GET => Ok(status(shared, 204, repository, id)),
        Method::DELETE => {
            shared.store().uploads.remove(id);
            Ok(reply(204, ""))
        }
        Method::PATCH => {
            receive(shared, id, body, fault).await?;
            Ok(status(shared, 202, repository, id))
        }
        Method::PUT => {
            receive(shared, id, body, fault).await?;
            Ok(finish(shared, head, repository, id))
        }
        _ => Ok(reply(405, "")),
    }
}

fn check(shared: &Shared, head: &Parts, repository: &str, id: &str) -> Option<Response<Body>> {
    let store = shared.store();
    let Some(upload) = store.uploads.get(id).filter(|upload| upload.repository == repository) else {
        return Some(refuse(404, "BLOB_UPLOAD_UNKNOWN", "blob upload unknown to registry"));
    };
    let number = |name| {
        head.headers
            .get(name)
            .and_then(|value: &http::HeaderValue| value.to_str().ok()?.parse::<u64>().ok())
    };
    let too_large = shared
        .config
        .max_body
        .is_some_and(|limit| number(http::header::CONTENT_LENGTH) > Some(limit));
    if too_large {
        return Some(reply(413, "<html><h1>413 Request Entity Too Large</h1></html>"));
    }
    let state = query_value(head.uri.query().unwrap_or_default(), "state");
    if head.method != Method::GET && state != Some(upload.state.to_string()) && head.method != Method::DELETE {
        return Some(refuse(
            404,
            "BLOB_UPLOAD_INVALID",
            "the session's address is out of date",
        ));
    }
    let start = head
        .headers
        .get(CONTENT_RANGE)
        .and_then(|value| value.to_str().ok()?.split_once('-')?.0.parse::<usize>().ok());
    let wrong_offset = start.is_some_and(|start| start != upload.data.len());
    wrong_offset.then(|| {
        with(
            reply(416, ""),
            "range",
            &format!("0-{}", upload.data.len().saturating_sub(1)),
        )
    })
}

async fn receive(shared: &Shared, id: &str, mut body: Incoming, fault: Option<&Fault>) -> Result<(), Broken> {
    let limit = if let Some(Fault::CutUpload { after }) = fault {
        Some(*after)
    } else {
        None
    };
    let mut taken = 0_u64;
    while let Some(frame) = body.frame().await {
        let Some(mut chunk) = frame.ok().and_then(|frame| frame.into_data().ok()) else {
            break;
        };
        if let Some(limit) = limit {
            chunk.truncate(usize::try_from(limit - taken).unwrap_or(usize::MAX));
        }
        taken += chunk.len() as u64;
        keep(shared, id, &chunk);
        if limit == Some(taken) {
            return Err(Broken);
        }
    }
    Ok(())
}

fn keep(shared: &Shared, id: &str, chunk: &[u8]) {
    let mut store = shared.store();
    store.received += chunk.len() as u64;
    if let Some(upload) = store.uploads.get_mut(id) {
        upload.data.extend_from_slice(chunk);
        upload.state += 1;
    }
}

fn status(shared: &Shared, code: u16, repository: &str, id: &str) -> Response<Body> {
    let store = shared.store();
    let Some(upload) = store.uploads.get(id) else {
        return refuse(404, "BLOB_UPLOAD_UNKNOWN", "blob upload unknown to registry");
    };
    let answer = with(reply(code, ""), "location", &location(repository, id, upload.state));
    with(answer, "range", &format!("0-{}", upload.data.len().saturating_sub(1)))
}

fn finish(shared: &Shared, head: &Parts, repository: &str, id: &str) -> Response<Body> {
    let digest = query_value(head.uri.query().unwrap_or_default(), "digest").unwrap_or_default();
    let mut store = shared.store();
    let Some(upload) = store.uploads.remove(id) else {
        return refuse(404, "BLOB_UPLOAD_UNKNOWN", "blob upload unknown to registry");
    };
    if sha256(&upload.data) != digest {
        return refuse(400, "DIGEST_INVALID", "provided digest did not match uploaded content");
    }
    store.add_blob(repository, upload.data.into());
    let answer = with(reply(201, ""), "docker-content-digest", &digest);
    with(answer, "location", &format!("/v2/{repository}/blobs/{digest}"))
}
