//! Mounting artifacts into pods.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use artifact::Digest;
use crds::node_weights::FetchReason;
use tokio::sync::Mutex;
use tonic::{Request, Response, Status};

use super::attributes::{AttributeError, VolumeAttributes, check_target, pull_secret};
use super::authorise::Authoriser;
use super::mount::Mounter;
use super::mount_table::{Mounted, mounted_at};
use super::protocol::csi::node_server::Node;
use super::protocol::csi::{
    NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse, NodeGetInfoRequest, NodeGetInfoResponse,
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
};
use crate::daemon::{Daemon, Outcome, Task};
use crate::fetch::{FetchError, Urgency};
use crate::metrics::Metrics;
use crate::size::size_text;
use crate::source::{Access, AccessPool};
use crate::store::At as _;

/// What the node service has to know.
#[derive(Debug, Clone)]
pub struct NodeSettings {
    /// The node's name.
    pub node_name: String,
    /// The kubelet's folder.
    pub kubelet_root: PathBuf,
    /// How long a call waits for bytes. The kubelet gives up after two minutes, and its pauses between calls grow: the
    /// longer a call waits, the sooner a pod starts after the last byte.
    pub patience: Duration,
}

/// The node service.
#[derive(Debug, Clone)]
pub struct NodeService {
    settings: Arc<NodeSettings>,
    daemon: Arc<Daemon>,
    pool: Arc<AccessPool>,
    mounter: Arc<dyn Mounter>,
    authoriser: Arc<Authoriser>,
    metrics: Arc<Metrics>,
    /// One change of the mount table at a time: look, then act.
    mounting: Arc<Mutex<()>>,
}

impl NodeService {
    /// The service over a daemon.
    pub fn new(
        settings: NodeSettings,
        daemon: Arc<Daemon>,
        pool: Arc<AccessPool>,
        mounter: Arc<dyn Mounter>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (settings, authoriser, mounting) = (Arc::new(settings), Arc::default(), Arc::default());
        Self {
            settings,
            daemon,
            pool,
            mounter,
            authoriser,
            metrics,
            mounting,
        }
    }

    /// Takes up the leases of mounts that an earlier run made.
    pub fn restore_leases(&self) -> std::io::Result<usize> {
        let pods = self.settings.kubelet_root.join("pods");
        let mounts = self.mounter.mounts()?;
        let ours: Vec<_> = mounts
            .iter()
            .filter(|mounted| mounted.target.starts_with(&pods))
            .filter_map(|mounted| Some((mounted.target.display().to_string(), mounted.artifact()?)))
            .collect();
        self.daemon.store().with_leases(|leases| {
            for (volume, artifact) in &ours {
                leases.mount(volume, artifact);
            }
        });
        Ok(ours.len())
    }

    async fn publish(&self, request: &NodePublishVolumeRequest) -> Result<(), Status> {
        let volume = VolumeAttributes::read(request, &self.settings.kubelet_root).map_err(|error| invalid(&error))?;
        let access = match pull_secret(&request.secrets) {
            Some(secret) => self.pool.of_secret(secret),
            None => self.pool.anonymous(),
        };
        let access = access.map_err(|error| Status::internal(error.to_string()))?;
        self.authoriser
            .authorise(&volume.namespace, &volume.reference, &access)
            .await
            .map_err(|error| status(&error))?;
        let key = volume.target.display().to_string();
        self.daemon
            .store()
            .with_leases(|leases| leases.wait(&key, &volume.digest, Instant::now()));
        self.bring(&volume, &access).await?;
        self.mount(&volume.target, &volume.digest).await?;
        tracing::info!(artifact = %volume.reference, namespace = volume.namespace, pod = volume.pod, "mounted");
        self.daemon.notify();
        Ok(())
    }

    /// Waits until the artifact is complete, or says how far it is.
    async fn bring(&self, volume: &VolumeAttributes, access: &Access) -> Result<(), Status> {
        let task = self
            .daemon
            .ensure(&volume.reference, &volume.digest, access, Urgency::Serving);
        match task.wait(self.settings.patience).await {
            Outcome::Ready(_) => Ok(()),
            Outcome::Failed(error) => Err(status(&error)),
            Outcome::Running => Err(Status::aborted(waiting_text(&task))),
        }
    }

    async fn mount(&self, target: &Path, digest: &Digest) -> Result<(), Status> {
        let _one = self.mounting.lock().await;
        let service = self.clone();
        let (target, digest) = (target.to_owned(), digest.clone());
        let mounted = tokio::task::spawn_blocking(move || service.mount_now(&target, &digest)).await;
        mounted.map_err(|error| Status::internal(error.to_string()))?
    }

    fn mount_now(&self, target: &Path, digest: &Digest) -> Result<(), Status> {
        let store = self.daemon.store();
        let mounts = self
            .mounter
            .mounts()
            .at("read the mount table for", target)
            .map_err(|error| internal(&error))?;
        match mounted_at(&mounts, target).map(Mounted::artifact) {
            Some(Some(mounted)) if mounted == *digest => {}
            Some(_) => {
                return Err(Status::already_exists(format!(
                    "{} has another mount",
                    target.display()
                )));
            }
            None => {
                let view = store.open_view(digest).map_err(|error| internal(&error))?;
                let view =
                    view.ok_or_else(|| Status::aborted("the artifact was evicted a moment ago, fetching it again"))?;
                fs::create_dir_all(target)
                    .at("create folder", target)
                    .map_err(|error| internal(&error))?;
                let inside = view.strip_prefix(store.views()).unwrap_or(&view);
                self.mounter
                    .bind_read_only(inside, target)
                    .at("mount", target)
                    .map_err(|error| internal(&error))?;
            }
        }
        store.with_leases(|leases| leases.mount(&target.display().to_string(), digest));
        Ok(())
    }

    fn unmount_now(&self, target: &Path) -> Result<(), Status> {
        let failed = |error| internal(&error);
        let mounts = self
            .mounter
            .mounts()
            .at("read the mount table for", target)
            .map_err(failed)?;
        for _ in mounts.iter().filter(|mounted| mounted.target == target) {
            self.mounter.unmount(target).at("unmount", target).map_err(failed)?;
        }
        match fs::remove_dir(target) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).at("remove", target).map_err(failed);
            }
            _ => {}
        }
        self.daemon
            .store()
            .with_leases(|leases| leases.release(&target.display().to_string()));
        Ok(())
    }
}

#[tonic::async_trait]
impl Node for NodeService {
    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let started = Instant::now();
        let request = request.into_inner();
        let published = self.publish(&request).await;
        self.metrics.published(started.elapsed());
        published
            .map(|()| Response::new(NodePublishVolumeResponse {}))
            .inspect_err(|status| {
                tracing::warn!(volume = request.volume_id, code = ?status.code(), "not mounted: {}", status.message());
            })
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let target = check_target(&request.get_ref().target_path, &self.settings.kubelet_root);
        let target = target.map_err(|error| invalid(&error))?;
        let _one = self.mounting.lock().await;
        let service = self.clone();
        let unmounted = tokio::task::spawn_blocking(move || service.unmount_now(&target)).await;
        unmounted.map_err(|error| Status::internal(error.to_string()))??;
        self.daemon.notify();
        Ok(Response::new(NodeUnpublishVolumeResponse {}))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        Ok(Response::new(NodeGetCapabilitiesResponse {}))
    }

    async fn node_get_info(&self, _: Request<NodeGetInfoRequest>) -> Result<Response<NodeGetInfoResponse>, Status> {
        let node_id = self.settings.node_name.clone();
        Ok(Response::new(NodeGetInfoResponse {
            node_id,
            max_volumes_per_node: 0,
        }))
    }
}

/// `still fetching: 40 % of 98.3 MB from registry at 80.0 MB/s`
fn waiting_text(task: &Task) -> String {
    let now = task.progress.snapshot();
    let Some(total) = now.total else {
        return "still reading the manifest".to_owned();
    };
    if now.verifying {
        return format!("all {} are here, still proving them", size_text(total));
    }
    let percent = (now.done * 100).checked_div(total).unwrap_or(100);
    let source = now
        .main_source()
        .map(|kind| format!(" from {}", kind.as_str()))
        .unwrap_or_default();
    let rate = now
        .rate
        .map(|rate| format!(" at {}/s", size_text(rate)))
        .unwrap_or_default();
    format!("still fetching: {percent} % of {}{source}{rate}", size_text(total))
}

/// Codes that the kubelet takes as "ask again" and those that it shows as final.
fn status(error: &FetchError) -> Status {
    let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
    let text = format!("{}: {}{hint}", error.reason.as_str(), error.message());
    match error.reason {
        FetchReason::Unauthorized => Status::permission_denied(text),
        FetchReason::NotFound => Status::not_found(text),
        FetchReason::InvalidArtifact => Status::invalid_argument(text),
        FetchReason::Corrupt => Status::data_loss(text),
        FetchReason::DiskFull => Status::resource_exhausted(text),
        FetchReason::DeadlineExceeded => Status::aborted(text),
        FetchReason::RateLimited | FetchReason::Stalled | FetchReason::EngineDown => Status::unavailable(text),
    }
}

fn invalid(error: &AttributeError) -> Status {
    Status::invalid_argument(chain_text(error))
}

fn internal(error: &crate::store::StoreError) -> Status {
    Status::internal(chain_text(error))
}

fn chain_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
