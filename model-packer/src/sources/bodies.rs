//! The bytes of files on their way from a hub: the part that was asked for, and not too slowly.

use std::ops::Range;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use reqwest::{Response, header};
use tokio::time::Instant;

use super::http::{Answer, HubClient, host_of};
use super::range::{self, Body, RangeAnswer};
use super::refusals::connection;
use super::request_number::{RequestNumber, with_number};
use super::retry::RetryPolicy;
use super::{ByteStream, SourceError};

impl HubClient {
    /// Whether a whole file came where a part was asked for.
    pub(crate) fn ignores_ranges(&self) -> bool {
        self.ignores_ranges.load(Ordering::Relaxed)
    }

    /// The body of a range of a file, when the answer is what was asked for.
    pub(crate) fn body(
        &self,
        path: &str,
        answer: Answer,
        asked: &Range<u64>,
        size: u64,
    ) -> Result<ByteStream, SourceError> {
        let headers = answer.response.headers();
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let judged = range::judge(
            asked,
            size,
            RangeAnswer {
                status: answer.response.status().as_u16(),
                content_range: text(header::CONTENT_RANGE),
                content_length: text(header::CONTENT_LENGTH).and_then(|length| length.parse().ok()),
                content_encoding: text(header::CONTENT_ENCODING),
                content_type: text(header::CONTENT_TYPE),
            },
        );
        let skip = match judged {
            Body::Slice => 0,
            Body::Whole => {
                if *asked != (0..size) {
                    self.ignores_ranges.store(true, Ordering::Relaxed);
                }
                asked.start
            }
            Body::Nothing => return Ok(futures::stream::empty().boxed()),
            Body::Broken(problem) => {
                return Err(SourceError::Part {
                    path: path.to_owned(),
                    problem: with_number(problem, RequestNumber::of(&answer.response).as_ref()),
                });
            }
        };
        Ok(drop_start(watch(answer.response, self.policy), skip))
    }
}

/// Fails when fewer bytes than the policy's minimum come over its window. The idle limit is the client's own.
fn watch(response: Response, policy: RetryPolicy) -> ByteStream {
    let host = host_of(response.url());
    let failed_host = host.clone();
    let number = RequestNumber::of(&response);
    let mut window = (Instant::now(), 0u64);
    response
        .bytes_stream()
        .map_err(move |error| connection(&failed_host, number.as_ref(), error))
        .and_then(move |chunk: Bytes| {
            window.1 += chunk.len() as u64;
            let elapsed = window.0.elapsed();
            let slow = elapsed >= policy.rate_window && window.1 < policy.minimum_rate * elapsed.as_secs();
            if elapsed >= policy.rate_window {
                window = (Instant::now(), 0);
            }
            let error = SourceError::TooSlow {
                host: host.clone(),
                minimum: policy.minimum_rate,
                window: policy.rate_window,
            };
            std::future::ready(if slow { Err(error) } else { Ok(chunk) })
        })
        .boxed()
}

fn drop_start(stream: ByteStream, skip: u64) -> ByteStream {
    if skip == 0 {
        return stream;
    }
    let mut left = skip;
    stream
        .try_filter_map(move |chunk| {
            let dropped = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
            left -= dropped as u64;
            std::future::ready(Ok((dropped < chunk.len()).then(|| chunk.slice(dropped..))))
        })
        .boxed()
}
