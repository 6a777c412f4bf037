//! One file by several requests at once: each brings a part, which is kept in memory until those before it have passed.

use std::ops::Range;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};

use super::reader::FileReader;
use super::{ByteStream, SourceError};
use crate::buffers::{CHUNK, PART, PARTS};
use crate::in_order::in_order;

/// Where a source ignores ranges, each part would begin with all that is before it.
struct InParts {
    reader: FileReader,
    at: u64,
    end: u64,
    stream: ByteStream,
    by_one: bool,
}

impl FileReader {
    /// Exactly the bytes of this range, as [`Self::stream`], by so many requests at once where that is worth it.
    pub fn stream_in_parts(&self, range: Range<u64>, at_once: usize) -> ByteStream {
        if at_once < 2 || range.end.saturating_sub(range.start) <= 2 * PART as u64 {
            return self.stream(range);
        }
        let progress = InParts {
            reader: self.clone(),
            at: range.start,
            end: range.end,
            stream: self.parts(range, at_once).map_ok(chunks_of).try_flatten().boxed(),
            by_one: false,
        };
        futures::stream::try_unfold(progress, |mut progress| async move {
            let chunk = progress.next().await?;
            Ok(chunk.map(|chunk| (chunk, progress)))
        })
        .boxed()
    }

    fn parts(&self, range: Range<u64>, at_once: usize) -> BoxStream<'static, Result<Bytes, SourceError>> {
        let reader = self.clone();
        let parts = range.clone().step_by(PART).map(move |start| {
            let (reader, end) = (reader.clone(), range.end.min(start + PART as u64));
            async move { reader.read_part(start..end).await }
        });
        in_order(futures::stream::iter(parts), at_once).boxed()
    }

    async fn read_part(&self, range: Range<u64>) -> Result<Bytes, SourceError> {
        let (mut stream, mut buffer, mut length) = (self.stream(range), PARTS.take(), 0);
        while let Some(chunk) = stream.try_next().await? {
            buffer.space()[length..length + chunk.len()].copy_from_slice(&chunk);
            length += chunk.len();
        }
        Ok(buffer.filled(length))
    }
}

impl InParts {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        if !self.by_one && self.reader.source().ignores_ranges() {
            tracing::info!(
                path = self.reader.file().path,
                "ranges are ignored: one request for the rest of the file"
            );
            self.by_one = true;
            self.stream = self.reader.stream(self.at..self.end);
        }
        let next = self.stream.try_next().await?;
        self.at += next.as_ref().map_or(0, |chunk| chunk.len() as u64);
        Ok(next)
    }
}

fn chunks_of(mut part: Bytes) -> BoxStream<'static, Result<Bytes, SourceError>> {
    let chunks = std::iter::from_fn(move || (!part.is_empty()).then(|| part.split_to(CHUNK.min(part.len()))));
    futures::stream::iter(chunks.map(Ok)).boxed()
}
