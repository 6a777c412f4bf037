//! ModelScope, folders and caches.
#![allow(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

mod bed;

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use bed::{Bed, MODEL};
use fault_proxy::registry::RegistryConfig;
use model_packer::PackError;
use model_packer::prepare::{PackOptions, prepare};
use model_packer::push::push;
use model_packer::selection::{Patterns, Wishes};
use model_packer::sources::{HubHash, HubSettings, ListedFile, SourceAddress, connect};
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
async fn folders_in_folders_without_end_are_no_repository() {
    let (bed, settings) = bed_with_a_cap().await;
    bed.write(&format!("{}x.txt", "d/".repeat(70)), "x");
    let refused = bed.gather_with(SOURCE, &Wishes::default(), &settings).await;
    let error = bed::chain(&refused.err().unwrap());
    assert!(error.contains("its folders never end"), "{error}");
}

#[tokio::test]
async fn files_of_a_folder_with_the_same_tensors_are_one_set_only_when_they_are_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (model, tuned) = (
        bed::safetensors("layer.0", 5 << 20, 1),
        bed::safetensors("layer.0", 5 << 20, 2),
    );
    std::fs::write(folder.path().join("config.json"), r#"{"model_type": "llama"}"#).unwrap();
    std::fs::write(folder.path().join("model.safetensors"), &model).unwrap();
    let bed = Bed::start().await;
    let source = folder.path().to_str().unwrap();
    for (name, content, hint) in [
        ("copy.safetensors", &model, None),
        ("tuned.safetensors", &tuned, Some("--exclude 'tuned.safetensors'")),
        ("a-tuned.safetensors", &tuned, Some("--exclude 'a-tuned.safetensors'")),
    ] {
        let beside = folder.path().join(name);
        std::fs::write(&beside, content).unwrap();
        let error = bed.gather(source, &Wishes::default()).await.err();
        assert_eq!(
            error
                .and_then(|error| error.hint())
                .as_deref()
                .map(|said| hint.is_some_and(|hint| said.contains(hint))),
            hint.map(|_| true),
            "{name}"
        );
        std::fs::remove_file(beside).unwrap();
    }
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

const COMMIT: &str = "cccccccccccccccccccccccccccccccccccccccc";

/// The model in a Hugging Face cache, of which the hub's listing is given too.
async fn cache_of(bed: &Bed) -> (tempfile::TempDir, PathBuf, Vec<ListedFile>) {
    let cache = tempfile::tempdir().unwrap();
    let repository = cache.path().join("models--owner--model");
    let snapshot = repository.join("snapshots").join(COMMIT);
    for folder in ["blobs", "refs"] {
        std::fs::create_dir_all(repository.join(folder)).unwrap();
    }
    std::fs::create_dir_all(&snapshot).unwrap();
    std::fs::write(repository.join("refs/main"), COMMIT).unwrap();
    let online = bed.gather("hf://owner/model", &Wishes::default()).await.unwrap();
    for file in &online.snapshot.files {
        let name = match &file.hash {
            HubHash::Sha256(digest) => Some(digest.hex().to_owned()),
            HubHash::GitSha1(name) => Some(name.clone()),
            HubHash::Unknown => None,
        };
        let name = name.unwrap();
        std::fs::copy(bed.file(&file.path), repository.join("blobs").join(&name)).unwrap();
        symlink(format!("../../blobs/{name}"), snapshot.join(&file.path)).unwrap();
    }
    (cache, repository, online.snapshot.files.clone())
}

/// The refusal of a source, with its hint.
async fn refusal(bed: &Bed, source: &str, settings: &HubSettings) -> String {
    let refused = bed.gather_with(source, &Wishes::default(), settings).await;
    let error = refused.err().unwrap();
    format!("{}; fix: {}", bed::chain(&error), error.hint().unwrap_or_default())
}

#[tokio::test]
async fn a_hugging_face_cache_is_proven_by_the_names_of_its_blobs() {
    let bed = Bed::start().await;
    let (cache, repository, online) = cache_of(&bed).await;
    let snapshots = repository.join("snapshots");
    for place in [&repository, &snapshots, &snapshots.join(COMMIT)] {
        let gathered = bed.gather(place.to_str().unwrap(), &Wishes::default()).await.unwrap();
        assert_eq!(gathered.snapshot.files, online);
        assert_eq!(
            (gathered.snapshot.id.as_deref(), gathered.snapshot.commit.as_deref()),
            (Some("owner/model"), Some(COMMIT))
        );
    }
    let variables = [
        ("HF_HUB_OFFLINE", "1"),
        ("HF_HUB_CACHE", cache.path().to_str().unwrap()),
    ];
    let settings = bed.settings(&variables);
    let offline = bed
        .gather_with("hf://owner/model", &Wishes::default(), &settings)
        .await
        .unwrap();
    assert_eq!(offline.snapshot.files, online);
    let place = cache.path().display();
    let asked = "HF_HUB_OFFLINE is set, so Hugging Face is not asked, and";
    for (source, missing) in [
        ("hf://owner/other", format!("the cache {place} has no owner/other;")),
        (
            "hf://owner/model@v9",
            format!("the cache {place} has owner/model, but not its revision `v9`; there are: {COMMIT};"),
        ),
    ] {
        let said = refusal(&bed, source, &settings).await;
        assert!(said.contains(&format!("{asked} {missing}")), "{said}");
        assert!(said.contains("unset HF_HUB_OFFLINE"), "{said}");
    }
    let homeless = refusal(&bed, "hf://owner/model", &bed.settings(&[("HF_HUB_OFFLINE", "1")])).await;
    assert!(
        homeless.contains("neither HF_HUB_CACHE nor HOME names a cache"),
        "{homeless}"
    );
}

#[tokio::test]
async fn a_cache_that_was_filled_by_commit_needs_no_reference_while_it_has_one_snapshot() {
    let bed = Bed::start().await;
    let (_cache, repository, online) = cache_of(&bed).await;
    let (settings, text) = (bed.settings(&[]), repository.to_str().unwrap());
    let other = "d".repeat(40);
    std::fs::write(repository.join("refs/main"), &other).unwrap();
    let said = refusal(&bed, text, &settings).await;
    assert!(
        said.contains(&format!(
            "refs/main names commit {other}, of which there is no snapshot; there are: {COMMIT}"
        )),
        "{said}"
    );
    std::fs::remove_file(repository.join("refs/main")).unwrap();
    let gathered = bed.gather(text, &Wishes::default()).await.unwrap();
    assert_eq!(
        (&gathered.snapshot.files, gathered.snapshot.commit.as_deref()),
        (&online, Some(COMMIT))
    );
    std::fs::create_dir(repository.join("snapshots").join(&other)).unwrap();
    let said = refusal(&bed, text, &settings).await;
    assert!(
        said.contains(&format!(
            "no refs/main and several snapshots; there are: {COMMIT}, {other}"
        )),
        "{said}"
    );
    assert!(said.contains(&format!("{text}/snapshots/COMMIT")), "{said}");
}

#[tokio::test]
async fn a_link_that_the_user_names_is_followed_wherever_it_leads() {
    let bed = Bed::start().await;
    let (cache, repository, online) = cache_of(&bed).await;
    let snapshot = repository.join("snapshots").join(COMMIT);
    let shard = online.iter().find(|file| file.path == "LICENSE").unwrap();
    let weights = bed::safetensors("x", 100, 1);
    std::fs::write(cache.path().join("elsewhere"), weights).unwrap();
    symlink("../elsewhere", repository.join("model.safetensors")).unwrap();
    // A component of a pipeline: a folder of the snapshot.
    std::fs::create_dir(snapshot.join("vae")).unwrap();
    std::fs::copy(cache.path().join("elsewhere"), repository.join("blobs/vae")).unwrap();
    symlink("../../../blobs/vae", snapshot.join("vae/model.safetensors")).unwrap();
    for (place, path, hash) in [
        (snapshot.join("LICENSE"), "LICENSE", &shard.hash),
        (
            repository.join("model.safetensors"),
            "model.safetensors",
            &HubHash::Unknown,
        ),
        (snapshot.join("vae"), "model.safetensors", &HubHash::Unknown),
        (
            snapshot.join("vae/model.safetensors"),
            "model.safetensors",
            &HubHash::Unknown,
        ),
    ] {
        let address = SourceAddress::Path(place.clone());
        let listed = connect(&address, &bed.settings(&[])).unwrap().snapshot().await.unwrap();
        let found: Vec<_> = listed
            .files
            .iter()
            .map(|file| (file.path.as_str(), &file.hash))
            .collect();
        assert_eq!(found, [(path, hash)], "{}", place.display());
    }
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

/// What no listing can hold, each in a place where a rule or a pattern leaves it out.
fn write_unfit(folder: &std::path::Path) {
    std::fs::create_dir_all(folder.join("venv/bin")).unwrap();
    symlink("/usr/bin/env", folder.join("venv/bin/python")).unwrap();
    symlink("/usr", folder.join("usr")).unwrap();
    symlink("missing", folder.join("latest")).unwrap();
    symlink("round", folder.join("round")).unwrap();
    symlink("..", folder.join("venv/bin/up")).unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"odd\xff.txt");
    std::fs::write(folder.join(odd), "x").unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(folder.join("pipe")).status();
    assert!(pipe.unwrap().success());
}

#[tokio::test]
async fn what_cannot_be_packed_matters_only_where_it_would_be_taken() {
    let bed = Bed::start().await;
    let folder = tempfile::tempdir().unwrap();
    bed::write_model(folder.path(), 1000);
    let text = folder.path().to_str().unwrap();
    let plain = bed.prepare(text, &PackOptions::default()).await.unwrap();
    write_unfit(folder.path());
    let unfit = ["usr", "latest", "round", "odd\u{fffd}.txt", "pipe"];
    let excluding = |names: &[&str]| Wishes {
        exclude: Patterns::new(names).unwrap(),
        ..Wishes::default()
    };
    let wishes = excluding(&unfit);
    let gathered = bed.gather(text, &wishes).await.unwrap();
    assert!(
        paths(&gathered).contains(&"venv/bin/python".to_owned()),
        "what is left out is listed"
    );
    let packed = prepare(&gathered, &wishes, &PackOptions::default()).await.unwrap();
    assert_eq!(packed.package.files, plain.package.files);
    let named = Wishes {
        include: Patterns::new(["*.json", "*.safetensors"]).unwrap(),
        ..Wishes::default()
    };
    bed.gather(text, &named).await.unwrap();
    for left_in in unfit {
        let others: Vec<&str> = unfit.into_iter().filter(|name| *name != left_in).collect();
        let Some(PackError::Source(error)) = bed.gather(text, &excluding(&others)).await.err() else {
            panic!("{left_in} is taken")
        };
        assert!(error.hint().unwrap().contains("--exclude"), "{error}");
    }
    let python = Wishes {
        include: Patterns::new(["*.json", "*.safetensors", "venv/bin/python"]).unwrap(),
        ..Wishes::default()
    };
    let error = bed.gather(text, &python).await.err().unwrap();
    assert!(
        bed::chain(&error).contains("venv/bin/python: the link leads out of the folder"),
        "{error:?}"
    );
    // A text that decides is not read through such a link, and is missed when it would be taken.
    std::fs::remove_file(folder.path().join("config.json")).unwrap();
    symlink("/etc/hostname", folder.path().join("config.json")).unwrap();
    let error = bed.gather(text, &wishes).await.err().unwrap();
    assert!(
        bed::chain(&error).contains("config.json: the link leads out of the folder"),
        "{error:?}"
    );
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

#[tokio::test]
async fn each_request_to_modelscope_has_a_number_and_a_failure_names_it() {
    let bed = Bed::start().await;
    bed.push(SOURCE, "m:v1").await.unwrap();
    bed.push("hf://owner/model", "m:v2").await.unwrap();
    let (mut numbers, mut asked) = (std::collections::BTreeSet::new(), 0);
    for request in bed.hub.requests() {
        let for_modelscope = request.side == standin_hub::Side::Hub && request.target.starts_with("/api/v1/");
        assert_eq!(request.number.is_some(), for_modelscope, "{}", request.target);
        asked += usize::from(for_modelscope);
        numbers.extend(request.number);
    }
    assert!(asked > 3 && numbers.len() == asked, "{numbers:?}");
    let status = |code| standin_hub::Fault::Status {
        code,
        headers: Vec::new(),
        body: "no".into(),
    };
    for (path, fault) in [
        ("repo/files", status(404)),
        ("repo/files", status(500)),
        ("repo/files", standin_hub::Fault::Page),
        ("repo/files", standin_hub::Fault::Cut { after: 3 }),
        ("repo/files", standin_hub::Fault::Stall { after: 0 }),
        ("FilePath=config.json", standin_hub::Fault::Cut { after: 0 }),
        ("FilePath=config.json", status(403)),
        ("FilePath=config.json", status(503)),
        ("FilePath=config.json", standin_hub::Fault::Page),
    ] {
        let bed = Bed::start().await;
        let rule = standin_hub::FaultRule::once(standin_hub::Side::Hub, path, fault.clone());
        bed.hub.push_fault(rule.times(u32::MAX));
        let said = refusal(&bed, SOURCE, &bed.settings(&[])).await;
        let asked = bed.hub.requests();
        let named = asked
            .iter()
            .any(|request| said.contains(&format!("request {}", request.number.as_ref().unwrap())));
        assert!(named, "{path} {fault:?}: {said}");
    }
}
