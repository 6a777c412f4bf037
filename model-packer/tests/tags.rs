//! Tags that move, and what the program says and prints while it does so.
#![allow(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

mod bed;

use std::process::Stdio;

use bed::Bed;
use bed::program::{packer, program, run, text};
use fault_proxy::{Fault, FaultRule};
use model_packer::prepare::PackOptions;
use serde_json::Value;

async fn push(bed: &Bed, tag: &str, more: &[&str]) -> String {
    let target = bed.target(&format!("m:{tag}")).to_string();
    let mut arguments = vec!["push", "hf://owner/model", &target];
    arguments.extend(more);
    let output = packer(bed, &arguments).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stderr)
}

fn digest(bed: &Bed, tag: &str) -> Option<String> {
    bed.registry.manifest("m", tag).map(|(digest, _)| digest)
}

#[tokio::test]
async fn the_tag_of_the_mountable_image_goes_where_the_models_goes() {
    let bed = Bed::start().await;
    push(&bed, "v1", &["--layout", "tar"]).await;
    bed.write(
        "config.json",
        r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 7}"#,
    );
    push(&bed, "v2", &["--layout", "tar"]).await;
    assert_ne!(digest(&bed, "v1-image"), digest(&bed, "v2-image"));
    for version in ["v2", "v1"] {
        let reference = bed.target(&format!("m:{version}")).to_string();
        let output = packer(&bed, &["tag", &reference, "stable"]).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(digest(&bed, "stable"), digest(&bed, version));
        assert_eq!(digest(&bed, "stable-image"), digest(&bed, &format!("{version}-image")));
    }

    let stable = bed.target("m:stable").to_string();
    let output = packer(&bed, &["untag", &stable]).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!((digest(&bed, "stable"), digest(&bed, "stable-image")), (None, None));
    assert!(digest(&bed, "v1-image").is_some());
}

#[tokio::test]
async fn an_image_that_stays_behind_its_model_is_told() {
    let bed = Bed::start().await;
    push(&bed, "v1", &["--layout", "tar"]).await;
    let said = push(&bed, "v1", &["--layout", "raw"]).await;
    assert!(said.contains("m:v1-image stays the image of another version"), "{said}");
    push(&bed, "raw", &[]).await;
    push(&bed, "stable", &["--layout", "tar"]).await;
    let raw = bed.target("m:raw").to_string();
    let output = packer(&bed, &["tag", &raw, "stable"]).await;
    let said = text(&output.stderr);
    assert!(said.contains("m:stable-image stays"), "{said}");
}

#[tokio::test]
async fn a_tag_without_room_for_its_images_is_refused_before_anything_is_sent() {
    let bed = Bed::start().await;
    let target = bed.target(&format!("m:{}", "v".repeat(125))).to_string();
    let output = packer(&bed, &["push", "hf://owner/model", &target, "--layout", "tar"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(bed.writes(), 0);
}

#[tokio::test]
async fn a_tag_that_points_to_nothing_hides_no_version() {
    let bed = Bed::start().await;
    for tag in ["v1", "v2", "v3"] {
        bed.push("hf://owner/model", &format!("m:{tag}")).await.unwrap();
    }
    let gone = Fault::Status {
        code: 404,
        headers: Vec::new(),
        body: r#"{"errors":[{"code":"MANIFEST_UNKNOWN"}]}"#.into(),
    };
    bed.registry
        .inject(FaultRule::once("GET", "/manifests/v2", gone).always());
    let repository = bed.target("m").to_string();
    let output = packer(&bed, &["versions", &repository]).await;
    let (listed, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert!(
        listed.contains("v1") && listed.contains("v3") && !listed.contains("v2"),
        "{listed}"
    );
    assert!(said.contains("the tag v2 points to nothing"), "{said}");
}

#[tokio::test]
async fn every_command_ends_its_events_with_what_came_of_it() {
    let bed = Bed::start().await;
    push(&bed, "v1", &["--layout", "tar"]).await;
    let (model, repository) = (bed.target("m:v1").to_string(), bed.target("m").to_string());
    let (absent, host, index) = (
        bed.target("m:absent").to_string(),
        bed.registry.host(),
        bed.target("m:all-index").to_string(),
    );
    for (arguments, event) in [
        (vec!["inspect", &model], "inspect"),
        (vec!["verify", &model], "verified"),
        (vec!["versions", &repository], "versions"),
        (vec!["diff", &model, "v1"], "diff"),
        (vec!["tag", &model, "stable"], "tag"),
        (vec!["index", &index, "v1"], "index"),
        (vec!["untag", &model], "untag"),
        (vec!["doctor", &host], "doctor"),
        (vec!["inspect", &absent], "error"),
        (vec!["verify", &absent], "error"),
        (vec!["pull", &absent, "/nowhere"], "error"),
        (vec!["push", "hf://owner/absent", &absent], "error"),
        (vec!["push", "hf://owner/model", "Not A Reference"], "error"),
    ] {
        let mut command = program(&bed);
        command.args(&arguments).args(["--output", "json"]);
        let output = run(command).await;
        let printed = text(&output.stdout);
        let events: Vec<Value> = printed
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let last = events.last().unwrap();
        assert_eq!(last["event"], event, "{arguments:?}: {}", text(&output.stderr));
        if event == "error" {
            assert_eq!(last["exit"], 1, "{arguments:?}");
            assert!(
                text(&output.stderr).contains(last["message"].as_str().unwrap()),
                "{arguments:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_closed_or_full_stderr_stops_nothing_and_a_full_stdout_is_told() {
    let bed = Bed::start().await;
    let target = bed.target("m:v1").to_string();
    let full = || Stdio::from(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let code = |command: &mut std::process::Command| command.stdin(Stdio::null()).status().unwrap().code();
    let mut deaf = program(&bed);
    deaf.args(["push", "hf://owner/model", &target])
        .stdout(Stdio::null())
        .stderr(full());
    let mut mute = program(&bed);
    mute.args(["push", "hf://owner/model", &target])
        .stdout(full())
        .stderr(Stdio::null());
    let codes = tokio::task::spawn_blocking(move || (code(&mut deaf), code(&mut mute)))
        .await
        .unwrap();
    assert_eq!(codes, (Some(0), Some(1)));
}

#[tokio::test]
async fn blobs_are_taken_over_from_repositories_of_this_registry_and_from_nothing_else() {
    let bed = Bed::start().await;
    bed.push("hf://owner/model", "sibling:v1").await.unwrap();
    let host = bed.registry.host();
    let sibling = format!("{host}/sibling");
    for (from, works) in [
        ("sibling", true),
        (&sibling, true),
        ("other.example.com/sibling", false),
        ("Nope", false),
    ] {
        let name = format!("copy{}:v1", from.len());
        let target = bed.target(&name).to_string();
        // Which repositories have had the blobs is remembered there.
        let state = tempfile::tempdir().unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_model-packer"));
        command
            .env_clear()
            .env("HF_ENDPOINT", bed.hub.url())
            .arg("--plain-http");
        command.args([
            "push",
            "hf://owner/model",
            &target,
            "--mount-from",
            from,
            "--output",
            "json",
        ]);
        command.arg("--state").arg(state.path());
        let output = run(command).await;
        let printed = text(&output.stdout);
        let last: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
        assert_eq!(
            last["mounted"].as_u64().is_some_and(|bytes| bytes > 0),
            works,
            "{from}: {last}"
        );
    }
}

#[tokio::test]
async fn what_is_attached_needs_no_artifact_type_either() {
    let bed = Bed::start().await;
    let options = PackOptions {
        pieces: true,
        omit_artifact_type: true,
        ..PackOptions::default()
    };
    let pushed = bed.push_as("hf://owner/model", "m:v1", &options).await.unwrap();
    let (client, target) = (bed.client(), bed.target("m:v1"));
    let referrers = client.referrers(&target, pushed.digest.as_str(), None).await.unwrap();
    let kinds: Vec<_> = referrers
        .iter()
        .map(|referrer| referrer.artifact_type.as_deref())
        .collect();
    assert_eq!(kinds, [Some(artifact::media_type::PIECE_MAP)]);
    for referrer in referrers {
        let manifest = client
            .get_manifest(&target.with_digest(&referrer.digest).unwrap())
            .await
            .unwrap();
        let manifest: Value = serde_json::from_slice(&manifest.bytes).unwrap();
        assert_eq!(manifest["artifactType"], Value::Null);
    }
}
