//! With a real registry and the clients that people have: docker-registry, oras, skopeo. Run with `--features real-registry`.
#![cfg(feature = "real-registry")]
#![allow(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

mod bed;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use artifact::{Layout, PackedModel, validate_config};
use bed::Bed;
use model_packer::packed::{derive_again, read_lock, read_remote};
use model_packer::prepare::PackOptions;
use model_packer::pull::{PullSettings, pull};
use model_packer::push::{PushSettings, push};
use model_packer::selection::Wishes;
use registry::{Client, ClientConfig, Profile, Profiles, Reference};
use tempfile::TempDir;

const SHARD: &str = "model-00001-of-00002.safetensors";

/// A running docker-registry with its own folder, ended when it is dropped.
struct DockerRegistry {
    process: Child,
    host: String,
    folder: TempDir,
}

impl Drop for DockerRegistry {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn component(name: &str) -> PathBuf {
    testbed::ComponentStore::from_environment(testbed::Reporter::silent())
        .ensure(name)
        .unwrap()
}

impl DockerRegistry {
    async fn start() -> Self {
        let program = tokio::task::spawn_blocking(|| component("docker-registry"))
            .await
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let host = format!("127.0.0.1:{port}");
        let data = folder.path().join("data");
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage:\n  filesystem: {{rootdirectory: {}}}\n  delete: {{enabled: true}}\nhttp:\n  addr: {host}\n",
            data.display()
        );
        std::fs::write(folder.path().join("config.yml"), config).unwrap();
        let mut command = Command::new(program);
        command
            .arg("serve")
            .arg(folder.path().join("config.yml"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let registry = Self {
            process: command.spawn().unwrap(),
            host,
            folder,
        };
        for _ in 0..200 {
            if tokio::net::TcpStream::connect(&registry.host).await.is_ok() {
                return registry;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("docker-registry does not listen on {}", registry.host);
    }

    fn reference(&self, name: &str) -> Reference {
        format!("{}/{name}", self.host).parse().unwrap()
    }

    fn client(&self) -> Client {
        let profile = Profile {
            name: "test".into(),
            hosts: vec![self.host.clone()],
            part_bytes: bed::PART,
            ..Profile::default()
        };
        let profiles = Profiles::default().with(profile);
        Client::new(ClientConfig {
            plain_http: vec![self.host.clone()],
            profiles,
            ..ClientConfig::default()
        })
        .unwrap()
    }

    async fn push(&self, bed: &Bed, name: &str, options: &PackOptions) -> artifact::Digest {
        let prepared = bed.prepare("hf://owner/model", options).await.unwrap();
        let settings = PushSettings {
            client: self.client(),
            target: self.reference(name),
            ..bed.push_settings("unused:v1")
        };
        let first = push(&prepared, &settings).await.unwrap();
        let again = push(&bed.prepare("hf://owner/model", options).await.unwrap(), &settings)
            .await
            .unwrap();
        assert_eq!((&again.digest, again.sent), (&first.digest, 0));
        first.digest
    }
}

/// Runs a client; what it says is shown when it fails.
async fn run(program: &Path, arguments: &[&str], folder: &Path) {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env("HOME", folder);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    assert!(
        output.status.success(),
        "{} {arguments:?}: {}",
        program.display(),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn assert_files(bed: &Bed, folder: &Path) {
    for name in [SHARD, "model-00002-of-00002.safetensors", "config.json", "LICENSE"] {
        assert_eq!(
            std::fs::read(folder.join(name)).unwrap(),
            std::fs::read(bed.file(name)).unwrap(),
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn docker_registry_takes_both_layouts_and_gives_them_back() {
    let (bed, registry) = (Bed::start().await, DockerRegistry::start().await);
    for (tag, layout) in [("m:raw", Layout::Raw), ("m:tar", Layout::Tar)] {
        let options = PackOptions {
            layout,
            pieces: true,
            ..PackOptions::default()
        };
        registry.push(&bed, tag, &options).await;
        let remote = read_remote(&registry.client(), &registry.reference(tag)).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let settings = PullSettings {
            client: registry.client(),
            folder: folder.path().to_owned(),
            jobs: 2,
            reporter: bed.told.clone(),
        };
        pull(&remote, &settings).await.unwrap();
        assert_files(&bed, folder.path());
        let lock = read_lock(&registry.client(), &remote).await.unwrap().unwrap();
        let gathered = bed.gather("hf://owner/model", &Wishes::default()).await.unwrap();
        assert_eq!(
            derive_again(&gathered, &remote, &lock).await.unwrap(),
            Vec::<String>::new()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_config_is_valid_by_the_published_schema() {
    let (bed, registry) = (Bed::start().await, DockerRegistry::start().await);
    registry.push(&bed, "m:v1", &PackOptions::default()).await;
    let remote = read_remote(&registry.client(), &registry.reference("m:v1"))
        .await
        .unwrap();
    let config = remote.model.config_descriptor.digest.as_str();
    let config = registry
        .client()
        .get_blob(&remote.reference, config, 1 << 20)
        .await
        .unwrap();
    assert_eq!(validate_config(&config), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn oras_pulls_the_raw_layout_as_files_and_sees_what_is_attached() {
    let (bed, registry) = (Bed::start().await, DockerRegistry::start().await);
    let oras = tokio::task::spawn_blocking(|| component("oras")).await.unwrap();
    let options = PackOptions {
        pieces: true,
        ..PackOptions::default()
    };
    registry.push(&bed, "m:v1", &options).await;
    let folder = tempfile::tempdir().unwrap();
    let reference = registry.reference("m:v1").to_string();
    run(&oras, &["pull", "--plain-http", &reference, "-o", "out"], folder.path()).await;
    assert_files(&bed, &folder.path().join("out"));
    let copy = registry.reference("copy:v1").to_string();
    run(
        &oras,
        &["cp", "-r", "--from-plain-http", "--to-plain-http", &reference, &copy],
        folder.path(),
    )
    .await;
    let copied = read_remote(&registry.client(), &registry.reference("copy:v1"))
        .await
        .unwrap();
    let referrers = registry
        .client()
        .referrers(&copied.reference, copied.model.digest.as_str(), None)
        .await
        .unwrap();
    assert_eq!(referrers.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn skopeo_copies_the_mountable_image_and_finds_a_file_in_each_layer() {
    let (bed, registry) = (Bed::start().await, DockerRegistry::start().await);
    let options = PackOptions {
        layout: Layout::Tar,
        ..PackOptions::default()
    };
    let digest = registry.push(&bed, "m:v1", &options).await;
    let folder = tempfile::tempdir().unwrap();
    tokio::task::spawn_blocking(|| testbed::ensure_packages(&["skopeo"]))
        .await
        .unwrap()
        .unwrap();
    // skopeo asks for a policy; this one trusts, because the digests are compared here.
    std::fs::write(
        folder.path().join("policy.json"),
        r#"{"default": [{"type": "insecureAcceptAnything"}]}"#,
    )
    .unwrap();
    let image = format!("docker://{}", registry.reference("m:v1-image"));
    let skopeo = Path::new("skopeo");
    let arguments = [
        "--policy",
        "policy.json",
        "copy",
        "--preserve-digests",
        "--src-tls-verify=false",
        "--all",
        &image,
        "oci:copied:v1",
    ];
    run(skopeo, &arguments, folder.path()).await;
    let model = registry.model(&digest);
    for file in &model.files {
        let payload = file.payload.as_ref().unwrap();
        let layer = std::fs::read(folder.path().join("copied/blobs/sha256").join(file.digest.hex())).unwrap();
        let mut archive = tar::Archive::new(layer.as_slice());
        let mut entries = archive.entries().unwrap();
        let entry = entries.next().unwrap().unwrap();
        assert_eq!(entry.path().unwrap().to_str(), Some(file.path.as_str()));
        assert_eq!(
            (entry.raw_file_position(), entry.size()),
            (payload.offset, payload.size)
        );
    }
}

impl DockerRegistry {
    /// The model, read from the registry's own storage.
    fn model(&self, digest: &artifact::Digest) -> PackedModel {
        let blobs = self.folder.path().join("data/docker/registry/v2/blobs/sha256");
        let place = blobs.join(&digest.hex()[..2]).join(digest.hex()).join("data");
        PackedModel::read(&std::fs::read(&place).unwrap(), None).unwrap()
    }
}
