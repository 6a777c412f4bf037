//! The plugin against a kubelet of its own in a temporary directory.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod fake_kubelet;

use std::path::Path;
use std::time::Duration;

use fake_kubelet::{Event, FakeKubelet};
use sim_accelerator::api::{AllocateRequest, ContainerAllocateRequest};
use sim_accelerator::{LifecycleError, Simulation, run};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const ENDPOINT: &str = "sim-enflame.com-gcu.sock";

struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), LifecycleError>>,
}

impl Running {
    fn start(simulation: Simulation) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(simulation, stop.clone()));
        Self { stop, task }
    }

    async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_secs(5), self.task)
            .await
            .expect("stops in time")
            .unwrap()
            .unwrap();
    }
}

fn two_devices(directory: &Path) -> Simulation {
    Simulation {
        resource: "enflame.com/gcu".parse().unwrap(),
        count: 2,
        visible_devices_variable: "ENFLAME_VISIBLE_DEVICES".into(),
        mounts: vec!["/opt/tops:/opt/tops:ro".parse().unwrap()],
        plugin_directory: directory.to_owned(),
        health_file: None,
    }
}

fn list(devices: &[&str]) -> Event {
    Event::List(devices.iter().map(|&device| device.to_owned()).collect())
}

fn registration() -> [Event; 3] {
    let registered = Event::Registered {
        version: "v1beta1".into(),
        endpoint: ENDPOINT.into(),
        resource: "enflame.com/gcu".into(),
    };
    [
        Event::DialledBack,
        registered,
        list(&["gcu-0=Healthy", "gcu-1=Healthy"]),
    ]
}

#[tokio::test]
async fn the_kubelet_can_dial_back_while_it_answers_the_registration() {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = FakeKubelet::start(folder.path());
    let plugin = Running::start(two_devices(folder.path()));
    assert_eq!(kubelet.registration().await, registration());
    plugin.stop().await;
}

#[tokio::test]
async fn a_plugin_that_is_first_waits_for_the_kubelet() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = Running::start(two_devices(folder.path()));
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(
        !folder.path().join(ENDPOINT).exists(),
        "nothing is served before there is a kubelet"
    );
    let mut kubelet = FakeKubelet::start(folder.path());
    assert_eq!(kubelet.registration().await, registration());
    plugin.stop().await;
}

#[tokio::test]
async fn a_restarted_kubelet_that_wiped_the_directory_gets_a_new_registration() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kubelet_internal_checkpoint"), "{}").unwrap();
    let mut kubelet = FakeKubelet::start(folder.path());
    let plugin = Running::start(two_devices(folder.path()));
    assert_eq!(kubelet.registration().await, registration());
    for _ in 0..3 {
        kubelet.die().await;
        kubelet = FakeKubelet::start(folder.path());
        assert_eq!(kubelet.registration().await, registration());
    }
    assert!(folder.path().join("kubelet_internal_checkpoint").exists());
    plugin.stop().await;
}

#[tokio::test]
async fn a_refused_registration_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = FakeKubelet::start_refusing(folder.path(), 1);
    let plugin = Running::start(two_devices(folder.path()));
    assert_eq!(kubelet.registration().await, registration());
    plugin.stop().await;
}

#[tokio::test]
async fn a_stale_socket_of_an_earlier_run_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = FakeKubelet::start(folder.path());
    drop(std::os::unix::net::UnixListener::bind(folder.path().join(ENDPOINT)).unwrap());
    let plugin = Running::start(two_devices(folder.path()));
    assert_eq!(kubelet.registration().await, registration());
    plugin.stop().await;
}

#[tokio::test]
async fn allocation_carries_the_ids_and_the_mounts_and_refuses_unknown_devices() {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = FakeKubelet::start(folder.path());
    let plugin = Running::start(two_devices(folder.path()));
    kubelet.registration().await;
    let mut client = kubelet.client(ENDPOINT).await;
    let container = |ids: &[&str]| ContainerAllocateRequest {
        devices_ids: ids.iter().map(|&id| id.into()).collect(),
    };

    let request = AllocateRequest {
        container_requests: vec![container(&["gcu-1"]), container(&["gcu-0", "gcu-1"])],
    };
    let answer = client.allocate(request).await.unwrap().into_inner();
    let ids: Vec<&str> = answer
        .container_responses
        .iter()
        .map(|one| one.envs["ENFLAME_VISIBLE_DEVICES"].as_str())
        .collect();
    assert_eq!(ids, ["gcu-1", "gcu-0,gcu-1"]);
    let mount = &answer.container_responses[0].mounts[0];
    assert_eq!(
        (mount.host_path.as_str(), mount.container_path.as_str(), mount.read_only),
        ("/opt/tops", "/opt/tops", true)
    );

    let request = AllocateRequest {
        container_requests: vec![container(&["gcu-2"])],
    };
    let refusal = client.allocate(request).await.unwrap_err();
    assert_eq!(refusal.code(), tonic::Code::InvalidArgument);
    assert_eq!(refusal.message(), "enflame.com/gcu has no device \"gcu-2\"");
    plugin.stop().await;
}

#[tokio::test]
async fn the_health_file_switches_devices_while_the_kubelet_watches() {
    let folder = tempfile::tempdir().unwrap();
    let control = tempfile::tempdir().unwrap();
    let file = control.path().join("health");
    std::fs::write(&file, "gcu-0\n").unwrap();
    let mut kubelet = FakeKubelet::start(folder.path());
    let plugin = Running::start(Simulation {
        health_file: Some(file.clone()),
        ..two_devices(folder.path())
    });
    let first = kubelet.registration().await;
    assert_eq!(
        first[2],
        list(&["gcu-0=Unhealthy", "gcu-1=Healthy"]),
        "never healthy, not even at first"
    );
    std::fs::write(&file, "all\n").unwrap();
    assert_eq!(kubelet.next().await, list(&["gcu-0=Unhealthy", "gcu-1=Unhealthy"]));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(kubelet.next().await, list(&["gcu-0=Healthy", "gcu-1=Healthy"]));
    plugin.stop().await;
}

#[tokio::test]
async fn a_stopped_plugin_ends_its_stream_and_leaves_no_socket() {
    let folder = tempfile::tempdir().unwrap();
    let mut kubelet = FakeKubelet::start(folder.path());
    let plugin = Running::start(two_devices(folder.path()));
    kubelet.registration().await;
    plugin.stop().await;
    assert_eq!(kubelet.next().await, Event::StreamEnded);
    assert!(!folder.path().join(ENDPOINT).exists());
}

#[tokio::test]
async fn a_missing_plugin_directory_keeps_the_plugin_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("device-plugins");
    let plugin = Running::start(two_devices(&directory));
    tokio::time::sleep(Duration::from_millis(300)).await;
    std::fs::create_dir(&directory).unwrap();
    let mut kubelet = FakeKubelet::start(&directory);
    assert_eq!(kubelet.registration().await, registration());
    plugin.stop().await;
}
