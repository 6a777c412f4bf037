//! From an answer that is no success to a typed failure.

use std::time::Duration;

use http::HeaderMap;
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use serde::Deserialize;

use crate::challenge::Challenge;
use crate::error::ErrorKind;
use crate::transport::host_text;

const BODY_LIMIT: usize = 64 << 10;
const MESSAGE_LIMIT: usize = 400;

/// An answer that is no success, with what is needed to act on it.
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) challenge: Option<Challenge>,
    /// The registry means "log in again", whatever the status says.
    pub(crate) login_expired: bool,
    pub(crate) headers: HeaderMap,
}

impl From<ErrorKind> for Failure {
    fn from(kind: ErrorKind) -> Self {
        Self {
            kind,
            challenge: None,
            login_expired: false,
            headers: HeaderMap::new(),
        }
    }
}

/// Any field may be null.
#[derive(Deserialize)]
struct Errors {
    errors: Option<Vec<OciError>>,
}

#[derive(Deserialize)]
struct OciError {
    code: Option<String>,
    message: Option<String>,
}

/// Reads what the server says and types it. The host that was asked is the one that a login is for; after a redirect another
/// one answers.
pub(crate) async fn failure_of(asked: &str, response: reqwest::Response, had_credentials: bool) -> Failure {
    let host = host_text(response.url());
    let plain = response.url().scheme() == "http";
    let bare = response.version() == http::Version::HTTP_10 && response.headers().is_empty();
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let body = read_prefix(response).await;
    let errors = serde_json::from_slice::<Errors>(&body)
        .ok()
        .and_then(|body| body.errors)
        .unwrap_or_default();
    let code = errors.first().and_then(|error| error.code.clone()).unwrap_or_default();
    let message = message_of(&errors, &body, status);
    let challenges = headers
        .get_all(WWW_AUTHENTICATE)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut kind = kind_of(&host, status, &code, message, &headers, had_credentials);
    match &mut kind {
        ErrorKind::Denied { had_credentials, .. } => *had_credentials |= !host.eq_ignore_ascii_case(asked),
        ErrorKind::Status { .. } if plain && status == 400 && (bare || is_tls_port(&body)) => {
            kind = ErrorKind::TlsPort { host };
        }
        _ => {}
    }
    Failure {
        challenge: Challenge::of(challenges),
        login_expired: status == 401 || matches!(kind, ErrorKind::Unauthorized { .. }),
        kind,
        headers,
    }
}

async fn read_prefix(mut response: reqwest::Response) -> Vec<u8> {
    let mut body = Vec::new();
    let limit = Duration::from_secs(10);
    while let Ok(Ok(Some(chunk))) = tokio::time::timeout(limit, response.chunk()).await {
        body.extend_from_slice(&chunk[..chunk.len().min(BODY_LIMIT - body.len())]);
        if body.len() == BODY_LIMIT {
            break;
        }
    }
    body
}

/// The registry's own words, on one line, without control characters, bounded.
fn message_of(errors: &[OciError], body: &[u8], status: u16) -> String {
    let text = match errors {
        [] => String::from_utf8_lossy(body).into_owned(),
        errors => {
            let said = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
            let one = |error: &OciError| {
                let parts = [said(&error.code), said(&error.message)];
                parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
            };
            errors.iter().map(one).collect::<Vec<_>>().join("; ")
        }
    };
    // A page of HTML is a proxy's, and nobody reads it in a terminal.
    let text = if text.trim_start().starts_with('<') {
        String::new()
    } else {
        text
    };
    let mut line: String = text
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .collect();
    line.truncate(line.floor_char_boundary(MESSAGE_LIMIT));
    if line.is_empty() { reason_of(status) } else { line }
}

fn reason_of(status: u16) -> String {
    let reason = http::StatusCode::from_u16(status)
        .ok()
        .and_then(|status| status.canonical_reason());
    format!("{status} {}", reason.unwrap_or("without a reason"))
}

/// What servers in Go and nginx say to plain http where they speak https. To HEAD the former says nothing, without any header.
fn is_tls_port(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body).to_lowercase();
    text.contains("http request to an https server") || text.contains("http request was sent to https port")
}

/// ECR and others answer 403 with a sentence where the specification wants 401.
fn means_expired(message: &str) -> bool {
    let lower = message.to_lowercase();
    lower.contains("expired") || lower.contains("reauthenticate") || lower.contains("re-authenticate")
}

fn kind_of(
    host: &str,
    status: u16,
    code: &str,
    message: String,
    headers: &HeaderMap,
    had_credentials: bool,
) -> ErrorKind {
    let host = host.to_owned();
    match (status, code) {
        (401, _) => ErrorKind::Unauthorized { host, had_credentials },
        (403, _) if means_expired(&message) => ErrorKind::Unauthorized { host, had_credentials },
        (403, _) => ErrorKind::Denied {
            host,
            message,
            had_credentials,
        },
        (_, "MANIFEST_BLOB_UNKNOWN") => ErrorKind::BlobUnknown { message },
        (_, "BLOB_UPLOAD_UNKNOWN") => ErrorKind::UploadUnknown,
        (_, "DIGEST_INVALID") => ErrorKind::DigestInvalid { message },
        (429, _) | (_, "TOOMANYREQUESTS") => ErrorKind::RateLimited {
            host,
            retry_after: wait_of(headers),
        },
        (404 | 410, _) => ErrorKind::NotFound { host, message },
        (413, _) => ErrorKind::TooLarge { host, message },
        (416, _) => ErrorKind::RangeNotSatisfiable(total_of(headers)),
        (status, _) => ErrorKind::Status {
            host,
            status,
            message,
            retry_after: wait_of(headers),
        },
    }
}

fn total_of(headers: &HeaderMap) -> Option<u64> {
    headers
        .get(http::header::CONTENT_RANGE)?
        .to_str()
        .ok()?
        .rsplit_once('/')?
        .1
        .parse()
        .ok()
}

/// How long to wait: `RateLimit` with `r=0;t=55` first, because it is exact where it exists, then `Retry-After` as seconds or date.
pub(crate) fn wait_of(headers: &HeaderMap) -> Option<Duration> {
    rate_limit_reset(headers).or_else(|| {
        let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        let seconds = text.parse().ok().map(Duration::from_secs);
        seconds.or_else(|| {
            let until = httpdate::parse_http_date(text).ok()?;
            Some(until.duration_since(std::time::SystemTime::now()).unwrap_or_default())
        })
    })
}

fn rate_limit_reset(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("ratelimit")?.to_str().ok()?;
    text.split(',').find_map(|limit| {
        let number = |key: &str| {
            let value = limit
                .split(';')
                .find_map(|part| part.trim().strip_prefix(key)?.strip_prefix('='))?;
            value.trim().parse::<u64>().ok()
        };
        // A second more than said, because clocks differ and an early request costs another round.
        (number("r")? == 0)
            .then(|| number("t"))?
            .map(|seconds| Duration::from_secs(seconds + 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(key, value)| (http::HeaderName::from_static(key), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn waits_are_read_from_every_header_in_use() {
        type Case = (&'static [(&'static str, &'static str)], Option<u64>);
        let cases: [Case; 6] = [
            (&[("retry-after", "7")], Some(7)),
            (&[("ratelimit", "\"api\";r=0;t=55")], Some(56)),
            (&[("ratelimit", "\"api\";r=12;t=55"), ("retry-after", "3")], Some(3)),
            (&[("ratelimit", "\"api\";r=5;t=9, \"resolvers\";r=0;t=12")], Some(13)),
            (&[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")], Some(0)),
            (&[("retry-after", "soon")], None),
        ];
        for (pairs, seconds) in cases {
            assert_eq!(wait_of(&headers(pairs)), seconds.map(Duration::from_secs), "{pairs:?}");
        }
    }

    #[test]
    fn errors_are_read_with_whatever_of_them_is_there() {
        for (body, expected) in [
            (r#"{"errors":[{"code":"DENIED","message":"no"}]}"#, "DENIED: no"),
            (
                r#"{"errors":[{"code":"DENIED","message":null,"detail":null}]}"#,
                "DENIED",
            ),
            (
                r#"{"errors":[{"message":"no"},{"code":"","message":"never"}]}"#,
                "no; never",
            ),
            (r#"{"errors":[{}]}"#, "403 Forbidden"),
        ] {
            let errors: Errors = serde_json::from_str(body).unwrap();
            assert_eq!(message_of(&errors.errors.unwrap(), body.as_bytes(), 403), expected);
        }
        let none: Errors = serde_json::from_str(r#"{"errors":null}"#).unwrap();
        assert!(none.errors.is_none());
    }

    #[test]
    fn a_page_of_html_and_control_characters_do_not_reach_the_terminal() {
        assert_eq!(message_of(&[], b"<html><h1>Bad</h1>", 502), "502 Bad Gateway");
        assert_eq!(message_of(&[], b"a\x1b[31m\nb", 500), "a[31m b");
        assert_eq!(message_of(&[], &vec![b'x'; 5000], 500).len(), MESSAGE_LIMIT);
    }
}
