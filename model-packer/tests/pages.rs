//! The commands of the documentation, page by page, as they are written there.
#![allow(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

mod bed;

use std::path::Path;

use bed::program::{program, run, text};
use bed::{Bed, write_model};
use fault_proxy::registry::RegistryConfig;

/// The registry of the pages.
const REGISTRY: &str = "registry.example.com";

/// Commands inside of code blocks, in their order; a page may show the prompt.
fn commands(page: &str) -> Vec<String> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in page.lines() {
        inside ^= line.starts_with("```");
        let command = line.strip_prefix("$ ").unwrap_or(line).strip_prefix("model-packer ");
        found.extend(command.filter(|_| inside).map(str::to_owned));
    }
    found
}

/// The models that the pages name, and a folder with what else they need.
async fn bed() -> (Bed, tempfile::TempDir) {
    let config = RegistryConfig::default();
    let bed = Bed::of_size(100_000, bed::PART, |hub| hub.page_size = 1000, config).await;
    for id in ["Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-V3", "owner/name"] {
        write_model(&bed.files.path().join(id), 100_000);
    }
    std::fs::write(
        bed.files.path().join("owner/name/.standin.json"),
        r#"{"revisions": ["v1.0"]}"#,
    )
    .unwrap();
    let quantised = bed.files.path().join("owner/name-gguf");
    std::fs::create_dir_all(&quantised).unwrap();
    for quant in ["Q4_K_M", "Q8_0"] {
        std::fs::write(quantised.join(format!("name-{quant}.gguf")), bed::gguf()).unwrap();
    }
    let place = tempfile::tempdir().unwrap();
    write_model(&place.path().join("my-model"), 1000);
    let keys = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keys");
    for key in ["cosign.key", "cosign.pub"] {
        std::fs::copy(keys.join(key), place.path().join(key)).unwrap();
    }
    (bed, place)
}

/// Runs a page from its top; the first versions of what it speaks of are there.
async fn follow(name: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/packer").join(name);
    let (bed, place) = bed().await;
    let before = [
        "push hf://Qwen/Qwen3-8B registry.example.com/models/qwen3-8b:v1",
        "push hf://owner/name registry.example.com/models/name:v1",
        "push hf://owner/name --exclude LICENSE registry.example.com/models/name:v2",
    ];
    let written = commands(&std::fs::read_to_string(page).unwrap());
    let mut outputs = Vec::new();
    for line in before.iter().map(|line| (*line).to_owned()).chain(written) {
        let mut command = program(&bed);
        command
            .current_dir(place.path())
            .env("COSIGN_PASSWORD", "test password")
            .args(line.replace(REGISTRY, &bed.registry.host()).split_whitespace());
        let output = run(command).await;
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{name}: model-packer {line}\n{said}");
        outputs.push(text(&output.stdout));
    }
    assert_eq!(bed.hub.violations(), []);
    outputs.drain(..before.len());
    outputs
}

#[tokio::test(flavor = "multi_thread")]
async fn each_page_can_be_followed_as_it_is_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/packer");
    let mut pages: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|item| item.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    let mut counts = Vec::new();
    for page in pages {
        counts.push((page.clone(), follow(&page).await.len()));
    }
    let counts: Vec<(&str, usize)> = counts.iter().map(|(page, count)| (page.as_str(), *count)).collect();
    let pages = ["air-gap.md", "pack.md", "pin.md", "registries.md", "versions.md"];
    let expected: Vec<(&str, usize)> = pages.into_iter().zip([3, 13, 6, 2, 5]).collect();
    assert_eq!(counts, expected, "pages and how many commands they hold");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_by_its_lock_gives_the_digest_of_the_push_that_wrote_it() {
    let outputs = follow("pin.md").await;
    let digest = |output: &str| output.trim().rsplit_once('@').map(|(_, digest)| digest.to_owned());
    assert!(digest(&outputs[0]).is_some());
    assert_eq!(digest(&outputs[0]), digest(&outputs[1]), "{outputs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_was_carried_over_differs_in_nothing_but_its_lock() {
    let outputs = follow("air-gap.md").await;
    let difference: Vec<&str> = outputs[2].lines().filter(|line| !line.starts_with("shared ")).collect();
    assert_eq!(difference.len(), 1, "{outputs:?}");
    assert!(difference[0].starts_with("~ source.lock"), "{outputs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_also_holds_which_files_were_wished_for() {
    let (bed, place) = bed().await;
    let target = bed.target("name:q4").to_string();
    let mut digests = Vec::new();
    for arguments in [
        vec![
            "push",
            "hf://owner/name-gguf",
            &target,
            "--quant",
            "Q4_K_M",
            "--write-lock",
            "source.lock",
        ],
        vec!["push", "hf://owner/name-gguf", &target, "--locked=source.lock"],
        vec![
            "push",
            "hf://owner/name-gguf",
            &target,
            "--locked=source.lock",
            "--quant",
            "Q8_0",
        ],
    ] {
        let mut command = program(&bed);
        command.current_dir(place.path()).args(arguments);
        let output = run(command).await;
        digests.push((output.status.code(), text(&output.stdout)));
    }
    assert_eq!((digests[0].0, &digests[0]), (Some(0), &digests[1]));
    assert_eq!(digests[2].0, Some(1), "another quantisation is not what the lock holds");
}
