//! What hubs say in place of an answer: statuses, their texts, and the waits that they ask for.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::HeaderMap;

use super::SourceError;
use super::request_number::RequestNumber;
use super::retry::asked_wait;

/// Error texts of hubs are short; a page of a proxy is not worth showing whole.
const MESSAGE_LIMIT: usize = 300;

/// The address is left out: a presigned one is a credential.
pub(crate) fn connection(host: &str, number: Option<&RequestNumber>, error: reqwest::Error) -> SourceError {
    SourceError::Connection {
        host: host.to_owned(),
        number: number.map(ToString::to_string),
        source: Box::new(error.without_url()),
    }
}

pub(crate) fn wait_of(response: &Response) -> Option<Duration> {
    let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let refused = matches!(response.status().as_u16(), 429 | 503);
    asked_wait(
        text("ratelimit"),
        text("retry-after"),
        refused,
        std::time::SystemTime::now(),
    )
}

/// The error of a status that is no success, with what the body says.
pub(crate) async fn status_error(what: &str, response: Response) -> SourceError {
    let (status, wait, headers) = (
        response.status().as_u16(),
        wait_of(&response),
        response.headers().clone(),
    );
    let number = RequestNumber::of(&response);
    let body = response.bytes().await.unwrap_or_default();
    let message = message_of(&headers, &body);
    SourceError::Status {
        what: what.to_owned(),
        status,
        message: match &number {
            Some(number) => Some(message.map_or_else(
                || format!("request {number}"),
                |text| format!("{text}, request {number}"),
            )),
            None => message,
        },
        wait,
    }
}

pub(crate) fn message_of(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    let header = headers
        .get("x-error-message")
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let from_json = || {
        let value: serde_json::Value = serde_json::from_slice(body).ok()?;
        ["error", "Message", "message"]
            .iter()
            .find_map(|key| value[key].as_str().map(str::to_owned))
    };
    let from_text = || {
        let text = String::from_utf8_lossy(body);
        let text = text.trim();
        (!text.is_empty() && !text.starts_with('<')).then(|| text.to_owned())
    };
    let message = header.or_else(from_json).or_else(from_text)?;
    Some(
        message
            .chars()
            .filter(|letter| !letter.is_control())
            .take(MESSAGE_LIMIT)
            .collect(),
    )
}
