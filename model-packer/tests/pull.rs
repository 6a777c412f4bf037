//! From a registry to a folder.
#![allow(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

mod bed;

use bed::Bed;
use fault_proxy::registry::RegistryConfig;
use fault_proxy::{Fault, FaultRule};
use model_packer::packed::{Remote, derive_again, read_lock, read_remote};
use model_packer::prepare::{LayerContent, PackOptions};
use model_packer::pull::{ENOUGH_RATE, PullSettings, PullSummary, pull};
use model_packer::push::push;
use model_packer::selection::Wishes;

const SHARD: &str = "model-00001-of-00002.safetensors";

async fn remote(bed: &Bed, name: &str) -> Remote {
    read_remote(&bed.client(), &bed.target(name)).await.unwrap()
}

async fn fetch(bed: &Bed, name: &str, folder: &std::path::Path) -> Result<PullSummary, model_packer::PackError> {
    fetch_by(bed, name, folder, 2, ENOUGH_RATE).await
}

async fn fetch_by(
    bed: &Bed,
    name: &str,
    folder: &std::path::Path,
    jobs: usize,
    enough_rate: u64,
) -> Result<PullSummary, model_packer::PackError> {
    let settings = PullSettings {
        client: bed.client(),
        folder: folder.to_owned(),
        jobs,
        enough_rate,
        reporter: bed.told.clone(),
    };
    pull(&remote(bed, name).await, &settings).await
}

fn assert_same(bed: &Bed, folder: &std::path::Path) {
    for name in [SHARD, "model-00002-of-00002.safetensors", "config.json", "LICENSE"] {
        assert_eq!(
            std::fs::read(folder.join(name)).unwrap(),
            std::fs::read(bed.file(name)).unwrap(),
            "{name}"
        );
    }
    assert!(!folder.join(".plimsoll-partial").exists());
}

#[tokio::test]
async fn both_layouts_come_back_as_they_were_and_a_second_pull_fetches_nothing() {
    let bed = Bed::start().await;
    for layout in [artifact::Layout::Raw, artifact::Layout::Tar] {
        let options = PackOptions {
            layout,
            ..PackOptions::default()
        };
        bed.push_as("hf://owner/model", "m:v1", &options).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        assert!(fetch(&bed, "m:v1", folder.path()).await.unwrap().fetched > 6 << 20);
        assert_same(&bed, folder.path());
        assert_eq!(fetch(&bed, "m:v1", folder.path()).await.unwrap().fetched, 0);
    }
}

#[tokio::test]
async fn a_wrong_byte_on_the_way_is_fetched_again_and_never_gets_a_name() {
    let bed = Bed::start().await;
    bed.push("hf://owner/model", "m:v1").await.unwrap();
    let digest = remote(&bed, "m:v1").await.model.file(SHARD).unwrap().digest.to_string();
    let folder = tempfile::tempdir().unwrap();
    bed.registry
        .inject(FaultRule::once("GET", &digest, Fault::WrongByte { at: 5000 }));
    fetch(&bed, "m:v1", folder.path()).await.unwrap();
    assert_same(&bed, folder.path());

    let folder = tempfile::tempdir().unwrap();
    bed.registry
        .inject(FaultRule::once("GET", &digest, Fault::WrongByte { at: 5000 }).always());
    let error = fetch(&bed, "m:v1", folder.path()).await.unwrap_err();
    assert!(error.to_string().contains("has digest"), "{error}");
    assert!(!folder.path().join(SHARD).exists());
}

#[tokio::test]
async fn cut_answers_and_ignored_ranges_are_survived() {
    let bed = Bed::start().await;
    bed.push("hf://owner/model", "m:v1").await.unwrap();
    for fault in [
        Fault::Cut { after: 1000 },
        Fault::IgnoreRange,
        Fault::OtherRange { shift: 7 },
        Fault::ShortRange { most: 1 << 20 },
    ] {
        let folder = tempfile::tempdir().unwrap();
        bed.registry.inject(FaultRule::once("GET", "/blobs/", fault).times(2));
        fetch(&bed, "m:v1", folder.path()).await.unwrap();
        assert_same(&bed, folder.path());
    }
}

#[tokio::test]
async fn large_files_that_are_fewer_than_the_jobs_come_by_several_requests_each_unless_one_is_fast() {
    let bed = Bed::of_size(40 << 20, 8 << 20, |_| {}, RegistryConfig::default()).await;
    bed.push("hf://owner/model", "m:v1").await.unwrap();
    let digest = remote(&bed, "m:v1").await.model.file(SHARD).unwrap().digest.to_string();
    let (slow, fast, middle) = (u64::MAX, 1, 20 << 20);
    for (jobs, enough_rate, fault, requests) in [
        (2, slow, None, 1..=1),
        // The first megabytes, and the rest.
        (4, fast, None, 2..=2),
        // The first megabytes, and five parts, of which the last is short.
        (4, slow, None, 6..=6),
        (4, slow, Some(Fault::Cut { after: 1000 }), 7..=7),
        (4, slow, Some(Fault::IgnoreRange), 6..=7),
        (4, slow, Some(Fault::OtherRange { shift: 7 }), 6..=7),
        // The file is empty again then, and all of it comes anew.
        (4, slow, Some(Fault::WrongByte { at: middle }), 7..=12),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let before = bed.registry.count("GET", &digest);
        if let Some(fault) = fault.clone() {
            // Parts are asked for in any order, and the byte is in one of the first three.
            let times = if matches!(fault, Fault::WrongByte { .. }) { 3 } else { 1 };
            bed.registry
                .inject(FaultRule::once("GET", &digest, fault).after(1).times(times));
        }
        fetch_by(&bed, "m:v1", folder.path(), jobs, enough_rate).await.unwrap();
        assert_same(&bed, folder.path());
        let made = bed.registry.count("GET", &digest) - before;
        assert!(requests.contains(&made), "{made} requests by {jobs} jobs and {fault:?}");
    }
}

#[tokio::test]
async fn where_a_registry_ignores_ranges_the_rest_of_a_large_file_comes_by_one_request() {
    let bed = Bed::of_size(64 << 20, 8 << 20, |_| {}, RegistryConfig::default()).await;
    bed.push("hf://owner/model", "m:v1").await.unwrap();
    let digest = remote(&bed, "m:v1").await.model.file(SHARD).unwrap().digest.to_string();
    let before = bed.registry.count("GET", &digest);
    bed.registry
        .inject(FaultRule::once("GET", &digest, Fault::IgnoreRange).always());
    let folder = tempfile::tempdir().unwrap();
    fetch_by(&bed, "m:v1", folder.path(), 4, u64::MAX).await.unwrap();
    assert_same(&bed, folder.path());
    // The first megabytes and nine parts would be ten.
    let made = bed.registry.count("GET", &digest) - before;
    assert!(made <= 7, "{made}");
}

/// All files share the room for parts, and each must have its first part before its second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_files_of_several_parts_never_wait_for_each_other() {
    let bed = Bed::start().await;
    for number in 1..=8 {
        let name = format!("model-{number:05}-of-00008.safetensors");
        bed.write(&name, bed::safetensors(&format!("layer.{number}"), 26 << 20, number));
    }
    for name in [
        SHARD,
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ] {
        std::fs::remove_file(bed.file(name)).unwrap();
    }
    bed.push("hf://owner/model", "m:v1").await.unwrap();
    for jobs in [9, 16] {
        let folder = tempfile::tempdir().unwrap();
        let pulled = fetch_by(&bed, "m:v1", folder.path(), jobs, u64::MAX);
        let summary = tokio::time::timeout(std::time::Duration::from_mins(2), pulled).await;
        assert!(summary.unwrap().unwrap().fetched > 8 * (26 << 20));
    }
}

/// A network that breaks each answer after a while brings the model all the same, however it is asked for.
#[tokio::test]
async fn what_came_of_a_part_before_it_broke_is_kept() {
    for pieces in [false, true] {
        let bed = Bed::of_size(40 << 20, 8 << 20, |_| {}, RegistryConfig::default()).await;
        let options = PackOptions {
            pieces,
            ..PackOptions::default()
        };
        bed.push_as("hf://owner/model", "m:v1", &options).await.unwrap();
        let digest = remote(&bed, "m:v1").await.model.file(SHARD).unwrap().digest.to_string();
        bed.registry
            .inject(FaultRule::once("GET", &digest, Fault::Cut { after: 1_500_000 }).times(60));
        let folder = tempfile::tempdir().unwrap();
        let (jobs, enough_rate) = (4, u64::MAX);
        fetch_by(&bed, "m:v1", folder.path(), jobs, enough_rate).await.unwrap();
        assert_same(&bed, folder.path());
    }
}

#[tokio::test]
async fn an_unfinished_file_is_gone_on_with() {
    let bed = Bed::start().await;
    bed.push("hf://owner/model", "m:v1").await.unwrap();
    let content = std::fs::read(bed.file(SHARD)).unwrap();
    let digest = artifact::Digest::of(&content);
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join(".plimsoll-partial")).unwrap();
    std::fs::write(
        folder.path().join(".plimsoll-partial").join(format!(
            "{}-{}",
            digest.hex(),
            &artifact::Digest::of(SHARD.as_bytes()).hex()[..8]
        )),
        &content[..2 << 20],
    )
    .unwrap();
    let summary = fetch(&bed, "m:v1", folder.path()).await.unwrap();
    assert!(summary.fetched < 5 << 20, "{summary:?}");
    assert_same(&bed, folder.path());
}

#[tokio::test]
async fn a_link_in_the_folder_leads_nothing_out_of_it() {
    let bed = Bed::start().await;
    bed.write("additional_chat_templates/x.jinja", "template");
    bed.push("hf://owner/model", "m:v1").await.unwrap();
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(outside.path(), folder.path().join("additional_chat_templates")).unwrap();
    let error = fetch(&bed, "m:v1", folder.path()).await.unwrap_err();
    assert!(error.to_string().contains("is a link"), "{error}");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn names_and_links_that_would_take_the_place_of_the_pulls_own_files_are_refused() {
    let bed = Bed::start().await;
    bed.push("hf://owner/model", "m:v1").await.unwrap();
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(outside.path(), folder.path().join(".plimsoll-partial")).unwrap();
    let error = fetch(&bed, "m:v1", folder.path()).await.unwrap_err();
    assert!(error.to_string().contains("is a link"), "{error}");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    for name in [".plimsoll-complete", ".Plimsoll-partial/x"] {
        let digest = bed.registry.add_blob("hostile", "mine");
        let layer = serde_json::json!({"mediaType": "application/vnd.cncf.model.doc.v1.raw", "digest": digest, "size": 4,
            "annotations": {"org.cncf.model.filepath": name}});
        let config = serde_json::json!({"mediaType": artifact::media_type::MODEL_CONFIG, "digest": bed.registry.add_blob("hostile", "{}"), "size": 2});
        let manifest = serde_json::json!({"schemaVersion": 2, "mediaType": artifact::media_type::OCI_MANIFEST, "config": config, "layers": [layer]});
        bed.registry.add_manifest(
            "hostile",
            "v1",
            artifact::media_type::OCI_MANIFEST,
            manifest.to_string(),
        );
        let folder = tempfile::tempdir().unwrap();
        let error = fetch(&bed, "hostile:v1", folder.path()).await.unwrap_err();
        assert!(error.to_string().contains("only this program"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn verification_makes_the_same_manifest_again_and_names_what_differs() {
    let bed = Bed::start().await;
    for layout in [artifact::Layout::Raw, artifact::Layout::Tar] {
        let options = PackOptions {
            layout,
            created: Some(1_700_000_000),
            ..PackOptions::default()
        };
        bed.push_as("hf://owner/model", "m:v1", &options).await.unwrap();
        let remote = remote(&bed, "m:v1").await;
        let lock = read_lock(&bed.client(), &remote).await.unwrap().unwrap();
        let same = bed.gather("hf://owner/model", &Wishes::default()).await.unwrap();
        assert_eq!(
            derive_again(&bed.client(), &same, &remote, &lock).await.unwrap(),
            Vec::<String>::new(),
            "{layout:?}"
        );
    }
    let remote = remote(&bed, "m:v1").await;
    let lock = read_lock(&bed.client(), &remote).await.unwrap().unwrap();
    bed.write("LICENSE", "other terms");
    bed.write("vocab.json", "{}");
    let moved = bed.gather("hf://owner/model", &Wishes::default()).await.unwrap();
    let differences = derive_again(&bed.client(), &moved, &remote, &lock).await.unwrap();
    assert!(differences[0].starts_with("LICENSE is sha256:"), "{differences:?}");
    assert!(
        differences[1].starts_with("vocab.json is at the source"),
        "{differences:?}"
    );
}

async fn what_verification_says(bed: &Bed, name: &str) -> Vec<String> {
    let remote = remote(bed, name).await;
    let lock = read_lock(&bed.client(), &remote).await.unwrap().unwrap();
    let gathered = bed.gather("hf://owner/model", &Wishes::default()).await.unwrap();
    derive_again(&bed.client(), &gathered, &remote, &lock).await.unwrap()
}

#[tokio::test]
async fn a_mountable_layer_whose_bytes_are_not_the_sources_is_found_whatever_its_manifest_says() {
    let bed = Bed::start().await;
    let options = PackOptions {
        layout: artifact::Layout::Tar,
        ..PackOptions::default()
    };
    bed.push_as("hf://owner/model", "m:v1", &options).await.unwrap();
    assert_eq!(what_verification_says(&bed, "m:v1").await, Vec::<String>::new());
    let digest = remote(&bed, "m:v1").await.model.file(SHARD).unwrap().digest.to_string();
    let genuine = bed.registry.blob("m", &digest).unwrap();
    // In the header, in the file and in the end of the archive.
    for at in [300, 5000, genuine.len() - 1] {
        let mut prepared = bed.prepare("hf://owner/model", &options).await.unwrap();
        let mut forged = genuine.to_vec();
        forged[at] ^= 1;
        let layer = prepared.layers.iter_mut().find(|layer| layer.path == SHARD).unwrap();
        layer.digest = artifact::Digest::of(&forged);
        layer.content = LayerContent::Memory(forged.into());
        let file = prepared
            .package
            .files
            .iter_mut()
            .find(|file| file.path.as_str() == SHARD);
        file.unwrap().tar_digest = Some(layer.digest.clone());
        let expected = format!(
            "the layer {} is not a tar of {SHARD} as the source has it",
            layer.digest
        );
        push(&prepared, &bed.push_settings("m:forged")).await.unwrap();
        assert_eq!(what_verification_says(&bed, "m:forged").await, [expected]);
    }
}

#[tokio::test]
async fn verification_asks_for_the_layers() {
    let bed = Bed::start().await;
    bed.push("hf://owner/model", "m:v1").await.unwrap();
    let digest = remote(&bed, "m:v1").await.model.file(SHARD).unwrap().digest.to_string();
    bed.registry.inject(FaultRule::once(
        "HEAD",
        &digest,
        Fault::Status {
            code: 404,
            headers: Vec::new(),
            body: String::new(),
        },
    ));
    let expected = format!("the registry has lost {digest}, the layer of {SHARD}");
    assert_eq!(what_verification_says(&bed, "m:v1").await, [expected]);
}

#[tokio::test]
async fn with_a_piece_map_one_bad_piece_is_repaired_and_known_pieces_are_reused() {
    let bed = Bed::start().await;
    let big = bed::safetensors("layer.1", 20 << 20, 7);
    bed.write(SHARD, &big);
    let options = PackOptions {
        pieces: true,
        ..PackOptions::default()
    };
    let first = bed.push_as("hf://owner/model", "m:v1", &options).await.unwrap();
    assert_eq!(
        bed.push_as("hf://owner/model", "m:v1", &options).await.unwrap().digest,
        first.digest
    );
    let folder = tempfile::tempdir().unwrap();
    fetch(&bed, "m:v1", folder.path()).await.unwrap();
    assert_same(&bed, folder.path());

    // One byte rots on the disk.
    let place = folder.path().join(SHARD);
    let mut rotten = std::fs::read(&place).unwrap();
    rotten[18 << 20] ^= 1;
    std::fs::write(&place, &rotten).unwrap();
    std::fs::remove_file(folder.path().join(".plimsoll-complete")).unwrap();
    let repaired = fetch(&bed, "m:v1", folder.path()).await.unwrap();
    assert!(repaired.fetched <= 5 << 20, "{repaired:?}");
    assert_same(&bed, folder.path());

    // The next version changes the start of the file and keeps the end.
    let mut changed = big.clone();
    changed[1 << 20] ^= 1;
    bed.write(SHARD, &changed);
    bed.push_as("hf://owner/model", "m:v2", &options).await.unwrap();
    let updated = fetch(&bed, "m:v2", folder.path()).await.unwrap();
    assert!(updated.fetched <= 17 << 20, "{updated:?}");
    assert_same(&bed, folder.path());
}

#[tokio::test]
async fn a_piece_map_is_the_same_whether_the_bytes_passed_or_were_there() {
    let bed = Bed::start().await;
    bed.push("hf://owner/model", "m:plain").await.unwrap();
    for layout in [artifact::Layout::Raw, artifact::Layout::Tar] {
        let options = PackOptions {
            pieces: true,
            layout,
            ..PackOptions::default()
        };
        let mut settings = bed.push_settings("m:v1");
        settings.journal = None;
        let prepared = bed.prepare("hf://owner/model", &options).await.unwrap();
        let there = model_packer::push::push(&prepared, &settings).await.unwrap();
        let mut fresh = bed.push_settings("fresh:v1");
        fresh.journal = None;
        let passed = model_packer::push::push(&bed.prepare("hf://owner/model", &options).await.unwrap(), &fresh)
            .await
            .unwrap();
        assert_eq!(there.digest, passed.digest, "{layout:?}");
        let model = remote(&bed, "m:v1").await.model;
        assert!(bed.registry.blob("m", model.pieces.unwrap().as_str()).is_some());
    }
}

#[tokio::test]
async fn versions_are_listed_with_what_they_share_and_differences_name_files_and_tensors() {
    let bed = Bed::start().await;
    bed.push("hf://owner/model", "m:v2").await.unwrap();
    bed.write(SHARD, bed::safetensors("layer.renamed", 1 << 20, 99));
    std::fs::remove_file(bed.file("model.safetensors.index.json")).unwrap();
    bed.write("vocab.json", "{}");
    bed.push("hf://owner/model", "m:v10").await.unwrap();
    let options = PackOptions {
        layout: artifact::Layout::Tar,
        ..PackOptions::default()
    };
    bed.push_as("hf://owner/model", "m:v11", &options).await.unwrap();
    let (found, dangling) = model_packer::versions::versions(&bed.client(), &bed.target("m"))
        .await
        .unwrap();
    let tags: Vec<&str> = found.iter().map(|version| version.tag.as_str()).collect();
    assert_eq!(tags, ["v2", "v10", "v11"]);
    assert_eq!(dangling, Vec::<String>::new());
    assert!(found[1].shared > 3 << 20 && found[1].shared < 4 << 20, "{found:?}");
    let (old, new) = (remote(&bed, "m:v2").await, remote(&bed, "m:v10").await);
    let difference = model_packer::versions::difference(&bed.client(), &old, &new)
        .await
        .unwrap();
    assert_eq!(difference.added, ["vocab.json"]);
    assert_eq!(difference.removed, ["model.safetensors.index.json"]);
    let shard = difference.changed.iter().find(|file| file.path == SHARD).unwrap();
    let tensors = shard.tensors.as_ref().unwrap();
    assert_eq!(
        (tensors.added.as_slice(), tensors.removed.as_slice()),
        (&["layer.renamed".to_owned()][..], &["layer.1".to_owned()][..])
    );
}

#[tokio::test]
async fn attestations_are_found_from_the_model_and_say_where_it_came_from() {
    let bed = Bed::start().await;
    let prepared = bed.prepare("hf://owner/model", &PackOptions::default()).await.unwrap();
    let attach = |built: &artifact::Built| Ok(model_packer::attest::attestations(&prepared.package, built, "r/m"));
    for _ in 0..2 {
        model_packer::push::push_with(&prepared, &bed.push_settings("m:v1"), &attach, None)
            .await
            .unwrap();
    }
    let remote = remote(&bed, "m:v1").await;
    let found = bed
        .client()
        .referrers(&remote.reference, remote.model.digest.as_str(), None)
        .await
        .unwrap();
    let mut kinds: Vec<String> = found
        .into_iter()
        .filter_map(|referrer| referrer.artifact_type)
        .collect();
    kinds.sort();
    assert_eq!(kinds, [model_packer::attest::CYCLONE_DX, model_packer::attest::IN_TOTO]);
    let built = artifact::build_manifest(&prepared.package).unwrap();
    let documents = model_packer::attest::attestations(&prepared.package, &built, "r/m");
    let statement: serde_json::Value = serde_json::from_slice(&documents[0].document.bytes).unwrap();
    assert_eq!(statement["subject"][0]["digest"]["sha256"], remote.model.digest.hex());
    assert_eq!(
        statement["predicate"]["buildDefinition"]["resolvedDependencies"][0]["uri"],
        "hf://owner/model"
    );
    let bill: serde_json::Value = serde_json::from_slice(&documents[1].document.bytes).unwrap();
    assert_eq!(
        bill["metadata"]["component"]["licenses"][0]["license"]["id"],
        "Apache-2.0"
    );
}

#[tokio::test]
async fn a_model_of_more_files_than_a_runtime_mounts_layers_is_mountable_and_comes_back() {
    let bed = Bed::start().await;
    for number in 0..120 {
        // Equal files too: each of them has a name.
        bed.write(
            &format!("part_{number}.json"),
            format!("{{\"number\": {}}}", number / 2),
        );
    }
    let options = PackOptions {
        layout: artifact::Layout::Tar,
        ..PackOptions::default()
    };
    let pushed = bed.push_as("hf://owner/model", "m:v1", &options).await.unwrap();
    let (_, index) = bed.registry.manifest("m", "v1-image").unwrap();
    let index: artifact::Index = serde_json::from_slice(&index).unwrap();
    let (_, image) = bed.registry.manifest("m", index.manifests[0].digest.as_str()).unwrap();
    let image: artifact::Manifest = serde_json::from_slice(&image).unwrap();
    assert_eq!(
        image.layers.len(),
        4,
        "two shards, the lock, and everything else in one"
    );
    let folder = tempfile::tempdir().unwrap();
    let pulled = fetch(&bed, "m:v1", folder.path()).await.unwrap();
    assert_eq!((pulled.files, pushed.files), (128, 127));
    assert_same(&bed, folder.path());
    for number in 0..120 {
        let name = format!("part_{number}.json");
        assert_eq!(
            std::fs::read(folder.path().join(&name)).unwrap(),
            std::fs::read(bed.file(&name)).unwrap()
        );
    }
    let remote = remote(&bed, "m:v1").await;
    let lock = read_lock(&bed.client(), &remote).await.unwrap().unwrap();
    let gathered = bed.gather("hf://owner/model", &Wishes::default()).await.unwrap();
    assert_eq!(
        derive_again(&bed.client(), &gathered, &remote, &lock).await.unwrap(),
        Vec::<String>::new()
    );
    assert_eq!(bed.push_as("hf://owner/model", "m:v1", &options).await.unwrap().sent, 0);
}

#[tokio::test]
async fn a_link_to_a_file_of_another_folder_comes_back_as_that_files_content() {
    let bed = Bed::start().await;
    let folder = tempfile::tempdir().unwrap();
    bed::write_model(folder.path(), 1000);
    std::fs::create_dir(folder.path().join("some-dir")).unwrap();
    std::os::unix::fs::symlink("../config.json", folder.path().join("some-dir/link.json")).unwrap();
    let wishes = Wishes {
        include: model_packer::selection::Patterns::new(&["*".to_owned()]).unwrap(),
        ..Wishes::default()
    };
    for layout in [artifact::Layout::Raw, artifact::Layout::Tar] {
        let options = PackOptions {
            layout,
            ..PackOptions::default()
        };
        let gathered = bed.gather(folder.path().to_str().unwrap(), &wishes).await.unwrap();
        let prepared = model_packer::prepare::prepare(&gathered, &wishes, &options)
            .await
            .unwrap();
        model_packer::push::push(&prepared, &bed.push_settings("links:v1"))
            .await
            .unwrap();
        let target = tempfile::tempdir().unwrap();
        fetch(&bed, "links:v1", target.path()).await.unwrap();
        let place = target.path().join("some-dir/link.json");
        assert!(!place.is_symlink());
        assert_eq!(
            std::fs::read(place).unwrap(),
            std::fs::read(folder.path().join("config.json")).unwrap()
        );
    }
}

/// The manifest says more than the blob holds: a registry that lost the end of it, or a liar.
#[tokio::test]
async fn a_blob_that_is_shorter_than_its_manifest_says_ends_the_pull_with_that_sentence() {
    let bed = Bed::of_size(20 << 20, 8 << 20, |_| {}, RegistryConfig::default()).await;
    let pieces = PackOptions {
        pieces: true,
        ..PackOptions::default()
    };
    for (options, jobs) in [(PackOptions::default(), 1), (PackOptions::default(), 4), (pieces, 2)] {
        bed.push_as("hf://owner/model", "m:v1", &options).await.unwrap();
        let found = remote(&bed, "m:v1").await;
        let size = found.model.file(SHARD).unwrap().size;
        let (_, manifest) = bed.registry.manifest("m", "v1").unwrap();
        let text = String::from_utf8(manifest.to_vec()).unwrap();
        let longer = text.replace(&format!("\"size\":{size}"), &format!("\"size\":{}", size + 1000));
        assert_ne!(text, longer);
        bed.registry
            .add_manifest("m", "v1", artifact::media_type::OCI_MANIFEST, longer);
        let folder = tempfile::tempdir().unwrap();
        let error = fetch_by(&bed, "m:v1", folder.path(), jobs, u64::MAX).await.unwrap_err();
        let said = bed::chain(&error);
        assert!(
            said.contains(&format!(
                "fewer bytes of {SHARD} than the manifest says: {size} of {}",
                size + 1000
            )) || said.contains(&format!(
                "fewer bytes of model-00002-of-00002.safetensors than the manifest says: {size}"
            )),
            "{said}"
        );
        assert!(!error.is_ours());
    }
}
