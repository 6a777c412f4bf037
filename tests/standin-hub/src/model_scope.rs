//! The ModelScope personality: envelope, revisions, a listing that is cut without a sign, files with its own way of ranges.

use std::io;
use std::sync::Arc;

use axum::response::Response;
use http::header;
use serde_json::{Value, json};

use crate::answer::{self, FileAnswer};
use crate::content::{Entry, Repository};
use crate::content_network;
use crate::escape;
use crate::server::{Asked, Hub, RangeMode};

/// Hash that an empty file has.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

pub(crate) fn is_for_us(segments: &[String]) -> bool {
    matches!(segments, [first, second, ..] if first == "api" && second == "v1")
        || matches!(segments, [first, _, _, verb, ..] if first == "models" && verb == "resolve")
}

pub(crate) async fn answer(hub: &Hub, asked: Asked) -> io::Result<Response> {
    let decoded: Vec<String> = asked.segments.iter().map(|segment| escape::decode(segment)).collect();
    let segments: Vec<&str> = decoded.iter().map(String::as_str).collect();
    let (owner, name, rest): (&str, &str, &[&str]) = match segments.as_slice() {
        ["api", "v1", "models", owner, name, rest @ ..] | ["models", owner, name, rest @ ..] => (owner, name, rest),
        _ => return Ok(failure(404, 10_010_200_001, "no such route")),
    };
    if let Some(refusal) = refuse_token(hub, &asked) {
        return Ok(refusal);
    }
    let Some(mut repository) = hub.content.repository(owner, name)? else {
        return Ok(failure(404, 10_010_205_001, "模型不存在"));
    };
    repository.pretend(asked.fault.as_ref());
    let hidden = repository.settings.private || repository.settings.gated.is_some();
    if hidden && !authorised(hub, &asked) {
        return Ok(failure(403, 10_010_205_003, "没有权限访问该模型"));
    }
    let query = |name: &str| escape::query_value(&asked.query, name);
    match rest {
        [] => Ok(success(
            &json!({"Name": name, "Path": owner, "License": "Apache License 2.0"}),
        )),
        ["revisions"] => Ok(success(
            &json!({"RevisionMap": {"Branches": [{"Revision": "master", "CreatedAt": 0}], "Tags": []}}),
        )),
        ["repo", "files"] => Ok(list(hub, &asked, &repository)),
        ["repo"] => {
            let (revision, path) = (
                query("Revision").unwrap_or_default(),
                query("FilePath").unwrap_or_default(),
            );
            file(hub, &asked, &repository, &revision, &path).await
        }
        ["resolve", revision, path @ ..] => file(hub, &asked, &repository, revision, &path.join("/")).await,
        _ => Ok(failure(404, 10_010_200_001, "no such route")),
    }
}

fn success(data: &Value) -> Response {
    answer::json(&json!({"Code": 200, "Success": true, "Message": "success", "RequestId": "standin", "Data": data}))
}

fn failure(status: u16, code: u64, message: &str) -> Response {
    let body = json!({"Code": code, "Success": false, "Message": message, "RequestId": "standin", "Data": null});
    answer::text(status, &[("content-type", "application/json")], body.to_string())
}

fn sent_token(asked: &Asked) -> Option<String> {
    let value = |name| asked.headers.get(name).and_then(|value| value.to_str().ok());
    let cookie =
        value(header::COOKIE).and_then(|cookie| cookie.split("; ").find_map(|pair| pair.strip_prefix("m_session_id=")));
    value(header::AUTHORIZATION)
        .and_then(|sent| sent.strip_prefix("Bearer "))
        .or(cookie)
        .map(str::to_owned)
}

fn authorised(hub: &Hub, asked: &Asked) -> bool {
    hub.config.token.is_some() && sent_token(asked) == hub.config.token
}

/// A wrong token is refused even where none would be needed, with a business code inside HTTP 400.
fn refuse_token(hub: &Hub, asked: &Asked) -> Option<Response> {
    let wrong = hub.config.token.is_some() && sent_token(asked).is_some() && !authorised(hub, asked);
    wrong.then(|| failure(400, 10_010_103_009, "token is invalid"))
}

fn list(hub: &Hub, asked: &Asked, repository: &Repository) -> Response {
    let query = |name: &str| escape::query_value(&asked.query, name);
    let revision = query("Revision").unwrap_or_default();
    if !repository.has_revision(&revision) {
        // A business failure inside HTTP 200.
        return failure(200, 10_010_205_006, "版本不存在");
    }
    // Only this spelling counts; another is ignored without an error.
    let recursive = query("Recursive").as_deref() == Some("True");
    let root = query("Root").unwrap_or_default();
    let shown = |path: &str| {
        let inside = if root.is_empty() {
            Some(path)
        } else {
            path.strip_prefix(&format!("{root}/"))
        };
        inside.is_some_and(|inside| recursive || !inside.contains('/'))
    };
    let trees = repository.directories().into_iter().filter(|path| shown(path)).map(|path| {
        json!({"Path": path, "Name": last_part(&path), "Type": "tree", "Size": 0, "Sha256": "", "IsLFS": false, "Mode": "16384", "Revision": repository.commit})
    });
    let files = repository
        .entries
        .iter()
        .filter(|entry| shown(&entry.path))
        .map(|entry| file_entry(hub, repository, entry));
    let all: Vec<Value> = trees.chain(files).take(hub.config.listing_cap).collect();
    success(
        &json!({"Files": all, "IsVisual": 0, "LatestCommitter": {"Id": repository.commit, "ShortId": &repository.commit[..8.min(repository.commit.len())]}}),
    )
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn file_entry(hub: &Hub, repository: &Repository, entry: &Entry) -> Value {
    let settings = &repository.settings;
    let listed = if entry.size == 0 { EMPTY } else { &entry.sha256 };
    let hash = if hub.config.capital_hashes {
        listed.to_uppercase()
    } else {
        listed.to_owned()
    };
    let hash = if settings.unhashed.contains(&entry.path) {
        String::new()
    } else {
        hash
    };
    let size = if settings.unsized_files.contains(&entry.path) {
        0
    } else {
        entry.size
    };
    // The last commit that touched the file: another one for each, and no sign of freshness.
    let revision = &entry.git_sha1;
    json!({"Path": entry.path, "Name": last_part(&entry.path), "Type": "blob", "Size": size, "Sha256": hash,
        "IsLFS": entry.large, "Mode": "33188", "Revision": revision, "InCheck": false})
}

async fn file(hub: &Hub, asked: &Asked, repository: &Repository, revision: &str, path: &str) -> io::Result<Response> {
    if !repository.has_revision(revision) {
        return Ok(failure(404, 10_010_205_006, "版本不存在"));
    }
    let Some(entry) = repository.entry(path) else {
        return Ok(failure(404, 10_010_205_004, "文件不存在"));
    };
    if entry.large {
        let location = content_network::presigned(hub, asked, repository, entry, RangeMode::Full);
        let etag = format!("\"{}\"", entry.sha256);
        return Ok(answer::text(
            302,
            &[("location", &location), ("x-linked-etag", &etag)],
            "",
        ));
    }
    let range = match answer::requested_range(&asked.headers, entry.size) {
        Ok(range) => range,
        Err(size) => return Ok(answer::range_not_satisfiable(size)),
    };
    let file = repository.root.join(&entry.path);
    let mode = hub.config.model_scope_range;
    let file = FileAnswer {
        file: &file,
        size: entry.size,
        range,
        mode,
        head: asked.head(),
        headers: Vec::new(),
    };
    Ok(answer::file(file, asked.fault.clone(), Arc::clone(&hub.recorder)).await)
}
