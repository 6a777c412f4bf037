use super::*;

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A manifest with this config type and these layers, each `(media type, annotations as JSON)`.
fn manifest(config_type: &str, layers: &[(&str, &str)]) -> String {
    let layer = |(media_type, annotations): &(&str, &str)| {
        format!(r#"{{"mediaType":"{media_type}","digest":"{DIGEST}","size":8192,"annotations":{annotations}}}"#)
    };
    let layers = layers.iter().map(layer).collect::<Vec<_>>().join(",");
    format!(
        r#"{{"schemaVersion":2,"mediaType":"{}","config":{{"mediaType":"{config_type}","digest":"{DIGEST}","size":2}},"layers":[{layers}]}}"#,
        media_type::OCI_MANIFEST
    )
}

fn error_of(text: &str) -> String {
    let error = PackedModel::read(text.as_bytes(), None).unwrap_err();
    let mut chain = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        chain = format!("{chain}: {inner}");
        cause = inner.source();
    }
    chain
}

#[test]
fn models_of_other_writers_are_read() {
    let cases = [
        // modctl before the renaming.
        (
            "application/vnd.cnai.model.config.v1+json",
            "application/vnd.cnai.model.weight.v1.raw",
            r#"{"org.cnai.model.filepath":"a"}"#,
        ),
        // modctl now, with metadata that this reader does not need.
        (
            media_type::MODEL_CONFIG,
            "application/vnd.cncf.model.weight.v1.tar",
            r#"{"org.cncf.model.filepath":"a","org.cncf.model.file.metadata+json":"{}"}"#,
        ),
        // Docker Model Runner.
        (
            "application/vnd.docker.ai.model.config.v0.2+json",
            "application/vnd.docker.ai.gguf.v3",
            r#"{"org.cncf.model.filepath":"a"}"#,
        ),
        // oras and podman.
        (
            media_type::OCI_EMPTY,
            "application/octet-stream",
            r#"{"org.opencontainers.image.title":"a"}"#,
        ),
        // A type of tomorrow.
        (
            media_type::MODEL_CONFIG,
            "application/vnd.cncf.model.adapter.v3.flat",
            r#"{"org.cncf.model.filepath":"a"}"#,
        ),
    ];
    for (config, layer, annotations) in cases {
        let model = PackedModel::read(manifest(config, &[(layer, annotations)]).as_bytes(), None).unwrap();
        assert_eq!(
            (model.files[0].path.as_str(), model.total_bytes()),
            ("a", 8192),
            "{layer}"
        );
        assert_eq!(model.facts, None);
    }
}

#[test]
fn what_oras_pushes_is_a_file_unless_oras_made_it_of_a_folder() {
    let title = r#"{"org.opencontainers.image.title":"a"}"#;
    let folder = r#"{"org.opencontainers.image.title":"a","io.deis.oras.content.unpack":"true"}"#;
    let named_for_models = r#"{"org.opencontainers.image.title":"a","org.cncf.model.filepath":"a"}"#;
    let (tar, gzip) = (media_type::OCI_LAYER_TAR, "application/vnd.oci.image.layer.v1.tar+gzip");
    for (layer, annotations, encoding) in [
        (tar, title, Encoding::Raw),
        (gzip, title, Encoding::Raw),
        (gzip, folder, Encoding::Compressed),
        (tar, folder, Encoding::Tar),
        (tar, named_for_models, Encoding::Tar),
        ("application/vnd.cncf.model.weight.v1.tar", title, Encoding::Tar),
    ] {
        let text = manifest(media_type::OCI_EMPTY, &[(layer, annotations)]);
        let model = PackedModel::read(text.as_bytes(), None).unwrap();
        assert_eq!(model.files[0].encoding, encoding, "{layer} {annotations}");
    }
}

#[test]
fn what_is_no_model_is_refused_with_the_reason() {
    let raw = "application/vnd.cncf.model.weight.v1.raw";
    let named = |name: &str| {
        manifest(
            media_type::MODEL_CONFIG,
            &[(raw, &format!(r#"{{"org.cncf.model.filepath":{name:?}}}"#))],
        )
    };
    let index = format!(
        r#"{{"schemaVersion":2,"mediaType":"{}","manifests":[{{"digest":"{DIGEST}","platform":{{"os":"linux","architecture":"arm64"}}}}]}}"#,
        media_type::OCI_INDEX
    );
    let image = manifest(media_type::OCI_IMAGE_CONFIG, &[(media_type::OCI_LAYER_TAR, "{}")]);
    let payload = r#"{"org.cncf.model.filepath":"a","dev.plimsoll.payload.digest":"DIGEST","dev.plimsoll.payload.offset":"4096","dev.plimsoll.payload.size":"5000"}"#;
    let outside = manifest(media_type::MODEL_CONFIG, &[(raw, &payload.replace("DIGEST", DIGEST))]);
    let cases = [
        ("no json".to_owned(), "cannot be read"),
        ("{}".to_owned(), "cannot be read"),
        (
            index.clone(),
            "this is an index of 1 manifests, not a model: sha256:e3b0c4",
        ),
        (index, "(linux/arm64)"),
        (
            r#"{"schemaVersion":2,"manifests":[]}"#.to_owned(),
            "index of 0 manifests",
        ),
        (
            r#"{"schemaVersion":1,"mediaType":"application/vnd.docker.distribution.manifest.v1+json"}"#.to_owned(),
            "not an image manifest",
        ),
        (
            image,
            "not a packed model: config type `application/vnd.oci.image.config.v1+json`",
        ),
        (manifest(media_type::MODEL_CONFIG, &[]), "no layers"),
        (manifest(media_type::MODEL_CONFIG, &[(raw, "{}")]), "names no file"),
        (named("../../etc/cron.d/x"), "steps out of the folder"),
        (named("/etc/passwd"), "it is absolute"),
        (
            manifest(
                media_type::MODEL_CONFIG,
                &[
                    (raw, r#"{"org.cncf.model.filepath":"a"}"#),
                    (raw, r#"{"org.cncf.model.filepath":"A"}"#),
                ],
            ),
            "is the same as",
        ),
        (named("a").replace("sha256:", "sha512:"), "cannot be read"),
        (named("a").replace("8192", "-1"), "cannot be read"),
        (outside, "lie outside of a layer"),
        (
            named("a").replace("\"layers\"", r#""annotations":{"dev.plimsoll.facts":"{"},"layers""#),
            "annotation `dev.plimsoll.facts`",
        ),
    ];
    for (text, expected) in cases {
        let error = error_of(&text);
        assert!(error.contains(expected), "{error} does not say {expected:?}");
    }
    assert!(matches!(
        PackedModel::read(&vec![b' '; MANIFEST_LIMIT + 1], None),
        Err(ReadError::TooLarge(_))
    ));
}

#[test]
fn a_config_that_is_not_the_named_one_is_refused() {
    let text = manifest(
        media_type::MODEL_CONFIG,
        &[("x", r#"{"org.opencontainers.image.title":"a"}"#)],
    );
    let error = PackedModel::read(text.as_bytes(), Some(b"{}")).unwrap_err();
    assert!(matches!(error, ReadError::ConfigDigest { .. }));
}

/// Programs in Go write `null` for a list or a map that was never filled, and read it as an empty one.
#[test]
fn empty_fields_are_read_however_other_writers_put_them() {
    let config = r#"{"descriptor":{"name":"n","authors":null,"licenses":null,"datasetsURL":null,"createdAt":null},
        "modelfs":{"type":"layers","diffIds":null},"config":null}"#;
    let text = format!(
        r#"{{"schemaVersion":2,"mediaType":"","artifactType":null,"subject":null,"annotations":null,
        "config":{{"mediaType":"{}","digest":"{}","size":{},"annotations":null,"platform":null}},
        "layers":[{{"mediaType":"x","digest":"{DIGEST}","size":1,"annotations":{{"org.opencontainers.image.title":"a","b":null}}}}]}}"#,
        media_type::MODEL_CONFIG,
        Digest::of(config.as_bytes()),
        config.len()
    );
    let model = PackedModel::read(text.as_bytes(), Some(config.as_bytes())).unwrap();
    assert_eq!((model.files.len(), model.annotations.len()), (1, 0));
    let mut expected = ModelConfig::default();
    expected.descriptor.name = Some("n".to_owned());
    assert_eq!(model.config, Some(expected));

    let index: crate::Index =
        serde_json::from_str(r#"{"schemaVersion":2,"manifests":null,"annotations":null}"#).unwrap();
    assert_eq!((index.media_type, index.manifests), (None, Vec::new()));
    let no_layers = manifest(media_type::MODEL_CONFIG, &[]).replace("[]", "null");
    assert_eq!(error_of(&no_layers), "the manifest has no layers");
}
