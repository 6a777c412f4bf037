//! What a packed model is: media types, annotations, manifests, layouts.
//!
//! Pure: lists of files and digests in, bytes of manifests out, and back. The format is written down in
//! `docs/artifact-format.md`, so that another reader can be written without this crate.

pub mod annotation;
mod bundle;
mod config;
mod digest;
mod empty;
mod lock;
pub mod media_type;
mod oci;
mod package;
mod path;
mod pieces;
mod read;
mod referrer;
mod tar;
mod twin;
mod validate;

pub use bundle::{BUNDLE_PATH, Bundle, BundleEntry, bundle_bytes, bundle_entries, shared_layer_path};
pub use config::{About, ModelConfig, ModelFs, Technical};
pub use digest::{Digest, DigestError};
pub use lock::{LockError, LockedFile, SOURCE_LOCK_PATH, SourceLock};
pub use media_type::{Encoding, FileKind, LayerType};
pub use oci::{Annotations, Descriptor, Index, Manifest, Platform};
pub use package::{
    BuildError, Built, Document, Layout, MOUNTABLE_LAYER_LIMIT, ModelPackage, PackageFile, build_manifest,
};
pub use path::{FilePath, PathError, PathProblem, check_collisions};
pub use pieces::{FilePieces, PIECE_FLOOR, PIECE_LIMIT, Piece, PieceError, PieceMap, plan_pieces};
pub use read::{MANIFEST_LIMIT, PackedFile, PackedModel, Payload, ReadError};
pub use referrer::{BuiltReferrer, build_referrer};
pub use tar::{TAR_PAYLOAD_OFFSET, tar_bytes, tar_header, tar_size, tar_trailer_length};
pub use twin::{Twin, TwinImage, build_index};
pub use validate::{Violation, validate_config};
