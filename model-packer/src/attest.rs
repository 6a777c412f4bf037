//! What is known about a model's origin, in the words of others: in-toto provenance and a CycloneDX bill of materials.
//! Both are made from the source lock and the manifest alone, so the same artifact has the same attestations.

use artifact::{Built, Digest, Document, LockedFile, ModelPackage, SourceLock};
use serde_json::{Value, json};

use crate::push::Attachment;

/// Media type and artifact type of an in-toto statement.
pub const IN_TOTO: &str = "application/vnd.in-toto+json";
/// Media type and artifact type of a CycloneDX document.
pub const CYCLONE_DX: &str = "application/vnd.cyclonedx+json";

/// Both attestations.
pub fn attestations(package: &ModelPackage, built: &Built, name: &str) -> Vec<Attachment> {
    let Some(lock) = &package.lock else { return Vec::new() };
    let attach = |media_type: &str, value: &Value| {
        let mut attachment = Attachment::new(media_type, Document::new(media_type, value.to_string().into_bytes()));
        if media_type == IN_TOTO {
            attachment
                .annotations
                .insert("in-toto.io/predicate-type".into(), PROVENANCE.into());
        }
        attachment
    };
    vec![
        attach(IN_TOTO, &provenance(lock, &built.manifest_digest, name)),
        attach(CYCLONE_DX, &bill_of_materials(package, lock, &built.manifest_digest)),
    ]
}

const PROVENANCE: &str = "https://slsa.dev/provenance/v1";

fn provenance(lock: &SourceLock, digest: &Digest, name: &str) -> Value {
    let files = lock.files.iter().map(|file| {
        let mut dependency = json!({"name": file.path, "digest": digests_of(file)});
        if file.unverified {
            dependency["annotations"] = json!({"unverified": true});
        }
        dependency
    });
    let mut dependencies: Vec<Value> = Vec::new();
    if let Some(source) = lock.source() {
        let commit = lock
            .commit
            .as_ref()
            .map(|commit| json!({"gitCommit": commit}))
            .unwrap_or_default();
        dependencies.push(json!({"uri": source, "digest": commit, "downloadLocation": lock.endpoint}));
    }
    dependencies.extend(files);
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest.hex()}}],
        "predicateType": PROVENANCE,
        "predicate": {
            "buildDefinition": {
                "buildType": "https://plimsoll.dev/model-packer/v1",
                "externalParameters": {"source": lock.source(), "revision": lock.revision, "options": lock.options},
                "resolvedDependencies": dependencies,
            },
            "runDetails": {"builder": {"id": "https://plimsoll.dev/model-packer"}},
        },
    })
}

fn digests_of(file: &LockedFile) -> Value {
    let mut digests = serde_json::Map::new();
    if let Some(digest) = &file.sha256 {
        digests.insert("sha256".into(), digest.hex().into());
    }
    if let Some(name) = &file.git_sha1 {
        digests.insert("gitBlob".into(), name.as_str().into());
    }
    digests.into()
}

fn bill_of_materials(package: &ModelPackage, lock: &SourceLock, digest: &Digest) -> Value {
    let facts = package.facts.clone().unwrap_or_default();
    let mut parameters = serde_json::Map::new();
    if let Some(architecture) = facts.architectures.first() {
        parameters.insert("modelArchitecture".into(), architecture.as_str().into());
    }
    if let Some(family) = &facts.family {
        parameters.insert("architectureFamily".into(), family.as_str().into());
    }
    if let Some(task) = &facts.task {
        parameters.insert("task".into(), task.as_str().into());
    }
    let name = package.about.name.clone().unwrap_or_else(|| "model".into());
    let mut component = json!({
        "type": "machine-learning-model", "bom-ref": digest, "name": name,
        "hashes": [{"alg": "SHA-256", "content": digest.hex()}],
        "licenses": package.about.licenses.iter().map(|licence| licence_of(licence)).collect::<Vec<_>>(),
        "modelCard": {"modelParameters": parameters},
    });
    if let Some(commit) = &lock.commit {
        component["version"] = commit.as_str().into();
    }
    if let Some(owner) = &package.about.vendor {
        component["publisher"] = owner.as_str().into();
    }
    if let ("hf", Some(id)) = (lock.hub.as_str(), &lock.id) {
        let commit = lock
            .commit
            .as_ref()
            .map(|commit| format!("@{commit}"))
            .unwrap_or_default();
        component["purl"] = format!("pkg:huggingface/{id}{commit}").into();
    }
    let files = lock.files.iter().filter_map(|file| {
        let digest = file.sha256.as_ref()?;
        Some(
            json!({"type": "file", "bom-ref": format!("file:{}", file.path), "name": file.path,
            "hashes": [{"alg": "SHA-256", "content": digest.hex()}]}),
        )
    });
    json!({
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {"component": component}, "components": files.collect::<Vec<_>>(),
    })
}

/// SPDX identifiers are ids; everything else is a name.
fn licence_of(licence: &str) -> Value {
    match licence.strip_prefix("LicenseRef-") {
        Some(name) => json!({"license": {"name": name}}),
        None => json!({"license": {"id": licence}}),
    }
}
