//! From the tree to types: a serde deserializer whose errors know where they are.

use serde::de::{self, DeserializeSeed, IntoDeserializer, Visitor};

use crate::tree::{Content, Key, Node, Place};

/// What is wrong with a value, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DecodeError {
    pub(crate) place: Option<Place>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl DecodeError {
    pub(crate) fn at(place: Place, message: impl Into<String>) -> Self {
        Self {
            place: Some(place),
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The innermost place wins.
    fn or_at(mut self, place: Place) -> Self {
        self.place.get_or_insert(place);
        self
    }
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for DecodeError {}

/// A custom error may carry its fix after this mark.
pub(crate) const FIX_MARK: &str = " || fix: ";

impl de::Error for DecodeError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        let text = message.to_string();
        match text.split_once(FIX_MARK) {
            Some((message, hint)) => Self {
                place: None,
                message: message.to_owned(),
                hint: Some(hint.to_owned()),
            },
            None => Self {
                place: None,
                message: text,
                hint: None,
            },
        }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let hint = match nearest(field, expected) {
            Some(near) => format!("did you mean `{near}`? Known here: {}", expected.join(", ")),
            None => format!("known here: {}", expected.join(", ")),
        };
        Self {
            place: None,
            message: format!("unknown field `{field}`"),
            hint: Some(hint),
        }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let hint = match nearest(variant, expected) {
            Some(near) => format!("did you mean `{near}`? Known here: {}", expected.join(", ")),
            None => format!("known here: {}", expected.join(", ")),
        };
        Self {
            place: None,
            message: format!("unknown word `{variant}`"),
            hint: Some(hint),
        }
    }

    fn missing_field(field: &'static str) -> Self {
        let message = format!("the field `{field}` is missing");
        Self {
            place: None,
            message,
            hint: Some(format!("add `{field}: ...`")),
        }
    }
}

/// The known word that differs by the least, if it differs by little.
pub(crate) fn nearest<'known>(word: &str, known: &[&'known str]) -> Option<&'known str> {
    let scored = known.iter().map(|candidate| (distance(word, candidate), *candidate));
    scored
        .min()
        .filter(|(steps, candidate)| *steps <= 1 + candidate.len() / 4)
        .map(|(_, candidate)| candidate)
}

fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().flat_map(char::to_lowercase).collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, from) in left.chars().flat_map(char::to_lowercase).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[right.len()]
}

/// Decodes a tree into a type.
pub(crate) fn decode<T: de::DeserializeOwned>(node: &Node) -> Result<T, DecodeError> {
    T::deserialize(Decoder(node)).map_err(|error| error.or_at(node.place))
}

struct Decoder<'tree>(&'tree Node);

impl<'tree> Decoder<'tree> {
    fn wrong(&self, wanted: &str) -> DecodeError {
        DecodeError::at(
            self.0.place,
            format!("{} where {wanted} is expected", self.0.describe()),
        )
    }

    fn number<T: std::str::FromStr>(&self, wanted: &str) -> Result<T, DecodeError> {
        match &self.0.content {
            Content::Number(text) => text.parse().map_err(|_| self.wrong(wanted)),
            Content::Text(text) if text.parse::<T>().is_ok() => {
                Err(self.wrong(wanted).with_hint(format!("write it without quotes: {text}")))
            }
            _ => Err(self.wrong(wanted)),
        }
    }

    fn text(&self) -> Result<&'tree str, DecodeError> {
        match &self.0.content {
            Content::Text(text) => Ok(text),
            Content::Number(text) => {
                let message =
                    format!("{text} is a number here, but text is expected (9.10 and 9.1 are different versions)");
                Err(DecodeError::at(self.0.place, message).with_hint(format!("write it in quotes: \"{text}\"")))
            }
            Content::Bool(value) => Err(self.wrong("text").with_hint(format!("write it in quotes: \"{value}\""))),
            _ => Err(self.wrong("text")),
        }
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $type:ty),*) => {
        $(fn $method<V: Visitor<'tree>>(self, visitor: V) -> Result<V::Value, DecodeError> {
            visitor.$visit(self.number::<$type>("a number")?)
        })*
    };
}

impl<'tree> de::Deserializer<'tree> for Decoder<'tree> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'tree>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let place = self.0.place;
        let value = match &self.0.content {
            Content::Null => visitor.visit_unit(),
            Content::Bool(value) => visitor.visit_bool(*value),
            Content::Number(text) => match text.parse::<i64>() {
                Ok(number) => visitor.visit_i64(number),
                Err(_) => visitor.visit_f64(self.number("a number")?),
            },
            Content::Text(text) => visitor.visit_borrowed_str(text),
            Content::List(items) => visitor.visit_seq(Items(items.iter())),
            Content::Map(entries) => visitor.visit_map(Entries {
                entries: entries.iter(),
                value: None,
            }),
        };
        value.map_err(|error: DecodeError| error.or_at(place))
    }

    fn deserialize_str<V: Visitor<'tree>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let place = self.0.place;
        visitor
            .visit_borrowed_str(self.text()?)
            .map_err(|error: DecodeError| error.or_at(place))
    }

    fn deserialize_string<V: Visitor<'tree>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bool<V: Visitor<'tree>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.0.content {
            Content::Bool(value) => visitor.visit_bool(*value),
            _ => Err(self.wrong("true or false")),
        }
    }

    fn deserialize_option<V: Visitor<'tree>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.0.content {
            Content::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'tree>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'tree>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.0.content {
            Content::List(_) => self.deserialize_any(visitor),
            _ => Err(self.wrong("a list")),
        }
    }

    fn deserialize_map<V: Visitor<'tree>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.0.content {
            Content::Map(_) => self.deserialize_any(visitor),
            _ => Err(self.wrong("a map")),
        }
    }

    fn deserialize_struct<V: Visitor<'tree>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'tree>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let place = self.0.place;
        visitor
            .visit_enum(self.text()?.into_deserializer())
            .map_err(|error: DecodeError| error.or_at(place))
    }

    numbers!(
        deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16, deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64, deserialize_i32 visit_i32 i32, deserialize_i64 visit_i64 i64,
        deserialize_f32 visit_f32 f32, deserialize_f64 visit_f64 f64
    );

    serde::forward_to_deserialize_any! {
        <W: Visitor<'tree>>
        i8 i16 char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

struct Items<'tree>(std::slice::Iter<'tree, Node>);

impl<'tree> de::SeqAccess<'tree> for Items<'tree> {
    type Error = DecodeError;

    fn next_element_seed<S: DeserializeSeed<'tree>>(&mut self, seed: S) -> Result<Option<S::Value>, DecodeError> {
        let Some(node) = self.0.next() else { return Ok(None) };
        seed.deserialize(Decoder(node))
            .map(Some)
            .map_err(|error| error.or_at(node.place))
    }
}

struct Entries<'tree> {
    entries: std::slice::Iter<'tree, (Key, Node)>,
    value: Option<&'tree Node>,
}

impl<'tree> de::MapAccess<'tree> for Entries<'tree> {
    type Error = DecodeError;

    fn next_key_seed<S: DeserializeSeed<'tree>>(&mut self, seed: S) -> Result<Option<S::Value>, DecodeError> {
        let Some((key, value)) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        let name = de::value::BorrowedStrDeserializer::new(&key.text);
        seed.deserialize(name)
            .map(Some)
            .map_err(|error: DecodeError| error.or_at(key.place))
    }

    fn next_value_seed<S: DeserializeSeed<'tree>>(&mut self, seed: S) -> Result<S::Value, DecodeError> {
        let Some(node) = self.value.take() else {
            return Err(<DecodeError as de::Error>::custom("a value without a key"));
        };
        seed.deserialize(Decoder(node)).map_err(|error| error.or_at(node.place))
    }
}
