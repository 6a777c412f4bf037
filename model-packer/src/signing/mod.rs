//! Signatures that cosign reads and writes: a payload that names the digest, signed with a P-256 key, under the tag that cosign
//! has always used and as a referrer.

mod keys;
mod secret_box;

use artifact::{Descriptor, Digest, Document, media_type};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use registry::{Client, PushOptions, Reference};
use serde_json::{Value, json};

pub use keys::{KeyError, SigningKey, VerifyingKey};

use crate::error::PackError;

const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
/// Artifact type of a signature that is a referrer.
pub const SIGNATURE_ARTIFACT: &str = "application/vnd.dev.cosign.artifact.sig.v1+json";
/// A payload is a few hundred bytes long.
const PAYLOAD_LIMIT: usize = 1 << 20;

/// Signs the manifest of this digest, unless a signature of this key is there: a signature is different each time it is made.
pub async fn sign(
    client: &Client,
    target: &Reference,
    subject: &Descriptor,
    key: &SigningKey,
    omit_artifact_type: bool,
) -> Result<(), PackError> {
    if is_signed(client, target, &subject.digest, &key.verifying_key()).await? {
        return Ok(());
    }
    let payload = payload_of(target, &subject.digest);
    let signature = STANDARD.encode(key.sign(&payload)?);
    let layer = Document::new(PAYLOAD, payload);
    let config = Document::new(media_type::OCI_IMAGE_CONFIG, image_config(&layer.digest));
    for document in [&layer, &config] {
        let (digest, size) = (document.digest.as_str(), document.bytes.len() as u64);
        let bytes = bytes::Bytes::copy_from_slice(&document.bytes);
        client
            .push_blob(target, digest, size, &bytes, &PushOptions::default())
            .await?;
    }
    let mut manifest = json!({
        "schemaVersion": 2, "mediaType": media_type::OCI_MANIFEST, "config": config.descriptor(),
        "layers": [with_signature(&layer, &signature)],
    });
    let tagged = with_others(client, target, &subject.digest, &manifest).await?;
    client
        .put_manifest(
            &signature_tag(target, &subject.digest)?,
            media_type::OCI_MANIFEST,
            tagged.to_string().as_bytes(),
        )
        .await?;
    if omit_artifact_type {
        manifest["config"]["mediaType"] = SIGNATURE_ARTIFACT.into();
    } else {
        manifest["artifactType"] = SIGNATURE_ARTIFACT.into();
    }
    manifest["subject"] = serde_json::to_value(subject).unwrap_or_default();
    client.put_referrer(target, manifest.to_string().as_bytes()).await?;
    Ok(())
}

/// Whether a signature of this key over this digest is there, in either place.
pub async fn is_signed(
    client: &Client,
    target: &Reference,
    digest: &Digest,
    key: &VerifyingKey,
) -> Result<bool, PackError> {
    let mut failure = None;
    let mut manifests = vec![signature_tag(target, digest)?];
    for referrer in client
        .referrers(target, digest.as_str(), Some(SIGNATURE_ARTIFACT))
        .await?
    {
        manifests.push(target.with_digest(&referrer.digest)?);
    }
    for reference in manifests {
        let manifest = match client.get_manifest(&reference).await {
            Ok(manifest) => manifest,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error.into()),
        };
        let manifest: Value = serde_json::from_slice(&manifest.bytes).unwrap_or_default();
        for layer in manifest["layers"].as_array().into_iter().flatten() {
            match layer_proves(client, target, digest, key, layer).await {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                // One good signature is enough, whatever became of others.
                Err(error) => failure = Some(error),
            }
        }
    }
    failure.map_or(Ok(false), Err)
}

async fn layer_proves(
    client: &Client,
    target: &Reference,
    digest: &Digest,
    key: &VerifyingKey,
    layer: &Value,
) -> Result<bool, PackError> {
    let signature = layer["annotations"][SIGNATURE]
        .as_str()
        .and_then(|text| STANDARD.decode(text).ok());
    let (Some(signature), Some(blob)) = (signature, layer["digest"].as_str()) else {
        return Ok(false);
    };
    let payload = client.get_blob(target, blob, PAYLOAD_LIMIT).await?;
    let named: Value = serde_json::from_slice(&payload).unwrap_or_default();
    let same = named["critical"]["image"]["docker-manifest-digest"].as_str() == Some(digest.as_str());
    Ok(same && key.verifies(&payload, &signature))
}

/// The fields and their order are cosign's.
fn payload_of(target: &Reference, digest: &Digest) -> Vec<u8> {
    let name = json!(format!("{}/{}", target.registry(), target.repository()));
    format!(
        r#"{{"critical":{{"identity":{{"docker-reference":{name}}},"image":{{"docker-manifest-digest":"{digest}"}},"type":"cosign container image signature"}},"optional":null}}"#
    )
    .into_bytes()
}

fn image_config(layer: &Digest) -> Vec<u8> {
    let config = json!({
        "architecture": "", "created": "0001-01-01T00:00:00Z", "history": [{"created": "0001-01-01T00:00:00Z"}], "os": "",
        "rootfs": {"type": "layers", "diff_ids": [layer]}, "config": {},
    });
    config.to_string().into_bytes()
}

fn with_signature(layer: &Document, signature: &str) -> Value {
    let mut descriptor = layer.descriptor();
    descriptor
        .annotations
        .insert(SIGNATURE.to_owned(), signature.to_owned());
    serde_json::to_value(descriptor).unwrap_or_default()
}

fn signature_tag(target: &Reference, digest: &Digest) -> Result<Reference, PackError> {
    Ok(target.with_tag(&format!("sha256-{}.sig", digest.hex()))?)
}

/// Signatures of other keys under the same tag stay.
async fn with_others(client: &Client, target: &Reference, digest: &Digest, own: &Value) -> Result<Value, PackError> {
    let before = match client.get_manifest(&signature_tag(target, digest)?).await {
        Ok(manifest) => serde_json::from_slice::<Value>(&manifest.bytes).unwrap_or_default(),
        Err(error) if error.is_not_found() => Value::Null,
        Err(error) => return Err(error.into()),
    };
    let mut joined = own.clone();
    let others = before["layers"].as_array().cloned().unwrap_or_default();
    if let Some(layers) = joined["layers"].as_array_mut() {
        layers.extend(others);
    }
    Ok(joined)
}
