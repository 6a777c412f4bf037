//! Writes the objects of a deployment, and removes those that it no longer has.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crds::{LABEL_DEPLOYMENT, ModelDeployment, Reason};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::core::DynamicObject;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

use crate::build::{Children, claim_template_resource};
use crate::finding::Finding;
use crate::metrics::Metrics;
use crate::validate::digest_json;
use crate::watch::Caches;

/// The name under which the controller's fields are owned.
pub const FIELD_MANAGER: &str = "plimsoll-controller";

/// What was applied to a child, and what the child looked like right after.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    digest: String,
    look: String,
}

/// Writes children.
pub struct Applier {
    client: Client,
    marks: Mutex<HashMap<String, Mark>>,
}

/// Why children could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The API server says no to an object; it will say so again.
    #[error("the API server refuses {kind} {name}")]
    Refused {
        /// Kind of the object.
        kind: String,
        /// Its name.
        name: String,
        /// What the server says.
        #[source]
        source: Box<kube::Error>,
    },
    /// An object of that name is there and is not ours.
    #[error(
        "a {kind} {name} is there already and belongs to somebody else: rename the deployment, or remove that object"
    )]
    Taken {
        /// Kind of the object.
        kind: String,
        /// Its name.
        name: String,
    },
    /// The API server could not be asked, or failed.
    #[error("cannot write {kind} {name}")]
    Failed {
        /// Kind of the object.
        kind: String,
        /// Its name.
        name: String,
        /// What happened.
        #[source]
        source: Box<kube::Error>,
    },
}

impl ApplyError {
    /// The condition that a refusal leads to; a failure is simply tried again.
    pub fn finding(&self) -> Option<Finding> {
        match self {
            Self::Refused { .. } | Self::Taken { .. } => {
                Some(Finding::new(Reason::ApplyRefused, crate::model::chain(self)))
            }
            Self::Failed { .. } => None,
        }
    }
}

impl Applier {
    /// Nothing has been applied yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            marks: Mutex::default(),
        }
    }

    /// Writes what differs, then removes what is no longer wanted. The workload comes back where it was written: the cache does not
    /// have it yet.
    pub async fn apply(
        &self,
        owner: &ModelDeployment,
        children: &Children,
        caches: &Caches,
        metrics: &Metrics,
    ) -> Result<Option<Deployment>, ApplyError> {
        let Children {
            workload,
            service,
            claim,
        } = children;
        self.bound(caches.deployments.len());
        let namespace = owner.namespace().unwrap_or_default();
        if let Some(claim) = claim {
            // The pods name the template, so it comes first.
            let resource = claim_template_resource();
            let api = Api::namespaced_with(self.client.clone(), &namespace, &resource);
            let seen = caches
                .claims
                .as_ref()
                .and_then(|claims| find(&claims.templates, claim, resource.clone()));
            self.apply_one(&api, claim, seen, &resource.kind, metrics).await?;
        }
        let services: Api<Service> = Api::namespaced(self.client.clone(), &namespace);
        self.apply_one(
            &services,
            service,
            find(&caches.services, service, ()),
            "Service",
            metrics,
        )
        .await?;
        let workloads: Api<Deployment> = Api::namespaced(self.client.clone(), &namespace);
        let seen = find(&caches.workloads, workload, ());
        let written = self
            .apply_one(&workloads, workload, seen, "Deployment", metrics)
            .await?;
        self.prune(owner, children, caches, metrics).await?;
        Ok(written)
    }

    /// The object as the server has it, when it was written.
    async fn apply_one<K>(
        &self,
        api: &Api<K>,
        wanted: &K,
        seen: Option<K>,
        kind: &str,
        metrics: &Metrics,
    ) -> Result<Option<K>, ApplyError>
    where
        K: Resource + Clone + Serialize + DeserializeOwned + Debug,
    {
        let name = wanted.name_any();
        let key = format!("{kind}/{}/{name}", wanted.namespace().unwrap_or_default());
        let digest = digest_json(wanted);
        let first = seen.is_none();
        let unchanged = seen.is_some_and(|seen| {
            self.mark(&key)
                == Some(Mark {
                    digest: digest.clone(),
                    look: look(&seen),
                })
        });
        if unchanged {
            return Ok(None);
        }
        if first {
            check_owner(api, wanted, kind).await?;
        }
        metrics.count_write();
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let written = api
            .patch(&name, &parameters, &Patch::Apply(wanted))
            .await
            .map_err(|error| classify(kind, &name, error))?;
        self.marks.lock().unwrap_or_else(PoisonError::into_inner).insert(
            key,
            Mark {
                digest,
                look: look(&written),
            },
        );
        Ok(Some(written))
    }

    /// Marks of deployments that are gone are not worth tracking one by one: without marks, everything is simply applied again.
    fn bound(&self, deployments: usize) {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if marks.len() > 6 * deployments + 1000 {
            marks.clear();
        }
    }

    fn mark(&self, key: &str) -> Option<Mark> {
        self.marks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .cloned()
    }

    /// Claim templates have content names, so old ones stay behind; the other names never change.
    async fn prune(
        &self,
        owner: &ModelDeployment,
        children: &Children,
        caches: &Caches,
        metrics: &Metrics,
    ) -> Result<(), ApplyError> {
        let Some(claims) = &caches.claims else { return Ok(()) };
        let wanted = children.claim.as_ref().map(kube::ResourceExt::name_any);
        let resource = claim_template_resource();
        let namespace = owner.namespace().unwrap_or_default();
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &namespace, &resource);
        for stale in claims
            .templates
            .state_filter(|template| is_stale(template, owner, wanted.as_deref()))
        {
            metrics.count_write();
            let same = Preconditions {
                uid: stale.uid(),
                resource_version: None,
            };
            let parameters = DeleteParams {
                preconditions: Some(same),
                ..DeleteParams::default()
            };
            match api.delete(&stale.name_any(), &parameters).await {
                Ok(_) => (),
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => (),
                Err(error) => return Err(classify(&resource.kind, &stale.name_any(), error)),
            }
        }
        Ok(())
    }
}

/// Ours, of this owner, and not the one that is wanted.
fn is_stale(template: &DynamicObject, owner: &ModelDeployment, wanted: Option<&str>) -> bool {
    template.namespace() == owner.namespace()
        && template.labels().get(LABEL_DEPLOYMENT) == Some(&owner.name_any())
        && template
            .owner_references()
            .iter()
            .any(|reference| Some(&reference.uid) == owner.metadata.uid.as_ref())
        && Some(template.name_any().as_str()) != wanted
}

/// A forced apply would take over whatever has the name, so an object that is not in our cache is looked at first. By a list, because
/// that is what the controller may do anyway.
async fn check_owner<K>(api: &Api<K>, wanted: &K, kind: &str) -> Result<(), ApplyError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let name = wanted.name_any();
    let parameters = ListParams::default().fields(&format!("metadata.name={name}")).limit(1);
    let found = api
        .list(&parameters)
        .await
        .map_err(|error| classify(kind, &name, error))?;
    let owners = |object: &K| {
        object
            .owner_references()
            .iter()
            .map(|owner| owner.uid.clone())
            .collect::<Vec<_>>()
    };
    let ours = owners(wanted);
    match found.items.first() {
        Some(object) if owners(object) != ours => Err(ApplyError::Taken {
            kind: kind.to_owned(),
            name,
        }),
        _ => Ok(()),
    }
}

fn find<K>(store: &Store<K>, wanted: &K, kind: K::DynamicType) -> Option<K>
where
    K: Resource + Clone,
    K::DynamicType: Clone + Eq + std::hash::Hash,
{
    store
        .get(&ObjectRef::from_obj_with(wanted, kind))
        .map(|object| (*object).clone())
}

/// What changes when somebody else changes the object: the generation where there is one, which status updates leave alone.
fn look<K: Resource>(object: &K) -> String {
    let meta = object.meta();
    let version = meta
        .generation
        .map(|generation| generation.to_string())
        .or_else(|| meta.resource_version.clone());
    let labels = digest_json(&meta.labels);
    format!(
        "{}/{}/{labels}",
        meta.uid.as_deref().unwrap_or_default(),
        version.unwrap_or_default()
    )
}

fn classify(kind: &str, name: &str, error: kube::Error) -> ApplyError {
    let (kind, name) = (kind.to_owned(), name.to_owned());
    let refused = matches!(&error, kube::Error::Api(status) if matches!(status.code, 400 | 403 | 404 | 422));
    let source = Box::new(error);
    if refused {
        ApplyError::Refused { kind, name, source }
    } else {
        ApplyError::Failed { kind, name, source }
    }
}
