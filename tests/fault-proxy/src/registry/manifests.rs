//! Manifests, tags, referrers.

use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Method, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::Shared;
use super::reply::{content, query_value, refuse, reply, with};
use super::store::sha256;
use crate::server::Body;

pub(crate) async fn answer(
    shared: &Shared,
    head: &Parts,
    body: Incoming,
    repository: &str,
    reference: &str,
) -> Response<Body> {
    match head.method {
        Method::PUT => {
            let bytes = body
                .collect()
                .await
                .map(http_body_util::Collected::to_bytes)
                .unwrap_or_default();
            put(shared, head, repository, reference, bytes)
        }
        Method::DELETE if shared.store().delete(repository, reference) => reply(202, ""),
        Method::GET | Method::HEAD => get(shared, head, repository, reference),
        _ => refuse(404, "MANIFEST_UNKNOWN", "manifest unknown"),
    }
}

fn get(shared: &Shared, head: &Parts, repository: &str, reference: &str) -> Response<Body> {
    let store = shared.store();
    let Some((digest, manifest)) = store.manifest(repository, reference) else {
        return refuse(404, "MANIFEST_UNKNOWN", "manifest unknown");
    };
    let answer = content(head.method == Method::HEAD, manifest.bytes.clone());
    with(
        with(answer, "docker-content-digest", &digest),
        "content-type",
        &manifest.media_type,
    )
}

fn put(shared: &Shared, head: &Parts, repository: &str, reference: &str, bytes: bytes::Bytes) -> Response<Body> {
    let Ok(manifest) = serde_json::from_slice::<Value>(&bytes) else {
        return refuse(400, "MANIFEST_INVALID", "manifest invalid");
    };
    let mut store = shared.store();
    let layers = manifest["layers"]
        .as_array()
        .into_iter()
        .flatten()
        .chain([&manifest["config"]]);
    for digest in layers.filter_map(|layer| layer["digest"].as_str()) {
        if store.blob(repository, digest).is_none() {
            return refuse(
                400,
                "MANIFEST_BLOB_UNKNOWN",
                &format!("blob unknown to registry: {digest}"),
            );
        }
    }
    let digest = sha256(&bytes);
    let tag = (!reference.starts_with("sha256:")).then_some(reference);
    if tag.is_none() && reference != digest {
        return refuse(400, "DIGEST_INVALID", "provided digest did not match uploaded content");
    }
    let media_type = head
        .headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    store.add_manifest(repository, tag, media_type, bytes);
    let answer = with(reply(201, ""), "docker-content-digest", &digest);
    match manifest["subject"]["digest"]
        .as_str()
        .filter(|_| shared.config.referrers)
    {
        Some(subject) => with(answer, "oci-subject", subject),
        None => answer,
    }
}

/// Two tags a page, so that paging is always used.
pub(crate) fn tags(shared: &Shared, head: &Parts, repository: &str) -> Response<Body> {
    let last = query_value(head.uri.query().unwrap_or_default(), "last").unwrap_or_default();
    let all = shared.store().tags(repository);
    let rest: Vec<&String> = all.iter().filter(|tag| **tag > last).collect();
    let page: Vec<&String> = rest.iter().copied().take(2).collect();
    let answer = reply(200, json!({"name": repository, "tags": page}).to_string());
    match page.last().filter(|_| rest.len() > page.len()) {
        // An absolute address of another host, as registries behind proxies send it.
        Some(tag) => {
            let link = format!("<http://internal.example/v2/{repository}/tags/list?n=2&last={tag}>; rel=\"next\"");
            with(answer, "link", &link)
        }
        None => answer,
    }
}

/// Two entries a page, so that paging is always used.
pub(crate) fn referrers(shared: &Shared, head: &Parts, repository: &str, digest: &str) -> Response<Body> {
    let seen = query_value(head.uri.query().unwrap_or_default(), "seen");
    let seen = seen.and_then(|seen| seen.parse().ok()).unwrap_or(0);
    let store = shared.store();
    let descriptors: Vec<Value> = store
        .manifests_of(repository)
        .filter_map(|(found, manifest)| {
            let body: Value = serde_json::from_slice(&manifest.bytes).ok()?;
            (body["subject"]["digest"] == digest).then(|| {
                json!({
                    "mediaType": manifest.media_type,
                    "digest": found,
                    "size": manifest.bytes.len(),
                    // The config's type where the manifest has none, as the distribution specification says.
                    "artifactType": body.get("artifactType").unwrap_or(&body["config"]["mediaType"]),
                    "annotations": body["annotations"],
                })
            })
        })
        .collect();
    let page: Vec<&Value> = descriptors.iter().skip(seen).take(2).collect();
    let index = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": page});
    let answer = with(
        reply(200, index.to_string()),
        "content-type",
        "application/vnd.oci.image.index.v1+json",
    );
    let end = seen + page.len();
    if end >= descriptors.len() {
        return answer;
    }
    let link = format!("</v2/{repository}/referrers/{digest}?seen={end}>; rel=\"next\"");
    with(answer, "link", &link)
}
