//! Uploads that begin while later files are still hashed: the files of a folder have no published digest, and a registry that
//! waits for all of them to be hashed is idle for as long as that takes.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use artifact::Digest;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::{StreamExt as _, TryStreamExt as _};
use tokio::task::JoinHandle;

use super::PushSettings;
use super::blobs::{self, Blob};
use crate::error::PackError;
use crate::prepare::Layer;
use crate::report::{Arrival, Event};

/// Sizes of blobs, and how they came.
type Arrived = Result<Vec<(u64, Arrival)>, PackError>;

/// Blobs under way. Dropped without [`Early::finish`], it stops them.
pub struct Early {
    sender: UnboundedSender<Blob>,
    begun: Mutex<BTreeSet<Digest>>,
    work: Option<JoinHandle<Arrived>>,
}

impl Early {
    /// Nothing moves yet. The numbers are for whoever is told.
    pub fn start(settings: &PushSettings, files: usize, bytes: u64) -> Self {
        settings.reporter.tell(&Event::Planned { files, bytes });
        let (sender, receiver) = unbounded::<Blob>();
        let settings = settings.clone();
        let work = tokio::spawn(async move {
            let jobs = settings.jobs.max(1);
            let bring = |blob: Blob| {
                let settings = settings.clone();
                async move { blobs::bring_one(&blob, &settings).await }
            };
            receiver.map(bring).buffer_unordered(jobs).try_collect().await
        });
        Self {
            sender,
            begun: Mutex::default(),
            work: Some(work),
        }
    }

    /// This layer is known and can be sent.
    pub fn send(&self, layer: &Layer) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if begun.insert(layer.digest.clone()) {
            // Nobody listens any more when an upload has failed, which `finish` tells.
            let _ = self.sender.unbounded_send(blobs::of_layer(layer));
        }
    }

    /// Whether it is sent already, or on its way.
    pub(super) fn has(&self, digest: &Digest) -> bool {
        self.begun
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(digest)
    }

    /// What arrived.
    pub(super) async fn finish(mut self) -> Arrived {
        self.sender.close_channel();
        match self.work.take() {
            Some(work) => work.await?,
            None => Ok(Vec::new()),
        }
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        if let Some(work) = &self.work {
            work.abort();
        }
    }
}
