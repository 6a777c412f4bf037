//! Fetching through faults: whatever happens on the way, a wrong byte never has a final name.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use artifact::Digest;
use crds::node_weights::{FetchReason, SourceKind};
use node_fetcher::fetch::{FetchError, Fetcher, Haste, Limits, Progress, Urgency};
use node_fetcher::metrics::Metrics;
use node_fetcher::source::{Dragonfly, Source, registry_only};
use node_fetcher::store::{BlobState, Durability, Floor, Record, Store};
use registry::Reference;
use support::{FakeRegistry, Fault, fetcher, noise, open_store, quick_limits};

const SIZE: usize = 200_000;

struct Bed {
    registry: FakeRegistry,
    folder: tempfile::TempDir,
    store: Arc<Store>,
    model: Vec<u8>,
    reference: Reference,
    digest: Digest,
}

impl Bed {
    async fn new() -> Self {
        let registry = FakeRegistry::start().await;
        let model = noise(SIZE, 1);
        let (reference, digest) = registry.add_model(&[
            ("model.gguf", model.clone()),
            ("sub/config.json", b"{\"a\": 1}".to_vec()),
        ]);
        let folder = tempfile::tempdir().unwrap();
        let store = open_store(&folder.path().join("store"));
        Self {
            registry,
            folder,
            store,
            model,
            reference,
            digest,
        }
    }

    async fn peer(&self) -> (FakeRegistry, Vec<Arc<dyn Source>>) {
        let peer = self.registry.mirror().await;
        let mut sources: Vec<Arc<dyn Source>> = vec![Arc::new(Dragonfly::new(peer.url(), FakeRegistry::settings()))];
        sources.extend(registry_only());
        (peer, sources)
    }

    async fn fetch(&self, fetcher: &Arc<Fetcher>, progress: &Progress) -> Result<Record, FetchError> {
        let access = FakeRegistry::access();
        fetcher
            .fetch(
                &self.reference,
                &self.digest,
                &access,
                &Haste::of(Urgency::Serving),
                progress,
            )
            .await
    }

    fn assert_complete(&self) {
        let view = self.store.open_view(&self.digest).unwrap().expect("the view is there");
        assert!(
            fs::read(view.join("model.gguf")).unwrap() == self.model,
            "the model's bytes are right"
        );
        assert_eq!(fs::read(view.join("sub/config.json")).unwrap(), b"{\"a\": 1}");
    }

    fn big_blob(&self) -> Digest {
        Digest::of(&self.model)
    }

    /// Bytes of the big blob that a server was asked for.
    fn asked(&self, server: &FakeRegistry) -> u64 {
        let blob = self.big_blob().to_string();
        server
            .seen()
            .iter()
            .filter(|seen| seen.digest == blob)
            .map(|seen| seen.asked)
            .sum()
    }
}

fn assert_all_names_are_true(store: &Path) {
    for entry in fs::read_dir(store.join("blobs/sha256")).unwrap() {
        let entry = entry.unwrap();
        let bytes = fs::read(entry.path()).unwrap();
        assert_eq!(Digest::of(&bytes).hex(), entry.file_name().to_str().unwrap());
    }
}

#[tokio::test]
async fn an_artifact_arrives_once_and_is_local_afterwards() {
    let bed = Bed::new().await;
    let fetcher = fetcher(&bed.store, registry_only());
    let progress = Progress::default();
    bed.fetch(&fetcher, &progress).await.unwrap();
    bed.assert_complete();
    let snapshot = progress.snapshot();
    assert_eq!(
        snapshot.by_source,
        BTreeMap::from([(SourceKind::Registry, SIZE as u64 + 8)])
    );
    let requests = (bed.registry.seen().len(), bed.registry.manifest_requests());

    let again = Progress::default();
    bed.fetch(&fetcher, &again).await.unwrap();
    assert_eq!(
        again.snapshot().by_source,
        BTreeMap::from([(SourceKind::Local, SIZE as u64 + 8)])
    );
    assert_eq!(
        (bed.registry.seen().len(), bed.registry.manifest_requests()),
        requests,
        "nothing was asked again"
    );
}

#[tokio::test]
async fn files_of_a_view_cannot_be_written() {
    use std::os::unix::fs::PermissionsExt as _;
    let bed = Bed::new().await;
    bed.fetch(&fetcher(&bed.store, registry_only()), &Progress::default())
        .await
        .unwrap();
    let view = bed.store.open_view(&bed.digest).unwrap().unwrap();
    assert_eq!(
        fs::metadata(view.join("model.gguf")).unwrap().permissions().mode() & 0o777,
        0o444
    );
    assert_eq!(
        fs::metadata(view.join("sub")).unwrap().permissions().mode() & 0o777,
        0o755
    );
}

#[tokio::test]
async fn faults_of_the_registry_are_survived() {
    let wait = vec![("retry-after", "0")];
    let cases = [
        ("a flipped byte", vec![Fault::Flip(1000)]),
        ("a cut connection", vec![Fault::None, Fault::Cut(10_000), Fault::Cut(0)]),
        (
            "a body that ends early without saying so",
            vec![Fault::Short(5_000), Fault::Short(0)],
        ),
        ("silence", vec![Fault::Stall(4_000)]),
        (
            "a request to slow down",
            vec![Fault::Status(429, wait.clone()), Fault::Status(429, wait)],
        ),
        (
            "server errors",
            vec![Fault::Status(500, vec![]), Fault::Status(503, vec![])],
        ),
        ("a server without ranges", vec![Fault::IgnoreRange; 12]),
        (
            "ranges that stop being honoured",
            vec![Fault::Cut(100), Fault::IgnoreRange, Fault::IgnoreRange],
        ),
    ];
    for (name, faults) in cases {
        let bed = Bed::new().await;
        bed.registry.script(faults);
        let result = bed
            .fetch(&fetcher(&bed.store, registry_only()), &Progress::default())
            .await;
        assert!(result.is_ok(), "{name}: {}", result.unwrap_err().message());
        bed.assert_complete();
        assert_all_names_are_true(bed.store.root());
    }
}

#[tokio::test]
async fn a_registry_that_always_lies_fails_closed() {
    let bed = Bed::new().await;
    bed.registry.script(vec![Fault::Flip(7); 100]);
    let error = bed
        .fetch(&fetcher(&bed.store, registry_only()), &Progress::default())
        .await
        .unwrap_err();
    assert_eq!(error.reason, FetchReason::Corrupt);
    assert!(bed.store.open_view(&bed.digest).unwrap().is_none());
    assert_all_names_are_true(bed.store.root());
}

#[tokio::test]
async fn a_refusal_in_the_middle_keeps_what_arrived_and_a_new_process_goes_on_from_there() {
    let bed = Bed::new().await;
    let refused = Fault::Status(401, vec![]);
    bed.registry.script([
        Fault::None,
        Fault::None,
        Fault::None,
        refused.clone(),
        refused.clone(),
        refused.clone(),
        refused,
    ]);
    // One connection, so that the refusals come behind the answers and not while those are on their way.
    let limits = Limits {
        connections: 1,
        ..quick_limits()
    };
    let fetcher_of =
        |store: &Arc<Store>| Fetcher::new(Arc::clone(store), registry_only(), limits, Arc::new(Metrics::default()));
    let error = bed
        .fetch(&fetcher_of(&bed.store), &Progress::default())
        .await
        .unwrap_err();
    assert_eq!(error.reason, FetchReason::Unauthorized, "{}", error.message());
    let Bed {
        registry,
        folder,
        store,
        model,
        reference,
        digest,
    } = bed;
    while Arc::strong_count(&store) > 1 {
        // The other blob may still be on its way; a process that dies takes it along.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    drop(store);
    let before = registry.seen().len();

    // As after kill -9: the lock is gone with the process, nothing else was tidied up.
    let store = open_store(&folder.path().join("store"));
    let bed = Bed {
        registry,
        folder,
        store,
        model,
        reference,
        digest,
    };
    bed.registry.script([]);
    let progress = Progress::default();
    bed.fetch(&fetcher(&bed.store, registry_only()), &progress)
        .await
        .unwrap();
    bed.assert_complete();
    let kept = progress
        .snapshot()
        .by_source
        .get(&SourceKind::Local)
        .copied()
        .unwrap_or_default();
    assert!(
        kept >= quick_limits().range,
        "at least one range was kept, not {kept} bytes"
    );
    let blob = bed.big_blob().to_string();
    let again: u64 = bed.registry.seen()[before..]
        .iter()
        .filter(|seen| seen.digest == blob)
        .map(|seen| seen.asked)
        .sum();
    assert!(
        again <= SIZE as u64 + 8 - kept,
        "{again} bytes were asked again although {kept} were kept"
    );
}

#[tokio::test]
async fn a_peer_that_dies_is_continued_by_the_registry_at_the_first_missing_byte() {
    let bed = Bed::new().await;
    let (peer, sources) = bed.peer().await;
    peer.script([Fault::Cut(120_000)]);
    // The big blob first: its digest decides the order of requests, so the small one is fetched before.
    let progress = Progress::default();
    bed.fetch(&fetcher(&bed.store, sources), &progress).await.unwrap();
    bed.assert_complete();
    let snapshot = progress.snapshot();
    let cut = snapshot
        .demotions
        .iter()
        .find(|demotion| demotion.blob == bed.big_blob().to_string());
    if let Some(cut) = cut {
        assert_eq!(cut.kind, SourceKind::Dragonfly);
        assert_eq!(cut.reason, FetchReason::EngineDown);
        let expected = format!(
            "dragonfly stopped answering at byte {}; continued from the registry",
            cut.at_byte
        );
        assert_eq!(cut.message, expected);
        assert_eq!(
            bed.asked(&bed.registry),
            SIZE as u64 - u64::try_from(cut.at_byte).unwrap()
        );
    } else {
        assert_eq!(bed.asked(&bed.registry), 0, "the fault hit the other blob");
    }
}

#[tokio::test]
async fn a_peer_that_lies_is_closed_for_the_blob_and_the_registry_delivers_all_of_it() {
    let bed = Bed::new().await;
    let (peer, sources) = bed.peer().await;
    peer.script(vec![Fault::Flip(77); 10]);
    let progress = Progress::default();
    bed.fetch(&fetcher(&bed.store, sources), &progress).await.unwrap();
    bed.assert_complete();
    assert!(bed.asked(&bed.registry) >= SIZE as u64);
    assert!(
        progress
            .snapshot()
            .demotions
            .iter()
            .any(|demotion| demotion.reason == FetchReason::Corrupt)
    );
    assert_all_names_are_true(bed.store.root());
}

#[tokio::test]
async fn a_peer_gets_the_headers_that_make_it_one_swarm_and_delivers_everything() {
    let bed = Bed::new().await;
    let (peer, sources) = bed.peer().await;
    let progress = Progress::default();
    bed.fetch(&fetcher(&bed.store, sources), &progress).await.unwrap();
    assert_eq!(
        progress.snapshot().by_source,
        BTreeMap::from([(SourceKind::Dragonfly, SIZE as u64 + 8)])
    );
    assert_eq!(peer.seen().len(), 2, "one request per blob");
    assert!(bed.registry.seen().is_empty());
}

#[tokio::test]
async fn a_full_disk_is_found_before_the_first_byte() {
    let bed = Bed::new().await;
    let store = Store::open(
        &bed.folder.path().join("full"),
        Floor::Percent(100),
        Durability::PowerCut,
    )
    .unwrap();
    let fetcher = Fetcher::new(store, registry_only(), Limits::default(), Arc::new(Metrics::default()));
    let error = bed.fetch(&fetcher, &Progress::default()).await.unwrap_err();
    assert_eq!(error.reason, FetchReason::DiskFull);
    assert!(error.message().contains("needs 200008 bytes"), "{}", error.message());
    assert!(bed.registry.seen().is_empty());
}

#[tokio::test]
async fn artifacts_that_would_leave_their_folder_are_refused_before_any_blob() {
    let bed = Bed::new().await;
    let blob = bed.registry.add_blob(b"evil");
    for name in ["../evil", "/etc/passwd", "a/../../b", "a\\..\\b", "a\u{0}b"] {
        let layer = serde_json::json!({
            "mediaType": "application/vnd.cncf.model.weight.v1.raw", "digest": blob.to_string(), "size": 4,
            "annotations": {"org.cncf.model.filepath": name},
        });
        let (reference, digest) = bed.registry.add_manifest(&[layer]);
        let fetcher = fetcher(&bed.store, registry_only());
        let access = FakeRegistry::access();
        let result = fetcher
            .fetch(
                &reference,
                &digest,
                &access,
                &Haste::of(Urgency::Serving),
                &Progress::default(),
            )
            .await;
        assert_eq!(result.unwrap_err().reason, FetchReason::InvalidArtifact, "{name:?}");
    }
    assert!(bed.registry.seen().is_empty());
}

#[tokio::test]
async fn many_who_want_the_same_bytes_fetch_them_once() {
    let bed = Bed::new().await;
    let (other, other_digest) = bed.registry.add_model(&[("weights.gguf", bed.model.clone())]);
    let fetcher = fetcher(&bed.store, registry_only());
    let access = FakeRegistry::access();
    let (mine, theirs) = (Progress::default(), Progress::default());
    let ahead = Haste::of(Urgency::Prefetch);
    let (first, second) = tokio::join!(
        bed.fetch(&fetcher, &mine),
        fetcher.fetch(&other, &other_digest, &access, &ahead, &theirs),
    );
    first.unwrap();
    second.unwrap();
    assert_eq!(bed.asked(&bed.registry), SIZE as u64);
    assert_eq!(bed.store.blob_state(&bed.big_blob()), BlobState::Proven);
}
