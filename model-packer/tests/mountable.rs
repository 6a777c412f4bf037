//! The mountable twin of models with more files than a runtime mounts layers.
#![allow(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

mod bed;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use artifact::{Index, Layout, MOUNTABLE_LAYER_LIMIT, Manifest, PackedModel};
use bed::{Bed, MODEL};
use fault_proxy::{Fault, FaultRule};
use model_packer::packed::{derive_again, read_lock, read_remote};
use model_packer::prepare::PackOptions;
use model_packer::pull::{ENOUGH_RATE, PullSettings, PullSummary, pull};
use model_packer::selection::Wishes;

const SOURCE: &str = "hf://owner/model";

fn tar_layout() -> PackOptions {
    PackOptions {
        layout: Layout::Tar,
        ..PackOptions::default()
    }
}

fn shard_name(number: usize, shards: usize) -> String {
    format!("model-{number:05}-of-{shards:05}.safetensors")
}

/// A hub whose model has so many shards, of different sizes.
async fn bed_with_shards(shards: usize) -> Bed {
    let bed = Bed::with(
        |hub| hub.page_size = 1000,
        fault_proxy::registry::RegistryConfig::default(),
    )
    .await;
    for number in 1..=2 {
        std::fs::remove_file(bed.file(&shard_name(number, 2))).unwrap();
    }
    let mut weight_map = serde_json::Map::new();
    for number in 1..=shards {
        let name = shard_name(number, shards);
        let tensor = format!("layer.{number}");
        bed.write(
            &name,
            bed::safetensors(&tensor, 100 + 37 * number as u64, number as u64),
        );
        weight_map.insert(tensor, name.into());
    }
    let index = serde_json::json!({"weight_map": weight_map});
    bed.write("model.safetensors.index.json", index.to_string());
    bed
}

async fn fetch(bed: &Bed, name: &str, folder: &Path) -> PullSummary {
    let settings = PullSettings {
        client: bed.client(),
        folder: folder.to_owned(),
        jobs: 4,
        enough_rate: ENOUGH_RATE,
        reporter: bed.told.clone(),
    };
    let remote = read_remote(&bed.client(), &bed.target(name)).await.unwrap();
    pull(&remote, &settings).await.unwrap()
}

/// What a runtime would have mounted: the layers of the image over each other, by a plain reader of tars.
fn mount(bed: &Bed, repository: &str, tag: &str) -> (usize, BTreeMap<String, Vec<u8>>) {
    let (_, index) = bed.registry.manifest(repository, tag).unwrap();
    let index: Index = serde_json::from_slice(&index).unwrap();
    let (_, image) = bed
        .registry
        .manifest(repository, index.manifests[0].digest.as_str())
        .unwrap();
    let image: Manifest = serde_json::from_slice(&image).unwrap();
    let mut files = BTreeMap::new();
    for layer in &image.layers {
        let bytes = bed.registry.blob(repository, layer.digest.as_str()).unwrap();
        assert_eq!(bytes.len() as u64, layer.size);
        for entry in tar::Archive::new(bytes.as_ref() as &[u8]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            files.insert(entry.path().unwrap().to_str().unwrap().to_owned(), content);
        }
    }
    (image.layers.len(), files)
}

#[tokio::test]
async fn a_model_of_two_hundred_shards_is_mountable_and_comes_back() {
    let bed = bed_with_shards(200).await;
    let options = PackOptions {
        pieces: true,
        ..tar_layout()
    };
    let pushed = bed.push_as(SOURCE, "m:v1", &options).await.unwrap();
    let (layers, mounted) = mount(&bed, "m", "v1-image");
    assert!(layers <= MOUNTABLE_LAYER_LIMIT, "{layers} layers");
    let remote = read_remote(&bed.client(), &bed.target("m:v1")).await.unwrap();
    assert_eq!((mounted.len(), remote.model.files.len()), (206, 206));
    for file in &remote.model.files {
        let payload = file.payload.as_ref().unwrap();
        assert!(
            payload.offset.is_multiple_of(4096),
            "{} at {}",
            file.path,
            payload.offset
        );
        if file.path.as_str() != "source.lock" {
            let content = std::fs::read(bed.file(file.path.as_str())).unwrap();
            assert_eq!(mounted[file.path.as_str()], content, "{}", file.path);
            let blob = bed.registry.blob("m", file.digest.as_str()).unwrap();
            let start = usize::try_from(payload.offset).unwrap();
            assert_eq!(blob[start..start + content.len()], content, "{}", file.path);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(fetch(&bed, "m:v1", folder.path()).await.fetched > 0);
    for number in 1..=200 {
        let name = shard_name(number, 200);
        assert_eq!(
            std::fs::read(folder.path().join(&name)).unwrap(),
            std::fs::read(bed.file(&name)).unwrap()
        );
    }
    assert_eq!(fetch(&bed, "m:v1", folder.path()).await.fetched, 0);
    let lock = read_lock(&bed.client(), &remote).await.unwrap().unwrap();
    let gathered = bed.gather(SOURCE, &Wishes::default()).await.unwrap();
    assert_eq!(
        derive_again(&bed.client(), &gathered, &remote, &lock).await.unwrap(),
        Vec::<String>::new()
    );
    let again = bed.push_as(SOURCE, "m:v1", &options).await.unwrap();
    assert_eq!((again.sent, again.unchanged, again.digest), (0, true, pushed.digest));
}

#[tokio::test]
async fn shared_layers_are_the_same_on_another_machine_and_a_changed_shard_moves_its_own_layer_only() {
    let bed = bed_with_shards(103).await;
    let options = PackOptions {
        pieces: true,
        ..tar_layout()
    };
    let first = bed.push_as(&folder_of(&bed), "m:v1", &options).await.unwrap();
    // Nothing is known there of the first push: no journal, one file at a time, another registry repository.
    let mut elsewhere = bed.push_settings("other:v1");
    (elsewhere.jobs, elsewhere.journal) = (1, None);
    let prepared = bed.prepare(&folder_of(&bed), &options).await.unwrap();
    let second = model_packer::push::push(&prepared, &elsewhere).await.unwrap();
    assert_eq!(first.digest, second.digest);

    let before = model_of(&bed, "v1");
    bed.write(&shard_name(7, 103), bed::safetensors("layer.7", 5000, 1));
    bed.push_as(&folder_of(&bed), "m:v2", &options).await.unwrap();
    let after = model_of(&bed, "v2");
    let moved: Vec<_> = after
        .blobs()
        .into_keys()
        .filter(|digest| !before.blobs().contains_key(digest))
        .cloned()
        .collect();
    let names: Vec<&str> = after
        .files
        .iter()
        .filter(|file| moved.contains(&file.digest))
        .map(|file| file.path.as_str())
        .collect();
    let pair = [shard_name(7, 103), shard_name(8, 103)];
    assert_eq!(names, [&pair[0], &pair[1], "source.lock"]);
}

fn model_of(bed: &Bed, tag: &str) -> PackedModel {
    PackedModel::read(&bed.registry.manifest("m", tag).unwrap().1, None).unwrap()
}

/// The same files without a hub in between, which is quicker.
fn folder_of(bed: &Bed) -> String {
    bed.files.path().join(MODEL).to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_piece_of_a_shared_layer_is_repaired_alone_and_known_by_its_file() {
    let bed = bed_with_shards(101).await;
    bed.write(&shard_name(2, 101), bed::safetensors("layer.2", 3 << 20, 2));
    let options = PackOptions {
        pieces: true,
        ..tar_layout()
    };
    bed.push_as(&folder_of(&bed), "m:v1", &options).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let digest = model_of(&bed, "v1")
        .file(&shard_name(2, 101))
        .unwrap()
        .digest
        .to_string();
    bed.registry
        .inject(FaultRule::once("GET", &digest, Fault::WrongByte { at: 1 << 20 }));
    fetch(&bed, "m:v1", folder.path()).await;
    let place = folder.path().join(shard_name(2, 101));
    let whole = std::fs::read(bed.file(&shard_name(2, 101))).unwrap();
    assert_eq!(std::fs::read(&place).unwrap(), whole);

    // The header rots on the disk: its piece is fetched, and the tensor's is not.
    let mut rotten = whole.clone();
    rotten[20] ^= 1;
    std::fs::write(&place, rotten).unwrap();
    std::fs::remove_file(folder.path().join(".plimsoll-complete")).unwrap();
    let repaired = fetch(&bed, "m:v1", folder.path()).await.fetched;
    assert!(repaired < 200, "{repaired} bytes");
    assert_eq!(std::fs::read(&place).unwrap(), whole);
}

#[tokio::test]
async fn a_killed_push_of_shared_layers_goes_on_and_gives_the_same_digest() {
    let bed = bed_with_shards(101).await;
    let big = bed::safetensors("layer.1", 4 << 20, 1);
    bed.write(&shard_name(1, 101), &big);
    let prepared = bed.prepare(SOURCE, &tar_layout()).await.unwrap();
    let expected = artifact::build_manifest(&prepared.package).unwrap().manifest_digest;
    // The hub breaks off inside the first file of a layer, then inside the second, and then sends something wrong.
    for (shard, fault) in [
        (1, standin_hub::Fault::Cut { after: 3 << 20 }),
        (2, standin_hub::Fault::Cut { after: 50 }),
        (2, standin_hub::Fault::WrongByte { at: 40 }),
    ] {
        bed.hub.push_fault(standin_hub::FaultRule::once(
            standin_hub::Side::ContentNetwork,
            &shard_name(shard, 101),
            fault,
        ));
    }
    let settings = bed.push_settings("m:v1");
    let error = model_packer::push::push(&prepared, &settings).await.unwrap_err();
    let error = format!("{:?}", anyhow::Error::from(error));
    assert!(
        error.contains(&format!("{} or {}", shard_name(1, 101), shard_name(2, 101))),
        "{error}"
    );
    assert_eq!(bed.registry.manifest("m", "v1"), None);
    let again = bed.prepare(SOURCE, &tar_layout()).await.unwrap();
    let pushed = model_packer::push::push(&again, &settings).await.unwrap();
    assert_eq!(pushed.digest, expected);
}

#[tokio::test]
async fn any_number_of_files_of_any_kind_stays_within_the_limit_and_few_files_share_nothing() {
    // Weights, other files too large for the layer of small ones, small ones; layers, and how many of them are shared.
    let cases = [
        (1, 0, 4, 6, 0),
        (94, 0, 4, 99, 0),
        (95, 0, 4, 100, 0),
        (96, 0, 4, 98, 1),
        (98, 0, 4, 100, 1),
        (99, 0, 4, 52, 50),
        (163, 0, 4, 84, 82),
        (191, 0, 4, 98, 96),
        (500, 0, 4, 86, 85),
        (3, 120, 4, 65, 61),
        (150, 60, 4, 70, 69),
        (2, 0, 1200, 4, 1),
    ];
    for (weights, large, small, layers, shared) in cases {
        let bed = Bed::start().await;
        let folder = bed.files.path().join(MODEL);
        std::fs::remove_dir_all(&folder).unwrap();
        for number in 1..=weights {
            bed.write(
                &shard_name(number, weights),
                bed::safetensors(&format!("t{number}"), 20, 1),
            );
        }
        for number in 0..large {
            bed.write(&format!("large_{number}.json"), "");
            let file = std::fs::File::create(bed.file(&format!("large_{number}.json"))).unwrap();
            file.set_len((1 << 20) + 1).unwrap();
        }
        for number in 0..small {
            bed.write(&format!("small_{number}.json"), number.to_string());
        }
        let wishes = Wishes {
            include: model_packer::selection::Patterns::new(["*"]).unwrap(),
            ..Wishes::default()
        };
        let gathered = bed.gather(folder.to_str().unwrap(), &wishes).await.unwrap();
        let prepared = model_packer::prepare::prepare(&gathered, &wishes, &tar_layout())
            .await
            .unwrap();
        let built = artifact::build_manifest(&prepared.package).unwrap();
        let model = PackedModel::read(&built.manifest_bytes, None).unwrap();
        assert_eq!(
            (
                model.blobs().len() <= MOUNTABLE_LAYER_LIMIT,
                prepared.layers.len() + 1,
                model.bundles().len()
            ),
            (true, layers, shared),
            "{weights} weights, {large} large and {small} small files"
        );
        assert_eq!(model.files.len(), weights + large + small + 1);
    }
}
