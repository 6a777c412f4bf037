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
use tokio::sync::Semaphore;

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
