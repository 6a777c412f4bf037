use fault_proxy::registry::{FakeRegistry, RegistryConfig, sha256};
use fault_proxy::{Fault, FaultRule};
use registry::{ErrorKind, ManifestBytes};

use super::*;

const OCI: &str = "application/vnd.oci.image.manifest.v1+json";

fn manifest(registry: &FakeRegistry, repository: &str) -> String {
    let config = registry.add_blob(repository, "{}");
    format!(
        r#"{{"schemaVersion":2,"mediaType":"{OCI}","config":{{"mediaType":"x","digest":"{config}","size":2}},"layers":[]}}"#
    )
}

#[tokio::test]
async fn a_manifest_is_stored_under_a_tag_resolved_and_read_back() {
    let registry = FakeRegistry::open().await.unwrap();
    let (client, model) = (client(&registry), reference(&registry, "team/model:v1"));
    let text = manifest(&registry, "team/model");
    let digest = client.put_manifest(&model, OCI, text.as_bytes()).await.unwrap();
    assert_eq!(digest, sha256(text.as_bytes()));
    let descriptor = client.resolve(&model).await.unwrap();
    assert_eq!(
        (descriptor.digest.as_str(), descriptor.size),
        (digest.as_str(), Some(text.len() as u64))
    );
    let expected = ManifestBytes {
        bytes: text.into_bytes(),
        digest: digest.clone(),
        media_type: Some(OCI.to_owned()),
    };
    assert_eq!(client.get_manifest(&model).await.unwrap(), expected);
    assert_eq!(
        client.get_manifest(&model.with_digest(&digest).unwrap()).await.unwrap(),
        expected
    );
}

#[tokio::test]
async fn a_registry_that_does_not_tell_digests_is_resolved_by_reading() {
    let registry = FakeRegistry::open().await.unwrap();
    let digest = registry.add_manifest("team/model", "v1", OCI, "{}");
    for fault in [
        Fault::DropHeader {
            name: "docker-content-digest".to_owned(),
        },
        Fault::Status {
            code: 405,
            headers: Vec::new(),
            body: String::new(),
        },
    ] {
        registry.inject(FaultRule::once("HEAD", "/manifests/", fault));
        assert_eq!(
            client(&registry)
                .resolve(&reference(&registry, "team/model:v1"))
                .await
                .unwrap()
                .digest,
            digest
        );
    }
}

#[tokio::test]
async fn a_manifest_that_is_not_its_digest_is_refused() {
    let registry = FakeRegistry::open().await.unwrap();
    let digest = registry.add_manifest("team/model", "v1", OCI, r#"{"a": 1}"#);
    registry.inject(FaultRule::once("GET", "/manifests/", Fault::WrongByte { at: 6 }));
    let pinned = reference(&registry, "team/model").with_digest(&digest).unwrap();
    let error = client(&registry).get_manifest(&pinned).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::DigestMismatch { .. }));
}

#[tokio::test]
async fn a_manifest_without_its_blobs_is_refused_with_the_way_out() {
    let registry = FakeRegistry::open().await.unwrap();
    let text = manifest(&registry, "elsewhere");
    let error = client(&registry)
        .put_manifest(&reference(&registry, "team/model:v1"), OCI, text.as_bytes())
        .await
        .unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::BlobUnknown { .. }),
        "{}",
        chain(&error)
    );
    assert!(error.hint().unwrap().contains("run the push again"));
    assert_eq!(registry.manifest("team/model", "v1"), None, "nothing partial is tagged");
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let registry = FakeRegistry::open().await.unwrap();
    let error = client(&registry)
        .get_manifest(&reference(&registry, "team/model:v1"))
        .await
        .unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(
        error.to_string(),
        format!("cannot read manifest {}/team/model:v1", registry.host())
    );
}

#[tokio::test]
async fn all_pages_of_tags_come_from_the_registry_itself() {
    let registry = FakeRegistry::open().await.unwrap();
    for tag in ["v1", "v2", "v3", "v4", "v5"] {
        registry.add_manifest("team/model", tag, OCI, "{}");
    }
    let tags = client(&registry)
        .list_tags(&reference(&registry, "team/model"))
        .await
        .unwrap();
    assert_eq!(tags, ["v1", "v2", "v3", "v4", "v5"]);
}

#[tokio::test]
async fn a_tag_is_deleted() {
    let registry = FakeRegistry::open().await.unwrap();
    registry.add_manifest("team/model", "v1", OCI, "{}");
    let model = reference(&registry, "team/model:v1");
    client(&registry).delete_manifest(&model).await.unwrap();
    assert!(
        client(&registry)
            .delete_manifest(&model)
            .await
            .unwrap_err()
            .is_not_found()
    );
}

#[tokio::test]
async fn referrers_are_listed_by_the_registry_or_under_the_fallback_tag() {
    for referrers in [true, false] {
        let registry = FakeRegistry::start(RegistryConfig {
            referrers,
            ..RegistryConfig::default()
        })
        .await
        .unwrap();
        let (client, model) = (client(&registry), reference(&registry, "team/model:v1"));
        let subject = client
            .put_manifest(&model, OCI, manifest(&registry, "team/model").as_bytes())
            .await
            .unwrap();
        assert_eq!(client.referrers(&model, &subject, None).await.unwrap(), []);
        for kind in [
            "application/vnd.plimsoll.pieces.v1+json",
            "application/vnd.in-toto+json",
        ] {
            client
                .put_referrer(&model, &referrer(&registry, &subject, kind))
                .await
                .unwrap();
            // Once more changes nothing.
            client
                .put_referrer(&model, &referrer(&registry, &subject, kind))
                .await
                .unwrap();
        }
        let all = client.referrers(&model, &subject, None).await.unwrap();
        assert_eq!(all.len(), 2, "kept by the registry: {referrers}");
        let pieces = client
            .referrers(&model, &subject, Some("application/vnd.plimsoll.pieces.v1+json"))
            .await
            .unwrap();
        assert_eq!(pieces.len(), 1);
        let found = model.with_digest(&pieces[0].digest).unwrap();
        assert!(client.get_manifest(&found).await.is_ok());
    }
}

fn referrer(registry: &FakeRegistry, subject: &str, kind: &str) -> Vec<u8> {
    let config = registry.add_blob("team/model", "{}");
    format!(
        r#"{{"schemaVersion":2,"mediaType":"{OCI}","artifactType":"{kind}","config":{{"mediaType":"x","digest":"{config}","size":2}},
        "layers":[],"subject":{{"mediaType":"{OCI}","digest":"{subject}","size":9}},"annotations":{{"a":"b"}}}}"#
    )
    .into_bytes()
}

const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";

async fn with_model(referrers: bool) -> (FakeRegistry, Reference, String) {
    let registry = FakeRegistry::start(RegistryConfig {
        referrers,
        ..RegistryConfig::default()
    })
    .await
    .unwrap();
    let model = reference(&registry, "team/model:v1");
    let subject = registry.add_manifest("team/model", "v1", OCI, manifest(&registry, "team/model"));
    (registry, model, subject)
}

#[tokio::test]
async fn all_pages_of_referrers_are_read() {
    let (registry, model, subject) = with_model(true).await;
    let client = client(&registry);
    for number in 0..5 {
        let bytes = referrer(&registry, &subject, &format!("application/vnd.number.{number}"));
        client.put_referrer(&model, &bytes).await.unwrap();
    }
    assert_eq!(client.referrers(&model, &subject, None).await.unwrap().len(), 5);
    assert_eq!(registry.count("GET", "/referrers/"), 3);
}

/// `mediaType` is optional in an index, and descriptors hold fields of which this client knows nothing.
#[tokio::test]
async fn the_fallback_tag_keeps_what_other_tools_wrote_there() {
    let (registry, model, subject) = with_model(false).await;
    let client = client(&registry);
    let foreign = serde_json::json!({"mediaType": OCI, "digest": sha256(b"sbom"), "size": 4, "artifactType": "application/vnd.sbom",
        "data": "c2JvbQ==", "annotations": null});
    let tag = subject.replace(':', "-");
    for known in [
        serde_json::json!({"schemaVersion": 2, "manifests": [foreign], "annotations": {"by": "another tool"}}),
        serde_json::json!({"schemaVersion": 2, "manifests": null}),
    ] {
        registry.add_manifest("team/model", &tag, OCI_INDEX, known.to_string());
        let before = known["manifests"].as_array().cloned().unwrap_or_default();
        assert_eq!(
            client.referrers(&model, &subject, None).await.unwrap().len(),
            before.len()
        );
        client
            .put_referrer(&model, &referrer(&registry, &subject, "application/vnd.in-toto+json"))
            .await
            .unwrap();
        let (_, stored) = registry.manifest("team/model", &tag).unwrap();
        let stored: serde_json::Value = serde_json::from_slice(&stored).unwrap();
        let entries = stored["manifests"].as_array().unwrap();
        assert_eq!(
            (&entries[..before.len()], entries.len()),
            (&before[..], before.len() + 1)
        );
        assert_eq!(
            (&stored["mediaType"], &stored["annotations"]),
            (&OCI_INDEX.into(), &known["annotations"])
        );
    }
}

#[tokio::test]
async fn a_fallback_tag_that_holds_something_else_is_left_as_it_is() {
    let (registry, model, subject) = with_model(false).await;
    let client = client(&registry);
    let tag = subject.replace(':', "-");
    let other = manifest(&registry, "team/model");
    registry.add_manifest("team/model", &tag, OCI, other.clone());
    assert_eq!(client.referrers(&model, &subject, None).await.unwrap(), []);
    let error = client
        .put_referrer(&model, &referrer(&registry, &subject, "application/vnd.in-toto+json"))
        .await
        .unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::ReferrersTag { .. }),
        "{}",
        chain(&error)
    );
    assert!(error.hint().unwrap().contains(&tag));
    assert_eq!(registry.manifest("team/model", &tag).unwrap().1, other);
}

#[tokio::test]
async fn an_answer_that_is_no_list_means_that_the_registry_keeps_none() {
    let (registry, model, subject) = with_model(false).await;
    let client = client(&registry);
    client
        .put_referrer(&model, &referrer(&registry, &subject, "application/vnd.in-toto+json"))
        .await
        .unwrap();
    let html = ("text/html", "<!doctype html><div id=app></div>");
    let json = ("application/json", "{}");
    let list = (OCI_INDEX, r#"{"schemaVersion":2,"manifests":null}"#);
    let broken = (OCI_INDEX, "<!doctype html>");
    for ((media_type, body), found) in [(html, Some(1)), (json, Some(1)), (list, Some(0)), (broken, None)] {
        let answer = Fault::Status {
            code: 200,
            headers: vec![("content-type".to_owned(), media_type.to_owned())],
            body: body.to_owned(),
        };
        registry.inject(FaultRule::once("GET", "/referrers/", answer));
        let listed = client.referrers(&model, &subject, None).await;
        assert_eq!(listed.ok().map(|listed| listed.len()), found, "{media_type} {body}");
    }
}
