//! What a pod's volume asks for.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use artifact::Digest;
use crds::node_weights::ARTIFACT_ATTRIBUTE as ARTIFACT;
use registry::{Reference, ReferenceError};

use super::protocol::csi::NodePublishVolumeRequest;
use super::protocol::csi::volume_capability::AccessType;

const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";
const NAMESPACE: &str = "csi.storage.k8s.io/pod.namespace";
const POD: &str = "csi.storage.k8s.io/pod.name";
const PULL_SECRET: &str = ".dockerconfigjson";

/// A request to mount, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeAttributes {
    /// The artifact, by digest.
    pub reference: Reference,
    /// The digest in it.
    pub digest: Digest,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name, for logs.
    pub pod: String,
    /// Where to mount.
    pub target: PathBuf,
}

/// A request that cannot be served, whoever asks.
#[derive(Debug, thiserror::Error)]
pub enum AttributeError {
    /// A field is empty.
    #[error("the request has no {0}")]
    Missing(&'static str),
    /// No artifact is named.
    #[error("the volume has no attribute `artifact`; set volumeAttributes.artifact to REGISTRY/REPOSITORY@sha256:...")]
    NoArtifact,
    /// The reference is malformed.
    #[error("the volume's attribute `artifact` cannot be read")]
    Reference(#[source] ReferenceError),
    /// A tag can move under a running pod.
    #[error("the volume's artifact `{0}` names no digest; use REGISTRY/REPOSITORY@sha256:...")]
    NoDigest(String),
    /// Not an inline volume.
    #[error("volumes of this driver are inline in pods; persistent volumes are not served")]
    NotEphemeral,
    /// Not told whose pod it is.
    #[error("the kubelet does not say whose pod it is; the CSIDriver object must have podInfoOnMount: true")]
    NoPod,
    /// A block device is asked for.
    #[error("weights are files, not block devices")]
    Block,
    /// A path outside of the kubelet's folder.
    #[error("the target `{0}` is not below the kubelet's folder `{1}`")]
    Target(String, String),
}

impl VolumeAttributes {
    /// Checks a request of the kubelet.
    pub fn read(request: &NodePublishVolumeRequest, kubelet_root: &Path) -> Result<Self, AttributeError> {
        if request.volume_id.is_empty() {
            return Err(AttributeError::Missing("volume id"));
        }
        let target = check_target(&request.target_path, kubelet_root)?;
        let capability = request
            .volume_capability
            .as_ref()
            .ok_or(AttributeError::Missing("volume capability"))?;
        if matches!(capability.access_type, Some(AccessType::Block(_))) {
            return Err(AttributeError::Block);
        }
        let context = &request.volume_context;
        if context.get(EPHEMERAL).is_none_or(|value| value != "true") {
            return Err(AttributeError::NotEphemeral);
        }
        let namespace = context
            .get(NAMESPACE)
            .filter(|name| !name.is_empty())
            .ok_or(AttributeError::NoPod)?;
        let (reference, digest) = artifact_of(context)?;
        let pod = context.get(POD).cloned().unwrap_or_default();
        Ok(Self {
            reference,
            digest,
            namespace: namespace.clone(),
            pod,
            target,
        })
    }
}

fn artifact_of(context: &HashMap<String, String>) -> Result<(Reference, Digest), AttributeError> {
    let text = context.get(ARTIFACT).ok_or(AttributeError::NoArtifact)?;
    let reference: Reference = text.parse().map_err(AttributeError::Reference)?;
    let digest = reference.digest().and_then(|digest| digest.parse().ok());
    digest
        .map(|digest| (reference, digest))
        .ok_or_else(|| AttributeError::NoDigest(text.clone()))
}

/// The kubelet's paths only: whoever reaches the socket must not have anything mounted elsewhere.
pub(super) fn check_target(target: &str, kubelet_root: &Path) -> Result<PathBuf, AttributeError> {
    if target.is_empty() {
        return Err(AttributeError::Missing("target path"));
    }
    let path = PathBuf::from(target);
    let plain = path
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if plain && path.is_absolute() && path.starts_with(kubelet_root.join("pods")) {
        return Ok(path);
    }
    Err(AttributeError::Target(
        target.to_owned(),
        kubelet_root.display().to_string(),
    ))
}

/// The pod's own pull secret, when it has one.
pub(super) fn pull_secret(secrets: &HashMap<String, String>) -> Option<&str> {
    secrets
        .get(PULL_SECRET)
        .map(String::as_str)
        .filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csi::protocol::csi::VolumeCapability;
    use crate::csi::protocol::csi::volume_capability::{BlockVolume, MountVolume};

    fn request() -> NodePublishVolumeRequest {
        let artifact = format!("registry.local:5000/models/m@{}", Digest::of(b"m"));
        let context = [
            (ARTIFACT, artifact.as_str()),
            (EPHEMERAL, "true"),
            (NAMESPACE, "team-a"),
            (POD, "engine-0"),
        ];
        NodePublishVolumeRequest {
            volume_id: "csi-1".to_owned(),
            target_path: "/var/lib/kubelet/pods/1/volumes/kubernetes.io~csi/m/mount".to_owned(),
            volume_capability: Some(VolumeCapability {
                access_type: Some(AccessType::Mount(MountVolume::default())),
            }),
            volume_context: context.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            ..NodePublishVolumeRequest::default()
        }
    }

    fn read(change: impl FnOnce(&mut NodePublishVolumeRequest)) -> Result<VolumeAttributes, String> {
        let mut request = request();
        change(&mut request);
        VolumeAttributes::read(&request, Path::new("/var/lib/kubelet")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_request_of_the_kubelet_is_understood() {
        let attributes = read(|_| {}).unwrap();
        assert_eq!(attributes.namespace, "team-a");
        assert_eq!(attributes.digest, Digest::of(b"m"));
    }

    #[test]
    fn every_bad_request_says_what_to_mend() {
        let target =
            |text: &'static str| move |request: &mut NodePublishVolumeRequest| request.target_path = text.into();
        let errors = [
            read(|request| request.volume_id.clear()),
            read(target("")),
            read(target("/etc")),
            read(target("/var/lib/kubelet/pods/../../../etc")),
            read(target("var/lib/kubelet/pods/1")),
            read(|request| request.volume_capability = None),
            read(|request| {
                let block = Some(AccessType::Block(BlockVolume {}));
                request.volume_capability = Some(VolumeCapability { access_type: block });
            }),
            read(|request| drop(request.volume_context.remove(EPHEMERAL))),
            read(|request| drop(request.volume_context.remove(NAMESPACE))),
            read(|request| drop(request.volume_context.remove(ARTIFACT))),
            read(|request| {
                let by_tag = "registry.local/m:v1".to_owned();
                request.volume_context.insert(ARTIFACT.into(), by_tag);
            }),
            read(|request| drop(request.volume_context.insert(ARTIFACT.into(), "m".into()))),
        ];
        let texts: Vec<_> = errors.into_iter().map(Result::unwrap_err).collect();
        insta::assert_snapshot!(texts.join("\n"));
    }
}
