//! Where the bytes of an upload come from: something that can be opened again at any offset, because a registry may have kept
//! less than was sent.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, Stream, StreamExt as _};
use tokio::io::AsyncSeekExt as _;

/// Bytes from an offset to the end.
pub type SourceStream = BoxStream<'static, io::Result<Bytes>>;

/// Bytes that can be read again from any offset.
///
/// An error of kind [`io::ErrorKind::InvalidData`] means that the bytes are wrong (a hash did not match): the upload is withdrawn.
/// Any other error leaves the session for a later resume. A source that checks a hash should hold its last chunk back until the
/// hash is right, so that a wrong blob is never complete anywhere.
pub trait BlobSource: Send + Sync {
    /// The bytes from this offset to the end.
    fn open(&self, offset: u64) -> BoxFuture<'_, io::Result<SourceStream>>;
}

impl BlobSource for Bytes {
    fn open(&self, offset: u64) -> BoxFuture<'_, io::Result<SourceStream>> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        let rest = self.slice(start..);
        async move { Ok(futures::stream::iter([Ok(rest)]).boxed()) }.boxed()
    }
}

/// A file.
#[derive(Debug, Clone)]
pub struct FileSource(pub PathBuf);

/// Large enough that the blocking reads behind it cost nothing.
const FILE_CHUNK: usize = 256 << 10;

impl BlobSource for FileSource {
    fn open(&self, offset: u64) -> BoxFuture<'_, io::Result<SourceStream>> {
        async move {
            let mut file = tokio::fs::File::open(&self.0).await?;
            file.seek(io::SeekFrom::Start(offset)).await?;
            Ok(tokio_util::io::ReaderStream::with_capacity(file, FILE_CHUNK).boxed())
        }
        .boxed()
    }
}

/// An opened source that several requests take their parts from, one after the other.
pub(crate) struct Reader {
    inner: tokio::sync::Mutex<Inner>,
    pub(crate) progress: Progress,
}

struct Inner {
    stream: SourceStream,
    leftover: Bytes,
    position: u64,
}

/// What the watch over a request may know while the request owns the body.
#[derive(Default)]
pub(crate) struct Progress {
    /// Bytes handed to the connection.
    moved: AtomicU64,
    waits_for_source: AtomicBool,
    failure: Mutex<Option<io::Error>>,
}

impl Progress {
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    pub(crate) fn waits_for_source(&self) -> bool {
        self.waits_for_source.load(Ordering::Relaxed)
    }

    /// The source's own error, which a connection error would hide.
    pub(crate) fn take_failure(&self) -> Option<io::Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Reader {
    pub(crate) async fn open(source: &dyn BlobSource, offset: u64) -> io::Result<Arc<Self>> {
        let inner = Inner {
            stream: source.open(offset).await?,
            leftover: Bytes::new(),
            position: offset,
        };
        Ok(Arc::new(Self {
            inner: tokio::sync::Mutex::new(inner),
            progress: Progress::default(),
        }))
    }

    pub(crate) async fn position(&self) -> u64 {
        self.inner.lock().await.position
    }

    /// Exactly this many bytes as a request body; fewer are an error.
    pub(crate) fn take(self: &Arc<Self>, length: u64) -> impl Stream<Item = io::Result<Bytes>> + Send + use<> {
        futures::stream::unfold((self.clone(), length), |(reader, remaining)| async move {
            if remaining == 0 {
                return None;
            }
            match reader.next(remaining).await {
                Ok(chunk) => {
                    let remaining = remaining - chunk.len() as u64;
                    Some((Ok(chunk), (reader, remaining)))
                }
                Err(error) => {
                    let shown = io::Error::new(error.kind(), error.to_string());
                    *reader.progress.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    Some((Err(shown), (reader, 0)))
                }
            }
        })
    }

    /// Proves that the source ends where it should. A source that checks a hash does so when it is asked for more.
    pub(crate) async fn expect_end(&self) -> io::Result<()> {
        let mut inner = self.inner.lock().await;
        loop {
            if !inner.leftover.is_empty() {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the source has more bytes than announced",
                ));
            }
            match inner.stream.next().await.transpose()? {
                None => return Ok(()),
                Some(chunk) => inner.leftover = chunk,
            }
        }
    }

    async fn next(&self, limit: u64) -> io::Result<Bytes> {
        let mut inner = self.inner.lock().await;
        while inner.leftover.is_empty() {
            self.progress.waits_for_source.store(true, Ordering::Relaxed);
            let next = inner.stream.next().await;
            self.progress.waits_for_source.store(false, Ordering::Relaxed);
            let Some(chunk) = next.transpose()? else {
                let text = format!(
                    "the source ends after {} bytes, before the announced size",
                    inner.position
                );
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            };
            inner.leftover = chunk;
        }
        let length = usize::try_from(limit).unwrap_or(usize::MAX).min(inner.leftover.len());
        let chunk = inner.leftover.split_to(length);
        inner.position += length as u64;
        self.progress.moved.fetch_add(length as u64, Ordering::Relaxed);
        Ok(chunk)
    }
}
