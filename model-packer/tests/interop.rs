//! With real registries and the clients that people have: docker-registry 2.8 and distribution 3, oras, skopeo. Run with
//! `--features real-registry`.
#![cfg(feature = "real-registry")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what a test needs and does not get is a failed test"
)]

mod bed;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use artifact::{Layout, PackedModel, validate_config};
use bed::Bed;
use model_packer::packed::{derive_again, read_lock, read_remote};
use model_packer::prepare::PackOptions;
use model_packer::pull::{ENOUGH_RATE, PullSettings, pull};
use model_packer::push::{PushSettings, push};
use model_packer::selection::Wishes;
use registry::{Client, ClientConfig, Profile, Profiles, Reference};
use tempfile::TempDir;

const SHARD: &str = "model-00001-of-00002.safetensors";

/// The implementations, as components of the test bed.
const REGISTRIES: [&str; 2] = ["docker-registry", "distribution"];

/// A running registry with its own folder, ended when it is dropped.
struct RealRegistry {
    process: Child,
    host: String,
    folder: TempDir,
}

impl Drop for RealRegistry {
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

impl RealRegistry {
    async fn start(name: &'static str) -> Self {
        let program = tokio::task::spawn_blocking(move || component(name)).await.unwrap();
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
            // It would look for a collector of traces.
            .env("OTEL_TRACES_EXPORTER", "none")
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
        panic!("{name} does not listen on {}", registry.host);
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
async fn each_registry_takes_both_layouts_and_gives_them_back() {
    for name in REGISTRIES {
        let (bed, registry) = (Bed::start().await, RealRegistry::start(name).await);
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
                enough_rate: ENOUGH_RATE,
                reporter: bed.told.clone(),
            };
            pull(&remote, &settings).await.unwrap();
            assert_files(&bed, folder.path());
            let lock = read_lock(&registry.client(), &remote).await.unwrap().unwrap();
            let gathered = bed.gather("hf://owner/model", &Wishes::default()).await.unwrap();
            assert_eq!(
                derive_again(&registry.client(), &gathered, &remote, &lock)
                    .await
                    .unwrap(),
                Vec::<String>::new()
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_config_is_valid_by_the_published_schema() {
    for name in REGISTRIES {
        let (bed, registry) = (Bed::start().await, RealRegistry::start(name).await);
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
}

#[tokio::test(flavor = "multi_thread")]
async fn oras_pulls_the_raw_layout_as_files_and_sees_what_is_attached() {
    for name in REGISTRIES {
        let (bed, registry) = (Bed::start().await, RealRegistry::start(name).await);
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
}

#[tokio::test(flavor = "multi_thread")]
async fn what_oras_pushes_without_saying_a_type_comes_as_the_file() {
    let registry = RealRegistry::start(REGISTRIES[0]).await;
    let oras = tokio::task::spawn_blocking(|| component("oras")).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("model.gguf"), "GGUF and more").unwrap();
    let reference = registry.reference("plain:v1");
    let arguments = ["push", "--plain-http", &reference.to_string(), "model.gguf"];
    run(&oras, &arguments, folder.path()).await;
    let settings = PullSettings {
        client: registry.client(),
        folder: folder.path().join("out"),
        jobs: 2,
        enough_rate: ENOUGH_RATE,
        reporter: std::sync::Arc::new(model_packer::report::Silence),
    };
    pull(&read_remote(&settings.client, &reference).await.unwrap(), &settings)
        .await
        .unwrap();
    let came = std::fs::read_to_string(folder.path().join("out/model.gguf")).unwrap();
    assert_eq!(came, "GGUF and more");
}

#[tokio::test(flavor = "multi_thread")]
async fn oras_pulls_the_tar_layout_as_tars_in_which_other_readers_find_the_files() {
    for name in REGISTRIES {
        let (bed, registry) = (Bed::start().await, RealRegistry::start(name).await);
        let oras = tokio::task::spawn_blocking(|| component("oras")).await.unwrap();
        let digest = registry.push(&bed, "m:v1", &tar_layout()).await;
        let folder = tempfile::tempdir().unwrap();
        let reference = registry.reference("m:v1").to_string();
        run(&oras, &["pull", "--plain-http", &reference, "-o", "out"], folder.path()).await;
        for file in &registry.model(&digest).files {
            let layer = std::fs::read(folder.path().join("out").join(file.path.as_str())).unwrap();
            assert_tar(&layer, file);
        }
    }
}

fn tar_layout() -> PackOptions {
    PackOptions {
        layout: Layout::Tar,
        ..PackOptions::default()
    }
}

/// The layer is a tar of the file, which lies where the annotations say.
fn assert_tar(layer: &[u8], file: &artifact::PackedFile) {
    let payload = file.payload.as_ref().unwrap();
    let mut archive = tar::Archive::new(layer);
    let mut entries = archive.entries().unwrap();
    let entry = entries.next().unwrap().unwrap();
    assert_eq!(entry.path().unwrap().to_str(), Some(file.path.as_str()));
    assert_eq!(
        (entry.raw_file_position(), entry.size()),
        (payload.offset, payload.size)
    );
}

/// `skopeo copy` into a folder in OCI layout, with all digests as they are.
async fn skopeo_copy(image: &Reference, folder: &Path) {
    tokio::task::spawn_blocking(|| testbed::ensure_packages(&["skopeo"]))
        .await
        .unwrap()
        .unwrap();
    // skopeo asks for a policy; this one trusts, because the digests are compared here.
    let policy = r#"{"default": [{"type": "insecureAcceptAnything"}]}"#;
    std::fs::write(folder.join("policy.json"), policy).unwrap();
    let image = format!("docker://{image}");
    let arguments = [
        "--policy",
        "policy.json",
        "copy",
        "--preserve-digests",
        "--src-tls-verify=false",
        "--all",
    ];
    run(
        Path::new("skopeo"),
        &[&arguments[..], &[&image, "oci:copied:v1"]].concat(),
        folder,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn skopeo_copies_the_model_and_the_mountable_image_with_their_digests() {
    for name in REGISTRIES {
        let (bed, registry) = (Bed::start().await, RealRegistry::start(name).await);
        let raw = registry.push(&bed, "raw:v1", &PackOptions::default()).await;
        let folder = tempfile::tempdir().unwrap();
        skopeo_copy(&registry.reference("raw:v1"), folder.path()).await;
        let copied = |digest: &artifact::Digest| {
            std::fs::read(folder.path().join("copied/blobs/sha256").join(digest.hex())).unwrap()
        };
        let model = PackedModel::read(&copied(&raw), None).unwrap();
        assert_eq!(
            copied(&model.file(SHARD).unwrap().digest),
            std::fs::read(bed.file(SHARD)).unwrap()
        );

        let tar = registry.push(&bed, "tar:v1", &tar_layout()).await;
        for image in ["tar:v1", "tar:v1-image"] {
            let folder = tempfile::tempdir().unwrap();
            skopeo_copy(&registry.reference(image), folder.path()).await;
            for file in &registry.model(&tar).files {
                let layer = folder.path().join("copied/blobs/sha256").join(file.digest.hex());
                assert_tar(&std::fs::read(layer).unwrap(), file);
            }
        }
    }
}

impl RealRegistry {
    /// The model, read from the registry's own storage.
    fn model(&self, digest: &artifact::Digest) -> PackedModel {
        let blobs = self.folder.path().join("data/docker/registry/v2/blobs/sha256");
        let place = blobs.join(&digest.hex()[..2]).join(digest.hex()).join("data");
        PackedModel::read(&std::fs::read(&place).unwrap(), None).unwrap()
    }
}

/// Starts a push and kills it once so many bytes have left; returns how many did.
fn push_and_kill(mut command: Command, limit: u64) -> u64 {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut moved = std::collections::BTreeMap::new();
    for line in std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap())) {
        let event: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        if event["event"] == "progress" {
            moved.insert(event["path"].to_string(), event["offset"].as_u64().unwrap());
        }
        if moved.values().sum::<u64>() >= limit {
            child.kill().unwrap();
            break;
        }
    }
    child.wait().unwrap();
    moved.values().sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_push_to_a_registry_that_keeps_broken_sessions_costs_one_part_of_each_open_file() {
    let bed = Bed::of_size(
        12 << 20,
        bed::PART,
        |_| {},
        fault_proxy::registry::RegistryConfig::default(),
    )
    .await;
    let registry = RealRegistry::start("distribution").await;
    let profile = registry.client().profile(&registry.reference("m"));
    let journal = model_packer::journal::Journal::open(bed.state.path()).unwrap();
    journal
        .keep_profile(registry.reference("m").registry(), &profile)
        .unwrap();
    for (number, limit) in [3u64, 8, 13, 17, 22].into_iter().enumerate() {
        // The same blobs in a repository that knows nothing of the others.
        let _ = std::fs::remove_dir_all(bed.state.path().join("known"));
        std::fs::create_dir(bed.state.path().join("known")).unwrap();
        let target = registry.reference(&format!("killed{number}:v1")).to_string();
        let command = || {
            let mut command = bed::program::program(&bed);
            command.args(["push", "hf://owner/model", &target, "--jobs", "2", "--output", "json"]);
            command
        };
        let first = command();
        let before = tokio::task::spawn_blocking(move || push_and_kill(first, limit << 20))
            .await
            .unwrap();
        let output = bed::program::run(command()).await;
        let said = bed::program::text(&output.stdout);
        let summary: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        let again = (before + summary["sent"].as_u64().unwrap()).saturating_sub(24 << 20);
        assert!(
            again <= 2 * bed::PART + (64 << 10),
            "killed at {limit} MiB: {again} bytes were sent again"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_is_removed_alone_or_the_answer_says_why_it_cannot_be() {
    for (name, removes) in [("docker-registry", false), ("distribution", true)] {
        let (bed, registry) = (Bed::start().await, RealRegistry::start(name).await);
        for tag in ["m:v1", "m:stable"] {
            registry.push(&bed, tag, &PackOptions::default()).await;
        }
        let target = registry.reference("m:v1").to_string();
        let output = bed::program::packer(&bed, &["untag", &target]).await;
        let said = bed::program::text(&output.stderr);
        assert_eq!(output.status.code(), Some(i32::from(!removes)), "{name}: {said}");
        assert_eq!(said.contains("does not remove the tag v1"), !removes, "{name}: {said}");
        let there = async |tag: &str| read_remote(&registry.client(), &registry.reference(tag)).await.is_ok();
        assert_eq!(
            (there("m:v1").await, there("m:stable").await),
            (!removes, true),
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_layers_go_through_real_registries_and_the_clients_that_people_have() {
    for name in REGISTRIES {
        let (bed, registry) = (Bed::start().await, RealRegistry::start(name).await);
        let oras = tokio::task::spawn_blocking(|| component("oras")).await.unwrap();
        for number in 0..120 {
            bed.write(&format!("part_{number}.json"), format!("{number}"));
        }
        let digest = registry.push(&bed, "m:v1", &tar_layout()).await;
        let folder = tempfile::tempdir().unwrap();
        let reference = registry.reference("m:v1").to_string();
        run(&oras, &["pull", "--plain-http", &reference, "-o", "out"], folder.path()).await;
        let layer = std::fs::read(folder.path().join("out").join(artifact::BUNDLE_PATH)).unwrap();
        let names: Vec<String> = tar::Archive::new(layer.as_slice())
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        let model = registry.model(&digest);
        let shared = model.files.iter().filter(|file| file.shared.is_some());
        assert_eq!(names, shared.map(|file| file.path.to_string()).collect::<Vec<_>>());
        assert!(names.len() > 120, "{names:?}");
    }
}
