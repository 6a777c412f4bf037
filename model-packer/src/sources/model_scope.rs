//! ModelScope. Its listing is the pin: files are asked for by branch and proven by the listed hash.

use std::collections::BTreeSet;
use std::ops::Range;

use artifact::Digest;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::envelope::{Envelope, may_be_envelope, start_of};
use super::http::{Answer, Document, HubClient, escape};
use super::hugging_face::sorted;
use super::refusals::{message_of, status_error};
use super::request_number::{RequestNumber, with_number};
use super::settings::HubSettings;
use super::{ByteStream, HubHash, ListedFile, ModelSource, RetryPolicy, Snapshot, SourceError};

const OWN_NAMES: [&str; 3] = ["modelscope.cn", "www.modelscope.cn", "www.modelscope.ai"];
/// SHA-256 of nothing: the only one with which size 0 is a size.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The code of a branch or tag that is not there.
const REVISION_MISSING: u64 = 10_010_205_006;

/// Listings of a branch that moves meanwhile, before giving up.
const LISTING_ATTEMPTS: usize = 3;

/// A repository of ModelScope.
pub struct ModelScope {
    client: HubClient,
    id: String,
    revision: String,
    listing_cap: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Files {
    #[serde(default)]
    files: Option<Vec<Entry>>,
    #[serde(default)]
    latest_committer: Option<Committer>,
}

impl Files {
    fn commit(&self) -> Option<String> {
        self.latest_committer.as_ref()?.id.clone()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Committer {
    #[serde(default)]
    id: Option<String>,
}

#[derive(Deserialize, Clone)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    path: String,
    #[serde(rename = "Type")]
    kind: String,
    #[serde(default)]
    size: Option<u64>,
    #[serde(default)]
    sha256: Option<String>,
}

impl Entry {
    fn is_tree(&self) -> bool {
        self.kind == "tree"
    }
}

/// Folders in folders, and folders in all: more is no repository.
const DEPTH_LIMIT: usize = 64;
const FOLDER_LIMIT: usize = 20_000;

impl ModelScope {
    /// Nothing is asked yet. `main` means the hub's `master`.
    pub fn new(id: String, revision: Option<String>, settings: &HubSettings) -> Result<Self, SourceError> {
        let credential = settings.model_scope_token.clone();
        let client = HubClient::new(
            settings.model_scope.clone(),
            &OWN_NAMES,
            credential,
            Some("m_session_id"),
            settings,
        )?
        .numbering_requests();
        let revision = revision
            .filter(|revision| revision != "main")
            .unwrap_or_else(|| "master".into());
        Ok(Self {
            client,
            id,
            revision,
            listing_cap: settings.listing_cap,
        })
    }

    async fn resolve_and_list(&self) -> Result<Snapshot, SourceError> {
        for _ in 0..LISTING_ATTEMPTS {
            if let Some((commit, entries)) = self.list().await? {
                return self.snapshot_of(commit, entries).await;
            }
        }
        Err(self.bad_answer("it moved to another commit each time that it was listed".into()))
    }

    /// The commit and everything in it; `None` when the branch moved between two pages of it.
    async fn list(&self) -> Result<Option<(Option<String>, Vec<Entry>)>, SourceError> {
        let first = self.page("", true).await?;
        let commit = first.commit();
        let entries = first.files.unwrap_or_default();
        if entries.len() < self.listing_cap && children_are_listed(&entries) {
            return Ok(Some((commit, entries)));
        }
        let walked = self.walk(commit.as_deref()).await?;
        Ok(walked.map(|entries| (commit, entries)))
    }

    async fn snapshot_of(&self, commit: Option<String>, entries: Vec<Entry>) -> Result<Snapshot, SourceError> {
        let mut files = Vec::new();
        for entry in entries.into_iter().filter(|entry| !entry.is_tree()) {
            files.push(self.listed(entry).await?);
        }
        if files.is_empty() {
            return Err(self.bad_answer("it lists no files".into()));
        }
        Ok(Snapshot {
            hub: "ms",
            endpoint: Some(self.client.endpoint.as_str().trim_end_matches('/').to_owned()),
            id: Some(self.id.clone()),
            revision: Some(self.revision.clone()),
            commit,
            files: sorted(&self.id, files)?,
            unfit: Vec::new(),
        })
    }

    /// Folder by folder: a listing that reached the cap, or ignored the wish for the whole tree, is not complete.
    async fn walk(&self, commit: Option<&str>) -> Result<Option<Vec<Entry>>, SourceError> {
        let (mut folders, mut seen, mut files) = (vec![String::new()], BTreeSet::new(), Vec::new());
        while let Some(folder) = folders.pop() {
            let page = self.page(&folder, false).await?;
            if page.commit().as_deref() != commit {
                return Ok(None);
            }
            let entries = page.files.unwrap_or_default();
            if entries.len() >= self.listing_cap {
                return Err(self.bad_answer(format!(
                    "the folder {folder:?} lists {} entries, at which the hub cuts listings without a sign",
                    entries.len()
                )));
            }
            for entry in entries {
                if !entry.is_tree() {
                    files.push(entry);
                } else if seen.insert(entry.path.clone()) {
                    folders.push(entry.path);
                }
            }
            let deep = folders
                .last()
                .is_some_and(|folder| folder.split('/').count() > DEPTH_LIMIT);
            if deep || seen.len() > FOLDER_LIMIT {
                return Err(self.bad_answer("its folders never end".into()));
            }
        }
        Ok(Some(files))
    }

    async fn page(&self, folder: &str, recursive: bool) -> Result<Files, SourceError> {
        let root = if folder.is_empty() {
            String::new()
        } else {
            format!("&Root={}", escape(folder, false))
        };
        // The hub reads only this spelling of the parameter and of its value.
        let recursive = if recursive { "True" } else { "False" };
        let url = self.client.url(&format!(
            "/api/v1/models/{}/repo/files?Revision={}&Recursive={recursive}{root}",
            self.id,
            escape(&self.revision, false)
        ))?;
        let document = self.client.document(&self.id, &url).await?;
        self.unwrap(&document)
    }

    /// Success needs three things: the status, the code, and the flag.
    fn unwrap<T: DeserializeOwned>(&self, document: &Document) -> Result<T, SourceError> {
        let (status, number) = (document.status, document.number.as_ref());
        let envelope: Envelope<T> = serde_json::from_slice(&document.body)
            .map_err(|error| self.bad_answer(with_number(format!("HTTP {status}: {error}"), number)))?;
        let fine = (200..300).contains(&status) && envelope.succeeded();
        match envelope {
            Envelope { data: Some(data), .. } if fine => Ok(data),
            envelope => Err(self.refusal(&self.id, status, envelope, number)),
        }
    }

    fn refusal<T>(
        &self,
        what: &str,
        status: u16,
        envelope: Envelope<T>,
        number: Option<&RequestNumber>,
    ) -> SourceError {
        let code = envelope.code;
        // The hub's own number where it names one: it may not take ours.
        let request = envelope.request_id.or_else(|| number.map(ToString::to_string));
        let parts = [
            envelope.message,
            code.map(|code| format!("code {code}")),
            request.map(|id| format!("request {id}")),
        ];
        let message = Some(parts.into_iter().flatten().collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty());
        let token_from = self
            .client
            .credential
            .as_ref()
            .map(|credential| credential.origin.clone());
        let id = self.id.clone();
        match (status, code) {
            (_, Some(10_010_103_009)) | (401, _) if token_from.is_some() => {
                SourceError::TokenRefused { message, token_from }
            }
            (_, Some(REVISION_MISSING)) => SourceError::RevisionNotFound {
                id,
                revision: self.revision.clone(),
            },
            (401 | 403 | 404, _) | (_, Some(10_010_205_001)) => {
                let endpoint = self.client.endpoint.as_str().trim_end_matches('/').to_owned();
                SourceError::RepositoryNotFound {
                    id,
                    endpoint,
                    message,
                    token_from,
                }
            }
            _ => SourceError::Status {
                what: what.to_owned(),
                status,
                message,
                wait: None,
            },
        }
    }

    async fn listed(&self, entry: Entry) -> Result<ListedFile, SourceError> {
        let Entry {
            path,
            kind,
            size,
            sha256,
        } = entry;
        if kind != "blob" {
            return Err(self.bad_answer(format!("{path:?} is a {kind:?}, neither blob nor tree")));
        }
        let sha256 = sha256.unwrap_or_default().to_ascii_lowercase();
        let hash = match sha256.as_str() {
            "" => HubHash::Unknown,
            hex => HubHash::Sha256(
                Digest::from_hex(hex).map_err(|error| self.bad_answer(format!("the hash of {path:?}: {error}")))?,
            ),
        };
        if let Some(size) = size.filter(|size| *size > 0 && sha256 == EMPTY) {
            return Err(self.bad_answer(format!("{path:?} has {size} bytes and the hash of nothing")));
        }
        let size = match size {
            // Zero means "not known" as well; only the hash of nothing proves it.
            Some(0) | None if sha256 != EMPTY => self.probe_size(&path).await?,
            size => size.unwrap_or(0),
        };
        Ok(ListedFile { path, size, hash })
    }

    /// HEAD is not part of what is known about this hub; the range of the first byte tells the total.
    async fn probe_size(&self, path: &str) -> Result<u64, SourceError> {
        let answer = self.client.get(path, self.file_url(path)?, Some(&(0..1))).await?;
        let status = answer.response.status().as_u16();
        if may_be_envelope(&answer, path, None) {
            return self.size_unless_refused(path, answer).await;
        }
        let text = |name: &str| {
            answer
                .response
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let total = text("content-range").and_then(|range| range.rsplit_once('/')?.1.parse().ok());
        let whole = || {
            text("content-length")
                .and_then(|length| length.parse().ok())
                .filter(|_| status == 200)
        };
        match total.or_else(whole) {
            Some(size) => Ok(size),
            None if (200..300).contains(&status) => Err(self.bad_answer(format!("the size of {path:?} is not known"))),
            None => Err(status_error(path, answer.response).await),
        }
    }

    /// JSON in place of one byte: the whole file of a hub that ignores ranges, or the reason why there is none.
    async fn size_unless_refused(&self, path: &str, answer: Answer) -> Result<u64, SourceError> {
        let (status, number) = facts_of(&answer);
        let body = start_of(answer).await?;
        match serde_json::from_slice::<Envelope<IgnoredAny>>(&body) {
            Ok(envelope) if !envelope.succeeded() => Err(self.refusal(path, status, envelope, number.as_ref())),
            _ => Ok(body.len() as u64),
        }
    }

    fn file_url(&self, path: &str) -> Result<reqwest::Url, SourceError> {
        self.client.url(&format!(
            "/api/v1/models/{}/repo?Revision={}&FilePath={}",
            self.id,
            escape(&self.revision, false),
            escape(path, false)
        ))
    }

    async fn open_range(&self, file: &ListedFile, range: Range<u64>) -> Result<ByteStream, SourceError> {
        if range.is_empty() {
            return Ok(futures::stream::empty().boxed());
        }
        let answer = self
            .client
            .get_range(&file.path, self.file_url(&file.path)?, &range)
            .await?;
        let status = answer.response.status().as_u16();
        if may_be_envelope(&answer, &file.path, Some(file.size)) {
            return Err(self.refused(file, answer).await?);
        }
        if (200..300).contains(&status) || status == 416 {
            return self.client.body(&file.path, answer, &range, file.size);
        }
        if !answer.from_hub && matches!(status, 400 | 401 | 403 | 404 | 410) {
            return Err(SourceError::Part {
                path: file.path.clone(),
                problem: format!("the content network answered {status}"),
            });
        }
        if !answer.from_hub || matches!(status, 408 | 425 | 429 | 500..=599) {
            return Err(status_error(&file.path, answer.response).await);
        }
        Err(self.refused(file, answer).await?)
    }

    /// Why there is no file, by the envelope that came for it.
    async fn refused(&self, file: &ListedFile, answer: Answer) -> Result<SourceError, SourceError> {
        let (status, number) = facts_of(&answer);
        let headers = answer.response.headers().clone();
        let body = start_of(answer).await?;
        let envelope = serde_json::from_slice::<Envelope<IgnoredAny>>(&body).ok();
        let envelope = envelope.filter(|envelope| !envelope.succeeded());
        Ok(match (status, envelope) {
            (404, envelope) if envelope.as_ref().and_then(|envelope| envelope.code) != Some(REVISION_MISSING) => {
                SourceError::FileNotFound {
                    id: self.id.clone(),
                    path: file.path.clone(),
                }
            }
            (_, Some(envelope)) => self.refusal(&file.path, status, envelope, number.as_ref()),
            (200..=299, None) => SourceError::Part {
                path: file.path.clone(),
                problem: with_number(
                    format!("{} bytes of JSON came, the listing says {}", body.len(), file.size),
                    number.as_ref(),
                ),
            },
            (_, None) => SourceError::Status {
                what: file.path.clone(),
                status,
                message: message_of(&headers, &body).map(|text| with_number(text, number.as_ref())),
                wait: None,
            },
        })
    }

    fn bad_answer(&self, problem: String) -> SourceError {
        SourceError::Answer {
            what: self.id.clone(),
            problem,
        }
    }
}

fn facts_of(answer: &Answer) -> (u16, Option<RequestNumber>) {
    (answer.response.status().as_u16(), RequestNumber::of(&answer.response))
}

/// Git keeps no empty folders, so a folder without children was not opened.
fn children_are_listed(entries: &[Entry]) -> bool {
    entries.iter().filter(|entry| entry.is_tree()).all(|tree| {
        let prefix = format!("{}/", tree.path);
        entries.iter().any(|entry| entry.path.starts_with(&prefix))
    })
}

impl ModelSource for ModelScope {
    fn snapshot(&self) -> BoxFuture<'_, Result<Snapshot, SourceError>> {
        self.resolve_and_list().boxed()
    }

    fn open<'a>(
        &'a self,
        _snapshot: &'a Snapshot,
        file: &'a ListedFile,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<ByteStream, SourceError>> {
        self.open_range(file, range).boxed()
    }

    fn ignores_ranges(&self) -> bool {
        self.client.ignores_ranges()
    }

    fn retry_policy(&self) -> RetryPolicy {
        self.client.policy
    }
}
