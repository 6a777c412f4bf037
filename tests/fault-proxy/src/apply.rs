//! A fault on an answer's body.

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::header::{CONTENT_RANGE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;

use crate::fault::Fault;
use crate::server::{Body, BoxError, Broken, full};

/// The answer that replaces the server's, when the fault needs no server.
pub(crate) fn instead(fault: &Fault) -> Option<Response<Body>> {
    match fault {
        Fault::Status { code, headers, body } => {
            let mut answer = Response::new(full(body.clone()));
            *answer.status_mut() = status(*code);
            for (name, value) in headers {
                if let (Ok(name), Ok(value)) = (HeaderName::try_from(name.as_str()), HeaderValue::from_str(value)) {
                    answer.headers_mut().append(name, value);
                }
            }
            Some(answer)
        }
        Fault::Redirect { to } => {
            let mut answer = Response::new(full(Bytes::new()));
            *answer.status_mut() = StatusCode::TEMPORARY_REDIRECT;
            let value = HeaderValue::from_str(to).unwrap_or_else(|_| HeaderValue::from_static("/"));
            answer.headers_mut().insert(LOCATION, value);
            Some(answer)
        }
        _ => None,
    }
}

/// The server's answer with the fault in it.
pub(crate) fn spoil(fault: &Fault, answer: Response<Body>) -> Result<Response<Body>, Broken> {
    let start = range_start(answer.headers());
    let (mut head, body) = answer.into_parts();
    let body = match fault {
        Fault::Cut { after } => cut(body, *after),
        Fault::Stall { after } => stall(body, *after),
        Fault::Slow { rate } => slow(body, *rate),
        Fault::WrongByte { at } => flip(body, at.checked_sub(start)),
        Fault::LostAnswer => return Err(Broken),
        Fault::StatusAs { code } => {
            head.status = status(*code);
            body
        }
        Fault::AddHeader { name, value } => {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name.as_str()), HeaderValue::from_str(value)) {
                head.headers.insert(name, value);
            }
            body
        }
        Fault::DropHeader { name } => {
            head.headers.remove(name.as_str());
            body
        }
        _ => body,
    };
    Ok(Response::from_parts(head, body))
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn range_start(headers: &HeaderMap) -> u64 {
    let text = headers.get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
    let start = text.and_then(|text| text.trim_start_matches("bytes ").split_once('-')?.0.parse().ok());
    start.unwrap_or(0)
}

fn chunks(body: Body) -> impl Stream<Item = Result<Bytes, BoxError>> + Send {
    body.into_data_stream()
}

fn body_of(stream: impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static) -> Body {
    StreamBody::new(stream.map(|chunk| chunk.map(Frame::data))).boxed_unsync()
}

/// The first bytes of a stream, and nothing after them.
fn prefix(body: Body, length: u64) -> impl Stream<Item = Result<Bytes, BoxError>> + Send {
    chunks(body).scan(length, |left, chunk| {
        let kept = chunk.map(|mut chunk| {
            chunk.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= chunk.len() as u64;
            chunk
        });
        let empty = kept.as_ref().is_ok_and(Bytes::is_empty);
        futures::future::ready((!empty).then_some(kept))
    })
}

/// Also what reaches a server of a request whose connection breaks.
pub(crate) fn cut(body: Body, after: u64) -> Body {
    // A moment, so that what came before is on its way when the connection breaks.
    let end = futures::stream::once(async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        Err(Broken.into())
    });
    body_of(prefix(body, after).chain(end))
}

fn stall(body: Body, after: u64) -> Body {
    body_of(prefix(body, after).chain(futures::stream::pending()))
}

fn slow(body: Body, rate: u64) -> Body {
    let step = usize::try_from((rate / 20).max(1)).unwrap_or(usize::MAX);
    let pieces = chunks(body).flat_map(move |chunk| {
        let pieces: Vec<Result<Bytes, BoxError>> = match chunk {
            Ok(chunk) => chunk
                .chunks(step)
                .map(|piece| Ok(Bytes::copy_from_slice(piece)))
                .collect(),
            Err(error) => vec![Err(error)],
        };
        futures::stream::iter(pieces)
    });
    body_of(pieces.then(|piece| async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        piece
    }))
}

fn flip(body: Body, at: Option<u64>) -> Body {
    let Some(at) = at else { return body };
    body_of(chunks(body).scan(0_u64, move |position, chunk| {
        let start = *position;
        let chunk = chunk.map(|chunk| {
            *position += chunk.len() as u64;
            if !(start..*position).contains(&at) {
                return chunk;
            }
            let mut bytes = chunk.to_vec();
            if let Some(byte) = usize::try_from(at - start).ok().and_then(|at| bytes.get_mut(at)) {
                *byte ^= 0x01;
            }
            bytes.into()
        });
        futures::future::ready(Some(chunk))
    }))
}
