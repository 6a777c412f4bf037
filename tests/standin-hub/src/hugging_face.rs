//! The Hugging Face personality: info, tree pages, paths-info, refs, resolve in its five answers, raw.

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

pub(crate) async fn answer(hub: &Hub, asked: Asked) -> io::Result<Response> {
    let segments: Vec<&str> = asked.segments.iter().map(String::as_str).collect();
    let (owner, name, rest): (&str, &str, &[&str]) = match segments.as_slice() {
        ["api", "resolve-cache", "models", owner, name, rest @ ..] | ["api", "models", owner, name, rest @ ..] => {
            (owner, name, rest)
        }
        [owner, name, rest @ ..] => (owner, name, rest),
        _ => return Ok(not_found("RepoNotFound", "Repository not found")),
    };
    let Some(mut repository) = hub.content.repository(owner, name)? else {
        return Ok(unknown_repository(hub, &asked));
    };
    repository.pretend(asked.fault.as_ref());
    if let Some(refusal) = refuse_repository(hub, &asked, &repository) {
        return Ok(refusal);
    }
    match (segments[0], segments.get(1), rest) {
        ("api", Some(&"resolve-cache"), [commit, path @ ..]) => {
            let commit = escape::decode(commit);
            small_file(hub, &asked, &repository, &commit, &decode_joined(path)).await
        }
        ("api", _, []) => Ok(info(&repository, None)),
        ("api", _, ["revision", revision]) => Ok(info(&repository, Some(&escape::decode(revision)))),
        ("api", _, ["tree", revision, directory @ ..]) => Ok(tree(
            hub,
            &asked,
            &repository,
            &escape::decode(revision),
            &decode_joined(directory),
        )),
        ("api", _, ["paths-info", revision]) => Ok(paths_info(&asked, &repository, &escape::decode(revision))),
        ("api", _, ["refs"]) => Ok(answer::json(&json!({
            "branches": [{"name": "main", "ref": "refs/heads/main", "targetCommit": repository.commit}], "tags": [],
        }))),
        (_, _, ["resolve", revision, path @ ..]) => {
            resolve(
                hub,
                &asked,
                &repository,
                &escape::decode(revision),
                &decode_joined(path),
            )
            .await
        }
        (_, _, ["raw", revision, path @ ..]) => {
            raw(
                hub,
                &asked,
                &repository,
                &escape::decode(revision),
                &decode_joined(path),
            )
            .await
        }
        _ => Ok(answer::text(404, &[], "no such page")),
    }
}

fn decode_joined(segments: &[&str]) -> String {
    segments
        .iter()
        .map(|segment| escape::decode(segment))
        .collect::<Vec<_>>()
        .join("/")
}

fn not_found(code: &str, message: &str) -> Response {
    answer::text(
        404,
        &[("x-error-code", code), ("x-error-message", message)],
        json!({"error": message}).to_string(),
    )
}

fn authorised(hub: &Hub, asked: &Asked) -> bool {
    let sent = asked
        .headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    hub.config
        .token
        .as_ref()
        .is_some_and(|token| sent == Some(&format!("Bearer {token}")))
}

/// The hub does not say whether a repository that an anonymous caller cannot see exists.
fn unknown_repository(hub: &Hub, asked: &Asked) -> Response {
    if authorised(hub, asked) {
        return not_found("RepoNotFound", "Repository not found");
    }
    let message = "Invalid username or password.";
    answer::text(
        401,
        &[("x-error-code", "RepoNotFound"), ("x-error-message", message)],
        json!({"error": message}).to_string(),
    )
}

fn refuse_repository(hub: &Hub, asked: &Asked, repository: &Repository) -> Option<Response> {
    let settings = &repository.settings;
    if let Some(canonical) = &settings.renamed_to {
        let location = asked.target.replacen(&repository.id, canonical, 1);
        return Some(answer::text(307, &[("location", &location)], ""));
    }
    if settings.private && !authorised(hub, asked) {
        return Some(unknown_repository(hub, asked));
    }
    if settings.disabled {
        return Some(answer::text(
            403,
            &[("x-error-message", "Access to this resource is disabled.")],
            "Access to this resource is disabled.",
        ));
    }
    None
}

fn info(repository: &Repository, revision: Option<&str>) -> Response {
    if revision.is_some_and(|revision| !repository.has_revision(revision)) {
        return not_found("RevisionNotFound", "Invalid rev id");
    }
    // Cut short on purpose: the siblings of a big repository cannot be trusted.
    let siblings: Vec<Value> = repository
        .entries
        .iter()
        .take(1)
        .map(|entry| json!({"rfilename": entry.path}))
        .collect();
    let gated = repository
        .settings
        .gated
        .as_ref()
        .map_or(Value::Bool(false), |kind| json!(kind));
    answer::json(&json!({
        "id": repository.id, "sha": repository.commit, "private": repository.settings.private, "gated": gated,
        "disabled": repository.settings.disabled, "tags": [], "siblings": siblings,
    }))
}

fn tree_entry(entry: &Entry) -> Value {
    let mut value = json!({"type": "file", "path": entry.path, "size": entry.size, "oid": entry.git_sha1});
    if entry.large {
        value["lfs"] = json!({"oid": entry.sha256, "size": entry.size, "pointerSize": pointer_text(entry).len()});
        value["xetHash"] = json!("*".repeat(64));
    }
    value
}

fn tree(hub: &Hub, asked: &Asked, repository: &Repository, revision: &str, directory: &str) -> Response {
    if !repository.has_revision(revision) {
        return not_found("RevisionNotFound", "Invalid rev id");
    }
    let recursive = escape::query_value(&asked.query, "recursive").as_deref() == Some("true");
    let below = |path: &str| {
        let inside = if directory.is_empty() {
            Some(path)
        } else {
            path.strip_prefix(&format!("{directory}/"))
        };
        inside.is_some_and(|inside| recursive || !inside.contains('/'))
    };
    let directories = repository.directories();
    let directories = directories.iter().map(|path| {
        (
            path.clone(),
            json!({"type": "directory", "path": path, "size": 0, "oid": "0".repeat(40)}),
        )
    });
    let files = repository
        .entries
        .iter()
        .map(|entry| (entry.path.clone(), tree_entry(entry)));
    let all: Vec<Value> = directories
        .chain(files)
        .filter(|(path, _)| below(path))
        .map(|(_, value)| value)
        .collect();
    let start = escape::query_value(&asked.query, "cursor")
        .and_then(|cursor| cursor.parse::<usize>().ok())
        .unwrap_or(0);
    let limit = escape::query_value(&asked.query, "limit").and_then(|limit| limit.parse::<usize>().ok());
    let page = limit.map_or(hub.config.page_size, |limit| limit.min(hub.config.page_size));
    let end = all.len().min(start + page);
    let mut response = answer::json(&json!(all.get(start..end).unwrap_or_default()));
    if end < all.len() {
        let path = asked.target.split('?').next().unwrap_or_default();
        let link = format!(
            "<{}{path}?recursive={recursive}&expand=false&cursor={end}>; rel=\"next\"",
            hub.config.page_host
        );
        if let Ok(link) = link.parse() {
            response.headers_mut().insert(header::LINK, link);
        }
    }
    response
}

fn paths_info(asked: &Asked, repository: &Repository, revision: &str) -> Response {
    if !repository.has_revision(revision) {
        return not_found("RevisionNotFound", "Invalid rev id");
    }
    let body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
    let paths: Vec<&str> = body["paths"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let entries = repository
        .entries
        .iter()
        .filter(|entry| paths.contains(&entry.path.as_str()));
    answer::json(&json!(entries.map(tree_entry).collect::<Vec<_>>()))
}

fn refuse_file(hub: &Hub, asked: &Asked, repository: &Repository, revision: &str, path: &str) -> Option<Response> {
    if !repository.has_revision(revision) {
        return Some(not_found("RevisionNotFound", "Invalid rev id"));
    }
    if repository.settings.gated.is_some() && !authorised(hub, asked) {
        let message = format!(
            "Access to model {} is restricted. You must be authenticated to access it.",
            repository.id
        );
        let status = if asked.headers.contains_key(header::AUTHORIZATION) {
            403
        } else {
            401
        };
        return Some(answer::text(
            status,
            &[("x-error-code", "GatedRepo"), ("x-error-message", &message)],
            message.clone(),
        ));
    }
    if repository.entry(path).is_none() {
        return Some(not_found("EntryNotFound", "Entry not found"));
    }
    None
}

async fn resolve(
    hub: &Hub,
    asked: &Asked,
    repository: &Repository,
    revision: &str,
    path: &str,
) -> io::Result<Response> {
    if let Some(refusal) = refuse_file(hub, asked, repository, revision, path) {
        return Ok(refusal);
    }
    let Some(entry) = repository.entry(path) else {
        return Ok(not_found("EntryNotFound", "Entry not found"));
    };
    let etag = if entry.large { &entry.sha256 } else { &entry.git_sha1 };
    let quoted = format!("\"{etag}\"");
    if asked
        .headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|sent| sent.as_bytes() == quoted.as_bytes())
    {
        return Ok(answer::text(304, &[("etag", &quoted)], ""));
    }
    if entry.large {
        return Ok(redirect_to_content_network(hub, asked, repository, entry));
    }
    let hidden = repository.settings.private || repository.settings.gated.is_some();
    if hidden || entry.size == 0 {
        return small_file(hub, asked, repository, revision, path).await;
    }
    let escaped = escape::encode_path(&entry.path);
    let location = format!(
        "/api/resolve-cache/models/{}/{}/{escaped}?etag={etag}",
        repository.id, repository.commit
    );
    Ok(answer::text(
        307,
        &[
            ("location", &location),
            ("x-repo-commit", &repository.commit),
            ("etag", &quoted),
        ],
        "Temporary Redirect",
    ))
}

fn redirect_to_content_network(hub: &Hub, asked: &Asked, repository: &Repository, entry: &Entry) -> Response {
    let location = content_network::presigned(hub, asked, repository, entry, RangeMode::Partial);
    let headers = [
        ("location", location.as_str()),
        ("x-repo-commit", repository.commit.as_str()),
        ("x-linked-etag", &format!("\"{}\"", entry.sha256)),
        ("x-linked-size", &entry.size.to_string()),
        ("x-xet-hash", &"*".repeat(64)),
        ("accept-ranges", "bytes"),
        ("link", "</api/models/xet-read-token>; rel=\"xet-auth\""),
    ];
    answer::text(302, &headers, "Found. Redirecting to the content network")
}

async fn small_file(
    hub: &Hub,
    asked: &Asked,
    repository: &Repository,
    revision: &str,
    path: &str,
) -> io::Result<Response> {
    if let Some(refusal) = refuse_file(hub, asked, repository, revision, path) {
        return Ok(refusal);
    }
    let Some(entry) = repository.entry(path) else {
        return Ok(not_found("EntryNotFound", "Entry not found"));
    };
    let range = match answer::requested_range(&asked.headers, entry.size) {
        Ok(range) => range,
        Err(size) => return Ok(answer::range_not_satisfiable(size)),
    };
    let headers = vec![
        ("etag", format!("\"{}\"", entry.git_sha1)),
        ("x-repo-commit", repository.commit.clone()),
    ];
    let file = repository.root.join(&entry.path);
    let file = FileAnswer {
        file: &file,
        size: entry.size,
        range,
        mode: RangeMode::Partial,
        head: asked.head(),
        headers,
    };
    Ok(answer::file(file, asked.fault.clone(), Arc::clone(&hub.recorder)).await)
}

fn pointer_text(entry: &Entry) -> String {
    format!(
        "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n",
        entry.sha256, entry.size
    )
}

async fn raw(hub: &Hub, asked: &Asked, repository: &Repository, revision: &str, path: &str) -> io::Result<Response> {
    match repository.entry(path).filter(|entry| entry.large) {
        Some(entry) => Ok(answer::text(
            200,
            &[("content-type", "text/plain")],
            pointer_text(entry),
        )),
        None => small_file(hub, asked, repository, revision, path).await,
    }
}
