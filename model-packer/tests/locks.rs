//! Locks as users meet them: what they hold, and what they refuse.
#![allow(clippy::unwrap_used, reason = "what a test needs and does not get is a failed test")]

mod bed;

use bed::Bed;
use bed::program::{packer, text};

/// Pushes the source with a lock, and gives the place of the lock.
async fn locked(bed: &Bed, source: &str) -> String {
    let (lock, target) = (bed.state.path().join("source.lock"), bed.target("m:v1").to_string());
    let lock = lock.display().to_string();
    let output = packer(bed, &["push", source, &target, "--write-lock", &lock]).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    lock
}

/// Exit code and what was said.
async fn answer(bed: &Bed, arguments: &[&str]) -> (Option<i32>, String) {
    let output = packer(bed, arguments).await;
    (output.status.code(), text(&output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_refuses_content_that_no_listing_shows_as_a_push_does() {
    let bed = Bed::start().await;
    bed.write(
        ".standin.json",
        r#"{"unhashed": ["README.md", "model-00001-of-00002.safetensors"]}"#,
    );
    let folder = tempfile::tempdir().unwrap();
    bed::write_model(folder.path(), 1000);
    let (shard, text) = ("model-00001-of-00002.safetensors", "README.md");
    for (source, place) in [
        (folder.path().to_str().unwrap(), folder.path()),
        ("ms://owner/model", &bed.file("")),
    ] {
        let lock = format!("--locked={}", locked(&bed, source).await);
        let target = bed.target("m:v2").to_string();
        let commands = [
            vec!["plan", source, &lock],
            vec!["plan", source, &target, &lock],
            vec!["push", source, &target, &lock],
        ];
        for command in &commands {
            assert_eq!(answer(&bed, command).await.0, Some(0), "{command:?}");
        }
        // The last byte is another one, and the size stays.
        for name in [shard, text] {
            let mut content = std::fs::read(place.join(name)).unwrap();
            *content.last_mut().unwrap() ^= 1;
            std::fs::write(place.join(name), content).unwrap();
        }
        for command in &commands {
            let (code, said) = answer(&bed, command).await;
            assert_eq!(code, Some(1), "{command:?}: {said}");
            for name in [shard, text] {
                assert!(
                    said.contains(&format!("{name} has other content")),
                    "{command:?}: {said}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_hub_knows_no_commits_the_locked_revision_is_asked_for() {
    let bed = Bed::start().await;
    bed.write(".standin.json", r#"{"revisions": ["v1.0", "v2.0"]}"#);
    let lock = format!("--locked={}", locked(&bed, "ms://owner/model@v1.0").await);
    for (source, revision) in [("ms://owner/model", "v1.0"), ("ms://owner/model@v2.0", "v2.0")] {
        let before = bed.hub.requests().len();
        assert_eq!(answer(&bed, &["plan", source, &lock]).await.0, Some(0));
        let asked = bed.hub.requests().split_off(before);
        let other = asked
            .iter()
            .filter(|request| request.target.contains("Revision="))
            .find(|request| !request.target.contains(&format!("Revision={revision}")));
        assert_eq!(other, None);
    }
    // A lock of another hub pins nothing, and is refused as what it is.
    let (code, said) = answer(&bed, &["plan", "hf://owner/model", &lock]).await;
    assert_eq!(code, Some(1));
    assert!(
        said.contains("it is of ms://owner/model, the source is hf://owner/model"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_named_behind_an_equals_sign_so_that_it_takes_no_source() {
    let bed = Bed::start().await;
    let (lock, target) = (locked(&bed, "hf://owner/model").await, bed.target("m:v2").to_string());
    let flag = format!("--locked={lock}");
    for (arguments, code, part) in [
        (vec!["plan", "hf://owner/model", &flag], 0, ""),
        (vec!["push", &flag, "hf://owner/model", &target], 0, ""),
        // The default name, and what follows is the source.
        (
            vec!["push", "--locked", "hf://owner/model", &target],
            1,
            "cannot read source.lock",
        ),
        (vec!["plan", "hf://owner/model", "--locked", &lock], 1, flag.as_str()),
        (
            vec!["push", "hf://owner/model", &target, "--locked", &lock],
            1,
            "unexpected argument",
        ),
    ] {
        let (found, said) = answer(&bed, &arguments).await;
        assert_eq!(found, Some(code), "{arguments:?}: {said}");
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_cannot_be_written_stops_a_push_before_it_begins() {
    let bed = Bed::start().await;
    let target = bed.target("m:v1").to_string();
    let folder = bed.state.path().display().to_string();
    for place in [format!("{folder}/missing/x.lock"), folder.clone()] {
        let (code, said) = answer(&bed, &["push", "hf://owner/model", &target, "--write-lock", &place]).await;
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(&format!("cannot write {place}")), "{said}");
    }
    assert_eq!((bed.writes(), bed.hub.requests().len()), (0, 0));
    assert!(bed.registry.manifest("m", "v1").is_none());
    // Nothing is left beside a lock that could be written.
    locked(&bed, "hf://owner/model").await;
    let left = std::fs::read_dir(&folder).unwrap().filter(|item| {
        let name = item.as_ref().unwrap().file_name();
        name.to_string_lossy().ends_with(".new")
    });
    assert_eq!(left.count(), 0);
}
