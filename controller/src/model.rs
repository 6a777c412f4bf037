//! Reading what a packed model says about itself, from its registry, with the pull secrets of the deployment's namespace.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use artifact::PackedModel;
use crds::{ModelDeployment, Reason};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use registry::{ClientConfig, Credentials, ErrorKind, Limits, Reference, Retry};
use serde_json::{Map, Value, json};

use crate::finding::Finding;
use crate::observed::Model;
use crate::validate::digest_json;

/// Models that are remembered. The facts of one take a few kilobytes.
const REMEMBERED: usize = 2048;
/// The key of a pull secret that holds logins.
const DOCKER_CONFIG: &str = ".dockerconfigjson";

/// Reads models and remembers them. An entry is found only with the logins that it was read with: knowing a digest is no
/// permission to read it.
pub struct ModelReader {
    client: Client,
    plain_http: Vec<String>,
    remembered: Mutex<BTreeMap<(String, String), Arc<Model>>>,
}

impl ModelReader {
    /// A reader that speaks plain http with these hosts.
    pub fn new(client: Client, plain_http: Vec<String>) -> Self {
        Self {
            client,
            plain_http,
            remembered: Mutex::default(),
        }
    }

    /// The model of a deployment. A tag is resolved once: while the spec keeps it, the digest in the status stays in force.
    pub async fn read(&self, deployment: &ModelDeployment) -> Result<Arc<Model>, Finding> {
        let asked = &deployment.spec.model.artifact;
        let reference: Reference = asked.parse().map_err(|error: registry::ReferenceError| {
            let hint = error.hint().map_or(String::new(), |hint| format!("; {hint}"));
            Finding::new(Reason::ReferenceInvalid, format!("{}{hint}", chain(&error)))
        })?;
        let reference = settled(deployment, asked, reference);
        let logins = self.logins(deployment).await?;
        let key = (reference.to_string(), digest_json(&logins));
        if let Some(model) = reference.digest().and_then(|_| self.recall(&key)) {
            return Ok(model);
        }
        let model = Arc::new(self.fetch(asked, &reference, logins).await?);
        self.remember((model.reference.clone(), key.1), Arc::clone(&model));
        Ok(model)
    }

    fn recall(&self, key: &(String, String)) -> Option<Arc<Model>> {
        self.remembered.lock().ok()?.get(key).cloned()
    }

    fn remember(&self, key: (String, String), model: Arc<Model>) {
        let Ok(mut remembered) = self.remembered.lock() else {
            return;
        };
        while remembered.len() >= REMEMBERED {
            remembered.pop_first();
        }
        remembered.insert(key, model);
    }

    /// The logins of all pull secrets as one docker config; the first secret that knows a registry wins.
    async fn logins(&self, deployment: &ModelDeployment) -> Result<Option<Value>, Finding> {
        let secrets = &deployment.spec.model.pull_secrets;
        if secrets.is_empty() {
            return Ok(None);
        }
        let api: Api<Secret> = Api::namespaced(
            self.client.clone(),
            deployment.metadata.namespace.as_deref().unwrap_or_default(),
        );
        let mut merged = Map::new();
        for named in secrets {
            let secret = api.get_opt(&named.name).await.map_err(|error| {
                Finding::new(
                    Reason::SecretNotRead,
                    format!("secret {} cannot be read: {error}", named.name),
                )
            })?;
            let secret = secret.ok_or_else(|| {
                Finding::new(
                    Reason::PullSecretInvalid,
                    format!("secret {} is not in this namespace", named.name),
                )
            })?;
            for (registry, login) in logins_of(&named.name, &secret)? {
                merged.entry(registry).or_insert(login);
            }
        }
        Ok(Some(json!({ "auths": merged })))
    }

    async fn fetch(&self, asked: &str, reference: &Reference, logins: Option<Value>) -> Result<Model, Finding> {
        let credentials = logins.map_or(Credentials::Anonymous, |logins| {
            Credentials::DockerConfigJson(registry::Secret::new(logins.to_string()))
        });
        let failed = |error: registry::Error| registry_finding(&error);
        let client = registry::Client::new(self.config(credentials)).map_err(failed)?;
        let manifest = client.get_manifest(reference).await.map_err(failed)?;
        let packed = PackedModel::read(&manifest.bytes, None).map_err(|error| {
            let hint = error.hint().map_or(String::new(), |hint| format!("; {hint}"));
            Finding::new(Reason::ArtifactInvalid, format!("{reference}: {}{hint}", chain(&error)))
        })?;
        model(asked, reference, packed)
    }

    fn config(&self, credentials: Credentials) -> ClientConfig {
        ClientConfig {
            plain_http: self.plain_http.clone(),
            credentials,
            user_agent: concat!("plimsoll-controller/", env!("CARGO_PKG_VERSION")).to_owned(),
            limits: Limits {
                connect: Duration::from_secs(5),
                answer: Duration::from_secs(10),
                ..Limits::default()
            },
            // The pass itself is repeated later, with a condition that says so meanwhile.
            retry: Retry {
                times: 1,
                max_asked: Duration::from_secs(2),
                ..Retry::default()
            },
            ..ClientConfig::default()
        }
    }
}

/// The reference by the digest that the status settled on, when it did so for what the spec still asks.
fn settled(deployment: &ModelDeployment, asked: &str, reference: Reference) -> Reference {
    let status = deployment.status.as_ref().and_then(|status| status.model.as_ref());
    let known = status.filter(|model| model.requested.as_deref() == Some(asked));
    known.and_then(|model| model.artifact.parse().ok()).unwrap_or(reference)
}

fn logins_of(name: &str, secret: &Secret) -> Result<Map<String, Value>, Finding> {
    let refuse = |what: &str| Finding::new(Reason::PullSecretInvalid, format!("secret {name} {what}"));
    let data = secret.data.as_ref().and_then(|data| data.get(DOCKER_CONFIG));
    let data = data
        .ok_or_else(|| refuse("has no key .dockerconfigjson; make it with `kubectl create secret docker-registry`"))?;
    let config: Value = serde_json::from_slice(&data.0).map_err(|_| refuse("holds no JSON under .dockerconfigjson"))?;
    config["auths"]
        .as_object()
        .cloned()
        .ok_or_else(|| refuse("holds a docker config without `auths`"))
}

fn model(asked: &str, reference: &Reference, packed: PackedModel) -> Result<Model, Finding> {
    let bytes = packed.total_bytes();
    let mut facts = packed.facts.ok_or_else(|| {
        let text = format!(
            "{reference} carries no facts about the model; pack it with `model-packer push`, which writes them"
        );
        Finding::new(Reason::FactsMissing, text)
    })?;
    if facts.checkpoint.is_none() {
        facts.checkpoint = packed
            .source
            .as_deref()
            .and_then(|source| source.split_once("://"))
            .map(|(_, name)| name.to_owned());
    }
    Ok(Model {
        requested: asked.to_owned(),
        reference: format!("{}/{}@{}", reference.registry(), reference.repository(), packed.digest),
        facts,
        files: packed.files.iter().map(|file| file.path.to_string()).collect(),
        bytes,
        weights_absent: packed.weights_absent,
    })
}

/// Whose move a registry's answer is.
fn registry_finding(error: &registry::Error) -> Finding {
    let reason = match error.kind() {
        ErrorKind::Unauthorized { .. } | ErrorKind::Denied { .. } | ErrorKind::Credentials { .. } => {
            Reason::ArtifactUnauthorized
        }
        ErrorKind::NotFound { .. } => Reason::ArtifactNotFound,
        ErrorKind::Input(_) => Reason::ReferenceInvalid,
        ErrorKind::DigestMismatch { .. } | ErrorKind::TooLarge { .. } => Reason::ArtifactInvalid,
        _ => Reason::RegistryUnreachable,
    };
    let hint = error.hint().map_or(String::new(), |hint| format!("; {hint}"));
    Finding::new(reason, format!("{}{hint}", chain(error)))
}

/// An error and its causes in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crds::{ModelDeploymentStatus, ModelSummary};

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn deployment(artifact: &str, requested: &str) -> ModelDeployment {
        let spec = serde_json::from_value(json!({"model": {"artifact": artifact}})).unwrap();
        let mut deployment = ModelDeployment::new("one", spec);
        deployment.status = Some(ModelDeploymentStatus {
            model: Some(ModelSummary {
                artifact: format!("r.local/m@{DIGEST}"),
                requested: Some(requested.to_owned()),
                ..ModelSummary::default()
            }),
            ..ModelDeploymentStatus::default()
        });
        deployment
    }

    #[test]
    fn a_tag_keeps_the_digest_that_it_had_until_the_spec_names_another() {
        for (asked, requested, expected) in [
            ("r.local/m:v1", "r.local/m:v1", Some(DIGEST)),
            ("r.local/m:v2", "r.local/m:v1", None),
        ] {
            let reference = settled(&deployment(asked, requested), asked, asked.parse().unwrap());
            assert_eq!(reference.digest(), expected, "{asked} after {requested}");
        }
    }

    #[test]
    fn a_secret_without_logins_says_what_it_lacks() {
        let secret = Secret::default();
        let finding = logins_of("pull", &secret).unwrap_err();
        assert_eq!(finding.reason, Reason::PullSecretInvalid);
        assert!(finding.message.contains("pull"), "{}", finding.message);
    }
}
