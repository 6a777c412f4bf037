//! The content network: presigned addresses, bytes, ranges, and no headers that a hub would send.

use std::io;
use std::sync::Arc;

use axum::response::Response;
use sha2::{Digest as _, Sha256};

use crate::answer::{self, FileAnswer};
use crate::content::{Entry, Repository, hex};
use crate::escape;
use crate::server::{Asked, Hub, RangeMode};

/// The presigned address of a file.
pub(crate) fn presigned(hub: &Hub, asked: &Asked, repository: &Repository, entry: &Entry, mode: RangeMode) -> String {
    let (host, port) = (asked.host(), hub.content_network_port);
    let path = escape::encode_path(&format!("/{}/{}", repository.id, entry.path));
    let mode = if mode == RangeMode::Partial { "hf" } else { "ms" };
    format!(
        "http://{host}:{port}{path}?style={mode}&Expires=3600&Signature={}",
        sign(&entry.path, &entry.sha256)
    )
}

fn sign(path: &str, sha256: &str) -> String {
    hex(&Sha256::digest(format!("{path}:{sha256}")))
}

pub(crate) async fn answer(hub: &Hub, asked: Asked) -> io::Result<Response> {
    let segments: Vec<String> = asked.segments.iter().map(|segment| escape::decode(segment)).collect();
    let [owner, name, path @ ..] = segments.as_slice() else {
        return Ok(answer::text(404, &[], "no such object"));
    };
    let path = path.join("/");
    let Some(repository) = hub.content.repository(owner, name)? else {
        return Ok(answer::text(404, &[], "no such object"));
    };
    let Some(entry) = repository.entry(&path) else {
        return Ok(answer::text(404, &[], "no such object"));
    };
    let signature = escape::query_value(&asked.query, "Signature").unwrap_or_default();
    if signature != sign(&entry.path, &entry.sha256) {
        return Ok(answer::text(
            403,
            &[],
            "<Error><Code>SignatureDoesNotMatch</Code></Error>",
        ));
    }
    let range = match answer::requested_range(&asked.headers, entry.size) {
        Ok(range) => range,
        Err(size) => return Ok(answer::range_not_satisfiable(size)),
    };
    let model_scope = escape::query_value(&asked.query, "style").as_deref() == Some("ms");
    let mode = if model_scope {
        hub.config.model_scope_range
    } else {
        RangeMode::Partial
    };
    // An ETag of 64 digits that is not the file's hash: clients that trust it are wrong.
    let headers = vec![("etag", format!("\"{}\"", hex(&Sha256::digest(&entry.sha256))))];
    let file = repository.root.join(&entry.path);
    let file = FileAnswer {
        file: &file,
        size: entry.size,
        range,
        mode,
        head: asked.head(),
        headers,
    };
    Ok(answer::file(file, asked.fault, Arc::clone(&hub.recorder)).await)
}
