//! Random faults on both sources, a death of the process, random faults again: at no time does a name lie.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod support;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use artifact::Digest;
use node_fetcher::fetch::{Haste, Progress, Urgency};
use node_fetcher::source::{Dragonfly, Source, registry_only};
use node_fetcher::store::Store;
use proptest::prelude::*;
use support::{FakeRegistry, Fault, fetcher, noise, open_store};

const SIZE: usize = 150_000;

fn fault() -> impl Strategy<Value = Fault> {
    let place = 0..SIZE;
    prop_oneof![
        3 => Just(Fault::None),
        2 => place.clone().prop_map(Fault::Flip),
        2 => place.clone().prop_map(Fault::Cut),
        1 => place.clone().prop_map(Fault::Short),
        1 => place.prop_map(Fault::Stall),
        1 => Just(Fault::IgnoreRange),
        1 => prop_oneof![Just(401), Just(404), Just(429), Just(500), Just(503)]
            .prop_map(|status| Fault::Status(status, vec![("retry-after", "0")])),
    ]
}

fn script() -> impl Strategy<Value = Vec<Fault>> {
    proptest::collection::vec(fault(), 0..10)
}

fn assert_no_name_lies(store: &Path) {
    for entry in fs::read_dir(store.join("blobs/sha256")).unwrap() {
        let entry = entry.unwrap();
        let bytes = fs::read(entry.path()).unwrap();
        assert_eq!(
            Digest::of(&bytes).hex(),
            entry.file_name().to_str().unwrap(),
            "a blob's name lies"
        );
    }
}

async fn close(store: Arc<Store>) {
    while Arc::strong_count(&store) > 1 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn live_through(registry_faults: [Vec<Fault>; 2], peer_faults: [Vec<Fault>; 2]) {
    let registry = FakeRegistry::start().await;
    let model = noise(SIZE, 7);
    let (reference, digest) = registry.add_model(&[("model.gguf", model.clone())]);
    let peer = registry.mirror().await;
    let folder = tempfile::tempdir().unwrap();
    for (registry_faults, peer_faults) in registry_faults.into_iter().zip(peer_faults) {
        registry.script(registry_faults);
        peer.script(peer_faults);
        let store = open_store(folder.path());
        let mut sources: Vec<Arc<dyn Source>> = vec![Arc::new(Dragonfly::new(peer.url(), FakeRegistry::settings()))];
        sources.extend(registry_only());
        let fetcher = fetcher(&store, sources);
        let access = FakeRegistry::access();
        let outcome = fetcher
            .fetch(
                &reference,
                &digest,
                &access,
                &Haste::of(Urgency::Serving),
                &Progress::default(),
            )
            .await;
        let view = store.open_view(&digest).unwrap();
        assert_eq!(outcome.is_ok(), view.is_some());
        if let Some(view) = view {
            assert!(
                fs::read(view.join("model.gguf")).unwrap() == model,
                "a wrong byte is visible"
            );
        }
        assert_no_name_lies(folder.path());
        drop(fetcher);
        close(store).await;
    }
    registry.script([]);
    peer.script([]);
    let store = open_store(folder.path());
    let fetcher = fetcher(&store, registry_only());
    let outcome = fetcher
        .fetch(
            &reference,
            &digest,
            &FakeRegistry::access(),
            &Haste::of(Urgency::Serving),
            &Progress::default(),
        )
        .await;
    assert!(
        outcome.is_ok(),
        "once the faults are over, the model comes: {}",
        outcome.unwrap_err().message()
    );
}

proptest! {
    // PROPTEST_CASES asks for more, for a night or a release.
    #![proptest_config(ProptestConfig {
        cases: if std::env::var_os("PROPTEST_CASES").is_some() { ProptestConfig::default().cases } else { 24 },
        max_shrink_iters: 40,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_order_of_faults_makes_a_wrong_byte_visible(
        registry in [script(), script()],
        peer in [script(), script()],
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(live_through(registry, peer));
    }
}
