//! `node-fetcher serve`: the daemon of a node.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use node_fetcher::csi::{self, KernelMounter, NodeService, NodeSettings, Sockets};
use node_fetcher::daemon::Daemon;
use node_fetcher::fetch::{Fetcher, Limits};
use node_fetcher::kubelet;
use node_fetcher::metrics::Metrics;
use node_fetcher::source::AccessPool;
use node_fetcher::store::{Durability, Floor, Store};
use node_fetcher::{housekeeping, http, report};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::RegistryArgs;
use crate::failure::{Failure, ours, theirs};

/// Keep a node's weights and mount them into its pods
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The name of this node in Kubernetes
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    node_name: String,
    /// The folder of the store
    #[arg(long, default_value = "/var/lib/plimsoll", value_name = "DIR")]
    store: PathBuf,
    /// The folder of the kubelet, at the same path as on the node
    #[arg(long, default_value = "/var/lib/kubelet", value_name = "DIR")]
    kubelet_root: PathBuf,
    /// What stays free on the store's disk: 10% or 20Gi; without it, what the kubelet's own thresholds ask for
    #[arg(long, value_name = "SIZE")]
    free_space_floor: Option<Floor>,
    /// Where to serve /metrics and /healthz
    #[arg(long, value_name = "ADDRESS")]
    metrics_address: Option<SocketAddr>,
    /// How long a mount call waits for bytes before the kubelet has to ask again
    #[arg(long, default_value_t = 90, value_name = "SECONDS")]
    mount_patience: u64,
    /// Requests to the registry at once for one blob
    #[arg(long, default_value_t = Limits::default().connections, value_name = "N")]
    connections: usize,
    /// Do not keep the node's object in Kubernetes
    #[arg(long)]
    no_kubernetes: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

impl ServeArgs {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let floor = self
            .free_space_floor
            .unwrap_or_else(|| kubelet::floor(&self.kubelet_root));
        let store = Store::open(&self.store, floor, Durability::PowerCut).map_err(|error| {
            let hint = error.hint();
            theirs(error, hint)
        })?;
        let settings = self
            .registry
            .settings()
            .map_err(|error| theirs(error, None::<String>))?;
        let pool = Arc::new(AccessPool::new(settings));
        let metrics = Arc::new(Metrics::default());
        let limits = Limits {
            connections: self.connections.max(1),
            ..Limits::default()
        };
        let sources = self.registry.sources(pool.settings());
        let daemon = Daemon::new(Fetcher::new(Arc::clone(&store), sources, limits, Arc::clone(&metrics)));
        let mounter = KernelMounter::prepare(store.views(), &self.store.join("exposed"))
            .context("cannot prepare the read-only folder of views")
            .map_err(|error| theirs(error, Some("the daemon must be root, in a privileged container")))?;
        let mounter = Arc::new(mounter);
        let node = NodeService::new(
            self.node_settings(),
            Arc::clone(&daemon),
            Arc::clone(&pool),
            mounter.clone(),
            metrics.clone(),
        );
        let restored = node
            .restore_leases()
            .context("cannot read the mount table")
            .map_err(ours)?;
        tracing::info!(
            store = store.id(),
            floor = ?floor,
            link = store.link_mode().as_str(),
            mounts = restored,
            suspects = store.suspects().len(),
            "the store is open"
        );
        let stop = CancellationToken::new();
        let result = Box::pin(self.work(node, &daemon, &pool, &metrics, &stop)).await;
        store.close().map_err(ours)?;
        mounter
            .close()
            .context("cannot take the read-only folder of views away")
            .map_err(ours)?;
        result
    }

    async fn work(
        &self,
        node: NodeService,
        daemon: &Arc<Daemon>,
        pool: &Arc<AccessPool>,
        metrics: &Arc<Metrics>,
        stop: &CancellationToken,
    ) -> Result<(), Failure> {
        let sockets = Sockets::below(&self.kubelet_root);
        let mut terminate = signal(SignalKind::terminate()).map_err(ours)?;
        let anonymous = pool.of_user().map_err(ours)?;
        tokio::spawn(housekeeping::keep(Arc::clone(daemon), Arc::clone(metrics)));
        tokio::spawn({
            let daemon = Arc::clone(daemon);
            async move { daemon.prefetch(anonymous).await }
        });
        if !self.no_kubernetes {
            tokio::spawn(report::keep(Arc::clone(daemon), self.node_name.clone()));
        }
        let serving = Box::pin(csi::serve(node, &sockets, stop.clone()));
        let web = http::serve(
            self.metrics_address,
            Arc::clone(metrics),
            sockets.registration.clone(),
            stop.clone(),
        );
        let stopping = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            tracing::info!("stopping");
            stop.cancel();
        };
        let (served, web, ()) = tokio::join!(
            async { serving.await.inspect_err(|_| stop.cancel()) },
            async { web.await.inspect_err(|_| stop.cancel()) },
            async {
                tokio::select! { () = stopping => {}, () = stop.cancelled() => {} }
            },
        );
        served.map_err(|error| theirs(error, Some("is the kubelet's folder mounted at the same path?")))?;
        web.map_err(|error| theirs(error, Some("is the port of --metrics-address free?")))
    }

    fn node_settings(&self) -> NodeSettings {
        NodeSettings {
            node_name: self.node_name.clone(),
            kubelet_root: self.kubelet_root.clone(),
            patience: Duration::from_secs(self.mount_patience),
        }
    }
}
