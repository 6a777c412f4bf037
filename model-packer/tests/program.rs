//! The program as users meet it.
#![allow(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

mod bed;

use std::process::{Command, Output, Stdio};

use bed::Bed;
use fault_proxy::registry::RegistryConfig;

fn program(bed: &Bed) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_model-packer"));
    command
        .env_clear()
        .env("HF_ENDPOINT", bed.hub.url())
        .env("MODELSCOPE_ENDPOINT", bed.hub.url())
        .env("HOME", bed.state.path());
    command.arg("--plain-http").arg("--state").arg(bed.state.path());
    command
}

async fn run(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.stdin(Stdio::null()).output().unwrap())
        .await
        .unwrap()
}

async fn packer(bed: &Bed, arguments: &[&str]) -> Output {
    let mut command = program(bed);
    command.args(arguments);
    run(command).await
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn stdout_is_the_reference_and_exit_codes_tell_yes_from_no() {
    let bed = Bed::start().await;
    let target = bed.target("m:v1").to_string();
    let pushed = packer(&bed, &["push", "hf://owner/model", &target]).await;
    assert_eq!(pushed.status.code(), Some(0), "{}", text(&pushed.stderr));
    let reference = text(&pushed.stdout);
    let index = bed.target("m:v1-index").to_string();
    assert!(
        reference.starts_with(&format!("{target}@sha256:")) && reference.lines().count() == 1,
        "{reference}"
    );
    for (arguments, code) in [
        (vec!["inspect", target.as_str()], 0),
        (vec!["verify", target.as_str()], 0),
        (vec!["versions", target.as_str()], 0),
        (vec!["diff", target.as_str(), "v1"], 0),
        (vec!["tag", target.as_str(), "stable"], 0),
        (vec!["index", index.as_str(), "v1", "stable"], 0),
        (vec!["index", target.as_str(), "v1"], 1),
        (vec!["doctor", bed.registry.host().leak() as &str], 0),
        (vec!["plan", "hf://owner/model", target.as_str()], 0),
        (vec!["inspect", "not a reference"], 1),
        (vec!["push", "s3://x/y", target.as_str()], 1),
        (vec!["push", "hf://owner/missing", target.as_str()], 1),
        (vec!["no-such-command"], 1),
        (vec!["--version"], 0),
    ] {
        let output = packer(&bed, &arguments).await;
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_any_output_or_argument() {
    let secret = "hf_verysecrettoken";
    let bed = Bed::with(|hub| hub.token = Some(secret.into()), RegistryConfig::default()).await;
    bed.write(".standin.json", r#"{"private": true}"#);
    let target = bed.target("m:v1").to_string();
    let mut seen = String::new();
    for (source, token) in [
        ("hf://owner/model", secret),
        ("hf://owner/missing", secret),
        ("ms://owner/model", secret),
        ("hf://owner/model", "hf_wrongsecrettoken"),
    ] {
        let mut command = program(&bed);
        command
            .args(["-vv", "push", source, &target])
            .env("HF_TOKEN", token)
            .env("MODELSCOPE_API_TOKEN", token)
            .env("RUST_LOG", "trace");
        let output = run(command).await;
        seen.push_str(&text(&output.stdout));
        seen.push_str(&text(&output.stderr));
    }
    assert!(seen.contains("redirected"), "the log was on");
    for forbidden in ["secrettoken", "Signature=", "_state="] {
        let line = seen.lines().find(|line| line.contains(forbidden));
        assert_eq!(line, None, "{forbidden}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_output_is_one_object_per_line_and_ends_with_the_summary() {
    let bed = Bed::start().await;
    let target = bed.target("m:v1").to_string();
    let output = packer(&bed, &["push", "hf://owner/model", &target, "--output", "json"]).await;
    let events: Vec<serde_json::Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last = events.last().unwrap();
    assert_eq!(last["event"], "summary");
    assert_eq!(last["files"], 7);
    assert!(
        events
            .iter()
            .any(|event| event["event"] == "finished" && event["arrival"]["sent"].is_u64()),
        "{events:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_is_gone_on_with_by_the_next_one() {
    let bed = Bed::of_size(40 << 20, bed::PART, |_| {}, RegistryConfig::default()).await;
    let target = bed.target("m:v1").to_string();
    // What `doctor` would keep: small parts, so that a kill costs little and the bound below is sharp.
    let profile = bed.client().profile(&bed.target("m:v1"));
    model_packer::journal::Journal::open(bed.state.path())
        .unwrap()
        .keep_profile(bed.target("m").registry(), &profile)
        .unwrap();
    for milliseconds in [150, 300] {
        let mut child = program(&bed)
            .args(["push", "hf://owner/model", &target])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(milliseconds)).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let output = packer(&bed, &["push", "hf://owner/model", &target]).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let total = 2 * std::fs::metadata(bed.file("model-00001-of-00002.safetensors"))
        .unwrap()
        .len();
    let again = bed.registry.received_bytes().saturating_sub(total);
    let bound = 2 * 2 * bed::PART + (64 << 10);
    assert!(
        again <= bound,
        "{again} bytes were sent again after two kills of two files in parts of {}",
        bed::PART
    );
}
