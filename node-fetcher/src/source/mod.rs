//! Where bytes come from. A source delivers; it proves nothing: every byte passes the store's own sha256.

mod ladder;
mod mirror;
pub(crate) mod registry;

pub use ladder::{Ladder, Move, RegistryRate, Standings, decide};
pub use mirror::{Dragonfly, Mirror};
pub(crate) use registry::reason_of;
pub use registry::{Access, AccessPool, RegistrySettings, RegistrySource, registry_only};

use std::fmt;
use std::time::Duration;

use ::registry::Reference;
use artifact::Digest;
use bytes::Bytes;
use crds::node_weights::{FetchReason, SourceKind};
use futures::future::BoxFuture;
use futures::stream::BoxStream;

use crate::extent::Extent;

/// Which bytes are asked for.
#[derive(Debug, Clone)]
pub struct BlobRequest<'a> {
    /// The artifact; its registry and repository are where the blob lives.
    pub reference: &'a Reference,
    /// The blob.
    pub digest: &'a Digest,
    /// The bytes of it.
    pub extent: Extent,
    /// Its whole size, from the manifest.
    pub size: u64,
    /// How to reach the registry with this pull's credentials.
    pub access: &'a Access,
}

/// Bytes on their way.
pub struct Body {
    /// Where in the blob the first byte belongs. Zero although a later byte was asked for means that the source does
    /// not serve ranges.
    pub start: u64,
    /// Whether the answer is the asked range, so that more ranges may be asked for.
    pub ranged: bool,
    /// The bytes, in order.
    pub stream: BoxStream<'static, Result<Bytes, SourceError>>,
}

impl fmt::Debug for Body {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Body")
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}

/// A way to get bytes.
pub trait Source: fmt::Debug + Send + Sync {
    /// Which kind it is, for statuses and metrics.
    fn kind(&self) -> SourceKind;

    /// Opens a stream of the asked bytes.
    fn open<'a>(&'a self, request: &'a BlobRequest<'a>) -> BoxFuture<'a, Result<Body, SourceError>>;
}

/// What a source did wrong.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub struct SourceError {
    /// The closed word for it.
    pub reason: FetchReason,
    /// When the source wants to be asked again.
    pub retry_after: Option<Duration>,
    /// In words.
    pub detail: String,
    /// What lies below.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl SourceError {
    /// An error without a cause below.
    pub fn new(reason: FetchReason, detail: impl Into<String>) -> Self {
        Self {
            reason,
            retry_after: None,
            detail: detail.into(),
            source: None,
        }
    }

    /// An error with its cause.
    pub fn caused(
        reason: FetchReason,
        detail: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self {
            source: Some(source.into()),
            ..Self::new(reason, detail)
        }
    }

    /// With the time after which the source wants to be asked again.
    #[must_use]
    pub fn after(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }
}
