//! Folders of users: all files or none, and nothing of theirs is ever overwritten.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use support::{FakeRegistry, Fault, noise};

fn pull(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_node-fetcher"))
        .arg("pull")
        .args(arguments)
        .args(["--plain-http", "127.0.0.1", "--free-space-floor", "0"])
        .env("DOCKER_CONFIG", "/nonexistent")
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn pull_into(reference: &str, folder: &Path) -> Output {
    pull(&[reference, "--into", folder.to_str().unwrap()])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_pull_moves_nothing_and_says_so() {
    let registry = FakeRegistry::start().await;
    let model = noise(70_000, 2);
    let (reference, digest) = registry.add_model(&[("model.gguf", model.clone()), ("a/b.json", b"{}".to_vec())]);
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("deep/model");
    let first = pull_into(&reference.to_string(), &into);
    assert!(first.status.success(), "{}", text(&first));
    assert_eq!(String::from_utf8_lossy(&first.stdout), format!("{digest}\n"));
    assert!(text(&first).contains("from registry"), "{}", text(&first));
    assert!(fs::read(into.join("model.gguf")).unwrap() == model);
    let names: Vec<_> = fs::read_dir(into.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["model"], "no store and no half-made folder stay");

    let requests = registry.seen().len();
    let second = pull_into(&reference.to_string(), &into);
    assert!(second.status.success());
    assert!(text(&second).contains("nothing to move"), "{}", text(&second));
    assert_eq!(registry.seen().len(), requests);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_and_a_newer_artifact_are_put_right() {
    let registry = FakeRegistry::start().await;
    let (old, _) = registry.add_model(&[("model.gguf", b"old".to_vec()), ("gone", b"x".to_vec())]);
    let (new, _) = registry.add_model(&[("model.gguf", b"new".to_vec())]);
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("model");
    assert!(pull_into(&old.to_string(), &into).status.success());
    fs::remove_file(into.join("model.gguf")).unwrap();
    fs::write(into.join("model.gguf"), b"mine").unwrap();
    assert!(pull_into(&old.to_string(), &into).status.success());
    assert_eq!(fs::read(into.join("model.gguf")).unwrap(), b"old");
    assert!(pull_into(&new.to_string(), &into).status.success());
    assert_eq!(fs::read(into.join("model.gguf")).unwrap(), b"new");
    assert!(!into.join("gone").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_elses_folder_is_left_alone_before_any_byte_moves() {
    let registry = FakeRegistry::start().await;
    let (reference, _) = registry.add_model(&[("model.gguf", b"bytes".to_vec())]);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.txt"), b"years of work").unwrap();
    let output = pull_into(&reference.to_string(), folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output).contains("was not made by node-fetcher"),
        "{}",
        text(&output)
    );
    assert!(registry.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_pull_shows_no_folder_and_the_next_one_goes_on() {
    let registry = FakeRegistry::start().await;
    let model = noise(70_000, 2);
    let (reference, _) = registry.add_model(&[("model.gguf", model.clone())]);
    registry.script([Fault::Status(404, vec![])]);
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("model");
    let failed = pull_into(&reference.to_string(), &into);
    assert_eq!(failed.status.code(), Some(1));
    assert!(
        text(&failed).starts_with("error: cannot fetch blob"),
        "{}",
        text(&failed)
    );
    assert!(!into.exists());
    assert!(pull_into(&reference.to_string(), &into).status.success());
    assert!(fs::read(into.join("model.gguf")).unwrap() == model);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_store_serves_the_next_folder_without_the_registry() {
    let registry = FakeRegistry::start().await;
    let (reference, _) = registry.add_model(&[("model.gguf", noise(70_000, 2))]);
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let arguments = |into: &str| {
        let into = folder.path().join(into).display().to_string();
        [
            reference.to_string(),
            "--into".to_owned(),
            into,
            "--store".to_owned(),
            store.display().to_string(),
        ]
    };
    for into in ["one", "two"] {
        let arguments = arguments(into);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let output = pull(&arguments);
        assert!(output.status.success(), "{}", text(&output));
    }
    assert_eq!(registry.seen().len(), 1);
}

#[test]
fn a_reference_without_a_registry_is_told_how_to_be_spelled() {
    let output = pull(&["qwen/qwen3:v1", "--into", "/nonexistent/x"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("  fix: "), "{}", text(&output));
}
