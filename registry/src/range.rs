//! What part of a blob an answer carries. Judged by `Content-Range`, never by the status alone: some servers and caches answer
//! a range with 200 and the right part, others ignore the range and send everything.

use std::ops::Range;

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE};

use crate::error::ErrorKind;
use crate::manifest::header_text;

/// The part that comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) range: Range<u64>,
    pub(crate) total: Option<u64>,
    pub(crate) partial: bool,
}

/// Compares an answer with what was asked for.
pub(crate) fn judge(status: u16, headers: &HeaderMap, asked: Option<&Range<u64>>) -> Result<Served, ErrorKind> {
    let length: Option<u64> = header_text(headers, CONTENT_LENGTH).and_then(|length| length.parse().ok());
    // Encoded on the fly, which has no length, is not what is stored. With a length it is a stored file that somebody labelled so:
    // its bytes are the blob.
    let encoding = header_text(headers, CONTENT_ENCODING).filter(|encoding| *encoding != "identity");
    if let (Some(encoding), None) = (encoding, length) {
        return Err(ErrorKind::Encoded(encoding.to_owned()));
    }
    let Some(content_range) = header_text(headers, CONTENT_RANGE) else {
        return whole(status, length, asked);
    };
    let (range, total) =
        parse(content_range).ok_or_else(|| ErrorKind::WrongRange(format!("`{content_range}` is not understood")))?;
    let wanted = wanted(asked, total);
    // A part may end before what was asked for (RFC 9110, 15.3.7), never begin elsewhere or go beyond it. Who asked for everything
    // gets no part.
    let fits = |wanted: &Range<u64>| {
        let ends = if asked.is_some() {
            range.end <= wanted.end
        } else {
            range.end == wanted.end
        };
        range.start == wanted.start && ends
    };
    if !wanted.as_ref().is_none_or(fits) {
        return Err(ErrorKind::WrongRange(format!(
            "asked for {}, got {content_range}",
            text(asked)
        )));
    }
    if length.is_some_and(|length| length != range.end - range.start) {
        return Err(ErrorKind::WrongRange(format!(
            "{} bytes announced for {content_range}",
            length.unwrap_or_default()
        )));
    }
    Ok(Served {
        range,
        total,
        partial: true,
    })
}

/// What has to come: the end is the blob's own when the request goes beyond it.
fn wanted(asked: Option<&Range<u64>>, total: Option<u64>) -> Option<Range<u64>> {
    match (asked, total) {
        (Some(asked), Some(total)) => Some(asked.start..asked.end.min(total)),
        (Some(asked), None) => Some(asked.clone()),
        (None, total) => total.map(|total| 0..total),
    }
}

fn whole(status: u16, length: Option<u64>, asked: Option<&Range<u64>>) -> Result<Served, ErrorKind> {
    if status == 206 {
        return Err(ErrorKind::WrongRange(format!(
            "asked for {}, got a part that does not say which",
            text(asked)
        )));
    }
    let range = 0..length.unwrap_or(u64::MAX);
    Ok(Served {
        range,
        total: length,
        partial: false,
    })
}

fn text(asked: Option<&Range<u64>>) -> String {
    asked.map_or_else(
        || "everything".to_owned(),
        |asked| format!("bytes {}-{}", asked.start, asked.end.saturating_sub(1)),
    )
}

/// `bytes 0-99/1000`, with `*` for an unknown total.
fn parse(text: &str) -> Option<(Range<u64>, Option<u64>)> {
    let (range, total) = text
        .trim()
        .strip_prefix("bytes")?
        .trim_start_matches(['=', ' '])
        .split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    let total = if total.trim() == "*" {
        None
    } else {
        Some(total.trim().parse().ok()?)
    };
    let inside = first <= last && total.is_none_or(|total| last < total);
    inside.then_some((first..last.checked_add(1)?, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(content_range: Option<&str>, length: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        content_range.map(|value| headers.insert(CONTENT_RANGE, value.parse().unwrap()));
        length.map(|value| headers.insert(CONTENT_LENGTH, value.parse().unwrap()));
        headers
    }

    fn part(range: Range<u64>, total: Option<u64>) -> Served {
        Served {
            range,
            total,
            partial: true,
        }
    }

    fn all(total: u64) -> Served {
        Served {
            range: 0..total,
            total: Some(total),
            partial: false,
        }
    }

    #[test]
    fn content_range_decides_and_not_the_status() {
        type Case = (
            u16,
            Option<&'static str>,
            Option<&'static str>,
            Option<Range<u64>>,
            Option<Served>,
        );
        let cases: [Case; 19] = [
            (
                206,
                Some("bytes 10-19/100"),
                Some("10"),
                Some(10..20),
                Some(part(10..20, Some(100))),
            ),
            (
                200,
                Some("bytes 10-19/100"),
                Some("10"),
                Some(10..20),
                Some(part(10..20, Some(100))),
            ),
            (
                206,
                Some("bytes 90-99/100"),
                Some("10"),
                Some(90..200),
                Some(part(90..100, Some(100))),
            ),
            (206, Some("bytes 10-19/*"), None, Some(10..20), Some(part(10..20, None))),
            (
                200,
                Some("bytes 0-99/100"),
                Some("100"),
                None,
                Some(part(0..100, Some(100))),
            ),
            (200, None, Some("100"), Some(10..20), Some(all(100))),
            (200, None, Some("100"), None, Some(all(100))),
            (206, None, Some("10"), Some(10..20), None),
            (206, Some("bytes 0-9/100"), Some("10"), Some(10..20), None),
            (
                206,
                Some("bytes 10-18/100"),
                Some("9"),
                Some(10..20),
                Some(part(10..19, Some(100))),
            ),
            (206, Some("bytes 10-20/100"), Some("11"), Some(10..20), None),
            (206, Some("bytes 0-9/100"), Some("10"), None, None),
            (206, Some("bytes 10-19/100"), Some("100"), Some(10..20), None),
            (206, Some("bytes 19-10/100"), None, Some(10..20), None),
            (206, Some("bytes 10-19/15"), None, Some(10..20), None),
            (206, Some("lines 1-2/3"), None, Some(10..20), None),
            (206, Some("bytes 5-99/100"), Some("95"), None, None),
            (206, Some("bytes 0-18446744073709551615/*"), None, None, None),
            (
                206,
                Some("bytes 10-17/18"),
                Some("8"),
                Some(10..20),
                Some(part(10..18, Some(18))),
            ),
        ];
        for (status, content_range, length, asked, served) in cases {
            let judged = judge(status, &answer(content_range, length), asked.as_ref());
            assert_eq!(
                judged.ok(),
                served,
                "{status} {content_range:?} {length:?} for {asked:?}"
            );
        }
    }

    #[test]
    fn a_body_encoded_on_the_way_is_refused_and_a_stored_one_is_the_blob() {
        let encoded = |length| {
            let mut headers = answer(None, length);
            headers.insert(CONTENT_ENCODING, "gzip".parse().unwrap());
            judge(200, &headers, None)
        };
        assert!(matches!(encoded(None), Err(ErrorKind::Encoded(_))));
        assert_eq!(encoded(Some("10")).ok(), Some(all(10)));
    }
}
