//! The CSI driver over its real sockets, with a mount table of its own instead of the kernel's.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod support;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use artifact::Digest;
use hyper_util::rt::TokioIo;
use node_fetcher::csi::protocol::csi::identity_client::IdentityClient;
use node_fetcher::csi::protocol::csi::node_client::NodeClient;
use node_fetcher::csi::protocol::csi::volume_capability::{AccessType, MountVolume};
use node_fetcher::csi::protocol::csi::{
    GetPluginInfoRequest, NodeGetInfoRequest, NodePublishVolumeRequest, NodeUnpublishVolumeRequest, VolumeCapability,
};
use node_fetcher::csi::protocol::registration::InfoRequest;
use node_fetcher::csi::protocol::registration::registration_client::RegistrationClient;
use node_fetcher::csi::{DRIVER, Mounted, Mounter, NodeService, NodeSettings, Sockets, serve};
use node_fetcher::daemon::Daemon;
use node_fetcher::metrics::Metrics;
use node_fetcher::source::{AccessPool, registry_only};
use node_fetcher::store::Store;
use registry::Reference;
use support::{FakeRegistry, Fault, fetcher, noise, open_store};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// A mount table in memory; mounts are symbolic links, so that tests can look through them.
#[derive(Debug, Clone)]
struct TableMounter {
    views: PathBuf,
    table: Arc<Mutex<Vec<Mounted>>>,
}

impl Mounter for TableMounter {
    fn mounts(&self) -> io::Result<Vec<Mounted>> {
        Ok(self.table.lock().unwrap().clone())
    }

    fn bind_read_only(&self, view: &Path, target: &Path) -> io::Result<()> {
        assert!(target.is_dir(), "a mount needs its folder");
        let root = self.views.join(view);
        self.table.lock().unwrap().push(Mounted {
            root,
            target: target.to_owned(),
            read_only: true,
        });
        Ok(())
    }

    fn unmount(&self, target: &Path) -> io::Result<()> {
        self.table.lock().unwrap().retain(|mounted| mounted.target != target);
        Ok(())
    }
}

struct Bed {
    folder: tempfile::TempDir,
    registry: FakeRegistry,
    reference: Reference,
    digest: Digest,
    model: Vec<u8>,
    mounter: TableMounter,
    store: Arc<Store>,
    node: NodeClient<Channel>,
    stop: CancellationToken,
}

impl Bed {
    async fn new(patience: Duration) -> Self {
        let registry = FakeRegistry::start().await;
        let model = noise(100_000, 3);
        let (reference, digest) = registry.add_model(&[("model.gguf", model.clone())]);
        let folder = tempfile::tempdir().unwrap();
        let store = open_store(&folder.path().join("store"));
        let mounter = TableMounter {
            views: store.views().to_owned(),
            table: Arc::default(),
        };
        let (node, stop) = start(&folder, &store, &mounter, patience).await;
        Self {
            folder,
            registry,
            reference,
            digest,
            model,
            mounter,
            store,
            node,
            stop,
        }
    }

    fn target(&self, pod: &str) -> PathBuf {
        self.folder
            .path()
            .join("kubelet/pods")
            .join(pod)
            .join("volumes/kubernetes.io~csi/m/mount")
    }

    fn request(&self, pod: &str, secret: Option<&str>) -> NodePublishVolumeRequest {
        let context = [
            ("artifact", self.reference.to_string()),
            ("csi.storage.k8s.io/ephemeral", "true".to_owned()),
            ("csi.storage.k8s.io/pod.namespace", "team-a".to_owned()),
            ("csi.storage.k8s.io/pod.name", pod.to_owned()),
        ];
        NodePublishVolumeRequest {
            volume_id: format!("csi-{pod}"),
            target_path: self.target(pod).display().to_string(),
            volume_capability: Some(VolumeCapability {
                access_type: Some(AccessType::Mount(MountVolume::default())),
            }),
            volume_context: context.map(|(key, value)| (key.to_owned(), value)).into(),
            secrets: secret
                .map(|text| HashMap::from([(".dockerconfigjson".to_owned(), text.to_owned())]))
                .unwrap_or_default(),
            ..NodePublishVolumeRequest::default()
        }
    }

    async fn publish(&mut self, pod: &str, secret: Option<&str>) -> Result<(), Status> {
        let request = self.request(pod, secret);
        self.node.node_publish_volume(request).await.map(drop)
    }

    async fn unpublish(&mut self, pod: &str) -> Result<(), Status> {
        let target_path = self.target(pod).display().to_string();
        let request = NodeUnpublishVolumeRequest {
            volume_id: format!("csi-{pod}"),
            target_path,
        };
        self.node.node_unpublish_volume(request).await.map(drop)
    }

    fn mounts(&self) -> usize {
        self.store.with_leases(|leases| leases.mounts(&self.digest))
    }

    fn shown(&self, pod: &str) -> Option<Vec<u8>> {
        let target = self.target(pod);
        let root = self
            .mounter
            .table
            .lock()
            .unwrap()
            .iter()
            .find(|mounted| mounted.target == target)?
            .root
            .clone();
        std::fs::read(root.join("model.gguf")).ok()
    }
}

async fn start(
    folder: &tempfile::TempDir,
    store: &Arc<Store>,
    mounter: &TableMounter,
    patience: Duration,
) -> (NodeClient<Channel>, CancellationToken) {
    let kubelet_root = folder.path().join("kubelet");
    let settings = NodeSettings {
        node_name: "node-1".to_owned(),
        kubelet_root: kubelet_root.clone(),
        patience,
    };
    let daemon = Daemon::new(fetcher(store, registry_only()));
    let pool = Arc::new(AccessPool::new(FakeRegistry::settings()));
    let service = NodeService::new(
        settings,
        daemon,
        pool,
        Arc::new(mounter.clone()),
        Arc::new(Metrics::default()),
    );
    service.restore_leases().unwrap();
    let stop = CancellationToken::new();
    let sockets = Sockets::below(&kubelet_root);
    tokio::spawn({
        let (sockets, stop) = (sockets.clone(), stop.clone());
        async move { Box::pin(serve(service, &sockets, stop)).await }
    });
    while !sockets.registration.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (NodeClient::new(connect(&sockets.driver).await), stop)
}

async fn connect(socket: &Path) -> Channel {
    let socket = socket.to_owned();
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { tokio::net::UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://unix")
        .connect_with_connector(connector)
        .await
        .unwrap()
}

const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn the_kubelet_finds_the_driver_and_its_name() {
    let mut bed = Bed::new(LONG).await;
    let sockets = Sockets::below(&bed.folder.path().join("kubelet"));
    let info = RegistrationClient::new(connect(&sockets.registration).await)
        .get_info(InfoRequest {})
        .await
        .unwrap();
    let info = info.into_inner();
    assert_eq!((info.r#type.as_str(), info.name.as_str()), ("CSIPlugin", DRIVER));
    assert_eq!(info.endpoint, sockets.driver.display().to_string());
    let mut identity = IdentityClient::new(connect(Path::new(&info.endpoint)).await);
    assert_eq!(
        identity
            .get_plugin_info(GetPluginInfoRequest {})
            .await
            .unwrap()
            .into_inner()
            .name,
        DRIVER
    );
    assert_eq!(
        bed.node
            .node_get_info(NodeGetInfoRequest {})
            .await
            .unwrap()
            .into_inner()
            .node_id,
        "node-1"
    );
    bed.stop.cancel();
    while sockets.registration.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_pod_sees_the_model_and_leaves_it_to_the_next_one() {
    let mut bed = Bed::new(LONG).await;
    bed.publish("a", None).await.unwrap();
    bed.publish("a", None).await.unwrap();
    assert_eq!(bed.shown("a").as_ref(), Some(&bed.model));
    assert_eq!(
        (bed.mounts(), bed.mounter.mounts().unwrap().len()),
        (1, 1),
        "a repeated call changes nothing"
    );
    let requests = bed.registry.seen().len();
    bed.unpublish("a").await.unwrap();
    bed.unpublish("a").await.unwrap();
    assert_eq!((bed.mounts(), bed.mounter.mounts().unwrap().len()), (0, 0));
    assert!(!bed.target("a").exists());
    bed.publish("b", None).await.unwrap();
    assert_eq!(bed.shown("b").as_ref(), Some(&bed.model));
    assert_eq!(bed.registry.seen().len(), requests, "no byte is fetched again");
}

#[tokio::test]
async fn a_call_that_runs_out_of_time_says_how_far_it_is_and_the_work_goes_on() {
    let mut bed = Bed::new(Duration::from_millis(30)).await;
    bed.registry.script([Fault::Stall(20_000)]);
    let status = bed.publish("a", None).await.unwrap_err();
    assert_eq!(status.code(), Code::Aborted);
    assert!(status.message().starts_with("still "), "{}", status.message());
    let mut attempts = 0;
    while let Err(status) = bed.publish("a", None).await {
        assert_eq!(status.code(), Code::Aborted, "{}", status.message());
        attempts += 1;
        assert!(attempts < 100, "the work goes on without the call");
    }
    assert_eq!(bed.shown("a").as_ref(), Some(&bed.model));
}

#[tokio::test]
async fn a_pod_without_permission_gets_nothing_although_the_bytes_are_here() {
    let mut bed = Bed::new(LONG).await;
    let auth = "dXNlcjpwYXNz";
    bed.registry.require_login(&format!("Basic {auth}"));
    let secret = format!(r#"{{"auths": {{"{}": {{"auth": "{auth}"}}}}}}"#, bed.registry.address);
    bed.publish("a", Some(&secret)).await.unwrap();
    let wrong = format!(
        r#"{{"auths": {{"{}": {{"auth": "b3RoZXI6b3RoZXI="}}}}}}"#,
        bed.registry.address
    );
    for secret in [None, Some(wrong.as_str())] {
        let status = bed.publish("b", secret).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{}", status.message());
        assert!(status.message().starts_with("Unauthorized: "), "{}", status.message());
        assert!(!status.message().contains("b3RoZXI6b3RoZXI"), "no secret in a message");
    }
    assert!(bed.shown("b").is_none());
    assert_eq!(bed.mounts(), 1);
}

#[tokio::test]
async fn mounts_and_leases_survive_a_restart_of_the_daemon() {
    let mut bed = Bed::new(LONG).await;
    bed.publish("a", None).await.unwrap();
    bed.stop.cancel();
    while Sockets::below(&bed.folder.path().join("kubelet")).registration.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    bed.store
        .with_leases(|leases| *leases = node_fetcher::store::Leases::default());
    assert_eq!(bed.mounts(), 0, "memory is gone");
    let (node, stop) = start(&bed.folder, &bed.store, &bed.mounter, LONG).await;
    (bed.node, bed.stop) = (node, stop);
    assert_eq!(bed.mounts(), 1, "the mount table is not");
    assert_eq!(bed.shown("a").as_ref(), Some(&bed.model));
    bed.unpublish("a").await.unwrap();
    assert_eq!(bed.mounts(), 0);
}

#[tokio::test]
async fn a_missing_artifact_and_a_lying_registry_are_told_in_the_closed_words() {
    let mut bed = Bed::new(LONG).await;
    bed.registry.script(vec![Fault::Flip(5); 50]);
    let status = bed.publish("a", None).await.unwrap_err();
    assert_eq!(status.code(), Code::DataLoss);
    assert!(status.message().starts_with("Corrupt: "), "{}", status.message());
    bed.registry.script([]);
    let absent = format!("{}/models/test@{}", bed.registry.address, Digest::of(b"absent"));
    let mut request = bed.request("b", None);
    request.volume_context.insert("artifact".to_owned(), absent);
    let status = bed.node.node_publish_volume(request).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    bed.publish("a", None).await.unwrap();
    assert_eq!(
        bed.shown("a").as_ref(),
        Some(&bed.model),
        "once the registry is right again, so is the pod"
    );
}
