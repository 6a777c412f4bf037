use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use artifact::Digest;
use crds::node_weights::SourceKind;
use proptest::prelude::*;

use super::*;
use crate::extent::Extent;

fn open(root: &Path, boot: &str) -> Arc<Store> {
    Store::open_at_boot(root, Floor::Bytes(0), Durability::PowerCut, boot).unwrap()
}

fn record(store: &Store, files: &[(&str, &[u8])]) -> Record {
    let files = files.iter().map(|(path, bytes)| RecordedFile {
        path: path.parse().unwrap(),
        digest: store.write_small(bytes).unwrap(),
        size: bytes.len() as u64,
    });
    let files: Vec<_> = files.collect();
    let manifest: Vec<u8> = files.iter().flat_map(|file| file.digest.as_str().bytes()).collect();
    Record {
        digest: store.write_small(&manifest).unwrap(),
        reference: "r.io/m".to_owned(),
        files,
        sources: BTreeMap::new(),
        demotions: Vec::new(),
        ready_at: None,
    }
}

fn kept(store: &Store, files: &[(&str, &[u8])], age: u64) -> Record {
    let record = record(store, files);
    store.make_view(&record).unwrap();
    let used = SystemTime::now() - Duration::from_secs(age);
    record::touch(&store.record_path(&record.digest), used).unwrap();
    record
}

/// Asks for more than the disk has, less what could be evicted: everything that may go goes.
fn evict_all(store: &Store) -> Vec<Digest> {
    while store.evict_one().unwrap() {}
    store
        .records()
        .unwrap()
        .into_iter()
        .map(|record| record.digest)
        .collect()
}

#[test]
fn two_processes_never_share_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(folder.path(), "boot");
    assert!(matches!(
        Store::open(folder.path(), Floor::Bytes(0), Durability::PowerCut),
        Err(StoreError::InUse { .. })
    ));
    let id = first.id().to_owned();
    drop(first);
    assert_eq!(open(folder.path(), "boot").id(), id, "the disk keeps its identity");
}

#[test]
fn after_a_power_cut_blobs_are_proven_again_before_use() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), "boot-1");
    let record = kept(&store, &[("a", b"good"), ("b", b"bad")], 0);
    let rotten = store.blob_path(&Digest::of(b"bad"));
    drop(store);
    fs::remove_file(&rotten).unwrap();
    fs::write(&rotten, b"rot").unwrap();

    let store = open(folder.path(), "boot-2");
    assert!(
        store.open_view(&record.digest).unwrap().is_none(),
        "nothing is mounted unproven"
    );
    assert_eq!(store.blob_state(&Digest::of(b"good")), BlobState::Suspect);
    assert!(store.prove_again(&Digest::of(b"good")).unwrap());
    assert_eq!(store.blob_state(&Digest::of(b"good")), BlobState::Proven);
    assert!(!store.prove_again(&Digest::of(b"bad")).unwrap());
    assert_eq!(store.blob_state(&Digest::of(b"bad")), BlobState::Missing);
}

#[test]
fn a_killed_process_and_a_clean_stop_leave_nothing_in_doubt() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), "boot-1");
    let record = kept(&store, &[("a", b"good")], 0);
    drop(store);
    let store = open(folder.path(), "boot-1");
    assert!(store.open_view(&record.digest).unwrap().is_some());
    store.close().unwrap();
    drop(store);
    assert!(
        open(folder.path(), "boot-2")
            .open_view(&record.digest)
            .unwrap()
            .is_some()
    );
}

#[test]
fn a_store_that_did_not_wait_for_the_disk_never_calls_itself_clean() {
    let folder = tempfile::tempdir().unwrap();
    let hasty = |boot| Store::open_at_boot(folder.path(), Floor::Bytes(0), Durability::ProcessDeath, boot).unwrap();
    let store = hasty("boot-1");
    let record = kept(&store, &[("a", b"good")], 0);
    store.close().unwrap();
    drop(store);
    let store = hasty("boot-1");
    assert!(store.is_complete(&record.digest).unwrap(), "the process alone died");
    drop(store);
    assert!(
        !hasty("boot-2").is_complete(&record.digest).unwrap(),
        "the machine stopped"
    );
}

#[test]
fn what_is_unused_longest_goes_first_and_what_is_held_stays() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), "boot");
    let [old, new, mounted, wanted] =
        [(b"1", 400), (b"2", 100), (b"3", 900), (b"4", 800)].map(|(bytes, age)| kept(&store, &[("f", bytes)], age));
    store.with_leases(|leases| {
        leases.mount("/pod", &mounted.digest);
        leases.want([wanted.digest.clone()].into());
    });
    assert!(store.evict_one().unwrap());
    assert_eq!(
        store.blob_state(&Digest::of(b"1")),
        BlobState::Missing,
        "the oldest went"
    );
    assert!(store.record(&old.digest).unwrap().is_none());
    let hold = store.hold([new.digest.clone(), Digest::of(b"2")]);
    assert!(!store.evict_one().unwrap(), "a running fetch holds what is left");
    drop(hold);
    let mut left = evict_all(&store);
    left.sort();
    let mut expected = vec![mounted.digest, wanted.digest];
    expected.sort();
    assert_eq!(left, expected);
}

#[test]
fn shared_bytes_outlive_one_of_their_artifacts() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), "boot");
    let first = kept(&store, &[("f", b"shared"), ("g", b"own")], 500);
    let second = kept(&store, &[("f", b"shared")], 1);
    assert!(store.evict_one().unwrap());
    assert!(store.record(&first.digest).unwrap().is_none());
    assert_eq!(store.blob_state(&Digest::of(b"own")), BlobState::Missing);
    assert!(store.is_complete(&second.digest).unwrap());
}

#[test]
fn leftovers_of_given_up_fetches_go_before_any_model() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), "boot");
    let model = kept(&store, &[("f", b"model")], 5000);
    let partial = store.begin(&Digest::of(b"never finished"), 14).unwrap();
    partial.write_at(b"never", 0).unwrap();
    store.write_small(b"nobody's").unwrap();
    assert!(store.evict_one().unwrap() && store.evict_one().unwrap());
    assert!(store.is_complete(&model.digest).unwrap());
    assert!(store.partial_digests().unwrap().is_empty());
}

#[test]
fn models_are_not_thrown_out_for_a_fetch_that_fails_anyway() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), "boot");
    let model = kept(&store, &[("f", b"model")], 5000);
    assert!(matches!(store.reserve(u64::MAX / 2), Err(StoreError::DiskFull { .. })));
    assert!(store.is_complete(&model.digest).unwrap());
}

#[test]
fn a_view_appears_whole_under_safe_names() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), "boot");
    let record = record(&store, &[("a/b/c", b"1"), ("a/d", b"2"), ("e", b"1")]);
    let view = store.make_view(&record).unwrap();
    for (path, bytes) in [("a/b/c", b"1"), ("a/d", b"2"), ("e", b"1")] {
        assert_eq!(fs::read(view.join(path)).unwrap(), bytes);
    }
    assert_eq!(store.make_view(&record).unwrap(), view, "made once");
    let names: Vec<_> = fs::read_dir(store.views())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, [record.digest.hex()], "no half-made folder stays");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A crash between any two steps: the journal vouches only for bytes that are really in the file.
    #[test]
    fn a_resumed_blob_has_every_byte_that_its_journal_vouches_for(
        writes in proptest::collection::vec((0_u64..64, 1_u64..16, any::<bool>()), 1..12),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let digest = Digest::of(b"x");
        let truth: Vec<u8> = (0..80).collect();
        {
            let store = open(folder.path(), "boot");
            let partial = store.begin(&digest, 80).unwrap();
            for (start, length, saved) in writes {
                let extent = Extent::new(start, start + length);
                let range = usize::try_from(start).unwrap()..usize::try_from(start + length).unwrap();
                partial.write_at(&truth[range], start).unwrap();
                if saved {
                    partial.save(&[SavedRange { extent, source: SourceKind::Registry }]).unwrap();
                }
            }
        }
        let store = open(folder.path(), "boot");
        let partial = store.begin(&digest, 80).unwrap();
        for kept in partial.kept() {
            let mut bytes = vec![0; usize::try_from(kept.extent.len()).unwrap()];
            partial.read_at(&mut bytes, kept.extent.start).unwrap();
            let range = usize::try_from(kept.extent.start).unwrap()..usize::try_from(kept.extent.end).unwrap();
            prop_assert_eq!(&bytes, &truth[range]);
        }
    }
}
