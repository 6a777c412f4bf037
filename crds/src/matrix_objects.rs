//! The matrix inside a cluster: immutable revisions, and channels that point to one.
#![expect(
    unreachable_pub,
    reason = "the KubeSchema derive repeats each struct inside a function"
)]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One frozen state of the compatibility matrix, under the digest of its canonical serialisation.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[kube(
    group = "plimsoll.dev",
    version = "v1alpha1",
    kind = "MatrixRevision",
    shortname = "pmr",
    category = "plimsoll",
    derive = "PartialEq",
    doc = "One frozen state of the compatibility matrix. Made by `plimsoll matrix render`; a change of the matrix is a new revision, never an edit of this one.",
    printcolumn(name = "Digest", type_ = "string", json_path = ".spec.digest"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.spec == oldSelf.spec").message("a matrix revision is immutable: render a new one and point the channel to it")
)]
#[serde(rename_all = "camelCase")]
pub struct MatrixRevisionSpec {
    /// sha256 of the documents, before any encoding: `sha256:<64 hex digits>`.
    #[schemars(length(min = 71, max = 71), regex(pattern = "^sha256:[0-9a-f]{64}$"))]
    pub digest: String,
    /// How `documents` is written.
    #[serde(default)]
    pub encoding: DocumentEncoding,
    /// All documents of the matrix in their canonical serialisation.
    #[schemars(length(min = 1, max = 1_400_000))]
    pub documents: String,
}

/// How the documents of a revision are written.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DocumentEncoding {
    /// The text itself.
    #[default]
    Plain,
    /// The text compressed with zstd, in base64: for a matrix too large for one object of the API server.
    ZstdBase64,
}

/// A name such as `stable` that points to a revision of the matrix.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[kube(
    group = "plimsoll.dev",
    version = "v1alpha1",
    kind = "MatrixChannel",
    shortname = "pmc",
    category = "plimsoll",
    derive = "PartialEq",
    doc = "A name such as `stable` that points to a MatrixRevision. Deployments follow a channel; moving the pointer back is the rollback.",
    printcolumn(name = "Revision", type_ = "string", json_path = ".spec.revision"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MatrixChannelSpec {
    /// Name of the `MatrixRevision` that this channel stands for.
    #[schemars(length(min = 1, max = 253))]
    pub revision: String,
}
