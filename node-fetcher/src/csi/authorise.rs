//! Knowing a digest is no permission: a pod gets weights only when the registry shows their manifest to that pod.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use artifact::Digest;
use crds::node_weights::FetchReason;
use registry::Reference;

use crate::fetch::FetchError;
use crate::source::{Access, reason_of};

/// A permission is asked for again after this time.
const FRESH: Duration = Duration::from_mins(1);
/// While the registry does not answer, an older permission of the same namespace and secret still counts: running
/// models must be able to restart from local weights.
const WITHOUT_REGISTRY: Duration = Duration::from_hours(24);
const GRANTS_KEPT: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Grant {
    namespace: String,
    identity: Digest,
    reference: String,
}

/// Remembers who may read what.
#[derive(Debug, Default)]
pub struct Authoriser {
    grants: Mutex<HashMap<Grant, Instant>>,
}

impl Authoriser {
    /// Asks the registry in the tenant's name, at most once a minute.
    pub async fn authorise(&self, namespace: &str, reference: &Reference, access: &Access) -> Result<(), FetchError> {
        let grant = Grant {
            namespace: namespace.to_owned(),
            identity: access.identity().clone(),
            reference: reference.to_string(),
        };
        if self.granted_within(&grant, FRESH, Instant::now()) {
            return Ok(());
        }
        match access.resolve(reference).await {
            Ok(_) => {
                self.grant(grant, Instant::now());
                Ok(())
            }
            Err(error) => {
                let reason = reason_of(&error);
                let silent = matches!(
                    reason,
                    FetchReason::EngineDown | FetchReason::Stalled | FetchReason::RateLimited
                );
                if silent && self.granted_within(&grant, WITHOUT_REGISTRY, Instant::now()) {
                    tracing::warn!(namespace, %reference, %error, "the registry does not answer, an earlier permission counts");
                    return Ok(());
                }
                if !silent {
                    self.lock().remove(&grant);
                }
                let hint = error.hint();
                Err(FetchError::new(reason, format!("{reference} for namespace {namespace}"), error).with_hint(hint))
            }
        }
    }

    fn granted_within(&self, grant: &Grant, time: Duration, now: Instant) -> bool {
        self.lock().get(grant).is_some_and(|at| now.duration_since(*at) < time)
    }

    fn grant(&self, grant: Grant, now: Instant) {
        let mut grants = self.lock();
        if grants.len() >= GRANTS_KEPT {
            grants.retain(|_, at| now.duration_since(*at) < FRESH);
        }
        grants.insert(grant, now);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Grant, Instant>> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
