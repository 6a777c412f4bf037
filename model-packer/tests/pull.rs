//! From a registry to a folder.

mod bed;

use bed::Bed;
use fault_proxy::{Fault, FaultRule};
use model_packer::packed::{Remote, derive_again, read_lock, read_remote};
use model_packer::prepare::PackOptions;
use model_packer::pull::{PullSettings, PullSummary, pull};
use model_packer::selection::Wishes;

const SHARD: &str = "model-00001-of-00002.safetensors";

async fn remote(bed: &Bed, name: &str) -> Remote {
    read_remote(&bed.client(), &bed.target(name)).await.unwrap()
}

async fn fetch(bed: &Bed, name: &str, folder: &std::path::Path) -> Result<PullSummary, model_packer::PackError> {
    let settings = PullSettings {
        client: bed.client(),
        folder: folder.to_owned(),
        jobs: 2,
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
    ] {
        let folder = tempfile::tempdir().unwrap();
        bed.registry.inject(FaultRule::once("GET", "/blobs/", fault).times(2));
        fetch(&bed, "m:v1", folder.path()).await.unwrap();
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
        folder.path().join(".plimsoll-partial").join(digest.hex()),
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
            derive_again(&same, &remote, &lock).await.unwrap(),
            Vec::<String>::new(),
            "{layout:?}"
        );
    }
    let remote = remote(&bed, "m:v1").await;
    let lock = read_lock(&bed.client(), &remote).await.unwrap().unwrap();
    bed.write("LICENSE", "other terms");
    bed.write("vocab.json", "{}");
    let moved = bed.gather("hf://owner/model", &Wishes::default()).await.unwrap();
    let differences = derive_again(&moved, &remote, &lock).await.unwrap();
    assert!(differences[0].starts_with("LICENSE is sha256:"), "{differences:?}");
    assert!(
        differences[1].starts_with("vocab.json is at the source"),
        "{differences:?}"
    );
}
