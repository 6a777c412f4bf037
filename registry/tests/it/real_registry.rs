//! The same client against docker-registry, the reference implementation. Run with `--features real-registry`.

use std::process::{Child, Command, Stdio};

use fault_proxy::registry::sha256;
use fault_proxy::{Fault, FaultProxy, FaultRule, FaultScript};
use registry::{Pushed, doctor};
use tempfile::TempDir;

use super::*;

const OCI: &str = "application/vnd.oci.image.manifest.v1+json";

/// A running docker-registry with its own folder, ended when it is dropped.
struct DockerRegistry {
    process: Child,
    host: String,
    _folder: TempDir,
}

impl Drop for DockerRegistry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl DockerRegistry {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let host = format!("127.0.0.1:{port}");
        let root = folder.path().join("data");
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage:\n  filesystem: {{rootdirectory: {}}}\n  delete: {{enabled: true}}\n\
             http:\n  addr: {host}\n",
            root.display()
        );
        let path = folder.path().join("config.yml");
        std::fs::write(&path, config).unwrap();
        let process = Command::new("docker-registry")
            .arg("serve")
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("docker-registry is installed (Debian package docker-registry)");
        let registry = Self {
            process,
            host,
            _folder: folder,
        };
        registry.await_ready().await;
        registry
    }

    async fn await_ready(&self) {
        for _ in 0..200 {
            if tokio::net::TcpStream::connect(&self.host).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        unreachable!("docker-registry does not listen on {}", self.host);
    }

    fn client(&self) -> Client {
        Client::new(config(&self.host)).unwrap()
    }

    fn reference(&self, rest: &str) -> Reference {
        format!("{}/{rest}", self.host).parse().unwrap()
    }
}

#[tokio::test]
async fn a_model_goes_there_and_comes_back() {
    let registry = DockerRegistry::start().await;
    let (client, model) = (registry.client(), registry.reference("team/model:v1"));
    let blob = bytes(1_000_000);
    let digest = sha256(&blob);
    for (repository, options) in [("team/model", parts(300_000)), ("team/one", one_put())] {
        let target = registry.reference(repository);
        let pushed = client
            .push_blob(&target, &digest, 1_000_000, &blob, &options)
            .await
            .unwrap();
        assert_eq!(pushed, Pushed::Uploaded(1_000_000));
        let again = client
            .push_blob(&target, &digest, 1_000_000, &blob, &options)
            .await
            .unwrap();
        assert_eq!(again, Pushed::Existed);
        assert_eq!(
            read(&client, &target, &digest, Some(999_000..1_000_000)).await.unwrap(),
            &blob[999_000..]
        );
    }
    let mounted = registry.reference("team/mounted");
    assert!(client.mount_blob(&mounted, "team/model", &digest).await.unwrap());

    let config = Bytes::from_static(b"{}");
    client
        .push_blob(&model, &sha256(&config), 2, &config, &PushOptions::default())
        .await
        .unwrap();
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"{OCI}","config":{{"mediaType":"application/json","digest":"{}","size":2}},
        "layers":[{{"mediaType":"x/y","digest":"{digest}","size":1000000}}]}}"#,
        sha256(&config)
    );
    let stored = client.put_manifest(&model, OCI, manifest.as_bytes()).await.unwrap();
    assert_eq!(client.resolve(&model).await.unwrap().digest, stored);
    assert_eq!(client.get_manifest(&model).await.unwrap().bytes, manifest.as_bytes());
    assert_eq!(client.list_tags(&model).await.unwrap(), ["v1"]);
}

/// Sends through a proxy with one fault and returns the bytes that were sent; the blob is compared.
async fn push_through(rule: FaultRule) -> u64 {
    let registry = DockerRegistry::start().await;
    let script = FaultScript::new(vec![rule]);
    let proxy = FaultProxy::start("127.0.0.1:0", &format!("http://{}", registry.host), script)
        .await
        .unwrap();
    let host = proxy.address().to_string();
    let client = Client::new(config(&host)).unwrap();
    let target: Reference = format!("{host}/team/model").parse().unwrap();
    let blob = bytes(2_000_000);
    let digest = sha256(&blob);
    let pushed = client
        .push_blob(&target, &digest, 2_000_000, &blob, &parts(300_000))
        .await
        .unwrap();
    assert_eq!(read(&client, &target, &digest, None).await.unwrap(), blob);
    let Pushed::Uploaded(sent) = pushed else {
        unreachable!("it was not there before")
    };
    sent
}

#[tokio::test]
async fn a_lost_answer_to_the_last_request_costs_nothing() {
    let sent = push_through(FaultRule::once("PUT", "digest=", Fault::LostAnswer)).await;
    assert_eq!(sent, 2_000_000);
}

#[tokio::test]
async fn a_refused_part_costs_that_part() {
    let busy = Fault::Status {
        code: 503,
        headers: Vec::new(),
        body: String::new(),
    };
    let sent = push_through(FaultRule::once("PATCH", "/uploads/", busy).after(2)).await;
    assert!(sent <= 2_000_000 + 300_000, "{sent} bytes sent");
}

/// This registry signs the offset into the session's address and forgets the session when its file has another size, so a part
/// that broke midway costs the blob. Newer clients cannot change that; what counts is that the blob is right.
#[tokio::test]
async fn a_part_that_breaks_midway_begins_the_blob_again() {
    for fault in [Fault::CutUpload { after: 50_000 }, Fault::LostAnswer] {
        let sent = push_through(FaultRule::once("PATCH", "/uploads/", fault).after(2)).await;
        assert!(sent <= 2_000_000 + 3 * 300_000, "{sent} bytes sent");
    }
}

#[tokio::test]
async fn the_doctor_finds_what_it_can_do() {
    let registry = DockerRegistry::start().await;
    let report = doctor::examine(&registry.client(), &registry.reference("team/model")).await;
    assert!(report.healthy(), "{report:?}");
    assert_eq!(report.profile.upload, UploadMode::Parts);
    assert_eq!(report.profile.ranges, Some(true));
}
