//! ModelScope, folders and caches.
#![allow(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

mod bed;

use std::os::unix::fs::symlink;

use bed::{Bed, MODEL};
use fault_proxy::registry::RegistryConfig;
use model_packer::PackError;
use model_packer::prepare::{PackOptions, prepare};
use model_packer::push::push;
use model_packer::selection::Wishes;
use model_packer::sources::{HubHash, HubSettings};
use standin_hub::RangeMode;

const SOURCE: &str = "ms://owner/model";

fn paths(gathered: &model_packer::gather::Gathered) -> Vec<String> {
    gathered.snapshot.files.iter().map(|file| file.path.clone()).collect()
}

#[tokio::test]
async fn both_hubs_and_a_folder_give_the_same_layers() {
    let bed = Bed::with(|hub| hub.capital_hashes = true, RegistryConfig::default()).await;
    let folder = bed.files.path().join(MODEL);
    std::fs::remove_file(folder.join(".standin.json")).ok();
    let mut layers = Vec::new();
    for source in ["hf://owner/model", SOURCE, folder.to_str().unwrap()] {
        let prepared = bed.prepare(source, &PackOptions::default()).await.unwrap();
        layers.push(
            prepared
                .layers
                .iter()
                .map(|layer| (layer.path.clone(), layer.digest.clone()))
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(layers[0], layers[1]);
    assert_eq!(layers[0], layers[2]);
}

#[tokio::test]
async fn modelscope_files_come_whole_however_it_answers_a_range() {
    for mode in [RangeMode::Full, RangeMode::Partial, RangeMode::Ignored] {
        let bed = Bed::with(|hub| hub.model_scope_range = mode, RegistryConfig::default()).await;
        let prepared = bed.prepare(SOURCE, &PackOptions::default()).await.unwrap();
        let shard = "model-00001-of-00002.safetensors";
        bed.hub.push_fault(standin_hub::FaultRule::once(
            standin_hub::Side::ContentNetwork,
            shard,
            standin_hub::Fault::Cut { after: 1 << 20 },
        ));
        push(&prepared, &bed.push_settings("m:v1"))
            .await
            .unwrap_or_else(|error| panic!("{mode:?}: {error:?}"));
        assert_eq!(bed.hub.violations(), []);
    }
}

/// A hub that lists twelve files at most, and nine in a folder of a folder.
async fn bed_with_a_cap() -> (Bed, HubSettings) {
    let bed = Bed::with(|hub| hub.listing_cap = 12, RegistryConfig::default()).await;
    for number in 0..9 {
        bed.write(&format!("deep/er/{number}.txt"), "x");
    }
    let mut settings = bed.settings(&[]);
    settings.listing_cap = 12;
    (bed, settings)
}

#[tokio::test]
async fn a_listing_that_reached_the_cap_is_walked_folder_by_folder() {
    let (bed, settings) = bed_with_a_cap().await;
    let gathered = bed.gather_with(SOURCE, &Wishes::default(), &settings).await.unwrap();
    assert_eq!(
        paths(&gathered).iter().filter(|path| path.starts_with("deep/")).count(),
        9
    );
    for number in 9..13 {
        bed.write(&format!("deep/er/{number}.txt"), "x");
    }
    let error = bed
        .gather_with(SOURCE, &Wishes::default(), &settings)
        .await
        .err()
        .unwrap();
    let PackError::Source(error) = error else {
        panic!("{error:?}")
    };
    assert!(error.to_string().contains("cuts listings without a sign"), "{error}");
}

#[tokio::test]
async fn a_file_without_a_hash_is_marked_and_refused_on_request() {
    let bed = Bed::start().await;
    bed.write(
        ".standin.json",
        r#"{"unhashed": ["tokenizer.json", "model-00001-of-00002.safetensors"], "unsized_files": ["tokenizer.json"]}"#,
    );
    let wishes = Wishes::default();
    let gathered = bed.gather(SOURCE, &wishes).await.unwrap();
    assert_eq!(
        gathered.snapshot.file("tokenizer.json").unwrap().size,
        18,
        "size 0 means that it is not known"
    );
    let prepared = prepare(&gathered, &wishes, &PackOptions::default()).await.unwrap();
    let unverified: Vec<String> = prepared
        .package
        .lock
        .unwrap()
        .files
        .into_iter()
        .filter(|file| file.unverified)
        .map(|file| file.path.to_string())
        .collect();
    assert_eq!(unverified, ["model-00001-of-00002.safetensors", "tokenizer.json"]);
    let strict = PackOptions {
        require_hash: true,
        ..PackOptions::default()
    };
    assert!(
        matches!(prepare(&gathered, &wishes, &strict).await, Err(PackError::Unverified(names)) if names.len() == 2)
    );
}

#[tokio::test]
async fn a_hugging_face_cache_is_proven_by_the_names_of_its_blobs() {
    let bed = Bed::start().await;
    let cache = tempfile::tempdir().unwrap();
    let repository = cache.path().join("models--owner--model");
    let commit = "c".repeat(40);
    let snapshot = repository.join("snapshots").join(&commit);
    for folder in ["blobs", "refs"] {
        std::fs::create_dir_all(repository.join(folder)).unwrap();
    }
    std::fs::create_dir_all(&snapshot).unwrap();
    std::fs::write(repository.join("refs/main"), &commit).unwrap();
    let online = bed.gather("hf://owner/model", &Wishes::default()).await.unwrap();
    for file in &online.snapshot.files {
        let name = match &file.hash {
            HubHash::Sha256(digest) => digest.hex().to_owned(),
            HubHash::GitSha1(name) => name.clone(),
            HubHash::Unknown => panic!("the hub lists a hash for {}", file.path),
        };
        std::fs::copy(bed.file(&file.path), repository.join("blobs").join(&name)).unwrap();
        symlink(format!("../../blobs/{name}"), snapshot.join(&file.path)).unwrap();
    }
    for place in [&repository, &snapshot] {
        let gathered = bed.gather(place.to_str().unwrap(), &Wishes::default()).await.unwrap();
        assert_eq!(gathered.snapshot.files, online.snapshot.files);
        assert_eq!(
            (gathered.snapshot.id.as_deref(), gathered.snapshot.commit.as_deref()),
            (Some("owner/model"), Some(commit.as_str()))
        );
    }
    let variables = [
        ("HF_HUB_OFFLINE", "1"),
        ("HF_HUB_CACHE", cache.path().to_str().unwrap()),
    ];
    let offline = bed
        .gather_with("hf://owner/model", &Wishes::default(), &bed.settings(&variables))
        .await
        .unwrap();
    assert_eq!(offline.snapshot.files, online.snapshot.files);
    let missing = bed
        .gather_with("hf://owner/other", &Wishes::default(), &bed.settings(&variables))
        .await
        .err()
        .unwrap();
    assert!(missing.hint().unwrap().contains("HF_HUB_OFFLINE"));
}

#[tokio::test]
async fn links_are_followed_inside_the_folder_only() {
    let bed = Bed::start().await;
    let folder = tempfile::tempdir().unwrap();
    bed::write_model(&folder.path().join("a"), 1000);
    let source = folder.path().join("a");
    symlink("config.json", source.join("generation_config.json")).unwrap();
    let text = source.to_str().unwrap().to_owned();
    assert!(
        paths(&bed.gather(&text, &Wishes::default()).await.unwrap()).contains(&"generation_config.json".to_owned())
    );
    for (link, target, problem) in [
        ("out", "/etc/passwd", "leads out"),
        ("nowhere", "missing", "leads nowhere"),
        ("loop", ".", "leads to a folder that holds it"),
    ] {
        symlink(target, source.join(link)).unwrap();
        let PackError::Source(error) = bed.gather(&text, &Wishes::default()).await.err().unwrap() else {
            panic!()
        };
        assert!(error.to_string().contains(problem), "{error}");
        std::fs::remove_file(source.join(link)).unwrap();
    }
}

#[tokio::test]
async fn a_single_file_is_a_model_too() {
    let bed = Bed::start().await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("model.safetensors"), bed::safetensors("x", 100, 1)).unwrap();
    std::fs::write(folder.path().join("other.safetensors"), "not mine").unwrap();
    let file = folder.path().join("model.safetensors");
    let error = bed.gather(file.to_str().unwrap(), &Wishes::default()).await;
    assert_eq!(paths(&error.unwrap()), ["model.safetensors"]);
}

#[tokio::test]
async fn revisions_of_single_files_decide_nothing_and_a_second_push_sends_nothing() {
    let bed = Bed::start().await;
    let first = bed.push("ms://owner/model", "m:v1").await.unwrap();
    let second = bed.push("ms://owner/model", "m:v1").await.unwrap();
    assert_eq!((second.digest, second.sent, second.unchanged), (first.digest, 0, true));
}

#[tokio::test]
async fn a_branch_that_moves_between_two_pages_of_its_listing_is_listed_again() {
    let (bed, settings) = bed_with_a_cap().await;
    let still = bed.gather_with(SOURCE, &Wishes::default(), &settings).await.unwrap();
    let moved = standin_hub::FaultRule::once(
        standin_hub::Side::Hub,
        "repo/files",
        standin_hub::Fault::OtherCommit { commit: "0".repeat(40) },
    );
    for passed in 0..4 {
        bed.hub.push_fault(moved.clone().after(passed));
        let gathered = bed.gather_with(SOURCE, &Wishes::default(), &settings).await.unwrap();
        assert_eq!(
            gathered.snapshot, still.snapshot,
            "moved for the answer after {passed} others"
        );
    }
    // The whole listing says one commit and each folder of it another, every time.
    for page in 0..6 {
        bed.hub.push_fault(moved.clone().after(page).times(1));
    }
    let error = bed
        .gather_with(SOURCE, &Wishes::default(), &settings)
        .await
        .err()
        .unwrap();
    let PackError::Source(error) = error else {
        panic!("{error:?}")
    };
    assert!(
        error.to_string().contains("moved to another commit each time"),
        "{error}"
    );
}
