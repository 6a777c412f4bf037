//! A file read to its end: a stream that breaks is taken up again at the byte where it broke.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};

use super::{ByteStream, HubHash, ListedFile, ModelSource, Snapshot, SourceError};
use crate::hashing::{GitHasher, Sha256Hasher};

/// How often a small file is fetched anew when its content is not what the hub lists.
const WRONG_CONTENT_ATTEMPTS: usize = 3;

/// Reads one file of a snapshot.
#[derive(Clone)]
pub struct FileReader {
    source: Arc<dyn ModelSource>,
    snapshot: Arc<Snapshot>,
    file: ListedFile,
}

struct Progress {
    reader: FileReader,
    at: u64,
    end: u64,
    stream: Option<ByteStream>,
    failures: u32,
    /// Times that the stream was too slow, and where it was the last time.
    slow: (u32, u64),
}

impl FileReader {
    /// Nothing is asked yet.
    pub fn new(source: Arc<dyn ModelSource>, snapshot: Arc<Snapshot>, file: ListedFile) -> Self {
        Self { source, snapshot, file }
    }

    /// The file.
    pub fn file(&self) -> &ListedFile {
        &self.file
    }

    pub(super) fn source(&self) -> &dyn ModelSource {
        &*self.source
    }

    /// Exactly the bytes of this range, or an error; the count of failures starts anew with each byte that comes.
    pub fn stream(&self, range: Range<u64>) -> ByteStream {
        let progress = Progress {
            reader: self.clone(),
            at: range.start,
            end: range.end,
            stream: None,
            failures: 0,
            slow: (0, range.start),
        };
        futures::stream::try_unfold(progress, |mut progress| async move {
            let chunk = progress.next().await?;
            Ok(chunk.map(|chunk| (chunk, progress)))
        })
        .boxed()
    }

    /// A range in memory.
    pub async fn read(&self, range: Range<u64>) -> Result<Vec<u8>, SourceError> {
        self.stream(range)
            .try_fold(Vec::new(), |mut whole, chunk| {
                whole.extend_from_slice(&chunk);
                std::future::ready(Ok(whole))
            })
            .await
    }
}

impl Progress {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        while self.at < self.end {
            match self.advance().await {
                Ok(chunk) => {
                    self.at += chunk.len() as u64;
                    self.failures = 0;
                    return Ok(Some(chunk));
                }
                Err(error) => self.recover(error).await?,
            }
        }
        Ok(None)
    }

    async fn advance(&mut self) -> Result<Bytes, SourceError> {
        let Self {
            reader,
            at,
            end,
            stream,
            ..
        } = self;
        if stream.is_none() {
            *stream = Some(reader.source.open(&reader.snapshot, &reader.file, *at..*end).await?);
        }
        let broken = || SourceError::Part {
            path: reader.file.path.clone(),
            problem: format!("the stream ended at byte {at}"),
        };
        loop {
            let next = match stream {
                Some(stream) => stream.next().await,
                None => None,
            };
            let chunk = next.ok_or_else(broken)??;
            let wanted = usize::try_from(*end - *at).unwrap_or(usize::MAX).min(chunk.len());
            if wanted > 0 {
                return Ok(chunk.slice(..wanted));
            }
        }
    }

    /// A trickle brings bytes, and would be taken up again for ever if they counted as progress.
    fn count_slowness(&mut self, error: &SourceError) {
        let SourceError::TooSlow { minimum, window, .. } = error else {
            return;
        };
        let (times, last) = self.slow;
        let recovered = self.at - last > 2 * minimum * window.as_secs().max(1);
        self.slow = (if recovered { 1 } else { times + 1 }, self.at);
        self.failures = self.failures.max(self.slow.0);
    }

    async fn recover(&mut self, error: SourceError) -> Result<(), SourceError> {
        let policy = self.reader.source.retry_policy();
        self.stream = None;
        self.failures += 1;
        self.count_slowness(&error);
        if !error.is_transient() || self.failures >= policy.attempts {
            return Err(error);
        }
        let pause = error
            .wait()
            .unwrap_or_else(|| policy.pause(self.failures))
            .min(policy.longest_wait);
        tracing::info!(%error, path = self.reader.file.path, at = self.at, "taking the stream up again");
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

/// A small file, whole and proven by what the hub lists.
pub async fn read_small(reader: &FileReader) -> Result<Vec<u8>, SourceError> {
    let mut last = None;
    for _ in 0..WRONG_CONTENT_ATTEMPTS {
        let content = reader.read(0..reader.file.size).await?;
        match check_content(&reader.file, &content) {
            Ok(()) => return Ok(content),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| SourceError::Part {
        path: reader.file.path.clone(),
        problem: "it was not read".into(),
    }))
}

fn check_content(file: &ListedFile, content: &[u8]) -> Result<(), SourceError> {
    let (expected, found) = match &file.hash {
        HubHash::Unknown => return Ok(()),
        HubHash::Sha256(digest) => (digest.to_string(), Sha256Hasher::of(content).to_string()),
        HubHash::GitSha1(oid) => (
            format!("git object {oid}"),
            format!("git object {}", GitHasher::of(content)),
        ),
    };
    if expected == found {
        Ok(())
    } else {
        Err(SourceError::Mismatch {
            path: file.path.clone(),
            expected,
            found,
        })
    }
}
