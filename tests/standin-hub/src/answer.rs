//! Answers: small ones from memory, files as streams, both bent by a fault where the script says so.

use std::io::SeekFrom;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http::{HeaderMap, StatusCode, header};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

use crate::fault::Fault;
use crate::recorder::Recorder;
use crate::server::RangeMode;

const CHUNK: u64 = 64 << 10;

/// A file to be sent.
pub(crate) struct FileAnswer<'a> {
    pub(crate) file: &'a Path,
    pub(crate) size: u64,
    pub(crate) range: Option<Range<u64>>,
    pub(crate) mode: RangeMode,
    pub(crate) head: bool,
    pub(crate) headers: Vec<(&'static str, String)>,
}

/// A short text with a status and headers.
pub(crate) fn text(status: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    for (name, value) in headers {
        insert(response.headers_mut(), name, value);
    }
    response
}

/// A JSON value with status 200.
pub(crate) fn json(value: &serde_json::Value) -> Response {
    text(200, &[("content-type", "application/json")], value.to_string())
}

/// The answer of a fault that does not depend on the file.
pub(crate) fn of_fault(fault: &Fault, target: &str) -> Option<Response> {
    Some(match fault {
        Fault::Empty => text(200, &[], ""),
        Fault::Page => text(
            200,
            &[("content-type", "text/html")],
            "<html><body>Please log in to this network.</body></html>",
        ),
        Fault::Status { code, headers, body } => {
            let headers: Vec<(&str, &str)> = headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            text(*code, &headers, body.clone())
        }
        Fault::RedirectLoop => text(302, &[("location", target)], ""),
        Fault::Redirect { to } => text(302, &[("location", to)], ""),
        _ => return None,
    })
}

/// `bytes=a-b` or `bytes=a-`; anything else is no range. `Err` when it starts past the end.
pub(crate) fn requested_range(headers: &HeaderMap, size: u64) -> Result<Option<Range<u64>>, u64> {
    let Some(value) = headers.get(header::RANGE).and_then(|value| value.to_str().ok()) else {
        return Ok(None);
    };
    let Some((first, last)) = value.strip_prefix("bytes=").and_then(|spec| spec.split_once('-')) else {
        return Ok(None);
    };
    let Ok(start) = first.parse::<u64>() else {
        return Ok(None);
    };
    if start >= size {
        return Err(size);
    }
    let end = last
        .parse::<u64>()
        .map_or(size, |last| size.min(last.saturating_add(1)));
    Ok((start < end).then_some(start..end))
}

/// 416 with the total.
pub(crate) fn range_not_satisfiable(size: u64) -> Response {
    text(416, &[("content-range", &format!("bytes */{size}"))], "")
}

/// Sends a file, or the part that was asked for.
pub(crate) async fn file(answer: FileAnswer<'_>, fault: Option<Fault>, recorder: Arc<Recorder>) -> Response {
    let ignore = matches!(fault, Some(Fault::IgnoreRange | Fault::Gzip)) || answer.mode == RangeMode::Ignored;
    let part = answer.range.clone().filter(|_| !ignore);
    let span = part.clone().unwrap_or(0..answer.size);
    let shorter = if let Some(Fault::Short { by }) = fault { by } else { 0 };
    let span = span.start..span.end.saturating_sub(shorter).max(span.start);
    let status = if part.is_some() && answer.mode == RangeMode::Partial {
        206
    } else {
        200
    };
    let mut response = text(status, &[("accept-ranges", "bytes")], Body::empty());
    let headers = response.headers_mut();
    for (name, value) in &answer.headers {
        insert(headers, name, value);
    }
    if part.is_some() {
        let total = if let Some(Fault::OtherTotal { total }) = fault {
            total
        } else {
            answer.size
        };
        insert(
            headers,
            "content-range",
            &format!("bytes {}-{}/{total}", span.start, span.end.saturating_sub(1)),
        );
    }
    if matches!(fault, Some(Fault::Gzip)) {
        insert(headers, "content-encoding", "gzip");
        let plain = tokio::fs::read(answer.file).await.unwrap_or_default();
        let coded = stream::iter([Ok::<_, std::io::Error>(Bytes::from(gzip_stored(&plain)))]);
        *response.body_mut() = Body::from_stream(coded);
        return response;
    }
    insert(headers, "content-length", &(span.end - span.start).to_string());
    if !answer.head {
        let body = bend(read(answer.file, span).await, fault.as_ref());
        let counted = body.inspect(move |chunk| recorder.count_bytes(chunk.as_ref().map_or(0, Bytes::len)));
        *response.body_mut() = Body::from_stream(counted);
    }
    response
}

type ByteStream = BoxStream<'static, std::io::Result<Bytes>>;

async fn read(path: &Path, span: Range<u64>) -> ByteStream {
    let opened = async {
        let mut file = tokio::fs::File::open(path).await?;
        file.seek(SeekFrom::Start(span.start)).await?;
        Ok::<_, std::io::Error>(file)
    };
    let file = match opened.await {
        Ok(file) => file,
        Err(error) => return stream::iter([Err(error)]).boxed(),
    };
    stream::try_unfold((file, span.end - span.start), |(mut file, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let mut chunk = vec![0; usize::try_from(left.min(CHUNK)).unwrap_or(0)];
        let read = file.read(&mut chunk).await?;
        if read == 0 {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof));
        }
        chunk.truncate(read);
        Ok(Some((Bytes::from(chunk), (file, left - read as u64))))
    })
    .boxed()
}

/// A document of the hub, bent where the script says so; files were bent on their way.
pub(crate) async fn bend_document(mut response: Response, fault: Option<&Fault>) -> Response {
    let Some(fault) = fault else { return response };
    if let Fault::DropHeader { name } = fault {
        response.headers_mut().remove(name.as_str());
    }
    let kind = response.headers().get(header::CONTENT_TYPE);
    if kind.is_none_or(|kind| kind != "application/json") {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let mut whole = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    match fault {
        Fault::Short { by } => whole.truncate(whole.len().saturating_sub(usize::try_from(*by).unwrap_or(usize::MAX))),
        Fault::Gzip => {
            insert(&mut parts.headers, "content-encoding", "gzip");
            whole = Bytes::from(gzip_stored(&whole));
        }
        _ => {}
    }
    insert(&mut parts.headers, "content-length", &whole.len().to_string());
    let body = bend(stream::iter([Ok(whole)]).boxed(), Some(fault));
    Response::from_parts(parts, Body::from_stream(body))
}

/// Bends the body by the faults that work on its bytes.
fn bend(body: ByteStream, fault: Option<&Fault>) -> ByteStream {
    match fault {
        Some(&Fault::Cut { after }) => {
            let broken = stream::iter([Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset))]);
            // The bytes before the cut must reach the client, or the cut would look like an answer without a body.
            let pause = stream::once(tokio::time::sleep(Duration::from_millis(20))).filter_map(|()| async { None });
            take_bytes(body, after).chain(pause).chain(broken).boxed()
        }
        Some(&Fault::Stall { after }) => take_bytes(body, after).chain(stream::pending()).boxed(),
        Some(&Fault::Slow { rate }) => trickle(body, rate.max(1)),
        Some(&Fault::WrongByte { at }) => flip(body, at),
        _ => body,
    }
}

fn take_bytes(body: ByteStream, limit: u64) -> ByteStream {
    body.scan(limit, |left, chunk| {
        let taken = chunk.map(|chunk| chunk.slice(..chunk.len().min(usize::try_from(*left).unwrap_or(usize::MAX))));
        *left -= taken.as_ref().map_or(0, |chunk| chunk.len() as u64);
        let more = taken.as_ref().map_or(true, |chunk| !chunk.is_empty());
        std::future::ready(more.then_some(taken))
    })
    .boxed()
}

/// A hundredth of a second at a time, or single bytes where that is less.
fn trickle(body: ByteStream, rate: u64) -> ByteStream {
    let step = usize::try_from(rate / 100).unwrap_or(usize::MAX).max(1);
    body.flat_map(move |chunk| {
        let pieces: Vec<std::io::Result<Bytes>> = match chunk {
            Ok(chunk) => (0..chunk.len())
                .step_by(step)
                .map(|at| Ok(chunk.slice(at..chunk.len().min(at + step))))
                .collect(),
            Err(error) => vec![Err(error)],
        };
        stream::iter(pieces)
    })
    .then(move |piece| async move {
        let length = piece.as_ref().map_or(0, Bytes::len);
        let pause = u32::try_from(length).map_or(0.0, f64::from) / u32::try_from(rate).map_or(f64::MAX, f64::from);
        tokio::time::sleep(Duration::from_secs_f64(pause)).await;
        piece
    })
    .boxed()
}

fn flip(body: ByteStream, at: u64) -> ByteStream {
    body.scan(0u64, move |offset, chunk| {
        let bent = chunk.map(|chunk| {
            let start = *offset;
            *offset += chunk.len() as u64;
            if !(start..*offset).contains(&at) {
                return chunk;
            }
            let mut bytes = chunk.to_vec();
            bytes[usize::try_from(at - start).unwrap_or(0)] ^= 1;
            Bytes::from(bytes)
        });
        std::future::ready(Some(bent))
    })
    .boxed()
}

fn insert(headers: &mut HeaderMap, name: &str, value: &str) {
    let name = http::HeaderName::from_bytes(name.as_bytes());
    if let (Ok(name), Ok(value)) = (name, http::HeaderValue::from_str(value)) {
        headers.append(name, value);
    }
}

/// gzip with stored blocks: valid for every reader, and needs no compressor.
fn gzip_stored(plain: &[u8]) -> Vec<u8> {
    let mut coded = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut blocks = plain.chunks(0xffff).peekable();
    if blocks.peek().is_none() {
        coded.extend([1, 0, 0, 0xff, 0xff]);
    }
    while let Some(block) = blocks.next() {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        coded.push(u8::from(blocks.peek().is_none()));
        coded.extend(length.to_le_bytes());
        coded.extend((!length).to_le_bytes());
        coded.extend(block);
    }
    coded.extend(crc32(plain).to_le_bytes());
    coded.extend(u32::try_from(plain.len() & 0xffff_ffff).unwrap_or(0).to_le_bytes());
    coded
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32_of_the_check_string_is_the_published_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn ranges_are_read_and_clamped() {
        let asked = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RANGE, value.parse().unwrap());
            requested_range(&headers, 10)
        };
        assert_eq!(asked("bytes=2-4"), Ok(Some(2..5)));
        assert_eq!(asked("bytes=2-"), Ok(Some(2..10)));
        assert_eq!(asked("bytes=2-99"), Ok(Some(2..10)));
        assert_eq!(asked("bytes=10-"), Err(10));
        assert_eq!(asked("lines=1-2"), Ok(None));
    }
}
