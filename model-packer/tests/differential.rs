//! The same artifacts through another client: what one of the two pushes, the other one pulls byte by byte.
#![allow(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

mod bed;

use std::collections::BTreeMap;

use artifact::{Digest, Layout, PackedModel, media_type};
use bed::Bed;
use futures::TryStreamExt as _;
use model_packer::packed::read_remote;
use model_packer::prepare::PackOptions;
use model_packer::pull::{ENOUGH_RATE, PullSettings, pull};
use oci_client::client::{BlobResponse, ClientConfig, ClientProtocol, Config, ImageLayer};
use oci_client::manifest::OciImageManifest;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference};
use proptest::prelude::*;

const SOURCE: &str = "hf://owner/model";
const ANONYMOUS: RegistryAuth = RegistryAuth::Anonymous;

fn other_client() -> Client {
    Client::new(ClientConfig {
        protocol: ClientProtocol::Http,
        platform_resolver: Some(Box::new(oci_client::client::linux_amd64_resolver)),
        ..ClientConfig::default()
    })
}

fn reference(bed: &Bed, name: &str) -> Reference {
    bed.target(name).to_string().parse().unwrap()
}

/// Files by name, as the other client finds them in the layers.
async fn pulled_by_other(bed: &Bed, name: &str) -> (String, BTreeMap<String, (String, Vec<u8>)>) {
    let (client, reference) = (other_client(), reference(bed, name));
    let (manifest, digest) = client.pull_image_manifest(&reference, &ANONYMOUS).await.unwrap();
    let mut files = BTreeMap::new();
    for layer in &manifest.layers {
        let title = layer.annotations.as_ref().unwrap()["org.opencontainers.image.title"].clone();
        let mut content = Vec::new();
        client.pull_blob(&reference, layer, &mut content).await.unwrap();
        files.insert(title, (layer.media_type.clone(), content));
    }
    (digest, files)
}

#[tokio::test]
async fn what_is_pushed_here_is_pulled_there_byte_by_byte() {
    let bed = Bed::of_size(
        300_000,
        64 << 10,
        |_| {},
        fault_proxy::registry::RegistryConfig::default(),
    )
    .await;
    let options = PackOptions {
        pieces: true,
        ..PackOptions::default()
    };
    let pushed = bed.push_as(SOURCE, "m:v1", &options).await.unwrap();
    let (digest, files) = pulled_by_other(&bed, "m:v1").await;
    assert_eq!(digest, pushed.digest.as_str());
    assert_eq!(files.len(), 8);
    for (name, (_, content)) in files.iter().filter(|(name, _)| *name != "source.lock") {
        assert_eq!(*content, std::fs::read(bed.file(name)).unwrap(), "{name}");
    }
    let pinned = reference(&bed, &format!("m@{digest}"));
    let referrers = other_client()
        .pull_referrers(&pinned, Some(media_type::PIECE_MAP))
        .await
        .unwrap();
    assert_eq!(referrers.manifests.len(), 1);
}

#[tokio::test]
async fn a_range_of_a_tar_and_the_mountable_image_are_the_same_for_the_other_client() {
    let bed = Bed::of_size(
        300_000,
        64 << 10,
        |_| {},
        fault_proxy::registry::RegistryConfig::default(),
    )
    .await;
    let options = PackOptions {
        layout: Layout::Tar,
        ..PackOptions::default()
    };
    bed.push_as(SOURCE, "m:v1", &options).await.unwrap();
    let (client, model) = (other_client(), reference(&bed, "m:v1"));
    let (_, manifest) = bed.registry.manifest("m", "v1").unwrap();
    let packed = PackedModel::read(&manifest, None).unwrap();
    let (image, _) = client
        .pull_image_manifest(&reference(&bed, "m:v1-image"), &ANONYMOUS)
        .await
        .unwrap();
    let (plain, _) = client.pull_image_manifest(&model, &ANONYMOUS).await.unwrap();
    let digests = |manifest: &OciImageManifest| -> Vec<String> {
        manifest.layers.iter().map(|layer| layer.digest.clone()).collect()
    };
    assert_eq!(digests(&image), digests(&plain));
    for layer in &plain.layers {
        let file = packed
            .files
            .iter()
            .find(|file| file.digest.as_str() == layer.digest)
            .unwrap();
        let payload = file.payload.as_ref().unwrap();
        let range = client
            .pull_blob_stream_partial(&model, layer, payload.offset, Some(payload.size))
            .await
            .unwrap();
        let (BlobResponse::Partial(stream) | BlobResponse::Full(stream)) = range;
        let chunks: Vec<bytes::Bytes> = stream.stream.try_collect().await.unwrap();
        assert_eq!(Digest::of(&chunks.concat()), payload.digest, "{}", file.path);
    }
}

/// Which names a writer sets: its own and everybody's, only everybody's, or the ones from before the renaming.
#[derive(Debug, Clone, Copy)]
enum Spelling {
    ModelPack,
    Generic,
    Old,
}

fn spelled(spelling: Spelling, name: &str, content: &[u8]) -> ImageLayer {
    let (media_type, keys): (&str, &[&str]) = match spelling {
        Spelling::ModelPack => (
            "application/vnd.cncf.model.weight.v1.raw",
            &["org.cncf.model.filepath", "org.opencontainers.image.title"],
        ),
        Spelling::Generic => ("application/octet-stream", &["org.opencontainers.image.title"]),
        Spelling::Old => ("application/vnd.cnai.model.weight.v1.raw", &["org.cnai.model.filepath"]),
    };
    let annotations = keys.iter().map(|key| ((*key).to_owned(), name.to_owned())).collect();
    ImageLayer::new(content.to_vec(), media_type.to_owned(), Some(annotations))
}

async fn push_by_other(bed: &Bed, spelling: Spelling, files: &BTreeMap<String, Vec<u8>>) -> String {
    let layers: Vec<ImageLayer> = files
        .iter()
        .map(|(name, content)| spelled(spelling, name, content))
        .collect();
    let config = match spelling {
        Spelling::ModelPack => Config::new(&b"{}"[..], media_type::MODEL_CONFIG.to_owned(), None),
        Spelling::Generic => Config::new(&b"{}"[..], media_type::OCI_EMPTY.to_owned(), None),
        Spelling::Old => Config::new(&b"{}"[..], "application/vnd.cnai.model.config.v1+json".to_owned(), None),
    };
    let mut manifest = OciImageManifest::build(&layers, &config, None);
    if matches!(spelling, Spelling::ModelPack) {
        manifest.artifact_type = Some(media_type::MODEL_MANIFEST.to_owned());
    }
    let target = reference(bed, "m:v1");
    let client = other_client();
    client
        .push(&target, &layers, config, &ANONYMOUS, Some(manifest))
        .await
        .unwrap();
    client.fetch_manifest_digest(&target, &ANONYMOUS).await.unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 16, ..ProptestConfig::default() })]
    #[test]
    fn what_is_pushed_there_is_pulled_here_byte_by_byte(
        files in prop::collection::btree_map("[a-z]{1,12}(/[a-z]{1,12}){0,2}z", prop::collection::vec(any::<u8>(), 0..3000), 1..6),
        spelling in prop_oneof![Just(Spelling::ModelPack), Just(Spelling::Generic), Just(Spelling::Old)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bed = Bed::of_size(1000, 64 << 10, |_| {}, fault_proxy::registry::RegistryConfig::default()).await;
            let digest = push_by_other(&bed, spelling, &files).await;
            let remote = read_remote(&bed.client(), &bed.target("m:v1")).await.unwrap();
            assert_eq!(remote.model.digest.as_str(), digest);
            let folder = tempfile::tempdir().unwrap();
            let settings = PullSettings {
                client: bed.client(),
                folder: folder.path().to_owned(),
                jobs: 2,
                enough_rate: ENOUGH_RATE,
                reporter: bed.told.clone(),
            };
            let summary = pull(&remote, &settings).await.unwrap();
            assert_eq!(summary.files, files.len());
            for (name, content) in &files {
                assert_eq!(std::fs::read(folder.path().join(name)).unwrap(), *content, "{name}");
            }
        });
    }
}
