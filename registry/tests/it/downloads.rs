use fault_proxy::registry::{Auth, FakeRegistry, RegistryConfig};
use fault_proxy::{Fault, FaultRule};
use registry::{Endpoint, ErrorKind};

use super::*;

async fn with_blob(config: RegistryConfig) -> (FakeRegistry, Bytes, String) {
    let registry = FakeRegistry::start(config).await.unwrap();
    let blob = bytes(100_000);
    let digest = registry.add_blob("team/model", blob.clone());
    (registry, blob, digest)
}

#[tokio::test]
async fn whole_blobs_and_ranges_are_read() {
    let (registry, blob, digest) = with_blob(RegistryConfig::default()).await;
    let (client, model) = (client(&registry), reference(&registry, "team/model"));
    assert_eq!(client.blob_exists(&model, &digest).await.unwrap(), Some(100_000));
    assert_eq!(read(&client, &model, &digest, None).await.unwrap(), blob);
    for range in [0..1, 10..20, 99_999..100_000, 0..100_000] {
        let expected = &blob[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()];
        assert_eq!(read(&client, &model, &digest, Some(range)).await.unwrap(), expected);
    }
    let beyond = client.open_blob(&model, &digest, Some(99_990..200_000)).await.unwrap();
    assert_eq!((beyond.served(), beyond.total()), (&(99_990..100_000), Some(100_000)));
}

#[tokio::test]
async fn what_comes_is_judged_by_content_range() {
    let (registry, _, digest) = with_blob(RegistryConfig::default()).await;
    let (client, model) = (client(&registry), reference(&registry, "team/model"));
    let blobs = "/blobs/";

    registry.inject(FaultRule::once("GET", blobs, Fault::StatusAs { code: 200 }));
    let stream = client.open_blob(&model, &digest, Some(10..20)).await.unwrap();
    assert_eq!(
        (stream.served(), stream.is_partial()),
        (&(10..20), true),
        "200 with Content-Range is a slice"
    );

    registry.inject(FaultRule::once("GET", blobs, Fault::IgnoreRange));
    let stream = client.open_blob(&model, &digest, Some(10..20)).await.unwrap();
    assert_eq!(
        (stream.served(), stream.is_partial()),
        (&(0..100_000), false),
        "200 without Content-Range is everything"
    );

    for fault in [
        Fault::OtherRange { shift: 5 },
        Fault::DropHeader {
            name: "content-range".to_owned(),
        },
    ] {
        registry.inject(FaultRule::once("GET", blobs, fault.clone()).times(4));
        let error = client.open_blob(&model, &digest, Some(10..20)).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::WrongRange(_)),
            "{fault:?}: {}",
            chain(&error)
        );
    }
    let error = client
        .open_blob(&model, &digest, Some(100_000..100_001))
        .await
        .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::RangeNotSatisfiable(Some(100_000))));
}

#[tokio::test]
async fn a_body_that_ends_early_or_stops_is_an_error_and_never_an_end() {
    let (registry, _, digest) = with_blob(RegistryConfig::default()).await;
    let (client, model) = (client(&registry), reference(&registry, "team/model"));
    for range in [None, Some(1000..90_000)] {
        registry.inject(FaultRule::once("GET", "/blobs/", Fault::Cut { after: 500 }));
        let error = read(&client, &model, &digest, range.clone()).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Truncated { received: 500, .. }),
            "{}",
            chain(&error)
        );
        registry.inject(FaultRule::once("GET", "/blobs/", Fault::Stall { after: 500 }));
        let error = read(&client, &model, &digest, range).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Stalled { .. }), "{}", chain(&error));
        assert!(error.is_retryable());
    }
}

#[tokio::test]
async fn a_body_that_trickles_is_given_up() {
    let (registry, _, digest) = with_blob(RegistryConfig::default()).await;
    let mut config = config(&registry.host());
    config.limits.rate_window = Duration::from_millis(100);
    config.limits.min_rate = 100_000;
    let client = Client::new(config).unwrap();
    registry.inject(FaultRule::once("GET", "/blobs/", Fault::Slow { rate: 2000 }));
    let error = read(&client, &reference(&registry, "team/model"), &digest, None)
        .await
        .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooSlow { .. }), "{}", chain(&error));
}

#[tokio::test]
async fn a_login_never_follows_a_redirect_to_another_host() {
    let config = RegistryConfig {
        redirect_blobs: true,
        auth: Auth::bearer(),
        ..RegistryConfig::default()
    };
    let (registry, blob, digest) = with_blob(config).await;
    let (client, model) = (client_with_login(&registry), reference(&registry, "team/model"));
    assert_eq!(read(&client, &model, &digest, Some(5..50)).await.unwrap(), &blob[5..50]);
    let stream = client.open_blob(&model, &digest, None).await.unwrap();
    assert_eq!(stream.host(), registry.storage_host());
    assert_eq!(registry.leaks(), 0);
    assert!(
        registry
            .recorded()
            .iter()
            .any(|request| request.authorization.is_some()),
        "the registry itself did see it"
    );
}

#[tokio::test]
async fn redirects_end_and_their_signatures_are_not_told() {
    let (registry, _, digest) = with_blob(RegistryConfig::default()).await;
    let (client, model) = (client(&registry), reference(&registry, "team/model"));
    let to = format!(
        "http://{}/v2/team/model/blobs/{digest}?signature=hunter2",
        registry.host()
    );
    registry.inject(FaultRule::once("GET", "/blobs/", Fault::Redirect { to }).always());
    let error = client.open_blob(&model, &digest, None).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Redirect(_)));
    assert!(!format!("{} {error:?}", chain(&error)).contains("hunter2"));
    assert_eq!(registry.count("GET", "/blobs/"), 6);
}

#[tokio::test]
async fn a_small_blob_is_proven_and_fetched_again_once() {
    let (registry, blob, digest) = with_blob(RegistryConfig::default()).await;
    let (client, model) = (client(&registry), reference(&registry, "team/model"));
    registry.inject(FaultRule::once("GET", "/blobs/", Fault::WrongByte { at: 4321 }));
    assert_eq!(client.get_blob(&model, &digest, 1 << 20).await.unwrap(), blob);
    registry.inject(FaultRule::once("GET", "/blobs/", Fault::WrongByte { at: 4321 }).times(2));
    let error = client.get_blob(&model, &digest, 1 << 20).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::DigestMismatch { .. }));
    assert!(
        client.get_blob(&model, &digest, 99_999).await.is_err(),
        "a limit is a limit"
    );
}

#[tokio::test]
async fn a_mirror_is_told_the_registry_and_gets_no_login_unless_it_may() {
    let (mirror, blob, digest) = with_blob(RegistryConfig::default()).await;
    let origin = FakeRegistry::start(RegistryConfig {
        auth: Auth::bearer(),
        ..RegistryConfig::default()
    })
    .await
    .unwrap();
    let (client, model) = (client_with_login(&origin), reference(&origin, "team/model"));
    let base = format!("http://{}", mirror.host()).parse().unwrap();
    let endpoint = Endpoint::new(base).with_header("x-dragonfly-use-p2p", "true");
    // The login is known by then.
    assert_eq!(client.blob_exists(&model, &digest).await.unwrap(), None);

    let mut stream = client
        .open_blob_via(&endpoint, &model, &digest, Some(7..9))
        .await
        .unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), &blob[7..9]);
    let trusted = Endpoint {
        credentials: true,
        namespace: false,
        ..endpoint.clone()
    };
    client.open_blob_via(&trusted, &model, &digest, None).await.unwrap();
    let requests: Vec<(bool, bool)> = mirror
        .recorded()
        .iter()
        .map(|request| (request.path.contains("?ns=127.0.0.1"), request.authorization.is_some()))
        .collect();
    assert_eq!(requests, [(true, false), (false, true)]);

    let headers = vec![("x-dragonfly-error-type".to_owned(), "backend".to_owned())];
    mirror.inject(FaultRule::once(
        "GET",
        "/blobs/",
        Fault::Status {
            code: 500,
            headers,
            body: "no parent".to_owned(),
        },
    ));
    let error = client
        .open_blob_via(&endpoint, &model, &digest, None)
        .await
        .unwrap_err();
    assert_eq!(error.mirror_header("x-dragonfly-error-type"), Some("backend"));
    assert!(matches!(error.kind(), ErrorKind::Status { status: 500, .. }));
}

/// Another crate of the build may switch decoding on in the HTTP client; what is stored has to arrive all the same.
#[tokio::test]
async fn a_blob_labelled_as_gzip_arrives_as_it_is_stored() {
    let (registry, blob, digest) = with_blob(RegistryConfig::default()).await;
    let (client, model) = (client(&registry), reference(&registry, "team/model"));
    let label = Fault::AddHeader {
        name: "content-encoding".to_owned(),
        value: "gzip".to_owned(),
    };
    registry.inject(FaultRule::once("GET", "/blobs/", label));
    let stream = client.open_blob(&model, &digest, None).await.unwrap();
    assert_eq!(
        (stream.total(), stream.headers()["content-length"].to_str().unwrap()),
        (Some(100_000), "100000")
    );
    let chunks: Vec<Bytes> = stream.map(Result::unwrap).collect().await;
    assert_eq!(chunks.concat(), blob);
}

#[tokio::test]
async fn a_stream_that_has_ended_stays_at_its_end() {
    let (registry, _, digest) = with_blob(RegistryConfig::default()).await;
    let (client, model) = (client(&registry), reference(&registry, "team/model"));
    for (fault, good) in [(None, true), (Some(Fault::Cut { after: 500 }), false)] {
        if let Some(fault) = fault {
            registry.inject(FaultRule::once("GET", "/blobs/", fault));
        }
        let mut stream = client.open_blob(&model, &digest, None).await.unwrap();
        let mut last = Ok(Bytes::new());
        while let Some(chunk) = stream.next().await {
            last = chunk;
        }
        assert_eq!(last.is_ok(), good);
        assert!(stream.next().await.is_none() && stream.next().await.is_none());
    }
}

/// RFC 9110, 15.3.7: a server may send less than it was asked for.
#[tokio::test]
async fn a_part_that_ends_early_is_followed_by_the_next_one() {
    let (registry, blob, digest) = with_blob(RegistryConfig::default()).await;
    let (client, model) = (client(&registry), reference(&registry, "team/model"));
    let short = Fault::ShortRange { most: 30_000 };
    registry.inject(FaultRule::once("GET", "/blobs/", short).always());
    let mirror = Endpoint::new(format!("http://{}", registry.host()).parse().unwrap());
    for (range, end, requests) in [(10..20, 20, 1), (10..70_010, 70_010, 3), (5..200_000, 100_000, 4)] {
        let expected = &blob[usize::try_from(range.start).unwrap()..usize::try_from(end).unwrap()];
        for endpoint in [None, Some(&mirror)] {
            let before = registry.count("GET", "/blobs/");
            let stream = match endpoint {
                None => client.open_blob(&model, &digest, Some(range.clone())).await,
                Some(mirror) => client.open_blob_via(mirror, &model, &digest, Some(range.clone())).await,
            };
            let stream = stream.unwrap();
            assert_eq!((stream.served(), stream.is_partial()), (&(range.start..end), true));
            let chunks: Vec<Bytes> = stream.map(Result::unwrap).collect().await;
            assert_eq!(chunks.concat(), expected);
            assert_eq!(registry.count("GET", "/blobs/") - before, requests);
        }
    }
    // A server that changes its mind on the way is not followed.
    let other = FakeRegistry::open().await.unwrap();
    let digest = other.add_blob("team/model", blob.clone());
    other.inject(FaultRule::once("GET", "/blobs/", Fault::ShortRange { most: 30_000 }));
    other.inject(FaultRule::once("GET", "/blobs/", Fault::IgnoreRange));
    let model = reference(&other, "team/model");
    let client = Client::new(config(&other.host())).unwrap();
    let error = read(&client, &model, &digest, Some(10..70_010)).await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::WrongRange(_)) && error.is_retryable(),
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn a_blob_that_the_registry_lost_is_to_be_pushed_again() {
    let (registry, _, _) = with_blob(RegistryConfig::default()).await;
    let (client, model) = (client(&registry), reference(&registry, "team/model"));
    let lost = fault_proxy::registry::sha256(b"lost");
    let error = client.get_blob(&model, &lost, 100).await.unwrap_err();
    assert!(error.is_not_found());
    assert!(
        error.hint().unwrap().contains("push the model again"),
        "{:?}",
        error.hint()
    );
}
