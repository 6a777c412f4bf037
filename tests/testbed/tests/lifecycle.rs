//! The bed's promises that only a real bed can show. Each test takes the whole machine, so they run one after the other and
//! only when asked for: `cargo test -p testbed --test lifecycle -- --ignored --test-threads 1`.

#![expect(clippy::unwrap_used, reason = "a test that cannot look around has failed")]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testbed::{Bed, BedConfig, Error, Layout, Reporter, Ring};

fn config(name: &str) -> BedConfig {
    let mut config = BedConfig::from_environment(Reporter::stderr());
    config.layout = Layout::new(std::env::temp_dir().join(format!("plimsoll-lifecycle-{name}")));
    config
}

/// Everything of a bed that could be seen on the machine from outside.
fn traces(layout: &Layout) -> Vec<String> {
    let mut traces = Vec::new();
    let mut look = |program: &str, arguments: &[&str], signs: &[&str]| {
        let output = Command::new(program).args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let found = text.lines().filter(|line| signs.iter().any(|sign| line.contains(sign)));
        traces.extend(found.map(|line| format!("{program}: {line}")));
    };
    look("ip", &["link"], &["plim"]);
    look("ip", &["route"], &["10.213.", "10.214.", "10.215."]);
    look("mount", &[], &["plimsoll", "/var/lib/kubelet", "/var/lib/containerd"]);
    look(
        "find",
        &["/sys/fs/cgroup", "-maxdepth", "2", "-name", "plimsoll-testbed"],
        &["plimsoll"],
    );
    traces.extend(marked(layout).into_iter().map(|pid| format!("process {pid}")));
    for folder in ["secrets", "data", "nodes", "bin", "state.json"].map(|name| layout.root().join(name)) {
        traces.extend(folder.exists().then(|| folder.display().to_string()));
    }
    traces
}

/// Processes that were started for this bed, zombies aside.
fn marked(layout: &Layout) -> Vec<String> {
    let sign = format!("PLIMSOLL_TESTBED_STATE={}", layout.root().display());
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().into_string().ok());
    pids.filter(|pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == sign.as_bytes())
    })
    .collect()
}

/// Nothing of the bed is left on the machine; then its logs may go too.
fn assert_no_traces(layout: &Layout) {
    assert_eq!(traces(layout), Vec::<String>::new());
    std::fs::remove_dir_all(layout.root()).unwrap();
}

fn start_pod(bed: &Bed, name: &str) {
    let image = format!("{}/plimsoll/pause:1", bed.registry_address());
    bed.kubectl(&["run", name, "--image", &image, "--restart", "Never"])
        .unwrap();
    bed.kubectl(&["wait", "--for=condition=Ready", &format!("pod/{name}"), "--timeout=90s"])
        .unwrap();
}

#[test]
#[ignore = "takes the whole machine for a test bed"]
fn three_nodes_run_pods_and_nothing_is_left_afterwards() {
    let bed = Bed::open(config("whole")).unwrap();
    bed.up(Ring::Nodes).unwrap();
    start_pod(&bed, "here");
    let labels = bed
        .kubectl(&[
            "get",
            "nodes",
            "--selector",
            "enflame.com/gcu.model=S60",
            "--output",
            "name",
        ])
        .unwrap();
    assert_eq!(labels.trim(), "node/gcu-1");
    let kubectl = bed.program("kubectl").unwrap().display().to_string();
    let kubeconfig = bed.kubeconfig().display().to_string();
    let service = [
        "--kubeconfig",
        &kubeconfig,
        "get",
        "--raw",
        "/version",
        "--server",
        "https://10.215.0.1",
        "--insecure-skip-tls-verify",
    ];
    let answer = bed.node("cpu-1").unwrap().run(&kubectl, &service).unwrap();
    assert!(answer.contains("v1.36"), "the API server through its Service: {answer}");
    let layout = bed.layout().clone();
    assert!(!traces(&layout).is_empty(), "the test looks in the right places");
    bed.down().unwrap();
    assert!(layout.logs().join("cpu-1-kubelet.log").is_file(), "logs stay");
    bed.down().unwrap();
    assert_no_traces(&layout);
}

#[test]
#[ignore = "takes the whole machine for a test bed"]
fn a_second_bed_is_refused_and_told_who_has_the_machine() {
    let first = Bed::open(config("first")).unwrap();
    let refused = Bed::open(config("second")).err().unwrap();
    assert!(matches!(refused, Error::Owned { .. }), "{refused}");
    first.up(Ring::Registry).unwrap();
    first.stay().unwrap();
    let layout = first.layout().clone();
    drop(first);
    let refused = Bed::open(config("second")).err().unwrap();
    assert!(
        matches!(&refused, Error::AlreadyUp { state } if state == layout.root()),
        "{refused}"
    );
    Bed::attach(config("first")).unwrap().down().unwrap();
    assert_no_traces(&layout);
}

#[test]
#[ignore = "takes the whole machine for a test bed"]
fn a_taken_port_is_reported_with_its_holder_and_the_bed_goes_down() {
    let bed = Bed::open(config("port")).unwrap();
    let blocker = std::net::TcpListener::bind("0.0.0.0:5000").unwrap();
    let error = bed.up(Ring::Registry).unwrap_err();
    let holder = format!("(process {})", std::process::id());
    assert!(
        matches!(&error, Error::PortTaken { holder: found, .. } if found.ends_with(&holder)),
        "{error}"
    );
    let layout = bed.layout().clone();
    drop((bed, blocker));
    assert_no_traces(&layout);
}

/// Not a test: the program that the next test kills. It is this test binary, started again.
#[test]
#[ignore = "started and killed by a_killed_owner_leaves_a_bed_that_the_next_one_removes"]
fn owner_to_be_killed() {
    if std::env::var_os(OWNER).is_some() {
        let bed = Bed::open(config("killed")).unwrap();
        bed.up(Ring::Nodes).unwrap();
        start_pod(&bed, "left-behind");
        std::fs::write(ready_file(), "").unwrap();
        std::thread::sleep(Duration::from_mins(10));
    }
}

const OWNER: &str = "PLIMSOLL_TEST_OWNER";

fn ready_file() -> PathBuf {
    std::env::temp_dir().join("plimsoll-lifecycle-killed-ready")
}

fn start_owner() -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", "owner_to_be_killed"])
        .env(OWNER, "1");
    command.stdout(Stdio::null()).spawn().unwrap()
}

#[test]
#[ignore = "takes the whole machine for a test bed"]
fn a_killed_owner_leaves_a_bed_that_the_next_one_removes() {
    let _ = std::fs::remove_file(ready_file());
    let mut owner = start_owner();
    let deadline = Instant::now() + Duration::from_mins(3);
    while !ready_file().exists() {
        assert!(
            Instant::now() < deadline && owner.try_wait().unwrap().is_none(),
            "the owner got its bed up"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    owner.kill().unwrap();
    owner.wait().unwrap();
    let left = config("killed").layout;
    assert!(
        !marked(&left).is_empty(),
        "without a guardian the bed outlives its owner"
    );
    let next = Bed::open(config("next")).unwrap();
    assert_eq!(marked(&left), Vec::<String>::new());
    drop(next);
    assert_no_traces(&left);
    std::fs::remove_file(ready_file()).unwrap();
}
