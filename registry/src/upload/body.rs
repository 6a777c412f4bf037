//! One request with a large body, watched while it runs: the limit is on silence, not on the whole.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Body, Response, Url};
use tokio::time::Instant;

use super::source::Reader;
use crate::auth::Granted;
use crate::client::Inner;
use crate::error::ErrorKind;
use crate::failure::{Failure, failure_of};
use crate::transport::host_text;

/// A request on a session.
pub(crate) struct SessionRequest<'a> {
    pub(crate) method: Method,
    /// Host that the login is for.
    pub(crate) host: &'a str,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) reader: Option<&'a Arc<Reader>>,
    pub(crate) length: u64,
    /// For the answer, once the whole body is sent.
    pub(crate) patience: Duration,
}

impl Inner {
    /// Sends it once, with this login. Redirects are not followed: sessions name their next address in `Location`.
    pub(crate) async fn send_body(&self, request: SessionRequest<'_>, granted: &Granted) -> Result<Response, Failure> {
        let SessionRequest {
            method,
            host,
            url,
            headers,
            reader,
            length,
            patience,
        } = request;
        let mut builder = self
            .transport
            .request(method, url.clone())
            .headers(headers)
            .header(CONTENT_LENGTH, length);
        if length > 0 {
            builder = builder.header(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        }
        let home = self.is_home(host, &url);
        if let Some(credential) = granted.header_for(home) {
            builder = builder.header(AUTHORIZATION, credential);
        }
        let body = reader.map(|reader| Body::wrap_stream(reader.take(length)));
        let builder = builder.body(body.unwrap_or_else(|| Body::from(Vec::new())));
        let response = self
            .watched(builder, reader, length, patience, &url)
            .await
            .map_err(|kind| {
                // A broken source shows as a broken connection; the cause is what helps.
                let failure = reader.and_then(|reader| reader.progress.take_failure());
                Failure::from(failure.map_or(kind, ErrorKind::Source))
            })?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(failure_of(host, response, granted.login_for(home)).await)
    }

    async fn watched(
        &self,
        builder: reqwest::RequestBuilder,
        reader: Option<&Arc<Reader>>,
        length: u64,
        patience: Duration,
        url: &Url,
    ) -> Result<Response, ErrorKind> {
        let idle = self.transport.limits.idle;
        let moved = || reader.map_or(0, |reader| reader.progress.moved());
        let end = moved() + length;
        let mut last = (Instant::now(), moved());
        let answer = self.transport.answer_within(builder, Duration::MAX);
        tokio::pin!(answer);
        loop {
            tokio::select! {
                done = &mut answer => return done,
                () = tokio::time::sleep((idle / 8).max(Duration::from_millis(10))) => {}
            }
            let now = moved();
            if now != last.1 || reader.is_some_and(|reader| reader.progress.waits_for_source()) {
                last = (Instant::now(), now);
            }
            let limit = if now >= end { patience } else { idle };
            if last.0.elapsed() > limit {
                return Err(ErrorKind::Stalled {
                    host: host_text(url),
                    idle: limit,
                });
            }
        }
    }
}
