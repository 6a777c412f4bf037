//! The differences between JSON and what Python writes and reads under that name.

/// Replaces what Python accepts and strict JSON does not, keeping the length where it can, so that positions stay true.
pub(super) fn normalise(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '"' => string(rest, &mut out),
            'N' | 'I' | '-' | '0'..='9' => literal(rest, &mut out),
            _ => {
                out.push(first);
                first.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    out
}

/// Copies a string, replacing halves of surrogate pairs, and returns its length.
fn string(text: &str, out: &mut String) -> usize {
    let end = string_end(text);
    let mut body = &text[..end];
    while let Some(escape) = body.find('\\') {
        out.push_str(&body[..escape]);
        let taken = escape_sequence(&body[escape..], out);
        body = &body[escape + taken..];
    }
    out.push_str(body);
    end
}

/// Copies one escape sequence and returns its length.
fn escape_sequence(text: &str, out: &mut String) -> usize {
    let replacement = "\\ufffd";
    let (taken, copied) = match surrogate(text) {
        Some(0xD800..=0xDBFF) if matches!(text.get(6..).and_then(surrogate), Some(0xDC00..=0xDFFF)) => {
            (12, &text[..12])
        }
        Some(0xD800..=0xDFFF) => (6, replacement),
        _ => {
            let taken = text.char_indices().nth(2).map_or(text.len(), |(at, _)| at);
            (taken, &text[..taken])
        }
    };
    out.push_str(copied);
    taken
}

/// The code unit of an escape `\uXXXX` at the start of `text`.
fn surrogate(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok()
}

/// Length of the string literal at the start of `text`, quotes included.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Copies a number; one that no type can hold, and the words that Python writes for it, become null.
fn literal(text: &str, out: &mut String) -> usize {
    for word in ["NaN", "Infinity", "-Infinity"] {
        if text.starts_with(word) {
            out.push_str("null");
            return word.len();
        }
    }
    let end = text
        .find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'))
        .unwrap_or(text.len())
        .max(1);
    let digits = &text[..end];
    match digits.parse::<f64>() {
        Ok(value) if value.is_infinite() => out.push_str("null"),
        _ => out.push_str(digits),
    }
    end
}
