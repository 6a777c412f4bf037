//! The node's `NodeWeights` object: what is wanted comes from it, what is here goes into it.

mod status;

use std::sync::Arc;
use std::time::Duration;

use crds::NodeWeights;
use crds::node_weights::{NODE_FETCHER_FIELD_MANAGER, NodeWeightsStatus, WantedWeights};
use futures::TryStreamExt as _;
use kube::api::{Patch, PatchParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::time::Instant;

use crate::daemon::{Daemon, Wanted};

/// The shortest time between two writes.
const WRITE_PAUSE: Duration = Duration::from_secs(2);
/// Free space moves all the time and is written this often.
const REFRESH: Duration = Duration::from_mins(1);
const RETRY: Duration = Duration::from_secs(10);

/// Keeps the object for ever. Without an API server in reach of this process there is nothing to keep.
pub async fn keep(daemon: Arc<Daemon>, node: String) {
    let client = match Client::try_default().await {
        Ok(client) => client,
        Err(error) => {
            tracing::info!(%error, "no Kubernetes API is configured here, NodeWeights is not kept");
            return;
        }
    };
    loop {
        let mut reporter = Reporter::new(client.clone(), Arc::clone(&daemon), node.clone());
        if let Err(error) = reporter.run().await {
            tracing::warn!(%error, cause = ?std::error::Error::source(&error).map(ToString::to_string), "NodeWeights cannot be kept, trying again");
        }
        tokio::time::sleep(RETRY).await;
    }
}

struct Reporter {
    api: Api<NodeWeights>,
    daemon: Arc<Daemon>,
    node: String,
    generation: Option<i64>,
    last: Option<NodeWeightsStatus>,
    written: Option<Instant>,
}

impl Reporter {
    fn new(client: Client, daemon: Arc<Daemon>, node: String) -> Self {
        Self {
            api: Api::all(client),
            daemon,
            node,
            generation: None,
            last: None,
            written: None,
        }
    }

    async fn run(&mut self) -> Result<(), kube::Error> {
        self.create().await?;
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.node));
        let mut events = Box::pin(watcher(self.api.clone(), config).default_backoff());
        let mut tick = tokio::time::interval(WRITE_PAUSE);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = events.try_next() => match event {
                    Ok(Some(event)) => self.take(event).await?,
                    Ok(None) => return Ok(()),
                    Err(error) => tracing::warn!(%error, "the watch of NodeWeights failed, it is renewed"),
                },
                () = self.daemon.changed() => {}
                _ = tick.tick() => {}
            }
            self.write_if_due().await?;
        }
    }

    /// Makes the object where it is missing. An empty spec takes nothing from the controller's.
    async fn create(&self) -> Result<(), kube::Error> {
        let object = serde_json::json!({
            "apiVersion": "plimsoll.dev/v1alpha1",
            "kind": "NodeWeights",
            "metadata": {"name": self.node},
            "spec": {},
        });
        self.api
            .patch(&self.node, &parameters(), &Patch::Apply(object))
            .await
            .map(drop)
    }

    async fn take(&mut self, event: Event<NodeWeights>) -> Result<(), kube::Error> {
        match event {
            Event::Apply(object) | Event::InitApply(object) => {
                self.generation = object.metadata.generation;
                self.daemon.want(wanted_of(&object.spec.wanted));
                if self.last.is_none() {
                    // Times of transitions go on over a restart.
                    self.last = object.status;
                }
            }
            Event::Delete(_) => {
                self.daemon.want(Vec::new());
                self.last = None;
                self.create().await?;
            }
            Event::Init | Event::InitDone => {}
        }
        Ok(())
    }

    async fn write_if_due(&mut self) -> Result<(), kube::Error> {
        let since = self.written.map(|written| written.elapsed());
        if since.is_some_and(|since| since < WRITE_PAUSE) {
            return Ok(());
        }
        let Some(status) = status::of(&self.daemon, self.generation, self.last.as_ref()).await else {
            return Ok(());
        };
        let refresh = since.is_none_or(|since| since >= REFRESH);
        let same = self
            .last
            .as_ref()
            .is_some_and(|last| differs_only_in_space(last, &status));
        if self.written.is_some() && same && !refresh {
            return Ok(());
        }
        let object = serde_json::json!({
            "apiVersion": "plimsoll.dev/v1alpha1",
            "kind": "NodeWeights",
            "metadata": {"name": self.node},
            "status": status,
        });
        self.api
            .patch_status(&self.node, &parameters(), &Patch::Apply(object))
            .await?;
        self.last = Some(status);
        self.written = Some(Instant::now());
        Ok(())
    }
}

fn parameters() -> PatchParams {
    PatchParams::apply(NODE_FETCHER_FIELD_MANAGER).force()
}

fn differs_only_in_space(last: &NodeWeightsStatus, now: &NodeWeightsStatus) -> bool {
    let comparable = NodeWeightsStatus {
        capacity: last.capacity.clone(),
        ..now.clone()
    };
    *last == comparable
}

/// Items that cannot be read are left out, loudly: the good ones must not wait for them.
fn wanted_of(items: &[WantedWeights]) -> Vec<Wanted> {
    let read = |item: &WantedWeights| {
        let digest: artifact::Digest = item.digest.parse().map_err(|error| format!("{error}"))?;
        let reference: registry::Reference = item.reference.parse().map_err(|error| format!("{error}"))?;
        let reference = reference
            .with_digest(digest.as_str())
            .map_err(|error| error.to_string())?;
        Ok::<_, String>(Wanted {
            digest,
            reference,
            priority: item.priority,
        })
    };
    let log = |item: &WantedWeights, problem: &String| {
        tracing::warn!(
            reference = item.reference,
            problem,
            "an item of NodeWeights.spec.wanted cannot be read"
        );
    };
    items
        .iter()
        .filter_map(|item| read(item).inspect_err(|problem| log(item, problem)).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_items_do_not_hide_good_ones() {
        let digest = artifact::Digest::of(b"m").to_string();
        let item = |digest: &str, reference: &str| WantedWeights {
            digest: digest.to_owned(),
            reference: reference.to_owned(),
            priority: 1,
        };
        let items = [
            item("sha256:short", "r.io/a"),
            item(&digest, "no host"),
            item(&digest, "r.io/a"),
        ];
        let wanted = wanted_of(&items);
        assert_eq!(wanted.len(), 1);
        assert_eq!(wanted[0].reference.to_string(), format!("r.io/a@{digest}"));
    }
}
