//! A document as a tree of values that know where they were written.
//!
//! Reading happens in two steps, text to tree and tree to types, so that one bad row does not hide the next one and every
//! error can point at the place it is about.

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span};

use crate::decode::DecodeError;

/// A value with its place in the text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) content: Content,
}

/// A place in a text, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Place {
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) length: u32,
}

/// What a node holds. Numbers keep their spelling.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A key of a map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) place: Place,
}

impl Node {
    /// Reads one YAML document.
    pub(crate) fn parse(text: &str) -> Result<Self, DecodeError> {
        let mut reader = Reader {
            parser: Parser::new_from_str(text),
            depth: 0,
        };
        loop {
            match reader.next()? {
                (Event::DocumentStart(..), _) => break,
                (Event::StreamEnd, span) => return Err(DecodeError::at(place(&span), "the document is empty")),
                _ => {}
            }
        }
        let (event, span) = reader.next()?;
        let root = reader.node(event, &span)?;
        loop {
            match reader.next()? {
                (Event::DocumentStart(..), span) => {
                    let error = DecodeError::at(place(&span), "a second document starts here");
                    return Err(error.with_hint("write one document per file"));
                }
                (Event::StreamEnd, _) => return Ok(root),
                _ => {}
            }
        }
    }

    /// Takes a key out of a map.
    pub(crate) fn take(&mut self, key: &str) -> Option<Self> {
        let Content::Map(entries) = &mut self.content else {
            return None;
        };
        let index = entries.iter().position(|(name, _)| name.text == key)?;
        Some(entries.remove(index).1)
    }

    /// The text under a key of a map.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        let Content::Map(entries) = &self.content else {
            return None;
        };
        let (_, node) = entries.iter().find(|(name, _)| name.text == key)?;
        match &node.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Where a text stands, at any depth.
    pub(crate) fn find_text(&self, wanted: &str) -> Option<Place> {
        match &self.content {
            Content::Text(text) if text == wanted => Some(self.place),
            Content::List(items) => items.iter().find_map(|item| item.find_text(wanted)),
            Content::Map(entries) => entries.iter().find_map(|(_, item)| item.find_text(wanted)),
            _ => None,
        }
    }

    /// What the content is called in an error.
    pub(crate) fn describe(&self) -> String {
        match &self.content {
            Content::Null => "nothing".to_owned(),
            Content::Bool(value) => format!("the boolean {value}"),
            Content::Number(text) => format!("the number {text}"),
            Content::Text(text) => format!("the text {text:?}"),
            Content::List(_) => "a list".to_owned(),
            Content::Map(_) => "a map".to_owned(),
        }
    }
}

/// Deeper nesting than any real document has; a hostile one must not exhaust the stack.
const DEEPEST: u32 = 64;

struct Reader<'text> {
    parser: Parser<'text, serde_saphyr::granit_parser::StrInput<'text>>,
    depth: u32,
}

impl<'text> Reader<'text> {
    /// The next event that is not a comment.
    fn next(&mut self) -> Result<(Event<'text>, Span), DecodeError> {
        loop {
            match self.parser.next_event() {
                Some(Ok((Event::Comment(..), _))) => {}
                Some(Ok(event)) => return Ok(event),
                Some(Err(error)) => {
                    let mark = error.marker();
                    let place = Place {
                        line: narrow(mark.line()),
                        column: narrow(mark.col() + 1),
                        length: 1,
                    };
                    return Err(DecodeError::at(
                        place,
                        format!("the YAML is not well formed: {}", error.info()),
                    ));
                }
                None => return Err(DecodeError::at(Place::default(), "the document ends too early")),
            }
        }
    }

    fn node(&mut self, event: Event<'text>, span: &Span) -> Result<Node, DecodeError> {
        let place = place(span);
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(DecodeError::at(place, format!("nested deeper than {DEEPEST} levels")));
        }
        let content = match event {
            Event::Scalar(text, style, ..) => scalar(&text, style == ScalarStyle::Plain),
            Event::SequenceStart(..) => self.list()?,
            Event::MappingStart(..) => self.map()?,
            Event::Alias(..) => {
                return Err(DecodeError::at(place, "an alias")
                    .with_hint("write the value out: matrix documents have no anchors"));
            }
            other => return Err(DecodeError::at(place, format!("unexpected {other:?}"))),
        };
        self.depth -= 1;
        Ok(Node { place, content })
    }

    fn list(&mut self) -> Result<Content, DecodeError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Content::List(items)),
                (event, span) => items.push(self.node(event, &span)?),
            }
        }
    }

    fn map(&mut self) -> Result<Content, DecodeError> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let place = place(&span);
            let key = match event {
                Event::MappingEnd => return Ok(Content::Map(entries)),
                Event::Scalar(text, ..) => Key {
                    text: text.into_owned(),
                    place,
                },
                _ => return Err(DecodeError::at(place, "a key must be a plain word")),
            };
            if entries.iter().any(|(known, _)| known.text == key.text) {
                return Err(DecodeError::at(place, format!("the key `{}` occurs twice", key.text)));
            }
            let (event, span) = self.next()?;
            let value = self.node(event, &span)?;
            entries.push((key, value));
        }
    }
}

fn place(span: &Span) -> Place {
    let same_line = span.start.line() == span.end.line();
    let length = if same_line {
        span.end.col().saturating_sub(span.start.col()).max(1)
    } else {
        1
    };
    Place {
        line: narrow(span.start.line()),
        column: narrow(span.start.col() + 1),
        length: narrow(length),
    }
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The core schema of YAML 1.2: `yes` and `no` are text, which the level `no` relies on.
fn scalar(text: &str, plain: bool) -> Content {
    if !plain {
        return Content::Text(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Content::Null,
        "true" | "True" | "TRUE" => Content::Bool(true),
        "false" | "False" | "FALSE" => Content::Bool(false),
        _ if is_number(text) => Content::Number(text.to_owned()),
        _ => Content::Text(text.to_owned()),
    }
}

/// Whether a YAML reader would take an unquoted word for a number.
fn is_number(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']);
    digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && digits.contains(|character: char| character.is_ascii_digit())
        && (digits.parse::<f64>().is_ok() || digits.starts_with("0x") || digits.starts_with("0o"))
}
