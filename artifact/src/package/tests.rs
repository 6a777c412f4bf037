use model_facts::{ModelFacts, Quantization, WeightFormat};

use super::*;
use crate::lock::LockedFile;
use crate::read::PackedModel;
use crate::tar::tar_bytes;
use crate::validate::validate_config;

fn file(path: &str, kind: FileKind) -> PackageFile {
    let path: FilePath = path.parse().unwrap();
    let content = format!("content of {path}");
    PackageFile {
        digest: Digest::of(content.as_bytes()),
        size: content.len() as u64,
        tar_digest: Some(Digest::of(&tar_bytes(&path, content.as_bytes()))),
        path,
        kind,
    }
}

fn facts() -> ModelFacts {
    ModelFacts {
        checkpoint: Some("Qwen/Qwen3-8B".to_owned()),
        architectures: vec!["Qwen3ForCausalLM".to_owned()],
        family: Some("qwen3".to_owned()),
        format: WeightFormat::Safetensors,
        dtype: Some("bf16".to_owned()),
        quantization: Quantization {
            method: Some("none".to_owned()),
            ..Quantization::default()
        },
        parameters: Some(8_190_735_360),
        ..ModelFacts::default()
    }
}

fn lock(files: &[PackageFile]) -> SourceLock {
    let locked = |file: &PackageFile| LockedFile {
        path: file.path.clone(),
        size: file.size,
        sha256: Some(file.digest.clone()),
        git_sha1: None,
        unverified: false,
    };
    SourceLock {
        endpoint: Some("https://huggingface.co".to_owned()),
        id: Some("Qwen/Qwen3-8B".to_owned()),
        revision: Some("main".to_owned()),
        commit: Some("b968826d9c46dd6066d109eabc6255188de91218".to_owned()),
        files: files.iter().map(locked).collect(),
        ..SourceLock::new("hf")
    }
}

fn package(layout: Layout) -> ModelPackage {
    let files = vec![
        file("model-00002-of-00002.safetensors", FileKind::Weight),
        file("config.json", FileKind::WeightConfig),
        file("model-00001-of-00002.safetensors", FileKind::Weight),
        file("README.md", FileKind::Doc),
        file("code/modeling.py", FileKind::Code),
    ];
    let about = About {
        name: Some("Qwen3-8B".to_owned()),
        licenses: vec!["apache-2.0".to_owned()],
        ..About::default()
    };
    ModelPackage {
        layout,
        lock: Some(lock(&files)),
        files,
        facts: Some(facts()),
        about,
        ..ModelPackage::default()
    }
}

/// As people read it, one field per line.
fn pretty(bytes: &[u8]) -> String {
    serde_json::to_string_pretty(&serde_json::from_slice::<serde_json::Value>(bytes).unwrap()).unwrap()
}

#[test]
fn a_raw_package_is_a_modelpack_manifest_whose_layers_are_the_files() {
    let built = build_manifest(&package(Layout::Raw)).unwrap();
    insta::assert_snapshot!("raw_manifest", pretty(&built.manifest_bytes));
    insta::assert_snapshot!("raw_config", pretty(&built.config_bytes));
    assert_eq!(validate_config(&built.config_bytes), []);
    assert_eq!(built.twin, None);
}

#[test]
fn a_tar_package_has_two_manifests_over_the_same_layers() {
    let built = build_manifest(&package(Layout::Tar)).unwrap();
    let twin = built.twin.as_ref().unwrap();
    insta::assert_snapshot!("tar_manifest", pretty(&built.manifest_bytes));
    insta::assert_snapshot!("twin_index", pretty(&twin.index.bytes));
    insta::assert_snapshot!("twin_image", pretty(&twin.images[0].manifest.bytes));
    insta::assert_snapshot!("twin_config", pretty(&twin.images[0].config.bytes));
    let layers = |bytes: &[u8]| -> Vec<Digest> {
        let manifest: Manifest = serde_json::from_slice(bytes).unwrap();
        manifest.layers.into_iter().map(|layer| layer.digest).collect()
    };
    for image in &twin.images {
        assert_eq!(layers(&image.manifest.bytes), layers(&built.manifest_bytes));
    }
}

#[test]
fn the_order_of_the_files_does_not_change_a_byte() {
    for layout in [Layout::Raw, Layout::Tar] {
        let first = build_manifest(&package(layout)).unwrap();
        let mut other = package(layout);
        other.files.reverse();
        other.lock.as_mut().unwrap().files.reverse();
        assert_eq!(build_manifest(&other).unwrap(), first);
    }
}

#[test]
fn what_was_built_is_read_back() {
    for layout in [Layout::Raw, Layout::Tar] {
        let package = package(layout);
        let built = build_manifest(&package).unwrap();
        let model = PackedModel::read(&built.manifest_bytes, Some(&built.config_bytes)).unwrap();
        assert_eq!(model.digest, built.manifest_digest);
        assert_eq!(model.facts, package.facts);
        assert_eq!(model.source.as_deref(), Some("hf://Qwen/Qwen3-8B"));
        assert_eq!(model.revision, package.lock.unwrap().commit);
        assert_eq!(model.twin.as_ref(), built.twin.as_ref().map(|twin| &twin.index.digest));
        assert!(!model.weights_absent);
        for file in &package.files {
            let packed = model.file(file.path.as_str()).unwrap();
            assert_eq!(packed.kind, file.kind);
            match layout {
                Layout::Raw => assert_eq!(
                    (&packed.digest, packed.size, &packed.payload),
                    (&file.digest, file.size, &None)
                ),
                Layout::Tar => {
                    let payload = packed.payload.as_ref().unwrap();
                    assert_eq!(
                        (payload.offset, payload.size, &payload.digest),
                        (4096, file.size, &file.digest)
                    );
                }
            }
        }
        let lock = model.file(SOURCE_LOCK_PATH).unwrap();
        assert_eq!(lock.digest, built.documents[0].digest);
        // The twin image is read as the same files too.
        if let Some(twin) = built.twin {
            let image = PackedModel::read(&twin.images[1].manifest.bytes, Some(&twin.images[1].config.bytes)).unwrap();
            let names = |model: &PackedModel| model.files.iter().map(|file| file.path.clone()).collect::<Vec<_>>();
            assert_eq!(names(&image), names(&model));
        }
    }
}

#[test]
fn facts_without_weights_say_so_on_purpose() {
    let mut facts_only = package(Layout::Raw);
    facts_only.files.retain(|file| file.kind != FileKind::Weight);
    assert_eq!(build_manifest(&facts_only), Err(BuildError::WeightsMissing));
    facts_only.weights_absent = true;
    let built = build_manifest(&facts_only).unwrap();
    assert!(PackedModel::read(&built.manifest_bytes, None).unwrap().weights_absent);
    let lying = ModelPackage {
        weights_absent: true,
        ..package(Layout::Raw)
    };
    assert!(matches!(build_manifest(&lying), Err(BuildError::WeightsPresent(_))));
}

#[test]
fn a_manifest_that_no_registry_takes_is_refused() {
    let many = |count: usize| {
        let files =
            (0..count).map(|number| file(&format!("voices/{}/{number}.json", "v".repeat(250)), FileKind::Weight));
        build_manifest(&ModelPackage {
            files: files.collect(),
            ..ModelPackage::default()
        })
    };
    assert!(many(4000).is_ok());
    let error = many(6000).err().unwrap();
    assert!(matches!(error, BuildError::ManifestTooLarge(bytes) if bytes > MANIFEST_LIMIT));
    assert!(error.hint().unwrap().contains("exclude"));
}

#[test]
fn what_cannot_be_packed_is_refused() {
    assert_eq!(build_manifest(&ModelPackage::default()), Err(BuildError::Empty));

    let mut twice = package(Layout::Raw);
    twice.files.push(file("Config.JSON", FileKind::WeightConfig));
    assert!(matches!(build_manifest(&twice), Err(BuildError::Path(_))));

    let mut own_lock = package(Layout::Raw);
    own_lock.files.push(file("source.lock", FileKind::Doc));
    assert!(matches!(build_manifest(&own_lock), Err(BuildError::Path(_))));

    let mut without_digest = package(Layout::Tar);
    without_digest.files[0].tar_digest = None;
    assert!(matches!(
        build_manifest(&without_digest),
        Err(BuildError::TarDigestMissing(_))
    ));

    let mut unknown = package(Layout::Raw);
    unknown.files[0].kind = FileKind::Unknown;
    unknown.files.push(file("x", FileKind::Weight));
    assert!(matches!(build_manifest(&unknown), Err(BuildError::KindUnknown(_))));

    let mut many = package(Layout::Tar);
    many.files
        .extend((0..100).map(|at| file(&format!("shard-{at}"), FileKind::Weight)));
    assert_eq!(build_manifest(&many), Err(BuildError::TooManyLayers(106)));
}

#[test]
fn the_constant_name_of_the_lock_is_a_safe_name() {
    assert!(SOURCE_LOCK_PATH.parse::<FilePath>().is_ok());
}

#[test]
fn a_registry_that_refuses_artifact_types_gets_a_manifest_without_one() {
    let built = build_manifest(&ModelPackage {
        omit_artifact_type: true,
        ..package(Layout::Raw)
    })
    .unwrap();
    let model = PackedModel::read(&built.manifest_bytes, None).unwrap();
    assert_eq!((model.artifact_type, model.files.len()), (None, 6));
}

#[test]
fn a_referrer_names_its_subject() {
    let built = build_manifest(&package(Layout::Raw)).unwrap();
    let subject = Descriptor::of(crate::media_type::OCI_MANIFEST, &built.manifest_bytes);
    let blob = Document::new(crate::media_type::PIECE_MAP, b"pieces".to_vec());
    let referrer = crate::build_referrer(subject, crate::media_type::PIECE_MAP, &blob, Annotations::new(), false);
    insta::assert_snapshot!("referrer", pretty(&referrer.manifest.bytes));
}
