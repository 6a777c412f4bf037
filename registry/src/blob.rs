//! Blobs: whether they are there, and their bytes, whole or in part.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, RANGE};
use reqwest::{Response, Url};
use tokio::time::Instant;

use crate::auth::Scope;
use crate::client::{Call, Client, Limits};
use crate::error::{Error, ErrorKind};
use crate::manifest::{header_text, sha256_of};
use crate::range::{Served, judge};
use crate::reference::{Reference, is_digest};
use crate::transport::{host_text, unreachable};

/// The bytes of a blob, or of a part of it, as they come. They are proven by nobody yet: hash them.
pub struct BlobStream {
    served: Served,
    object: String,
    host: String,
    headers: HeaderMap,
    stream: BoxStream<'static, Result<Bytes, Error>>,
}

impl Client {
    /// Size of a blob when the repository has it, `None` when it does not.
    pub async fn blob_exists(&self, reference: &Reference, digest: &str) -> Result<Option<u64>, Error> {
        let fail = |kind| {
            Error::new(
                "look for blob",
                format!("{digest} in {}", repository_text(reference)),
                kind,
            )
        };
        let scope = Scope::pull(reference.repository());
        let url = self.blob_url(reference, digest).map_err(fail)?;
        match self.inner.call(&Call::head(reference.api_host(), url, &scope)).await {
            Ok(response) => Ok(Some(size_of(&response).map_err(fail)?)),
            Err(ErrorKind::NotFound { .. }) => Ok(None),
            Err(other) => Err(fail(other)),
        }
    }

    /// A blob's bytes, or those of a range of it. The range that really comes is in the answer: see [`BlobStream::served`].
    pub async fn open_blob(
        &self,
        reference: &Reference,
        digest: &str,
        range: Option<Range<u64>>,
    ) -> Result<BlobStream, Error> {
        let first = self.open_part(reference, digest, range.clone()).await?;
        let (client, reference, digest) = (self.clone(), reference.clone(), digest.to_owned());
        let further = move |rest| {
            let (client, reference, digest) = (client.clone(), reference.clone(), digest.clone());
            async move { client.open_part(&reference, &digest, Some(rest)).await }
        };
        Ok(first.followed_by(range, further))
    }

    /// The same by one answer, which may end before the range does.
    async fn open_part(
        &self,
        reference: &Reference,
        digest: &str,
        range: Option<Range<u64>>,
    ) -> Result<BlobStream, Error> {
        let object = format!("{digest} in {}", repository_text(reference));
        let fail = |kind| Error::new("read blob", &object, kind);
        let scope = Scope::pull(reference.repository());
        let url = self.blob_url(reference, digest).map_err(fail)?;
        let call = Call {
            headers: range_headers(range.as_ref()).map_err(fail)?,
            ..Call::get(reference.api_host(), url, &scope)
        };
        let open = || async {
            let response = self.inner.call_once(&call).await.map_err(|failure| failure.kind)?;
            BlobStream::of(response, range.as_ref(), &object, &self.inner.transport.limits)
        };
        self.inner.retrying(open).await.map_err(fail)
    }

    /// A small blob, whole, with its digest proven.
    pub async fn get_blob(&self, reference: &Reference, digest: &str, limit: usize) -> Result<Vec<u8>, Error> {
        let fail = |kind| Error::new("read blob", format!("{digest} in {}", repository_text(reference)), kind);
        let mut last = None;
        for _ in 0..2 {
            let mut stream = self.open_blob(reference, digest, None).await?;
            let mut bytes = Vec::new();
            while let Some(chunk) = stream.next().await.transpose()? {
                if bytes.len() + chunk.len() > limit {
                    return Err(fail(ErrorKind::Input(format!("it has more than {limit} bytes"))));
                }
                bytes.extend_from_slice(&chunk);
            }
            let found = sha256_of(&bytes);
            if found == digest {
                return Ok(bytes);
            }
            last = Some(found);
        }
        let found = last.unwrap_or_default();
        Err(fail(ErrorKind::DigestMismatch {
            expected: digest.to_owned(),
            found,
        }))
    }

    pub(crate) fn blob_url(&self, reference: &Reference, digest: &str) -> Result<Url, ErrorKind> {
        check_digest(digest)?;
        self.inner.transport.url(
            reference.api_host(),
            &format!("{}/blobs/{digest}", reference.repository()),
        )
    }
}

impl BlobStream {
    pub(crate) fn of(
        response: Response,
        asked: Option<&Range<u64>>,
        object: &str,
        limits: &Limits,
    ) -> Result<Self, ErrorKind> {
        let served = judge(response.status().as_u16(), response.headers(), asked)?;
        let body = Body {
            host: host_text(response.url()),
            url: response.url().clone(),
            object: object.to_owned(),
            limits: limits.clone(),
            expected: served
                .range
                .end
                .checked_sub(served.range.start)
                .filter(|_| served.range.end != u64::MAX),
            received: 0,
            window: (Instant::now(), 0),
        };
        let (host, headers) = (body.host.clone(), response.headers().clone());
        Ok(Self {
            served,
            object: object.to_owned(),
            host,
            headers,
            stream: body.stream(response.bytes_stream().boxed()),
        })
    }

    /// Where the answer ends before what was asked for, the rest is asked for when it has been read.
    pub(crate) fn followed_by<Next>(
        mut self,
        asked: Option<Range<u64>>,
        further: impl Fn(Range<u64>) -> Next + Send + 'static,
    ) -> Self
    where
        Next: Future<Output = Result<Self, Error>> + Send + 'static,
    {
        let end = asked.map_or(0, |asked| {
            self.served.total.map_or(asked.end, |total| asked.end.min(total))
        });
        if !self.served.partial || self.served.range.end >= end {
            return self;
        }
        let rest = Rest {
            stream: self.stream,
            at: self.served.range.end,
            end,
            object: self.object.clone(),
            further,
        };
        self.served.range.end = end;
        self.stream = futures::stream::try_unfold(rest, Rest::next).fuse().boxed();
        self
    }

    /// Which bytes of the blob come. May be the whole blob although a range was asked for: the server ignored it.
    pub fn served(&self) -> &Range<u64> {
        &self.served.range
    }

    /// Size of the whole blob, when the server tells.
    pub fn total(&self) -> Option<u64> {
        self.served.total
    }

    /// True when the server honoured the range, false when it sends everything.
    pub fn is_partial(&self) -> bool {
        self.served.partial
    }

    /// The host that the bytes come from, after redirects.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Headers of the answer.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}

impl std::fmt::Debug for BlobStream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("BlobStream")
            .field("served", &self.served)
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl Stream for BlobStream {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.stream.poll_next_unpin(context)
    }
}

/// A range that comes by several answers.
struct Rest<Further> {
    stream: BoxStream<'static, Result<Bytes, Error>>,
    /// Where the current answer ends.
    at: u64,
    /// Where the last one has to.
    end: u64,
    object: String,
    further: Further,
}

impl<Further, Next> Rest<Further>
where
    Further: Fn(Range<u64>) -> Next + Send + 'static,
    Next: Future<Output = Result<BlobStream, Error>> + Send + 'static,
{
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, Error> {
        loop {
            if let Some(chunk) = self.stream.try_next().await? {
                return Ok(Some((chunk, self)));
            }
            if self.at >= self.end {
                return Ok(None);
            }
            let answer = (self.further)(self.at..self.end).await?;
            if answer.served.range.start != self.at {
                let kind = ErrorKind::WrongRange(format!(
                    "asked for the bytes from {}, got those from {}",
                    self.at, answer.served.range.start
                ));
                return Err(Error::new("read blob", self.object, kind));
            }
            self.at = answer.served.range.end;
            self.end = answer.served.total.map_or(self.end, |total| self.end.min(total));
            self.stream = answer.stream;
        }
    }
}

/// A body on its way, with what it must keep to.
struct Body {
    host: String,
    url: Url,
    object: String,
    limits: Limits,
    expected: Option<u64>,
    received: u64,
    window: (Instant, u64),
}

type Raw = BoxStream<'static, reqwest::Result<Bytes>>;

impl Body {
    fn stream(self, raw: Raw) -> BoxStream<'static, Result<Bytes, Error>> {
        futures::stream::unfold(Some((self, raw)), |state| async {
            let (mut body, mut raw) = state?;
            match body.next(&mut raw).await {
                Ok(None) => None,
                Ok(Some(chunk)) => Some((Ok(chunk), Some((body, raw)))),
                Err(kind) => Some((Err(Error::new("read blob", &body.object, kind)), None)),
            }
        })
        // Whoever asks again behind the end gets the end again.
        .fuse()
        .boxed()
    }

    async fn next(&mut self, raw: &mut Raw) -> Result<Option<Bytes>, ErrorKind> {
        let idle = self.limits.idle;
        let next = tokio::time::timeout(idle, raw.next()).await;
        match next.map_err(|_| ErrorKind::Stalled {
            host: self.host.clone(),
            idle,
        })? {
            Some(Ok(chunk)) => self.accept(chunk).map(Some),
            None => self.end(),
            Some(Err(error)) => Err(self.broken(&error)),
        }
    }

    fn accept(&mut self, chunk: Bytes) -> Result<Bytes, ErrorKind> {
        self.received += chunk.len() as u64;
        match self.expected {
            Some(expected) if self.received > expected => Err(ErrorKind::Overlong(expected)),
            _ => self.check_rate().map(|()| chunk),
        }
    }

    fn check_rate(&mut self) -> Result<(), ErrorKind> {
        let (started, before) = self.window;
        let elapsed = started.elapsed();
        if elapsed < self.limits.rate_window {
            return Ok(());
        }
        let rate = (self.received - before) / elapsed.max(Duration::from_secs(1)).as_secs();
        self.window = (Instant::now(), self.received);
        if rate >= self.limits.min_rate {
            return Ok(());
        }
        Err(ErrorKind::TooSlow {
            host: self.host.clone(),
            rate,
            floor: self.limits.min_rate,
        })
    }

    fn end(&self) -> Result<Option<Bytes>, ErrorKind> {
        match self.expected {
            Some(expected) if self.received < expected => Err(ErrorKind::Truncated {
                expected,
                received: self.received,
            }),
            _ => Ok(None),
        }
    }

    fn broken(&self, error: &reqwest::Error) -> ErrorKind {
        match self.expected {
            Some(expected) if self.received < expected && !error.is_timeout() => ErrorKind::Truncated {
                expected,
                received: self.received,
            },
            _ => unreachable(&self.url, error),
        }
    }
}

pub(crate) fn range_headers(range: Option<&Range<u64>>) -> Result<HeaderMap, ErrorKind> {
    let Some(range) = range else {
        return Ok(HeaderMap::new());
    };
    if range.is_empty() {
        return Err(ErrorKind::Input(format!(
            "the range {}..{} is empty",
            range.start, range.end
        )));
    }
    let value = HeaderValue::from_str(&format!("bytes={}-{}", range.start, range.end - 1));
    value
        .map(|value| HeaderMap::from_iter([(RANGE, value)]))
        .map_err(|error| ErrorKind::Input(error.to_string()))
}

fn size_of(response: &Response) -> Result<u64, ErrorKind> {
    let length = header_text(response.headers(), CONTENT_LENGTH).and_then(|length| length.parse().ok());
    length.ok_or_else(|| ErrorKind::Protocol {
        host: host_text(response.url()),
        problem: "it does not tell the size of a blob".to_owned(),
    })
}

pub(crate) fn check_digest(digest: &str) -> Result<(), ErrorKind> {
    if is_digest(digest) {
        Ok(())
    } else {
        Err(ErrorKind::Input(format!("{digest:?} is no sha256 digest")))
    }
}

pub(crate) fn repository_text(reference: &Reference) -> String {
    format!("{}/{}", reference.registry(), reference.repository())
}
