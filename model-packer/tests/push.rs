//! From a hub to a registry, and what happens when either of them fails.
#![allow(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

mod bed;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use artifact::{Digest, FileKind, Layout, PackedModel};
use bed::{Bed, MODEL};
use fault_proxy::registry::RegistryConfig;
use model_packer::PackError;
use model_packer::gather::gather;
use model_packer::prepare::PackOptions;
use model_packer::push::{PushSettings, push};
use model_packer::report::{Arrival, Event, Report};
use model_packer::selection::Wishes;
use model_packer::sources::connect;
use standin_hub::{Fault, FaultRule, Side};

const SOURCE: &str = "hf://owner/model";
const SHARD: &str = "model-00001-of-00002.safetensors";

fn read(bed: &Bed, repository: &str, tag: &str) -> PackedModel {
    let (_, manifest) = bed.registry.manifest(repository, tag).unwrap();
    PackedModel::read(&manifest, None).unwrap()
}

#[tokio::test]
async fn every_layer_is_the_file_of_the_hub_and_a_second_push_sends_nothing() {
    let bed = Bed::start().await;
    let first = bed.push(SOURCE, "m:v1").await.unwrap();
    let model = read(&bed, "m", "v1");
    for file in model.files.iter().filter(|file| file.path.as_str() != "source.lock") {
        let content = std::fs::read(bed.file(file.path.as_str())).unwrap();
        assert_eq!(file.digest, Digest::of(&content), "{}", file.path);
        assert_eq!(bed.registry.blob("m", file.digest.as_str()).unwrap(), content);
    }
    let names: Vec<&str> = model.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        names,
        [
            "LICENSE",
            "README.md",
            "config.json",
            SHARD,
            "model-00002-of-00002.safetensors",
            "model.safetensors.index.json",
            "source.lock",
            "tokenizer.json"
        ]
    );
    assert_eq!(model.source.as_deref(), Some("hf://owner/model"));
    assert_eq!(model.facts.as_ref().unwrap().architectures, ["LlamaForCausalLM"]);

    let writes = bed.writes();
    let second = bed.push(SOURCE, "m:v1").await.unwrap();
    assert_eq!((second.digest, second.sent, second.unchanged), (first.digest, 0, true));
    assert_eq!(bed.writes(), writes);
    assert_eq!(bed.hub.violations(), []);
    assert_eq!(bed.registry.leaks(), 0);
}

const SINGLE: &str = "model.safetensors";

/// A repository whose weights are one file.
async fn bed_of_one_file(bytes: u64) -> Bed {
    let bed = Bed::of_size(1 << 20, 8 << 20, |_| {}, RegistryConfig::default()).await;
    for name in [
        SHARD,
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ] {
        std::fs::remove_file(bed.file(name)).unwrap();
    }
    bed.write(SINGLE, bed::safetensors("layer.0", bytes, 5));
    bed
}

/// Requests for the file at the hub and at its content network.
fn file_requests(bed: &Bed) -> (usize, usize) {
    let requests = bed.hub.requests();
    let count = |side| {
        let of_file = requests.iter().filter(|request| request.target.contains(SINGLE));
        of_file.filter(|request| request.side == side).count()
    };
    (count(Side::Hub), count(Side::ContentNetwork))
}

#[tokio::test]
async fn large_files_come_by_several_requests_each_without_asking_the_hub_for_every_part() {
    let expired = Fault::Status {
        code: 403,
        headers: Vec::new(),
        body: "Request has expired".into(),
    };
    // Requests at the hub and at its content network, which it led to when the header of the file was read.
    for (fault, at_hub, elsewhere) in [
        (None, 0..=0, 4..=4),
        (Some(Fault::Cut { after: 1000 }), 0..=0, 5..=5),
        // The other connection may ask as well before the first one knows the new address.
        (Some(expired), 1..=2, 5..=5),
        (Some(Fault::IgnoreRange), 0..=0, 3..=5),
    ] {
        let bed = bed_of_one_file(20 << 20).await;
        let prepared = bed.prepare(SOURCE, &PackOptions::default()).await.unwrap();
        let before = file_requests(&bed);
        if let Some(fault) = fault.clone() {
            let rule = FaultRule::once(Side::ContentNetwork, SINGLE, fault);
            bed.hub.push_fault(rule.after(1));
        }
        let settings = PushSettings {
            jobs: 4,
            ..bed.push_settings("m:v1")
        };
        push(&prepared, &settings).await.unwrap();
        let content = std::fs::read(bed.file(SINGLE)).unwrap();
        let model = read(&bed, "m", "v1");
        assert_eq!(model.file(SINGLE).unwrap().digest, Digest::of(&content));
        let after = file_requests(&bed);
        let made = (after.0 - before.0, after.1 - before.1);
        assert!(
            at_hub.contains(&made.0) && elsewhere.contains(&made.1),
            "{fault:?}: {made:?}"
        );
        assert_eq!(bed.hub.violations(), []);
    }
}

#[tokio::test]
async fn where_ranges_are_ignored_the_rest_of_a_large_file_comes_by_one_request() {
    let bed = bed_of_one_file(48 << 20).await;
    let prepared = bed.prepare(SOURCE, &PackOptions::default()).await.unwrap();
    let (_, before) = file_requests(&bed);
    let rule = FaultRule::once(Side::ContentNetwork, SINGLE, Fault::IgnoreRange);
    bed.hub.push_fault(rule.times(u32::MAX));
    let settings = PushSettings {
        jobs: 4,
        ..bed.push_settings("m:v1")
    };
    push(&prepared, &settings).await.unwrap();
    let content = std::fs::read(bed.file(SINGLE)).unwrap();
    assert_eq!(read(&bed, "m", "v1").file(SINGLE).unwrap().digest, Digest::of(&content));
    // Eight parts would be eight.
    let (_, after) = file_requests(&bed);
    assert!(after - before <= 4, "{}", after - before);
}

#[tokio::test]
async fn weights_leave_the_hub_once_and_the_content_network_sees_no_token() {
    let bed = Bed::with(|hub| hub.token = Some("hf_token".into()), RegistryConfig::default()).await;
    bed.write(".standin.json", r#"{"private": true}"#);
    let gathered = bed
        .gather_with(SOURCE, &Wishes::default(), &bed.settings(&[("HF_TOKEN", "hf_token")]))
        .await
        .unwrap();
    let before = bed.hub.body_bytes();
    let prepared = model_packer::prepare::prepare(&gathered, &Wishes::default(), &PackOptions::default())
        .await
        .unwrap();
    push(&prepared, &bed.push_settings("m:v1")).await.unwrap();
    let weights = 2 * std::fs::metadata(bed.file(SHARD)).unwrap().len();
    assert_eq!(bed.hub.body_bytes() - before, weights);
    assert_eq!(bed.hub.violations(), []);
    assert!(bed.hub.requests().iter().any(|request| request.credential));
}

#[tokio::test]
async fn the_digest_depends_neither_on_order_nor_on_machine() {
    let bed = Bed::start().await;
    let one = bed.push(SOURCE, "m:v1").await.unwrap();
    let mut settings = bed.push_settings("other:v1");
    settings.jobs = 1;
    settings.journal = None;
    let two = push(&bed.prepare(SOURCE, &PackOptions::default()).await.unwrap(), &settings)
        .await
        .unwrap();
    assert_eq!(one.digest, two.digest);
}

#[tokio::test]
async fn a_sibling_repository_gives_its_blobs_by_mount() {
    let bed = Bed::start().await;
    bed.push(SOURCE, "m:v1").await.unwrap();
    let summary = bed.push(SOURCE, "fine-tune:v1").await.unwrap();
    assert!(summary.mounted > 6 << 20 && summary.sent < 8 << 10, "{summary:?}");
    let mounted = bed
        .told
        .events()
        .into_iter()
        .any(|event| matches!(event, Event::Finished { arrival: Arrival::Mounted(from), .. } if from == "m"));
    assert!(mounted);
}

#[tokio::test]
async fn a_registry_that_answers_202_to_a_mount_gets_the_bytes() {
    let bed = Bed::with(
        |_| {},
        RegistryConfig {
            mounts: false,
            ..RegistryConfig::default()
        },
    )
    .await;
    bed.push(SOURCE, "m:v1").await.unwrap();
    let summary = bed.push(SOURCE, "fine-tune:v1").await.unwrap();
    assert_eq!(summary.mounted, 0);
    assert!(summary.sent > 6 << 20);
}

#[tokio::test]
async fn only_the_changed_file_of_a_second_version_is_sent() {
    let bed = Bed::start().await;
    bed.push(SOURCE, "m:v1").await.unwrap();
    let changed = bed::safetensors("layer.1", 1 << 20, 99);
    bed.write(SHARD, &changed);
    let second = bed.push(SOURCE, "m:v2").await.unwrap();
    let rest = second.sent - changed.len() as u64;
    assert!(
        rest < 8 << 10,
        "besides the shard: source.lock and config, {rest} bytes"
    );
}

#[tokio::test]
async fn facts_only_moves_headers_and_small_files() {
    let bed = Bed::start().await;
    let options = PackOptions {
        facts_only: true,
        ..PackOptions::default()
    };
    bed.push_as(SOURCE, "m:facts", &options).await.unwrap();
    let model = read(&bed, "m", "facts");
    assert!(model.weights_absent);
    assert!(model.files.iter().all(|file| file.kind != FileKind::Weight));
    assert_eq!(model.facts.unwrap().weight_bytes, Some(6 << 20));
    assert!(bed.hub.body_bytes() < 300 << 10, "{}", bed.hub.body_bytes());
}

#[tokio::test]
async fn the_tar_layout_is_mountable_and_proves_the_file_inside() {
    let bed = Bed::start().await;
    let options = PackOptions {
        layout: Layout::Tar,
        ..PackOptions::default()
    };
    let first = bed.push_as(SOURCE, "m:v1", &options).await.unwrap();
    let model = read(&bed, "m", "v1");
    let shard = model.file(SHARD).unwrap();
    let payload = shard.payload.as_ref().unwrap();
    let layer = bed.registry.blob("m", shard.digest.as_str()).unwrap();
    let content = std::fs::read(bed.file(SHARD)).unwrap();
    assert_eq!(payload.offset, 4096);
    assert_eq!(layer[4096..4096 + content.len()], content);
    let (_, index) = bed.registry.manifest("m", "v1-image").unwrap();
    let index: artifact::Index = serde_json::from_slice(&index).unwrap();
    let platforms: Vec<_> = index
        .manifests
        .iter()
        .map(|manifest| manifest.platform.clone().unwrap().architecture)
        .collect();
    assert_eq!(platforms, ["amd64", "arm64"]);
    assert_eq!(
        bed.push_as(SOURCE, "m:v1", &options).await.unwrap().digest,
        first.digest
    );
}

#[tokio::test]
async fn a_broken_stream_goes_on_at_the_byte_where_it_broke() {
    let bed = Bed::start().await;
    let whole = bed.prepare(SOURCE, &PackOptions::default()).await.unwrap();
    let before = bed.hub.body_bytes();
    bed.hub.push_fault(FaultRule::once(
        Side::ContentNetwork,
        SHARD,
        Fault::Cut { after: 2 << 20 },
    ));
    bed.hub.push_fault(FaultRule::once(
        Side::ContentNetwork,
        SHARD,
        Fault::Status {
            code: 403,
            headers: vec![],
            body: "expired".into(),
        },
    ));
    bed.hub.push_fault(FaultRule::once(
        Side::ContentNetwork,
        SHARD,
        Fault::Stall { after: 100_000 },
    ));
    push(&whole, &bed.push_settings("m:v1")).await.unwrap();
    let weights = 2 * std::fs::metadata(bed.file(SHARD)).unwrap().len();
    let extra = bed.hub.body_bytes() - before - weights;
    assert!(extra < 1 << 20, "{extra} bytes were read twice");
}

#[tokio::test]
async fn wrong_bytes_of_the_hub_are_never_tagged() {
    let bed = Bed::start().await;
    let prepared = bed.prepare(SOURCE, &PackOptions::default()).await.unwrap();
    bed.hub.push_fault(FaultRule::once(
        Side::ContentNetwork,
        SHARD,
        Fault::WrongByte { at: 1_000_000 },
    ));
    let error = push(&prepared, &bed.push_settings("m:v1")).await.unwrap_err();
    assert!(error.to_string().contains("cannot push blob"), "{error}");
    assert_eq!(bed.registry.manifest("m", "v1"), None);
    push(&prepared, &bed.push_settings("m:v1")).await.unwrap();
}

/// Asks for an end once so many bytes have left.
struct Bomb {
    left: std::sync::atomic::AtomicI64,
    gone: tokio::sync::Notify,
    seen: std::sync::Mutex<std::collections::HashMap<String, u64>>,
}

impl Report for Bomb {
    fn tell(&self, event: &Event) {
        let Event::Progress { path, offset } = event else {
            return;
        };
        let before = self.seen.lock().unwrap().insert(path.clone(), *offset).unwrap_or(0);
        let bytes = i64::try_from(offset.saturating_sub(before)).unwrap();
        if self.left.fetch_sub(bytes, std::sync::atomic::Ordering::Relaxed) <= bytes {
            self.gone.notify_one();
        }
    }
}

/// Moments at which a push is given up, spread over its bytes.
const MOMENTS: usize = 50;

#[test]
fn a_push_that_is_killed_anywhere_sends_again_at_most_one_part_for_each_file() {
    bed::in_lanes(5, |lane| give_up_at((lane..MOMENTS).step_by(5).collect()));
}

async fn give_up_at(moments: Vec<usize>) {
    let (shard, part) = (300_000, 48 << 10);
    let config = RegistryConfig {
        mounts: false,
        ..RegistryConfig::default()
    };
    let bed = Bed::of_size(shard, part, |hub| hub.page_size = 1000, config).await;
    let source = connect(&SOURCE.parse().unwrap(), &bed.settings(&[])).unwrap();
    let prepare = async || {
        let (wishes, options) = (Wishes::default(), PackOptions::default());
        let gathered = gather(Arc::clone(&source), &wishes).await.unwrap();
        model_packer::prepare::prepare(&gathered, &wishes, &options)
            .await
            .unwrap()
    };
    for moment in moments {
        let prepared = prepare().await;
        let total: u64 = prepared.layers.iter().map(|layer| layer.size).sum();
        let name = format!("m{moment}:v1");
        let left = std::sync::atomic::AtomicI64::new(i64::try_from(total * moment as u64 / MOMENTS as u64).unwrap());
        let bomb = std::sync::Arc::new(Bomb {
            left,
            gone: tokio::sync::Notify::new(),
            seen: std::sync::Mutex::default(),
        });
        let settings = PushSettings {
            reporter: bomb.clone(),
            ..bed.push_settings(&name)
        };
        let before = bed.registry.received_bytes();
        tokio::select! {
            _ = push(&prepared, &settings) => {}
            () = bomb.gone.notified() => {}
        }
        // A new process knows nothing but the journal.
        push(&prepare().await, &bed.push_settings(&name)).await.unwrap();
        let extra = bed.registry.received_bytes() - before - total;
        assert!(
            extra <= 2 * part + (12 << 10),
            "moment {moment}: {extra} bytes were sent again, a part has {part}"
        );
    }
}

#[tokio::test]
async fn each_refusal_of_a_hub_has_its_own_message_and_its_own_hint() {
    let cases = [
        (r#"{"gated": "manual"}"#, "hf://owner/model", None),
        (r#"{"gated": "manual"}"#, "hf://owner/model", Some("hf_other")),
        (r#"{"disabled": true}"#, "hf://owner/model", None),
        (r#"{"private": true}"#, "hf://owner/model", None),
        (r#"{"private": true}"#, "hf://owner/model", Some("hf_other")),
        ("{}", "hf://owner/model@nothing", None),
        ("{}", "hf://owner/missing", None),
        ("{}", "ms://owner/missing", None),
        ("{}", "ms://owner/model@nothing", None),
        ("{}", "ms://owner/model", Some("ms_wrong")),
    ];
    let bed = Bed::with(|hub| hub.token = Some("right".into()), RegistryConfig::default()).await;
    let mut said = String::new();
    for (settings, source, token) in cases {
        bed.write(".standin.json", settings);
        let variables: Vec<(&str, &str)> = token
            .iter()
            .flat_map(|token| [("HF_TOKEN", *token), ("MODELSCOPE_API_TOKEN", *token)])
            .collect();
        let error = bed
            .gather_with(source, &Wishes::default(), &bed.settings(&variables))
            .await
            .err()
            .unwrap();
        let PackError::Source(inner) = &error else {
            panic!("{error:?}")
        };
        let _ = writeln!(
            said,
            "{settings} {source} {}\n  {inner}\n  fix: {}",
            token.unwrap_or("no token"),
            error.hint().unwrap_or_default()
        );
    }
    let said = said.replace(&bed.hub.url(), "http://hub");
    insta::assert_snapshot!(said);
}

#[tokio::test]
async fn a_renamed_repository_is_packed_under_its_canonical_name() {
    let bed = Bed::start().await;
    std::fs::create_dir_all(bed.files.path().join("old/name")).unwrap();
    std::fs::write(
        bed.files.path().join("old/name/.standin.json"),
        r#"{"renamed_to": "owner/model"}"#,
    )
    .unwrap();
    bed.push("hf://old/name", "m:v1").await.unwrap();
    assert_eq!(read(&bed, "m", "v1").source.as_deref(), Some("hf://owner/model"));
}

#[tokio::test]
async fn a_source_that_moved_is_refused_by_its_lock() {
    let bed = Bed::start().await;
    let lock = bed
        .prepare(SOURCE, &PackOptions::default())
        .await
        .unwrap()
        .package
        .lock
        .unwrap();
    let same = bed.gather(SOURCE, &Wishes::default()).await.unwrap();
    assert_eq!(model_packer::lock::moved(&lock, &same), Vec::<String>::new());
    bed.write("tokenizer.json", "{}");
    bed.write("vocab.json", "{}");
    std::fs::remove_file(bed.file("LICENSE")).unwrap();
    let moved = bed.gather(SOURCE, &Wishes::default()).await.unwrap();
    let differences = model_packer::lock::moved(&lock, &moved);
    assert!(differences[0].starts_with("it holds commit "));
    assert_eq!(
        differences[1..],
        [
            "LICENSE is gone",
            "tokenizer.json had 18 bytes and has 2",
            "tokenizer.json has other content",
            "vocab.json is new"
        ]
    );
}

#[tokio::test]
async fn pointers_and_pages_are_no_weights() {
    let bed = Bed::start().await;
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("model.safetensors"), pointer).unwrap();
    std::fs::write(folder.path().join("config.json"), "{}").unwrap();
    let error = bed
        .gather(folder.path().to_str().unwrap(), &Wishes::default())
        .await
        .err()
        .unwrap();
    assert!(matches!(error, PackError::Pointer(_)), "{error:?}");
    assert!(error.hint().unwrap().contains("git lfs pull"));
}

#[tokio::test]
async fn headers_are_read_whole_on_both_sides_of_the_window() {
    let window = 128 << 10;
    let bed = Bed::start().await;
    for header in [
        99_992,
        99_993,
        100_000,
        window - 16,
        window - 9,
        window - 8,
        window - 7,
        window,
        window + 8,
        3 * window,
    ] {
        let folder = tempfile::tempdir().unwrap();
        write_with_header(&folder.path().join("model.safetensors"), header);
        std::fs::write(folder.path().join("config.json"), r#"{"model_type": "llama"}"#).unwrap();
        let gathered = bed.gather(folder.path().to_str().unwrap(), &Wishes::default()).await;
        let facts = gathered
            .unwrap_or_else(|error| panic!("{header}: {error:?}"))
            .facts
            .unwrap();
        assert_eq!(facts.weight_bytes, Some(4), "{header}");
    }
}

fn write_with_header(path: &Path, length: usize) {
    let mut text = r#"{"x":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}"#.to_owned();
    text.push_str(&" ".repeat(length - text.len()));
    let mut file = (length as u64).to_le_bytes().to_vec();
    file.extend(text.as_bytes());
    file.extend([0; 4]);
    std::fs::write(path, file).unwrap();
}

#[tokio::test]
async fn a_hub_that_asks_to_wait_is_waited_for() {
    let bed = Bed::start().await;
    let headers = vec![
        ("RateLimit".to_owned(), "\"api\";r=0;t=0".to_owned()),
        (
            "RateLimit-Policy".to_owned(),
            "\"fixed window\";\"api\";q=500;w=300".to_owned(),
        ),
    ];
    bed.hub.push_fault(FaultRule::once(
        Side::Hub,
        "/tree/",
        Fault::Status {
            code: 429,
            headers,
            body: "slow down".into(),
        },
    ));
    let started = std::time::Instant::now();
    bed.gather(SOURCE, &Wishes::default()).await.unwrap();
    assert!(started.elapsed() >= std::time::Duration::from_secs(1));
}

#[tokio::test]
async fn names_with_special_characters_reach_the_hub_unharmed() {
    let bed = Bed::start().await;
    let names = [
        "a b.json",
        "a+b.json",
        "a#b.json",
        "a?b.json",
        "a%20b.json",
        "[x].json",
        "ä&=.json",
    ];
    for name in names {
        bed.write(name, name);
    }
    for source in [SOURCE, "ms://owner/model"] {
        let gathered = bed.gather(source, &Wishes::default()).await.unwrap();
        for name in names {
            assert!(
                gathered.selection.taken.iter().any(|taken| taken.path.as_str() == name),
                "{name}"
            );
        }
        model_packer::prepare::prepare(&gathered, &Wishes::default(), &PackOptions::default())
            .await
            .unwrap();
    }
    let repository = bed.files.path().join(MODEL);
    assert!(repository.join("a%20b.json").exists());
}

#[tokio::test]
async fn a_signed_model_is_known_by_its_key_and_by_no_other() {
    use model_packer::signing::{SigningKey, VerifyingKey, is_signed};
    let key = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keys").join(name);
    let bed = Bed::start().await;
    let signer = std::sync::Arc::new(SigningKey::read(&key("plain.key"), "").unwrap());
    let settings = PushSettings {
        signer: Some(signer),
        ..bed.push_settings("m:v1")
    };
    let prepared = bed.prepare(SOURCE, &PackOptions::default()).await.unwrap();
    let summary = push(&prepared, &settings).await.unwrap();
    let manifests = bed.registry.count("PUT", "/manifests/");
    push(&prepared, &settings).await.unwrap();
    assert_eq!(
        bed.registry.count("PUT", "/manifests/") - manifests,
        1,
        "only the tag: the signature is there"
    );
    for (name, signed) in [("cosign.pub", true), ("other.pub", false)] {
        let public = VerifyingKey::read(&key(name)).unwrap();
        assert_eq!(
            is_signed(&bed.client(), &bed.target("m:v1"), &summary.digest, &public)
                .await
                .unwrap(),
            signed,
            "{name}"
        );
    }
    // A server that shows a page for people at every address keeps no list; the signature is found all the same.
    let page = fault_proxy::Fault::Status {
        code: 200,
        headers: vec![("content-type".into(), "text/html".into())],
        body: "<!doctype html>".into(),
    };
    bed.registry
        .inject(fault_proxy::FaultRule::once("GET", "/referrers/", page));
    push(&prepared, &settings).await.unwrap();
    let tag = format!("sha256-{}.sig", summary.digest.hex());
    let (_, manifest) = bed.registry.manifest("m", &tag).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let payload = bed
        .registry
        .blob("m", manifest["layers"][0]["digest"].as_str().unwrap())
        .unwrap();
    let payload: serde_json::Value = serde_json::from_slice(&payload).unwrap();
    assert_eq!(
        payload["critical"]["image"]["docker-manifest-digest"],
        summary.digest.as_str()
    );
    assert_eq!(payload["critical"]["type"], "cosign container image signature");

    // A signature that the registry has lost does not hide a good one.
    let mut damaged = manifest.clone();
    let mut lost = damaged["layers"][0].clone();
    let other = Digest::of(b"lost").to_string();
    lost["digest"] = other.clone().into();
    damaged["layers"].as_array_mut().unwrap().insert(0, lost);
    let place = bed.target(&format!("m:{tag}"));
    let document = damaged.to_string();
    let client = bed.client();
    let content = bytes::Bytes::from_static(b"lost");
    client
        .push_blob(&place, &other, 4, &content, &registry::PushOptions::default())
        .await
        .unwrap();
    let gone = fault_proxy::Fault::Status {
        code: 404,
        headers: Vec::new(),
        body: String::new(),
    };
    bed.registry
        .inject(fault_proxy::FaultRule::once("GET", &other, gone).always());
    client
        .put_manifest(&place, artifact::media_type::OCI_MANIFEST, document.as_bytes())
        .await
        .unwrap();
    let public = VerifyingKey::read(&key("cosign.pub")).unwrap();
    let proven = is_signed(&client, &bed.target("m:v1"), &summary.digest, &public).await;
    assert!(proven.unwrap());
}

#[tokio::test]
async fn a_spool_holds_each_file_until_it_is_sent_and_wrong_bytes_are_not_sent_at_all() {
    let bed = Bed::start().await;
    let spool = bed.state.path().join("spool");
    let settings = PushSettings {
        spool: Some(spool.clone()),
        ..bed.push_settings("m:v1")
    };
    let prepared = bed.prepare(SOURCE, &PackOptions::default()).await.unwrap();
    bed.hub
        .push_fault(FaultRule::once(Side::ContentNetwork, SHARD, Fault::WrongByte { at: 5 }));
    assert!(push(&prepared, &settings).await.is_err());
    assert_eq!(bed.registry.manifest("m", "v1"), None);
    let digest = push(&prepared, &settings).await.unwrap().digest;
    assert_eq!(digest, bed.push(SOURCE, "other:v1").await.unwrap().digest);
    let left: Vec<_> = std::fs::read_dir(&spool)
        .unwrap()
        .map(|item| item.unwrap().file_name())
        .filter(|name| Path::new(name).extension().is_none_or(|extension| extension != "part"))
        .collect();
    assert_eq!(left, Vec::<std::ffi::OsString>::new());
}
