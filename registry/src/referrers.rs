//! Manifests that say something about another one: piece maps, signatures, provenance. By the registry's own list, and where it
//! keeps none under the tag `sha256-…` that the specification names for that case.

use http::header::HeaderMap;
use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::auth::Scope;
use crate::client::{Call, Client};
use crate::error::{Error, ErrorKind};
use crate::manifest::{MANIFEST_LIMIT, content_type, header_text, next_page, sha256_of};
use crate::reference::{Reference, is_digest};
use crate::referrer_list::{OCI_INDEX, ReferrerList};

/// A list of more pages, or of more entries, is taken for one without end.
const PAGE_LIMIT: usize = 1000;
const ENTRY_LIMIT: usize = 100_000;
const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A manifest that refers to another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Referrer {
    /// Media type of the manifest.
    pub media_type: String,
    /// Digest of the manifest.
    pub digest: String,
    /// Size of the manifest.
    pub size: u64,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// Its annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WithSubject {
    media_type: Option<String>,
    artifact_type: Option<String>,
    subject: Option<Subject>,
    annotations: Option<Map<String, Value>>,
    config: Option<ConfigType>,
}

#[derive(Deserialize)]
struct Subject {
    digest: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigType {
    media_type: String,
}

impl Client {
    /// What refers to the manifest of this digest, of one artifact type or of all.
    pub async fn referrers(
        &self,
        reference: &Reference,
        digest: &str,
        artifact_type: Option<&str>,
    ) -> Result<Vec<Referrer>, Error> {
        let fail = |kind| Error::new("list referrers of", format!("{}@{digest}", reference.registry()), kind);
        let kept = self
            .kept_referrers(reference, digest, artifact_type)
            .await
            .map_err(fail)?;
        let mut found = match kept {
            Some(found) => found,
            None => self.tagged_referrers(reference, digest).await?,
        };
        // The server's filter is optional, so it is always applied here too.
        found.retain(|referrer| artifact_type.is_none_or(|wanted| referrer.artifact_type.as_deref() == Some(wanted)));
        Ok(found)
    }

    /// Stores a manifest with a subject and makes it known; returns its digest.
    pub async fn put_referrer(&self, reference: &Reference, bytes: &[u8]) -> Result<String, Error> {
        let fail = |kind| Error::new("store referrer in", reference, kind);
        let manifest: WithSubject = serde_json::from_slice(bytes)
            .map_err(|error| fail(ErrorKind::Input(format!("the manifest is not understood: {error}"))))?;
        let subject = manifest
            .subject
            .as_ref()
            .map(|subject| subject.digest.clone())
            .filter(|digest| is_digest(digest));
        let subject = subject.ok_or_else(|| fail(ErrorKind::Input("the manifest has no subject".to_owned())))?;
        let media_type = manifest.media_type.clone().unwrap_or_else(|| OCI_MANIFEST.to_owned());
        let target = reference
            .with_digest(&sha256_of(bytes))
            .map_err(|error| fail(ErrorKind::Input(error.to_string())))?;
        let (digest, headers) = self.put_manifest_with_headers(&target, &media_type, bytes).await?;
        if !keeps_referrers(&headers) {
            let referrer = Referrer {
                media_type,
                digest: digest.clone(),
                size: bytes.len() as u64,
                artifact_type: manifest
                    .artifact_type
                    .or(manifest.config.map(|config| config.media_type)),
                annotations: manifest.annotations,
            };
            self.add_to_tag(reference, &subject, &referrer).await?;
        }
        Ok(digest)
    }

    /// Whether the registry keeps a list itself; asked with any digest.
    pub(crate) async fn keeps_referrers_list(&self, reference: &Reference, digest: &str) -> Result<bool, ErrorKind> {
        self.kept_referrers(reference, digest, None)
            .await
            .map(|kept| kept.is_some())
    }

    /// `None` when the registry keeps no list.
    async fn kept_referrers(
        &self,
        reference: &Reference,
        digest: &str,
        artifact_type: Option<&str>,
    ) -> Result<Option<Vec<Referrer>>, ErrorKind> {
        if !is_digest(digest) {
            return Err(ErrorKind::Input(format!("{digest:?} is no sha256 digest")));
        }
        let path = format!("{}/referrers/{digest}", reference.repository());
        let mut url = self.inner.transport.url(reference.api_host(), &path)?;
        if let Some(artifact_type) = artifact_type {
            url.query_pairs_mut().append_pair("artifactType", artifact_type);
        }
        let Some((mut found, mut next)) = self.referrers_page(reference, url).await.or_else(none_kept)? else {
            return Ok(None);
        };
        for _ in 1..PAGE_LIMIT {
            let Some(url) = next else {
                return Ok(Some(found));
            };
            if found.len() > ENTRY_LIMIT {
                break;
            }
            let Some(page) = self.referrers_page(reference, url).await? else {
                return Err(broken(reference, "a further page is no list"));
            };
            found.extend(page.0);
            next = page.1;
        }
        Err(broken(reference, "it has no end"))
    }

    /// The entries and the address of the next page. `None` when the answer is something else: servers that show a page for people
    /// at every address answer 200 here too.
    async fn referrers_page(
        &self,
        reference: &Reference,
        url: Url,
    ) -> Result<Option<(Vec<Referrer>, Option<Url>)>, ErrorKind> {
        let scope = Scope::pull(reference.repository());
        let call = Call::get(reference.api_host(), url.clone(), &scope);
        let response = self.inner.call(&call).await?;
        let next = next_page(&url, response.headers());
        let is_index = content_type(response.headers()).as_deref() == Some(OCI_INDEX);
        let body = self.inner.transport.read_limited(response, MANIFEST_LIMIT).await?;
        let entries = match ReferrerList::read(&body) {
            Ok(list) => list.referrers(),
            Err(_) if !is_index => return Ok(None),
            Err(problem) => Err(problem),
        };
        let entries = entries.map_err(|problem| broken(reference, &problem))?;
        Ok(Some((entries, next)))
    }

    async fn tagged_referrers(&self, reference: &Reference, digest: &str) -> Result<Vec<Referrer>, Error> {
        match self.tagged_list(reference, digest).await? {
            Ok(list) => list
                .referrers()
                .map_err(|problem| Error::new("list referrers of", reference, broken(reference, &problem))),
            // Somebody may use such a tag for something else.
            Err(_) => Ok(Vec::new()),
        }
    }

    /// What is under the fallback tag: a list, or why it is none. Where there is no such tag, the list is empty.
    async fn tagged_list(&self, reference: &Reference, digest: &str) -> Result<Result<ReferrerList, String>, Error> {
        match self.get_manifest(&fallback(reference, digest)?).await {
            Ok(manifest) => Ok(ReferrerList::read(&manifest.bytes)),
            Err(error) if error.is_not_found() => Ok(Ok(ReferrerList::default())),
            Err(error) => Err(error),
        }
    }

    /// What others wrote there stays: entries of other tools as they are, and a tag that is no list altogether.
    async fn add_to_tag(&self, reference: &Reference, subject: &str, referrer: &Referrer) -> Result<(), Error> {
        let tagged = fallback(reference, subject)?;
        let fail = |kind| Error::new("list referrers of", reference, kind);
        let mut list = self.tagged_list(reference, subject).await?.map_err(|problem| {
            fail(ErrorKind::ReferrersTag {
                tag: tagged.tag().unwrap_or_default().to_owned(),
                problem,
            })
        })?;
        if !list.add(referrer) {
            return Ok(());
        }
        let bytes = list.to_bytes();
        self.put_manifest(&tagged, OCI_INDEX, &bytes).await.map(drop)
    }
}

/// Answers by which a registry says that it keeps no list.
fn none_kept<T>(kind: ErrorKind) -> Result<Option<T>, ErrorKind> {
    match kind {
        ErrorKind::NotFound { .. }
        | ErrorKind::Status {
            status: 400 | 405 | 501,
            ..
        } => Ok(None),
        other => Err(other),
    }
}

fn broken(reference: &Reference, problem: &str) -> ErrorKind {
    ErrorKind::Protocol {
        host: reference.api_host().to_owned(),
        problem: format!("its list of referrers: {problem}"),
    }
}

/// A registry that keeps referrers says so when it takes one.
fn keeps_referrers(headers: &HeaderMap) -> bool {
    header_text(headers, "oci-subject").is_some()
}

fn fallback(reference: &Reference, digest: &str) -> Result<Reference, Error> {
    let tag = digest.replace(':', "-");
    reference
        .with_tag(&tag)
        .map_err(|error| Error::new("list referrers of", reference, ErrorKind::Input(error.to_string())))
}
