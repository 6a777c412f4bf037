//! Media types: the names that are written, and what is understood when reading.

use serde::{Deserialize, Serialize};

/// An OCI image manifest, the envelope of every artifact here.
pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// An OCI image index.
pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Docker's manifest list, read as an index.
pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// Docker's image manifest.
pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// The config of an OCI image.
pub const OCI_IMAGE_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// A layer of an OCI image, an uncompressed tar.
pub const OCI_LAYER_TAR: &str = "application/vnd.oci.image.layer.v1.tar";
/// How types of image layers begin, packed or not.
pub(crate) const IMAGE_LAYER_PREFIX: &str = "application/vnd.oci.image.layer.v1.";
/// The config of an artifact that needs none.
pub const OCI_EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// `artifactType` of a `ModelPack` manifest.
pub const MODEL_MANIFEST: &str = "application/vnd.cncf.model.manifest.v1+json";
/// Config of a `ModelPack` manifest.
pub const MODEL_CONFIG: &str = "application/vnd.cncf.model.config.v1+json";

/// Artifact type and blob type of a piece map.
pub const PIECE_MAP: &str = "application/vnd.plimsoll.pieces.v1+json";

/// Prefixes that name the kind of a layer, the written one first. The second was used before the specification
/// was renamed; registries hold both.
const LAYER_PREFIXES: [&str; 2] = ["application/vnd.cncf.model.", "application/vnd.cnai.model."];

/// Config types that say "this is a model": the written one, and the one from before the renaming.
pub(crate) fn is_model_config(media_type: &str) -> bool {
    LAYER_PREFIXES
        .iter()
        .any(|prefix| media_type.strip_prefix(prefix) == Some("config.v1+json"))
}

/// Manifest types that list other manifests.
pub(crate) fn is_index(media_type: &str) -> bool {
    media_type == OCI_INDEX || media_type == DOCKER_LIST
}

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    /// Tensors.
    Weight,
    /// What a server reads besides tensors: config.json, tokenizer, index.
    WeightConfig,
    /// Read by people and scanners: README, licence, source lock.
    Doc,
    /// Python of the repository.
    Code,
    /// Data; read, never written.
    Dataset,
    /// A type that this reader does not know. The file is there, its purpose is not known.
    Unknown,
}

impl FileKind {
    fn word(self) -> Option<&'static str> {
        match self {
            Self::Weight => Some("weight"),
            Self::WeightConfig => Some("weight.config"),
            Self::Doc => Some("doc"),
            Self::Code => Some("code"),
            Self::Dataset => Some("dataset"),
            Self::Unknown => None,
        }
    }

    fn from_word(word: &str) -> Self {
        [Self::Weight, Self::WeightConfig, Self::Doc, Self::Code, Self::Dataset]
            .into_iter()
            .find(|kind| kind.word() == Some(word))
            .unwrap_or(Self::Unknown)
    }
}

/// How a file lies in its layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// The layer is the file.
    Raw,
    /// The layer is a tar.
    Tar,
    /// The layer is a compressed tar, or compressed in a way this reader does not know.
    Compressed,
}

impl Encoding {
    /// By the end of the media type; an unknown end without a word for tar or compression is raw, because raw is the
    /// only encoding for which bytes on the wire and bytes in the folder are the same.
    fn of(media_type: &str) -> Self {
        let packed = ["+gzip", ".gzip", "+zstd", ".zstd", "+lz4", "+bzip2", "+xz"];
        if packed.iter().any(|end| media_type.ends_with(end)) {
            Self::Compressed
        } else if [".tar", "+tar"].iter().any(|end| media_type.ends_with(end)) {
            Self::Tar
        } else {
            Self::Raw
        }
    }
}

/// The type of a layer taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerType {
    /// What the file is for.
    pub kind: FileKind,
    /// How it lies in the layer.
    pub encoding: Encoding,
}

impl LayerType {
    /// Understands old and new names; what is not known is [`FileKind::Unknown`].
    pub fn parse(media_type: &str) -> Self {
        let encoding = Encoding::of(media_type);
        let rest = LAYER_PREFIXES.iter().find_map(|prefix| media_type.strip_prefix(prefix));
        let word = rest
            .and_then(|rest| rest.split_once(".v1.").or_else(|| rest.split_once(".v1+")))
            .map(|(word, _)| word);
        Self {
            kind: word.map_or(FileKind::Unknown, FileKind::from_word),
            encoding,
        }
    }

    /// The media type to write, in the present spelling; `None` for what is never written.
    pub fn media_type(self) -> Option<String> {
        let word = self.kind.word()?;
        let encoding = match self.encoding {
            Encoding::Raw => "raw",
            Encoding::Tar => "tar",
            Encoding::Compressed => return None,
        };
        Some(format!("{}{word}.v1.{encoding}", LAYER_PREFIXES[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_types_are_read_back() {
        for kind in [
            FileKind::Weight,
            FileKind::WeightConfig,
            FileKind::Doc,
            FileKind::Code,
            FileKind::Dataset,
        ] {
            for encoding in [Encoding::Raw, Encoding::Tar] {
                let layer = LayerType { kind, encoding };
                assert_eq!(LayerType::parse(&layer.media_type().unwrap()), layer);
            }
        }
    }

    #[test]
    fn types_found_in_the_wild_are_understood_as_far_as_they_can_be() {
        let cases = [
            (
                "application/vnd.cnai.model.weight.v1.raw",
                FileKind::Weight,
                Encoding::Raw,
            ),
            (
                "application/vnd.cnai.model.weight.config.v1.tar",
                FileKind::WeightConfig,
                Encoding::Tar,
            ),
            (
                "application/vnd.cncf.model.weight.v1.tar+gzip",
                FileKind::Weight,
                Encoding::Compressed,
            ),
            (
                "application/vnd.cncf.model.doc.v1.something-new",
                FileKind::Doc,
                Encoding::Raw,
            ),
            (
                "application/vnd.cncf.model.adapter.v1.raw",
                FileKind::Unknown,
                Encoding::Raw,
            ),
            ("application/vnd.docker.ai.gguf.v3", FileKind::Unknown, Encoding::Raw),
            (
                "application/vnd.docker.ai.vllm.config.tar",
                FileKind::Unknown,
                Encoding::Tar,
            ),
            (
                "application/vnd.oci.image.layer.v1.tar+zstd",
                FileKind::Unknown,
                Encoding::Compressed,
            ),
            ("", FileKind::Unknown, Encoding::Raw),
        ];
        for (text, kind, encoding) in cases {
            assert_eq!(LayerType::parse(text), LayerType { kind, encoding }, "{text}");
        }
    }
}
