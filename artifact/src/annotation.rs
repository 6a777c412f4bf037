//! Annotation keys.

/// Path of the file in the model: `ModelPack`'s key.
pub const FILE_PATH: &str = "org.cncf.model.filepath";
/// The same before the specification was renamed; read only.
pub const OLD_FILE_PATH: &str = "org.cnai.model.filepath";
/// Path of the file for readers that know no models (oras, CRI-O); written beside [`FILE_PATH`].
pub const TITLE: &str = "org.opencontainers.image.title";

/// Set to `true` by oras on the layers that it makes of folders and unpacks again; read only.
pub(crate) const ORAS_UNPACK: &str = "io.deis.oras.content.unpack";

/// Where the model came from, for readers of OCI annotations.
pub const OCI_SOURCE: &str = "org.opencontainers.image.source";
/// Commit it came from, for readers of OCI annotations.
pub const OCI_REVISION: &str = "org.opencontainers.image.revision";
/// Licence expression, for readers of OCI annotations.
pub const OCI_LICENSES: &str = "org.opencontainers.image.licenses";
/// Time of packing; written only when the caller names one.
pub const OCI_CREATED: &str = "org.opencontainers.image.created";

/// The model's facts as JSON.
pub const FACTS: &str = "dev.plimsoll.facts";
/// `hf://owner/name`, `ms://owner/name`, or absent for a local folder.
pub const SOURCE: &str = "dev.plimsoll.source";
/// The commit that the source was resolved to.
pub const REVISION: &str = "dev.plimsoll.revision";
/// [`WEIGHTS_ABSENT`] when the artifact holds facts and metadata only.
pub const WEIGHTS: &str = "dev.plimsoll.weights";
/// Value of [`WEIGHTS`] for an artifact without weights.
pub const WEIGHTS_ABSENT: &str = "absent";
/// Digest of the piece map blob, so that trust flows from the manifest to the pieces.
pub const PIECES: &str = "dev.plimsoll.pieces";
/// Digest of the other manifest over the same layers.
pub const TWIN: &str = "dev.plimsoll.twin";

/// First byte of the file inside its tar layer.
pub const PAYLOAD_OFFSET: &str = "dev.plimsoll.payload.offset";
/// Size of the file inside its tar layer.
pub const PAYLOAD_SIZE: &str = "dev.plimsoll.payload.size";
/// sha256 of the file inside its tar layer: the hash that the hub publishes.
pub const PAYLOAD_DIGEST: &str = "dev.plimsoll.payload.digest";
/// The files of a layer that holds several, as JSON: what the three keys above say of one file, for each of them.
pub const BUNDLE: &str = "dev.plimsoll.bundle";
