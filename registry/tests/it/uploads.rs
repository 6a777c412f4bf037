use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use fault_proxy::registry::{Auth, FakeRegistry, RegistryConfig, sha256};
use fault_proxy::{Fault, FaultRule};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use registry::{BlobSource, ErrorKind, FileSource, PushOptions, Pushed, SourceStream};

use super::*;

const PART: usize = 64 << 10;

fn status(code: u16, body: &str) -> Fault {
    Fault::Status {
        code,
        headers: Vec::new(),
        body: body.to_owned(),
    }
}

/// Pushes ten parts and a bit, and asserts that what the registry has is right.
async fn push(registry: &FakeRegistry, options: PushOptions) -> Result<Pushed, Error> {
    let blob = bytes(PART * 10 + 100);
    let digest = sha256(&blob);
    let target = reference(registry, "team/model:v1");
    let pushed = client_with_login(registry)
        .push_blob(&target, &digest, blob.len() as u64, &blob, &options)
        .await?;
    assert_eq!(registry.blob("team/model", &digest), Some(blob));
    Ok(pushed)
}

#[tokio::test]
async fn a_blob_is_sent_in_equal_parts_and_not_sent_again() {
    let registry = FakeRegistry::open().await.unwrap();
    let size = (PART * 10 + 100) as u64;
    let heard = Heard::default();
    let options = PushOptions {
        observer: Some(heard.observer()),
        ..parts(PART as u64)
    };
    assert_eq!(push(&registry, options.clone()).await.unwrap(), Pushed::Uploaded(size));
    let expected: Vec<u64> = (1..=10).map(|part| part * PART as u64).chain([size]).collect();
    assert_eq!(heard.confirmed(), expected);
    assert_eq!(registry.count("PATCH", "/uploads/"), 11);
    assert_eq!(registry.open_uploads(), 0);

    assert_eq!(push(&registry, options).await.unwrap(), Pushed::Existed);
    assert_eq!(registry.received_bytes(), size);
}

#[tokio::test]
async fn small_blobs_and_registries_without_parts_get_one_put() {
    let registry = FakeRegistry::open().await.unwrap();
    push(&registry, one_put()).await.unwrap();
    assert_eq!((registry.count("PATCH", ""), registry.count("PUT", "digest=")), (0, 1));

    let small = bytes(10);
    let target = reference(&registry, "small");
    client(&registry)
        .push_blob(&target, &sha256(&small), 10, &small, &PushOptions::default())
        .await
        .unwrap();
    assert_eq!((registry.count("PATCH", ""), registry.count("PUT", "digest=")), (0, 2));

    let empty = Bytes::new();
    client(&registry)
        .push_blob(&target, &sha256(b""), 0, &empty, &PushOptions::default())
        .await
        .unwrap();
    assert_eq!(registry.blob("small", &sha256(b"")), Some(empty));
}

#[tokio::test]
async fn a_fault_in_one_part_costs_that_part_at_most() {
    let late = || status(504, "<html>gateway timeout</html>");
    let cases = [
        (
            "a server error",
            FaultRule::once("PATCH", "/uploads/", status(500, "")).after(4),
        ),
        (
            "a gateway timeout",
            FaultRule::once("PATCH", "/uploads/", late()).after(4),
        ),
        (
            "three in a row",
            FaultRule::once("PATCH", "/uploads/", late()).after(4).times(3),
        ),
        (
            "a broken connection",
            FaultRule::once("PATCH", "/uploads/", Fault::CutUpload { after: 1000 }).after(4),
        ),
        (
            "a lost answer",
            FaultRule::once("PATCH", "/uploads/", Fault::LostAnswer).after(4),
        ),
        (
            "a wrong offset",
            FaultRule::once("PATCH", "/uploads/", status(416, "")).after(4),
        ),
        (
            "an expired token",
            FaultRule::once("PATCH", "/uploads/", status(401, "")).after(4),
        ),
    ];
    for (name, rule) in cases {
        let registry = FakeRegistry::open().await.unwrap();
        let times = u64::from(rule.times);
        registry.inject(rule);
        let login_needed = name == "an expired token";
        let outcome = push(&registry, parts(PART as u64)).await;
        if login_needed {
            // Without a challenge nobody can log in again: the refusal is the answer.
            assert!(outcome.unwrap_err().is_unauthorized());
            continue;
        }
        let Pushed::Uploaded(sent) = outcome.unwrap() else {
            panic!("{name}: not sent")
        };
        let size = (PART * 10 + 100) as u64;
        assert!(
            (size..=size + times * PART as u64 + 100).contains(&sent),
            "{name}: {sent} bytes for {size}"
        );
        assert_eq!(registry.open_uploads(), 0, "{name}");
    }
}

#[tokio::test]
async fn an_expired_login_is_renewed_once_and_the_upload_goes_on() {
    for expired_as_403 in [false, true] {
        let auth = Auth::Bearer {
            username: "user".to_owned(),
            password: "pass".to_owned(),
            anonymous_pull: false,
            expired_as_403,
        };
        let registry = FakeRegistry::start(RegistryConfig {
            auth,
            ..RegistryConfig::default()
        })
        .await
        .unwrap();
        let blob = bytes(PART * 4);
        let target = reference(&registry, "team/model");
        let client = client_with_login(&registry);
        let expiring = Expiring {
            blob: blob.clone(),
            registry: &registry,
            opened: AtomicU64::new(0),
        };
        let pushed = client
            .push_blob(
                &target,
                &sha256(&blob),
                blob.len() as u64,
                &expiring,
                &parts(PART as u64),
            )
            .await;
        assert!(matches!(pushed, Ok(Pushed::Uploaded(_))), "{pushed:?}");
        assert_eq!(registry.tokens_issued(), 2, "403 instead of 401: {expired_as_403}");
        assert_eq!(registry.blob("team/model", &sha256(&blob)), Some(blob));
    }
}

/// Lets all tokens expire when it is opened for the first time: the session is open by then, and the first part meets the refusal.
struct Expiring<'a> {
    blob: Bytes,
    registry: &'a FakeRegistry,
    opened: AtomicU64,
}

impl BlobSource for Expiring<'_> {
    fn open(&self, offset: u64) -> BoxFuture<'_, io::Result<SourceStream>> {
        if self.opened.fetch_add(1, Ordering::SeqCst) == 0 {
            self.registry.expire_tokens();
        }
        self.blob.open(offset)
    }
}

#[tokio::test]
async fn a_denial_is_not_a_reason_to_log_in_again() {
    let registry = FakeRegistry::open().await.unwrap();
    registry.inject(FaultRule::once("POST", "/uploads/", status(403, "{\"errors\":[{\"code\":\"DENIED\"}]}")).always());
    let error = push(&registry, parts(PART as u64)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Denied { .. }), "{}", chain(&error));
    assert_eq!(registry.count("POST", "/uploads/"), 1);
}

#[tokio::test]
async fn a_mount_is_carried_out_and_a_202_is_an_upload_in_exactly_that_session() {
    let blob = bytes(PART * 10 + 100);
    let digest = sha256(&blob);
    let options = PushOptions {
        mount_from: vec!["other".to_owned(), "base/model".to_owned()],
        ..parts(PART as u64)
    };

    let registry = FakeRegistry::open().await.unwrap();
    registry.add_blob("base/model", blob.clone());
    assert_eq!(
        push(&registry, options.clone()).await.unwrap(),
        Pushed::Mounted("base/model".to_owned())
    );
    assert_eq!((registry.received_bytes(), registry.open_uploads()), (0, 0));

    let unwilling = FakeRegistry::start(RegistryConfig {
        mounts: false,
        ..RegistryConfig::default()
    })
    .await
    .unwrap();
    unwilling.add_blob("base/model", blob.clone());
    assert!(matches!(push(&unwilling, options).await.unwrap(), Pushed::Uploaded(_)));
    assert_eq!(
        unwilling.count("POST", "/uploads/"),
        2,
        "one per candidate, none for the upload"
    );
    assert_eq!(
        (unwilling.count("DELETE", "/uploads/"), unwilling.open_uploads()),
        (1, 0)
    );

    let target = reference(&unwilling, "third");
    assert!(
        !client(&unwilling)
            .mount_blob(&target, "base/model", &digest)
            .await
            .unwrap()
    );
    assert_eq!(unwilling.open_uploads(), 0, "a session that is not used is closed");
}

/// Gives so many bytes and then nothing more, for ever.
struct Hanging {
    blob: Bytes,
    after: usize,
}

impl BlobSource for Hanging {
    fn open(&self, _offset: u64) -> BoxFuture<'_, io::Result<SourceStream>> {
        let first = self.blob.slice(..self.after);
        async move {
            Ok(futures::stream::iter([Ok(first)])
                .chain(futures::stream::pending())
                .boxed())
        }
        .boxed()
    }
}

#[tokio::test]
async fn a_killed_upload_goes_on_where_the_registry_stands() {
    let registry = FakeRegistry::open().await.unwrap();
    let blob = bytes(PART * 10 + 100);
    let (target, size) = (reference(&registry, "team/model"), blob.len() as u64);
    let heard = Heard::default();
    let options = PushOptions {
        observer: Some(heard.observer()),
        ..parts(PART as u64)
    };
    let hanging = Hanging {
        blob: blob.clone(),
        after: PART * 6 + 500,
    };
    let killed = client(&registry);
    let digest = sha256(&blob);
    let push_until_killed = killed.push_blob(&target, &digest, size, &hanging, &options);
    assert!(
        tokio::time::timeout(Duration::from_millis(500), push_until_killed)
            .await
            .is_err(),
        "it hangs until it is killed"
    );
    assert_eq!(heard.confirmed().last(), Some(&(PART as u64 * 6)));

    // The next run knows nothing but the session that the first one told.
    let resumed = PushOptions {
        resume: heard.last_session(),
        ..parts(PART as u64)
    };
    let Pushed::Uploaded(sent) = push(&registry, resumed).await.unwrap() else {
        panic!("it was not there yet")
    };
    assert!(sent <= size - PART as u64 * 6, "{sent} bytes sent again and on");
    assert!(
        registry.received_bytes() <= size + PART as u64,
        "at most one part was sent twice"
    );
    assert_eq!(registry.open_uploads(), 0);
}

#[tokio::test]
async fn a_session_that_the_registry_forgot_begins_again() {
    let registry = FakeRegistry::open().await.unwrap();
    let heard = Heard::default();
    let forgotten = FaultRule::once(
        "PATCH",
        "/uploads/",
        status(404, "{\"errors\":[{\"code\":\"BLOB_UPLOAD_UNKNOWN\"}]}"),
    );
    registry.inject(forgotten.after(3));
    let options = PushOptions {
        observer: Some(heard.observer()),
        ..parts(PART as u64)
    };
    push(&registry, options).await.unwrap();
    assert!(heard.0.lock().unwrap().contains(&PushEvent::Restarted));
}

#[tokio::test]
async fn a_registry_that_refuses_every_part_gets_one_put() {
    for code in [405, 416, 501] {
        let registry = FakeRegistry::open().await.unwrap();
        registry.inject(FaultRule::once("PATCH", "/uploads/", status(code, "")).always());
        push(&registry, parts(PART as u64)).await.unwrap();
        assert_eq!(
            (registry.count("PUT", "digest="), registry.open_uploads()),
            (1, 0),
            "{code}"
        );
        assert!(registry.count("PATCH", "/uploads/") <= 2, "{code}");
    }
}

#[tokio::test]
async fn a_registry_that_takes_a_part_for_a_blob_gets_one_put() {
    let registry = FakeRegistry::open().await.unwrap();
    registry.inject(FaultRule::once("PATCH", "/uploads/", Fault::StatusAs { code: 201 }).always());
    push(&registry, parts(PART as u64)).await.unwrap();
    assert_eq!(registry.count("PATCH", "/uploads/"), 1);
}

#[tokio::test]
async fn a_proxy_that_limits_bodies_gets_smaller_parts() {
    let limited = RegistryConfig {
        max_body: Some(1 << 20),
        ..RegistryConfig::default()
    };
    let registry = FakeRegistry::start(limited).await.unwrap();
    let blob = bytes(5 << 20);
    let target = reference(&registry, "team/model");
    for (options, repository) in [(parts(4 << 20), "team/model"), (one_put(), "team/model")] {
        let outcome = client(&registry)
            .push_blob(&target, &sha256(&blob), blob.len() as u64, &blob, &options)
            .await;
        assert!(outcome.is_ok(), "{:?}", outcome.map_err(|error| chain(&error)));
        assert_eq!(registry.blob(repository, &sha256(&blob)), Some(blob.clone()));
    }
}

#[tokio::test]
async fn a_smallest_part_of_the_registry_is_honoured() {
    let picky = RegistryConfig {
        min_part: Some(PART as u64 * 4),
        ..RegistryConfig::default()
    };
    let registry = FakeRegistry::start(picky).await.unwrap();
    push(&registry, parts(PART as u64)).await.unwrap();
    assert_eq!(registry.count("PATCH", "/uploads/"), 3);
}

#[tokio::test]
async fn the_answer_to_the_last_put_may_be_lost_or_late() {
    for fault in [Fault::LostAnswer, status(504, ""), status(500, "")] {
        let registry = FakeRegistry::open().await.unwrap();
        registry.inject(FaultRule::once("PUT", "digest=", fault.clone()));
        let pushed = push(&registry, parts(PART as u64)).await;
        assert!(pushed.is_ok(), "{fault:?}: {:?}", pushed.map_err(|error| chain(&error)));
        assert_eq!(
            registry.received_bytes(),
            (PART * 10 + 100) as u64,
            "{fault:?}: no byte is sent twice"
        );
    }
}

#[tokio::test]
async fn a_source_that_fails_is_the_error_and_a_wrong_one_withdraws_the_upload() {
    struct Failing(io::ErrorKind);
    impl BlobSource for Failing {
        fn open(&self, _offset: u64) -> BoxFuture<'_, io::Result<SourceStream>> {
            let chunks = [
                Ok(bytes(PART * 2)),
                Err(io::Error::new(self.0, "the hub's hash does not match")),
            ];
            async move { Ok(futures::stream::iter(chunks).boxed()) }.boxed()
        }
    }
    for (kind, open_uploads) in [(io::ErrorKind::InvalidData, 0), (io::ErrorKind::TimedOut, 1)] {
        let registry = FakeRegistry::open().await.unwrap();
        let target = reference(&registry, "team/model");
        let digest = sha256(b"other");
        let outcome = client(&registry)
            .push_blob(&target, &digest, PART as u64 * 9, &Failing(kind), &parts(PART as u64))
            .await;
        let text = chain(&outcome.unwrap_err());
        assert!(text.contains("the hub's hash does not match"), "{text}");
        assert_eq!(registry.open_uploads(), open_uploads, "{kind:?}");
        assert_eq!(registry.blob("team/model", &digest), None);
    }
}

#[tokio::test]
async fn bytes_that_are_not_the_digest_are_never_a_blob() {
    let registry = FakeRegistry::open().await.unwrap();
    let target = reference(&registry, "team/model");
    let wrong = bytes(PART * 3);
    let digest = sha256(b"something else");
    for options in [parts(PART as u64), one_put()] {
        let error = client(&registry)
            .push_blob(&target, &digest, wrong.len() as u64, &wrong, &options)
            .await
            .unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::DigestInvalid { .. }),
            "{}",
            chain(&error)
        );
        assert_eq!(
            (registry.blob("team/model", &digest), registry.open_uploads()),
            (None, 0)
        );
    }
}

#[tokio::test]
async fn a_file_is_a_source() {
    let registry = FakeRegistry::open().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let blob = bytes(PART * 3 + 1);
    std::fs::write(&path, &blob).unwrap();
    registry.inject(FaultRule::once("PATCH", "/uploads/", Fault::CutUpload { after: 77 }).after(1));
    let target = reference(&registry, "team/model");
    let source = FileSource(path);
    client(&registry)
        .push_blob(&target, &sha256(&blob), blob.len() as u64, &source, &parts(PART as u64))
        .await
        .unwrap();
    assert_eq!(registry.blob("team/model", &sha256(&blob)), Some(blob));
}

#[tokio::test]
async fn a_blob_beyond_the_registrys_limit_is_refused_before_a_byte_is_sent() {
    let registry = FakeRegistry::open().await.unwrap();
    let profile = Profile {
        name: "small".to_owned(),
        max_blob_bytes: Some(1000),
        ..Profile::default()
    };
    let error = push(
        &registry,
        PushOptions {
            profile: Some(profile),
            ..PushOptions::default()
        },
    )
    .await
    .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }));
    assert!(registry.recorded().is_empty());
}
