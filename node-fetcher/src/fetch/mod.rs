//! Fetching: an artifact is its blobs, a blob is fetched once however many ask for it.

mod artifact;
mod blob;
mod board;
mod error;
mod progress;
mod proof;
mod transfer;

pub use error::FetchError;
pub use progress::{BlobProgress, Progress, Snapshot};
pub use transfer::Limits;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ::artifact::Digest;
use futures::future::{BoxFuture, Shared};
use tokio::sync::{Semaphore, watch};

use crate::metrics::Metrics;
use crate::source::{RegistryRate, Source, Standings};
use crate::store::{Store, StoreError};

/// Blobs fetched at once for pods that wait, and for what is fetched ahead.
const SERVING_BLOBS: usize = 4;
const PREFETCH_BLOBS: usize = 2;

/// Who waits for a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// A pod, or a person.
    Serving,
    /// Nobody yet.
    Prefetch,
}

/// How urgent a fetch is; may rise while it waits for its turn. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Haste(Arc<watch::Sender<bool>>);

impl Haste {
    /// At first.
    pub fn of(urgency: Urgency) -> Self {
        Self(Arc::new(watch::channel(urgency == Urgency::Serving).0))
    }

    /// Somebody waits now.
    pub fn hurry(&self) {
        self.0.send_replace(true);
    }

    fn is_urgent(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when somebody waits.
    async fn urgent(&self) {
        // The sender is held here, so the channel cannot close.
        let _ = self.0.subscribe().wait_for(|urgent| *urgent).await;
    }
}

/// Fetches into one store from one ladder of sources.
#[derive(Debug)]
pub struct Fetcher {
    store: Arc<Store>,
    sources: Vec<Arc<dyn Source>>,
    limits: Limits,
    metrics: Arc<Metrics>,
    standings: Standings,
    rate: RegistryRate,
    serving: Semaphore,
    prefetch: Semaphore,
    flights: Mutex<BTreeMap<Digest, Flight>>,
}

/// A blob under way.
#[derive(Debug, Clone)]
struct Flight {
    haste: Haste,
    progress: Arc<BlobProgress>,
    outcome: Shared<BoxFuture<'static, Result<(), FetchError>>>,
}

impl Fetcher {
    /// A fetcher. The last source must be the registry.
    pub fn new(store: Arc<Store>, sources: Vec<Arc<dyn Source>>, limits: Limits, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            store,
            sources,
            limits,
            metrics,
            standings: Standings::default(),
            rate: RegistryRate::default(),
            serving: Semaphore::new(SERVING_BLOBS),
            prefetch: Semaphore::new(PREFETCH_BLOBS),
            flights: Mutex::default(),
        })
    }

    /// The store that is filled.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Works on the store without blocking the runtime.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = Arc::clone(&self.store);
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        done.unwrap_or_else(|join| Err(StoreError::Interrupted(join.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_prefetch_becomes_urgent_for_all_who_share_it() {
        let haste = Haste::of(Urgency::Prefetch);
        let shared = haste.clone();
        let waiting = tokio::spawn(async move { shared.urgent().await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        haste.hurry();
        waiting.await.unwrap();
        assert!(haste.is_urgent());
    }
}
