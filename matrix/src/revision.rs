//! A revision: the whole matrix in one canonical text under its digest.
//!
//! Documents come in the order of their paths and keys in the order of the alphabet; comments and layout are gone. What stays
//! of the layout is the line of each row, because reasons name rows by it.

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::{
    document::{Document, LoadError, Parsed},
    tree::{Content, Key, Node, Place},
};

/// A frozen matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Revision {
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// The canonical text.
    pub text: String,
}

impl Revision {
    /// The first digits of the digest, for people and for names of objects.
    pub fn short(&self) -> &str {
        shorten(&self.digest)
    }
}

/// The first digits of a digest.
pub fn shorten(digest: &str) -> &str {
    let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
    hex.get(..12).unwrap_or(hex)
}

/// The key that carries the line of a row.
const LINE: &str = "@line";
/// The first line, a JSON string: the shape of the text. A change of the shape is a new word.
const FORMAT: &str = "\"plimsoll-matrix/1\"";

pub(crate) fn freeze(parsed: &[Parsed]) -> Revision {
    let mut text = format!("{FORMAT}\n");
    for source in parsed {
        let mut entry = Map::new();
        entry.insert("path".to_owned(), Value::from(source.document.path.clone()));
        entry.insert("root".to_owned(), value(&source.root, 0));
        text.push_str(&Value::Object(entry).to_string());
        text.push('\n');
    }
    Revision {
        digest: digest(&text),
        text,
    }
}

fn digest(text: &str) -> String {
    use std::fmt::Write as _;
    let mut digest = "sha256:".to_owned();
    for byte in Sha256::digest(text.as_bytes()) {
        // Writing to a String cannot fail.
        let _ = write!(digest, "{byte:02x}");
    }
    digest
}

/// Rows live in lists right below the root, so their maps are at depth 2.
fn value(node: &Node, depth: u32) -> Value {
    match &node.content {
        Content::Null => Value::Null,
        Content::Bool(flag) => Value::from(*flag),
        Content::Number(text) => text
            .parse::<i64>()
            .map_or_else(|_| Value::from(text.as_str()), Value::from),
        Content::Text(text) => Value::from(text.as_str()),
        Content::List(items) => items.iter().map(|item| value(item, depth + 1)).collect(),
        Content::Map(entries) => {
            let mut sorted: Vec<(String, Value)> = entries
                .iter()
                .map(|(key, item)| (key.text.clone(), value(item, depth + 1)))
                .collect();
            if depth == 0 || depth == 2 {
                sorted.push((LINE.to_owned(), Value::from(node.place.line)));
            }
            sorted.sort_by(|left, right| left.0.cmp(&right.0));
            Value::Object(sorted.into_iter().collect())
        }
    }
}

/// The documents of a frozen text.
pub(crate) fn thaw(text: &str) -> Result<Vec<Parsed>, LoadError> {
    let fault = |line: usize, message: String| {
        let document = Document {
            path: "revision".to_owned(),
            text: String::new(),
        };
        let place = Place {
            line: u32::try_from(line + 1).unwrap_or(0),
            column: 1,
            length: 1,
        };
        LoadError::new(&document, place, message).with_hint("take the text as `plimsoll matrix render` wrote it")
    };
    let mut lines = text.lines().enumerate();
    match lines.next() {
        Some((_, first)) if first == FORMAT => {}
        _ => return Err(fault(0, format!("the text does not start with {FORMAT}"))),
    }
    let mut parsed = Vec::new();
    for (number, line) in lines {
        let entry: Value = serde_json::from_str(line).map_err(|error| fault(number, error.to_string()))?;
        let Some(path) = entry["path"].as_str() else {
            return Err(fault(number, "a document without a path".to_owned()));
        };
        let root = node(
            &entry["root"],
            Place {
                line: 1,
                column: 1,
                length: 1,
            },
        );
        parsed.push(Parsed {
            document: Document {
                path: path.to_owned(),
                text: String::new(),
            },
            root,
        });
    }
    Ok(parsed)
}

fn node(value: &Value, parent: Place) -> Node {
    let line = value[LINE].as_u64().and_then(|line| u32::try_from(line).ok());
    let place = line.map_or(parent, |line| Place { line, ..parent });
    let content = match value {
        Value::Null => Content::Null,
        Value::Bool(flag) => Content::Bool(*flag),
        Value::Number(number) => Content::Number(number.to_string()),
        Value::String(text) => Content::Text(text.clone()),
        Value::Array(items) => Content::List(items.iter().map(|item| node(item, place)).collect()),
        Value::Object(map) => {
            let entries = map.iter().filter(|(key, _)| *key != LINE);
            Content::Map(
                entries
                    .map(|(key, item)| {
                        (
                            Key {
                                text: key.clone(),
                                place,
                            },
                            node(item, place),
                        )
                    })
                    .collect(),
            )
        }
    };
    Node { place, content }
}
