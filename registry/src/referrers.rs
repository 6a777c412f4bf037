//! Manifests that say something about another one: piece maps, signatures, provenance. By the registry's own list, and where it
//! keeps none under the tag `sha256-…` that the specification names for that case.

use http::header::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::auth::Scope;
use crate::client::{Call, Client};
use crate::error::{Error, ErrorKind};
use crate::manifest::{MANIFEST_LIMIT, header_text, sha256_of};
use crate::reference::{Reference, is_digest};
use crate::transport::host_text;

const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
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

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReferrerIndex {
    schema_version: u32,
    media_type: String,
    #[serde(default)]
    manifests: Vec<Referrer>,
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
            self.add_to_tag(reference, &subject, referrer).await?;
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
        let host = reference.api_host();
        let mut url = self
            .inner
            .transport
            .url(host, &format!("{}/referrers/{digest}", reference.repository()))?;
        if let Some(artifact_type) = artifact_type {
            url.query_pairs_mut().append_pair("artifactType", artifact_type);
        }
        let scope = Scope::pull(reference.repository());
        let response = match self.inner.call(&Call::get(host, url, &scope)).await {
            Ok(response) => response,
            Err(
                ErrorKind::NotFound { .. }
                | ErrorKind::Status {
                    status: 400 | 405 | 501,
                    ..
                },
            ) => return Ok(None),
            Err(other) => return Err(other),
        };
        let host = host_text(response.url());
        let body = self.inner.transport.read_limited(response, MANIFEST_LIMIT).await?;
        let index: ReferrerIndex = serde_json::from_slice(&body).map_err(|error| ErrorKind::Protocol {
            host,
            problem: format!("its list of referrers: {error}"),
        })?;
        Ok(Some(index.manifests))
    }

    async fn tagged_referrers(&self, reference: &Reference, digest: &str) -> Result<Vec<Referrer>, Error> {
        let tagged = fallback(reference, digest)?;
        match self.get_manifest(&tagged).await {
            // Somebody may use such a tag for something else.
            Ok(manifest) => Ok(serde_json::from_slice::<ReferrerIndex>(&manifest.bytes)
                .map_or_else(|_| Vec::new(), |index| index.manifests)),
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    async fn add_to_tag(&self, reference: &Reference, subject: &str, referrer: Referrer) -> Result<(), Error> {
        let mut manifests = self.tagged_referrers(reference, subject).await?;
        if manifests.iter().any(|known| known.digest == referrer.digest) {
            return Ok(());
        }
        manifests.push(referrer);
        let index = ReferrerIndex {
            schema_version: 2,
            media_type: OCI_INDEX.to_owned(),
            manifests,
        };
        let tagged = fallback(reference, subject)?;
        let bytes = serde_json::to_vec(&index)
            .map_err(|error| Error::new("list referrers of", reference, ErrorKind::Input(error.to_string())))?;
        self.put_manifest(&tagged, OCI_INDEX, &bytes).await.map(drop)
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
