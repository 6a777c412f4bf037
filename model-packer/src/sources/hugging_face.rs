//! Hugging Face, and every hub and mirror that speaks like it.

use std::collections::BTreeSet;
use std::ops::Range;

use artifact::Digest;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use reqwest::header::HeaderMap;
use serde::Deserialize;

use super::http::{Answer, Document, HubClient, escape};
use super::refusals::{message_of, status_error};
use super::settings::HubSettings;
use super::{ByteStream, HubHash, ListedFile, ModelSource, RetryPolicy, Snapshot, SourceError};

const OWN_NAMES: [&str; 2] = ["huggingface.co", "www.huggingface.co"];
/// Pages of a thousand: more is no repository but a loop.
const PAGE_LIMIT: usize = 10_000;

/// A repository of Hugging Face.
pub struct HuggingFace {
    client: HubClient,
    id: String,
    revision: String,
}

#[derive(Deserialize)]
struct Info {
    id: Option<String>,
    sha: Option<String>,
    #[serde(default)]
    disabled: bool,
}

#[derive(Deserialize)]
struct TreeEntry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    size: Option<u64>,
    #[serde(default)]
    oid: Option<String>,
    #[serde(default)]
    lfs: Option<LargeFile>,
}

/// The key is `oid` in the tree and `sha256` in other answers.
#[derive(Deserialize)]
struct LargeFile {
    #[serde(alias = "sha256")]
    oid: String,
    size: u64,
}

impl HuggingFace {
    /// Nothing is asked yet.
    pub fn new(id: String, revision: Option<String>, settings: &HubSettings) -> Result<Self, SourceError> {
        if let Some(variable) = &settings.offline {
            return Err(SourceError::Offline {
                variable: variable.clone(),
                hub: "Hugging Face",
                missing: None,
            });
        }
        let credential = settings.hugging_face_token.clone();
        let client = HubClient::new(settings.hugging_face.clone(), &OWN_NAMES, credential, None, settings)?;
        Ok(Self {
            client,
            id,
            revision: revision.unwrap_or_else(|| "main".into()),
        })
    }

    async fn resolve_and_list(&self) -> Result<Snapshot, SourceError> {
        let (id, commit) = self.resolve().await?;
        match self.list(&id, &commit).await {
            Ok(files) => Ok(self.snapshot_of(id, commit, files)),
            // The info can name a commit that a force push has just removed: ask once more, then say so.
            Err(SourceError::RevisionNotFound { .. }) => {
                let (id, commit) = self.resolve().await?;
                let files = self.list(&id, &commit).await.map_err(gone)?;
                Ok(self.snapshot_of(id, commit, files))
            }
            Err(error) => Err(error),
        }
    }

    fn snapshot_of(&self, id: String, commit: String, files: Vec<ListedFile>) -> Snapshot {
        Snapshot {
            hub: "hf",
            endpoint: Some(self.client.endpoint.as_str().trim_end_matches('/').to_owned()),
            id: Some(id),
            revision: Some(self.revision.clone()),
            commit: Some(commit),
            files,
            unfit: Vec::new(),
        }
    }

    /// The canonical id and the commit.
    async fn resolve(&self) -> Result<(String, String), SourceError> {
        let url = self.client.url(&format!(
            "/api/models/{}/revision/{}",
            self.id,
            escape(&self.revision, false)
        ))?;
        let document = self.client.document(&self.id, &url).await?;
        self.check(
            &self.id,
            &self.revision,
            None,
            document.status,
            &document.headers,
            &document.body,
        )?;
        let info: Info = parse(&self.id, &document)?;
        if info.disabled {
            return Err(SourceError::Disabled {
                id: self.id.clone(),
                message: None,
            });
        }
        let id = info.id.unwrap_or_else(|| self.id.clone());
        let commit = info.sha.filter(|sha| is_hex(sha, 40));
        let commit = commit.ok_or_else(|| bad_answer(&self.id, "it names no commit of 40 digits"))?;
        Ok((id, commit))
    }

    async fn list(&self, id: &str, commit: &str) -> Result<Vec<ListedFile>, SourceError> {
        let mut url = self.client.url(&format!(
            "/api/models/{id}/tree/{commit}?recursive=true&expand=false&limit=1000"
        ))?;
        let (mut files, mut seen) = (Vec::new(), BTreeSet::new());
        for _ in 0..PAGE_LIMIT {
            let document = self.client.document(id, &url).await?;
            self.check(id, commit, None, document.status, &document.headers, &document.body)?;
            let entries: Vec<TreeEntry> = parse(id, &document)?;
            for entry in entries.into_iter().filter(|entry| entry.kind != "directory") {
                files.push(listed(id, entry)?);
            }
            match registry::next_link(&document.headers).map_err(|problem| bad_answer(id, problem))? {
                None => return sorted(id, files),
                Some(next) => {
                    let next = url
                        .join(&next)
                        .map_err(|_| bad_answer(id, "the link to the next page is no address"))?;
                    let next = self.client.on_endpoint(&next)?;
                    if !seen.insert(next.to_string()) {
                        break;
                    }
                    url = next;
                }
            }
        }
        Err(bad_answer(id, "its pages never end"))
    }

    fn token_from(&self) -> Option<String> {
        self.client
            .credential
            .as_ref()
            .map(|credential| credential.origin.clone())
    }

    /// Every error of the contract by its code, each with its own meaning.
    fn check(
        &self,
        id: &str,
        revision: &str,
        path: Option<&str>,
        status: u16,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<(), SourceError> {
        if (200..300).contains(&status) {
            return Ok(());
        }
        let code = headers
            .get("x-error-code")
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let message = message_of(headers, body);
        let (id, token_from) = (id.to_owned(), self.token_from());
        let endpoint = self.client.endpoint.as_str().trim_end_matches('/').to_owned();
        let disabled = message.as_ref().is_some_and(|text| text.contains("disabled"));
        Err(match (status, code) {
            (_, "GatedRepo") => SourceError::Gated {
                id,
                message,
                token_from,
            },
            (_, "RevisionNotFound") => SourceError::RevisionNotFound {
                id,
                revision: revision.to_owned(),
            },
            (404, "EntryNotFound") => SourceError::FileNotFound {
                id,
                path: path.unwrap_or_default().to_owned(),
            },
            (403, _) if disabled => SourceError::Disabled { id, message },
            (401, "") if token_from.is_some() => SourceError::TokenRefused { message, token_from },
            (401 | 404, _) => SourceError::RepositoryNotFound {
                id,
                endpoint,
                message,
                token_from,
            },
            _ => SourceError::Status {
                what: id,
                status,
                message,
                wait: None,
            },
        })
    }

    async fn open_range(
        &self,
        snapshot: &Snapshot,
        file: &ListedFile,
        range: Range<u64>,
    ) -> Result<ByteStream, SourceError> {
        if range.is_empty() {
            return Ok(futures::stream::empty().boxed());
        }
        let (id, commit) = (
            snapshot.id.as_deref().unwrap_or(&self.id),
            snapshot.commit.as_deref().unwrap_or(&self.revision),
        );
        let url = self.client.url(&format!(
            "/{id}/resolve/{}/{}",
            escape(commit, false),
            escape(&file.path, true)
        ))?;
        let answer = self.client.get_range(&file.path, url, &range).await?;
        check_promises(file, commit, &answer.first_headers)?;
        let status = answer.response.status().as_u16();
        if (200..300).contains(&status) || status == 416 {
            return self.client.body(&file.path, answer, &range, file.size);
        }
        self.refused(id, commit, file, answer).await
    }

    async fn refused(
        &self,
        id: &str,
        commit: &str,
        file: &ListedFile,
        answer: Answer,
    ) -> Result<ByteStream, SourceError> {
        let status = answer.response.status().as_u16();
        if !answer.from_hub && matches!(status, 400 | 401 | 403 | 404 | 410) {
            // A presigned address that ran out: the hub gives a new one.
            return Err(SourceError::Part {
                path: file.path.clone(),
                problem: format!("the content network answered {status}"),
            });
        }
        if matches!(status, 408 | 425 | 429 | 500..=599) {
            return Err(status_error(&file.path, answer.response).await);
        }
        let headers = answer.response.headers().clone();
        let body = answer.response.bytes().await.unwrap_or_default();
        self.check(id, commit, Some(&file.path), status, &headers, &body)
            .map_err(gone)?;
        Err(bad_answer(&file.path, "it is neither the file nor an error"))
    }
}

impl ModelSource for HuggingFace {
    fn snapshot(&self) -> BoxFuture<'_, Result<Snapshot, SourceError>> {
        self.resolve_and_list().boxed()
    }

    fn open<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        file: &'a ListedFile,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<ByteStream, SourceError>> {
        self.open_range(snapshot, file, range).boxed()
    }

    fn ignores_ranges(&self) -> bool {
        self.client.ignores_ranges()
    }

    fn retry_policy(&self) -> RetryPolicy {
        self.client.policy
    }
}

/// A commit that the hub named itself, and does not know any more.
fn gone(error: SourceError) -> SourceError {
    match error {
        SourceError::RevisionNotFound { id, revision } => SourceError::CommitGone { id, commit: revision },
        error => error,
    }
}

/// Mirrors strip these headers; where they are, they must agree with the listing.
fn check_promises(file: &ListedFile, commit: &str, headers: &HeaderMap) -> Result<(), SourceError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let mismatch = |expected: String, found: String| {
        Err(SourceError::Mismatch {
            path: file.path.clone(),
            expected,
            found,
        })
    };
    if let Some(other) = text("x-repo-commit").filter(|other| is_hex(commit, 40) && *other != commit) {
        return mismatch(format!("commit {commit}"), format!("commit {other}"));
    }
    let linked = text("x-linked-etag").map(|etag| etag.trim_start_matches("W/").trim_matches('"'));
    if let (Some(linked), Some(listed)) = (linked.filter(|etag| is_hex(etag, 64)), file.hash.sha256())
        && linked != listed.hex()
    {
        return mismatch(listed.to_string(), format!("sha256:{linked}"));
    }
    match text("x-linked-size").and_then(|size| size.parse::<u64>().ok()) {
        Some(size) if size != file.size => mismatch(format!("{} bytes", file.size), format!("{size} bytes")),
        _ => Ok(()),
    }
}

fn listed(id: &str, entry: TreeEntry) -> Result<ListedFile, SourceError> {
    let TreeEntry {
        kind,
        path,
        size,
        oid,
        lfs,
    } = entry;
    if kind != "file" {
        return Err(bad_answer(
            id,
            &format!("{path:?} is a {kind:?}, neither file nor directory"),
        ));
    }
    let hash = match (&lfs, oid) {
        (Some(large), _) => HubHash::Sha256(
            Digest::from_hex(&large.oid).map_err(|error| bad_answer(id, &format!("the hash of {path:?}: {error}")))?,
        ),
        (None, Some(oid)) if is_hex(&oid, 40) => HubHash::GitSha1(oid),
        (None, _) => HubHash::Unknown,
    };
    let size = lfs.map(|large| large.size).or(size);
    let size = size.ok_or_else(|| bad_answer(id, &format!("{path:?} has no size")))?;
    Ok(ListedFile { path, size, hash })
}

/// The hub's order is its own business; a path that comes twice is not.
pub(crate) fn sorted(id: &str, mut files: Vec<ListedFile>) -> Result<Vec<ListedFile>, SourceError> {
    files.sort_by(|left, right| left.path.cmp(&right.path));
    match files.windows(2).find(|pair| pair[0].path == pair[1].path) {
        Some(pair) => Err(bad_answer(id, &format!("{:?} is listed twice", pair[0].path))),
        None => Ok(files),
    }
}

fn parse<T: serde::de::DeserializeOwned>(what: &str, document: &Document) -> Result<T, SourceError> {
    serde_json::from_slice(&document.body).map_err(|error| bad_answer(what, &error.to_string()))
}

fn bad_answer(what: &str, problem: &str) -> SourceError {
    SourceError::Answer {
        what: what.to_owned(),
        problem: problem.to_owned(),
    }
}

pub(crate) fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_read_from_either_spelling_and_a_masked_one_is_refused() {
        let entry = |text: &str| listed("a/b", serde_json::from_str(text).unwrap());
        let digest = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
        for key in ["oid", "sha256"] {
            let text = format!(
                r#"{{"type":"file","path":"m","oid":"x","size":1,"lfs":{{"{key}":"{digest}","size":9,"pointerSize":1}}}}"#
            );
            let file = entry(&text).unwrap();
            assert_eq!((file.size, file.hash.sha256().unwrap().hex()), (9, digest));
        }
        assert!(
            entry(&format!(
                r#"{{"type":"file","path":"m","lfs":{{"oid":"{}","size":9}}}}"#,
                "*".repeat(64)
            ))
            .is_err()
        );
        assert!(entry(r#"{"type":"file","path":"m","oid":"x"}"#).is_err());
    }
}
