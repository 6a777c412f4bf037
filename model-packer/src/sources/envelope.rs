//! ModelScope's envelope. A failure may come in it with any HTTP status, also with 200 and in place of a file.

use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE};
use serde::Deserialize;

use super::SourceError;
use super::http::{Answer, host_of};
use super::refusals::connection;
use super::request_number::RequestNumber;
use crate::text::has_extension;

/// An envelope with a failure is a few hundred bytes; a file is anything.
const LIMIT: u64 = 64 << 10;

#[derive(Deserialize)]
pub(crate) struct Envelope<T> {
    #[serde(rename = "Code", default)]
    pub(crate) code: Option<u64>,
    #[serde(rename = "Success", default)]
    success: Option<bool>,
    #[serde(rename = "Message", default)]
    pub(crate) message: Option<String>,
    #[serde(rename = "RequestId", default)]
    pub(crate) request_id: Option<String>,
    #[serde(rename = "Data", default = "nothing")]
    pub(crate) data: Option<T>,
}

fn nothing<T>() -> Option<T> {
    None
}

impl<T> Envelope<T> {
    /// Success needs the status besides these two.
    pub(crate) fn succeeded(&self) -> bool {
        matches!(self.code, None | Some(0 | 200)) && self.success != Some(false)
    }
}

/// Whether an answer to the request for a file may be an envelope: JSON of the hub itself that cannot be the file.
pub(crate) fn may_be_envelope(answer: &Answer, path: &str, size: Option<u64>) -> bool {
    let headers = answer.response.headers();
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let is_json = text(CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/json"));
    let length = text(CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    let is_no_file = match length {
        Some(length) => length <= LIMIT && Some(length) != size,
        // Without a length only the name speaks.
        None => !has_extension(path, "json"),
    };
    answer.from_hub
        && answer.response.status().is_success()
        && is_json
        && !headers.contains_key(CONTENT_RANGE)
        && is_no_file
}

/// The body, as far as an envelope may reach.
pub(crate) async fn start_of(answer: Answer) -> Result<Vec<u8>, SourceError> {
    let mut response = answer.response;
    let (host, number) = (host_of(response.url()), RequestNumber::of(&response));
    let mut start = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| connection(&host, number.as_ref(), error))?
    {
        start.extend_from_slice(&chunk);
        if start.len() as u64 > LIMIT {
            break;
        }
    }
    Ok(start)
}
