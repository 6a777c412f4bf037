//! The real daemon, the real kernel: a mount made in the daemon's mount namespace is read-only on the node too.
//!
//! Needs root. Two mount namespaces stand for the node and for the daemon's container, joined as `Bidirectional`
//! propagation joins them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use node_fetcher::csi::protocol::csi::node_client::NodeClient;
use node_fetcher::csi::protocol::csi::volume_capability::{AccessType, MountVolume};
use node_fetcher::csi::protocol::csi::{NodePublishVolumeRequest, NodeUnpublishVolumeRequest, VolumeCapability};
use node_fetcher::csi::{Sockets, parse_mount_table};
use support::{FakeRegistry, noise};
use tonic::transport::{Channel, Endpoint};

/// The node: a shell in its own mount namespace, whose kubelet folder is shared with what it starts.
struct Node {
    shell: Child,
    kubelet: PathBuf,
}

const SCRIPT: &str = r#"
set -e
mount -t tmpfs kubelet "$KUBELET"
mkdir -p "$KUBELET/pods"
mount --make-rshared "$KUBELET"
unshare --mount --propagation unchanged "$PROGRAM" serve --no-kubernetes --node-name n --store "$STORE" \
    --kubelet-root "$KUBELET" --plain-http 127.0.0.1 --free-space-floor 0 &
trap 'kill $!; wait $!; exit 0' TERM
wait $!
"#;

impl Node {
    fn start(folder: &Path) -> Self {
        let kubelet = folder.join("kubelet");
        fs::create_dir_all(&kubelet).unwrap();
        let shell = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", SCRIPT])
            .env("PROGRAM", env!("CARGO_BIN_EXE_node-fetcher"))
            .env("KUBELET", &kubelet)
            .env("STORE", folder.join("store"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { shell, kubelet }
    }

    /// A path as the node sees it.
    fn sees(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.shell.id()));
        root.join(path.strip_prefix("/").unwrap())
    }

    async fn connect(&self) -> NodeClient<Channel> {
        let socket = self.sees(&Sockets::below(&self.kubelet).driver);
        let started = Instant::now();
        loop {
            let path = socket.clone();
            let connector = tower::service_fn(move |_| {
                let path = path.clone();
                async move { tokio::net::UnixStream::connect(path).await.map(TokioIo::new) }
            });
            match Endpoint::from_static("http://unix")
                .connect_with_connector(connector)
                .await
            {
                Ok(channel) => return NodeClient::new(channel),
                Err(error) => assert!(
                    started.elapsed() < Duration::from_secs(10),
                    "the daemon does not listen: {error:?}"
                ),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn read_only_at(&self, target: &Path) -> Option<bool> {
        let table = fs::read_to_string(format!("/proc/{}/mountinfo", self.shell.id())).unwrap();
        parse_mount_table(&table)
            .iter()
            .find(|mounted| mounted.target == target)
            .map(|mounted| mounted.read_only)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.shell.id().to_string()).status();
        let _ = self.shell.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_is_read_only_on_the_node_from_the_first_moment() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: mounting cannot be tried here");
        return;
    }
    let registry = FakeRegistry::start().await;
    let model = noise(50_000, 9);
    let (reference, _) = registry.add_model(&[("sub/model.gguf", model.clone())]);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path());
    let mut client = node.connect().await;
    let target = node.kubelet.join("pods/1/volumes/kubernetes.io~csi/m/mount");
    let context = [
        ("artifact", reference.to_string()),
        ("csi.storage.k8s.io/ephemeral", "true".to_owned()),
        ("csi.storage.k8s.io/pod.namespace", "team-a".to_owned()),
    ];
    let request = NodePublishVolumeRequest {
        volume_id: "csi-1".to_owned(),
        target_path: target.display().to_string(),
        volume_capability: Some(VolumeCapability {
            access_type: Some(AccessType::Mount(MountVolume::default())),
        }),
        volume_context: context.map(|(key, value)| (key.to_owned(), value)).into(),
        ..NodePublishVolumeRequest::default()
    };
    client.node_publish_volume(request).await.unwrap();
    assert_eq!(node.read_only_at(&target), Some(true));
    let seen = node.sees(&target).join("sub/model.gguf");
    assert!(fs::read(&seen).unwrap() == model, "the node sees the bytes");
    let denied = fs::write(node.sees(&target).join("new"), b"x").unwrap_err();
    assert_eq!(denied.kind(), std::io::ErrorKind::ReadOnlyFilesystem);

    let unpublish = NodeUnpublishVolumeRequest {
        volume_id: "csi-1".to_owned(),
        target_path: target.display().to_string(),
    };
    client.node_unpublish_volume(unpublish).await.unwrap();
    assert_eq!(node.read_only_at(&target), None);
    assert!(!node.sees(&target).exists());
}
