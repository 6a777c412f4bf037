//! JSON as Python writes and reads it: a byte order mark, `NaN` and `Infinity`, numbers beyond any type, repeated keys (the last
//! one counts). What Python's reader refuses is refused here too.

mod python;

use serde_json::{Map, Value};

use crate::error::FactsError;

/// The largest text that is read. The largest honest file is the index of a model with many experts, some 20 MB.
pub(crate) const TEXT_LIMIT: usize = 64 << 20;

/// Reads an object from the text of `file`.
pub(crate) fn object(file: &str, text: &str) -> Result<Map<String, Value>, FactsError> {
    if text.len() > TEXT_LIMIT {
        return Err(FactsError::TooLarge {
            file: file.to_owned(),
            bytes: text.len(),
            limit: TEXT_LIMIT,
        });
    }
    if text.starts_with("version https://git-lfs") {
        return Err(FactsError::LfsPointer { file: file.to_owned() });
    }
    let text = python::normalise(text.trim_start_matches('\u{feff}'));
    match serde_json::from_str(&text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(other) => Err(FactsError::NotAnObject {
            file: file.to_owned(),
            found: kind(&other),
        }),
        Err(error) => Err(FactsError::NotJson {
            file: file.to_owned(),
            reason: reason(&error),
            line: error.line(),
            column: error.column(),
        }),
    }
}

/// What a value is, with its article.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A whole number that is not negative. Python's readers take `32.0` for 32, so it is taken here.
pub(crate) fn whole(value: &Value) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if let Some(number) = value.as_u64() {
        return Some(number);
    }
    let number = value
        .as_f64()
        .filter(|number| number.fract() == 0.0 && (0.0..=EXACT).contains(number))?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, not negative and below 2^53"
    )]
    Some(number as u64)
}

/// The whole number under `key`.
pub(crate) fn number(map: &Map<String, Value>, key: &str) -> Option<u64> {
    map.get(key).and_then(whole)
}

/// The whole number under `key` that fits into 32 bits.
pub(crate) fn small(map: &Map<String, Value>, key: &str) -> Option<u32> {
    number(map, key).and_then(|number| u32::try_from(number).ok())
}

/// The text under `key`.
pub(crate) fn text<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    map.get(key).and_then(Value::as_str)
}

/// The object under `key`.
pub(crate) fn inner<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Map<String, Value>> {
    map.get(key).and_then(Value::as_object)
}

/// The parser's reason without its position, which is told apart.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests;
