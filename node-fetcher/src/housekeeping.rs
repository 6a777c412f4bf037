//! What is done when nobody asks: proving doubtful blobs again, keeping the disk's floor free, counting.

use std::sync::Arc;
use std::time::Duration;

use crate::daemon::Daemon;
use crate::metrics::Metrics;
use crate::store::{Store, StoreError};

const PERIOD: Duration = Duration::from_secs(30);

/// Works for ever.
pub async fn keep(daemon: Arc<Daemon>, metrics: Arc<Metrics>) {
    loop {
        let (store, counted) = (Arc::clone(daemon.store()), Arc::clone(&metrics));
        let kept = tokio::task::spawn_blocking(move || round(&store, &counted)).await;
        match kept {
            Ok(Ok(true)) => daemon.notify(),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "housekeeping failed"),
            Err(error) => tracing::warn!(%error, "housekeeping was interrupted"),
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// Whether anything changed that a status would show.
fn round(store: &Store, metrics: &Metrics) -> Result<bool, StoreError> {
    let suspects = store.suspects();
    for digest in &suspects {
        store.prove_again(digest)?;
    }
    let evicted = store.relieve()?;
    let capacity = store.capacity()?;
    let mounts = store.with_leases(|leases| leases.all_mounts());
    metrics.set_store(store.stored_bytes()?, capacity.free, capacity.floor, mounts);
    Ok(evicted > 0 || !suspects.is_empty())
}
