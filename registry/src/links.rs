//! `Link` headers (RFC 8288): registries, hubs, mirrors and proxies each spell them in their own way, and a page that is not found is a part of
//! a listing that is lost without a word.

use http::header::{HeaderMap, LINK};

/// The target whose relation is `next`, over all `Link` headers; an error where one of them cannot be read.
pub fn next_link(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    for value in headers.get_all(LINK) {
        let text = value.to_str().map_err(|_| UNREADABLE)?;
        if let Some(target) = next_in(text)? {
            return Ok(Some(target));
        }
    }
    Ok(None)
}

const UNREADABLE: &str = "its Link header cannot be read, so that it is not known whether more pages follow";

fn next_in(text: &str) -> Result<Option<String>, &'static str> {
    let mut rest = text.trim_start_matches(is_between);
    while !rest.is_empty() {
        let link = rest.strip_prefix('<').and_then(|link| link.split_once('>'));
        let (target, after) = link.ok_or(UNREADABLE)?;
        let (is_next, after) = parameters(after).ok_or(UNREADABLE)?;
        if is_next {
            return Ok(Some(target.trim().to_owned()));
        }
        rest = after.trim_start_matches(is_between);
    }
    Ok(None)
}

fn is_between(letter: char) -> bool {
    letter == ',' || letter.is_ascii_whitespace()
}

/// Whether the first `rel` of a link says `next`, and what follows its parameters.
fn parameters(text: &str) -> Option<(bool, &str)> {
    let (mut relation, mut rest) = (None, text.trim_start());
    while let Some(after) = rest.strip_prefix(';') {
        let after = after.trim_start();
        let end = after.find(['=', ';', ',']).unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        let (value, after) = match after.strip_prefix('=') {
            Some(after) => value_of(after.trim_start())?,
            None => (String::new(), after),
        };
        if name.trim().eq_ignore_ascii_case("rel") {
            relation.get_or_insert(value);
        }
        rest = after.trim_start();
    }
    let words = relation.unwrap_or_default();
    let is_next = words
        .split_ascii_whitespace()
        .any(|word| word.eq_ignore_ascii_case("next"));
    (rest.is_empty() || rest.starts_with(',')).then_some((is_next, rest))
}

/// A quoted text or a word, and what follows it.
fn value_of(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([';', ',']).unwrap_or(text.len());
        let (word, after) = text.split_at(end);
        return Some((word.trim().to_owned(), after));
    };
    let (mut value, mut letters) = (String::new(), quoted.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(letters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use http::header::HeaderValue;

    use super::*;

    fn next_of(lines: &[&str]) -> Result<Option<String>, &'static str> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(LINK, HeaderValue::from_str(line).unwrap());
        }
        next_link(&headers)
    }

    #[test]
    fn the_next_page_is_found_however_the_link_is_written() {
        for lines in [
            &[r#"<https://a/x?c=1>; rel="prev", <https://h/y?c=2>; rel="next""#][..],
            &["<https://h/y?c=2>; rel=next"],
            &["<https://h/y?c=2>;rel=\"Next\""],
            &["<https://h/y?c=2>; Rel = \"next last\""],
            &["<https://h/y?c=2>; title=\"a; b, <c>; rel=\\\"x\\\"\"; rel=next ,"],
            &["<https://a/x>; rel=first", "<https://h/y?c=2>; rel=\"next\""],
            &[r#", <https://a/x>; rel="xet-auth" , <https://h/y?c=2>; crossorigin; rel="next""#],
        ] {
            assert_eq!(next_of(lines), Ok(Some("https://h/y?c=2".into())), "{lines:?}");
        }
        let comma = next_of(&[r#"<https://h/y?c=a,b;d>; rel="next""#]);
        assert_eq!(comma, Ok(Some("https://h/y?c=a,b;d".into())));
    }

    #[test]
    fn other_links_are_no_next_page_and_what_is_no_link_is_an_error() {
        for lines in [
            &[][..],
            &[""],
            &["<https://a/x>; rel=last"],
            &["<https://a/x>"],
            &["<https://a/x>; rel=nextpage; title=next"],
            &["<https://a/x>; rel=prev; rel=next"],
        ] {
            assert_eq!(next_of(lines), Ok(None), "{lines:?}");
        }
        for line in [
            "https://a/x; rel=next",
            "<https://a/x; rel=next",
            "<https://a/x>; rel=\"next",
            "<a> b",
        ] {
            assert!(next_of(&[line]).is_err(), "{line}");
        }
    }
}
