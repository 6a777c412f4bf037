//! What came for a range: judged by `Content-Range`, not by the status, because one hub answers 200 to a range it honoured.

use std::ops::Range;

/// The parts of an answer that decide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RangeAnswer<'a> {
    pub(crate) status: u16,
    pub(crate) content_range: Option<&'a str>,
    pub(crate) content_length: Option<u64>,
    pub(crate) content_encoding: Option<&'a str>,
    pub(crate) content_type: Option<&'a str>,
}

/// What the body is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    /// Exactly the range that was asked for.
    Slice,
    /// The whole file from its first byte; the caller drops what it has.
    Whole,
    /// Nothing is left to fetch.
    Nothing,
    /// Of no use.
    Broken(String),
}

/// Judges an answer to a request for `asked` of a file with `size` bytes.
pub(crate) fn judge(asked: &Range<u64>, size: u64, answer: RangeAnswer<'_>) -> Body {
    if let Some(coding) = answer
        .content_encoding
        .filter(|coding| !coding.eq_ignore_ascii_case("identity"))
    {
        return Body::Broken(format!("it came {coding}-coded although that was not asked for"));
    }
    if answer.content_type.is_some_and(|kind| kind.starts_with("text/html")) {
        return Body::Broken("a web page came instead of the file: a proxy or a login page of this network".into());
    }
    if answer.status == 416 {
        return judge_refusal(asked, size, answer.content_range);
    }
    if let Some(text) = answer.content_range {
        return judge_slice(asked, size, text);
    }
    match (answer.status, answer.content_length) {
        (206, _) => Body::Broken("206 without Content-Range".into()),
        (_, Some(length)) if length != size => Body::Broken(format!("{length} bytes came, the listing says {size}")),
        _ => Body::Whole,
    }
}

fn judge_refusal(asked: &Range<u64>, size: u64, content_range: Option<&str>) -> Body {
    let total = content_range
        .and_then(|text| text.strip_prefix("bytes */"))
        .and_then(|total| total.parse().ok());
    if asked.start == size && total.is_none_or(|total: u64| total == size) {
        return Body::Nothing;
    }
    Body::Broken(format!(
        "the hub has {} bytes of it, the listing says {size}",
        total.map_or("fewer".into(), |total| total.to_string())
    ))
}

fn judge_slice(asked: &Range<u64>, size: u64, text: &str) -> Body {
    let parsed = text.trim().strip_prefix("bytes ").and_then(|rest| {
        let (span, total) = rest.split_once('/')?;
        let (first, last) = span.split_once('-')?;
        let total = if total == "*" { size } else { total.parse().ok()? };
        Some((
            first.parse::<u64>().ok()?,
            last.parse::<u64>().ok()?.checked_add(1)?,
            total,
        ))
    });
    match parsed {
        Some((start, end, total)) if start == asked.start && end == asked.end && total == size => Body::Slice,
        Some((_, _, total)) if total != size => {
            Body::Broken(format!("the hub has {total} bytes of it, the listing says {size}"))
        }
        _ => Body::Broken(format!(
            "bytes {}-{} were asked for, `{text}` came",
            asked.start,
            asked.end.saturating_sub(1)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: RangeAnswer<'static> = RangeAnswer {
        status: 200,
        content_range: None,
        content_length: None,
        content_encoding: None,
        content_type: None,
    };

    #[test]
    fn content_range_decides_whatever_the_status_is() {
        let cases = [
            (200, Some("bytes 10-19/100"), Body::Slice),
            (206, Some("bytes 10-19/100"), Body::Slice),
            (206, Some("bytes 10-19/*"), Body::Slice),
            (200, None, Body::Whole),
        ];
        for (status, content_range, body) in cases {
            assert_eq!(
                judge(
                    &(10..20),
                    100,
                    RangeAnswer {
                        status,
                        content_range,
                        ..PLAIN
                    }
                ),
                body,
                "{status} {content_range:?}"
            );
        }
        assert_eq!(
            judge(
                &(100..100),
                100,
                RangeAnswer {
                    status: 416,
                    content_range: Some("bytes */100"),
                    ..PLAIN
                }
            ),
            Body::Nothing
        );
    }

    #[test]
    fn what_is_not_what_was_asked_is_broken() {
        let broken = [
            RangeAnswer { status: 206, ..PLAIN },
            RangeAnswer {
                status: 206,
                content_range: Some("bytes 0-9/100"),
                ..PLAIN
            },
            RangeAnswer {
                status: 206,
                content_range: Some("bytes 10-19/99"),
                ..PLAIN
            },
            RangeAnswer {
                status: 206,
                content_range: Some("bytes 10-18/100"),
                ..PLAIN
            },
            RangeAnswer {
                status: 206,
                content_range: Some("lines 10-19/100"),
                ..PLAIN
            },
            RangeAnswer {
                status: 206,
                content_range: Some("bytes 10-18446744073709551615/100"),
                ..PLAIN
            },
            RangeAnswer {
                content_length: Some(99),
                ..PLAIN
            },
            RangeAnswer {
                content_length: Some(0),
                ..PLAIN
            },
            RangeAnswer {
                content_encoding: Some("gzip"),
                ..PLAIN
            },
            RangeAnswer {
                content_type: Some("text/html; charset=utf-8"),
                ..PLAIN
            },
            RangeAnswer {
                status: 416,
                content_range: Some("bytes */50"),
                ..PLAIN
            },
        ];
        for answer in broken {
            assert!(matches!(judge(&(10..20), 100, answer), Body::Broken(_)), "{answer:?}");
        }
    }
}
