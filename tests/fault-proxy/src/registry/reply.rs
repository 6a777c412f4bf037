//! Answers in the forms of the specification.

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};
use serde_json::json;

use crate::server::{Body, full};

pub(crate) fn reply(status: u16, body: impl Into<Bytes>) -> Response<Body> {
    let mut answer = Response::new(full(body));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer
}

pub(crate) fn refuse(status: u16, code: &str, message: &str) -> Response<Body> {
    let body = json!({"errors": [{"code": code, "message": message}]}).to_string();
    with(reply(status, body), "content-type", "application/json")
}

pub(crate) fn with(mut answer: Response<Body>, name: &'static str, value: &str) -> Response<Body> {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(HeaderName::from_static(name), value);
    }
    answer
}

/// A body or, for HEAD, its length alone.
pub(crate) fn content(head_only: bool, bytes: Bytes) -> Response<Body> {
    let length = bytes.len().to_string();
    let answer = reply(200, if head_only { Bytes::new() } else { bytes });
    with(answer, "content-length", &length)
}

/// Values of a query, decoded.
pub(crate) fn query_values(query: &str, key: &str) -> Vec<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .filter(|(name, _)| *name == key)
        .map(|(_, value)| decode(value))
        .collect()
}

pub(crate) fn query_value(query: &str, key: &str) -> Option<String> {
    query_values(query, key).into_iter().next()
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits: String = rest.by_ref().take(2).map(char::from).collect();
                u8::from_str_radix(&digits, 16).unwrap_or(b'?')
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
