//! Small shapes that the documents share.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de};

/// A list that may be written as one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = OneOrMany<T>;
            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("one value or a list of values")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                let value = de::value::StrDeserializer::new(text);
                T::deserialize(value).map(|item| OneOrMany(vec![item]))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
                let value = de::value::I64Deserializer::<E>::new(number);
                let mark = crate::decode::FIX_MARK;
                let message =
                    format!("{number} is a number here, but text is expected{mark}write it in quotes: \"{number}\"");
                T::deserialize(value)
                    .map(|item| OneOrMany(vec![item]))
                    .map_err(|_| E::custom(message))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
                Err(E::custom(format!(
                    "the number {number} where text is expected{}write it in quotes",
                    crate::decode::FIX_MARK
                )))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while let Some(item) = items.next_element()? {
                    values.push(item);
                }
                Ok(OneOrMany(values))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(de::value::MapAccessDeserializer::new(map)).map(|item| OneOrMany(vec![item]))
            }
        }
        deserializer.deserialize_any(Visitor(std::marker::PhantomData))
    }
}

/// A set of words with three ways to be small: unset, `any` and `none` are different values.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(into = "OneOrMany<String>")]
pub enum Words {
    /// Nothing is said.
    #[default]
    Unset,
    /// All of them.
    Any,
    /// None of them.
    None,
    /// These.
    These(Vec<String>),
}

impl From<Words> for OneOrMany<String> {
    fn from(words: Words) -> Self {
        match words {
            Words::Unset => Self(Vec::new()),
            Words::Any => Self(vec!["any".to_owned()]),
            Words::None => Self(vec!["none".to_owned()]),
            Words::These(list) => Self(list),
        }
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let OneOrMany(list) = OneOrMany::<String>::deserialize(deserializer)?;
        let mark = crate::decode::FIX_MARK;
        match list.as_slice() {
            [] => Err(de::Error::custom(format!(
                "an empty list{mark}leave the field out, or write `any` or `none`"
            ))),
            [word] if word == "any" => Ok(Self::Any),
            [word] if word == "none" => Ok(Self::None),
            _ if list.iter().any(|word| word == "any" || word == "none") => Err(de::Error::custom(format!(
                "`any` or `none` beside other words{mark}write it alone"
            ))),
            _ if list.iter().any(|word| word == "*") => Err(de::Error::custom(format!(
                "the wildcard `*`{mark}write `any` where everything is meant"
            ))),
            _ => Ok(Self::These(list)),
        }
    }
}

impl Words {
    /// True when nothing is said.
    pub fn is_unset(&self) -> bool {
        *self == Self::Unset
    }

    /// The words, when there is a list.
    pub fn list(&self) -> &[String] {
        match self {
            Self::These(list) => list,
            Self::Unset | Self::Any | Self::None => &[],
        }
    }

    /// Whether a word is in the set; unset says yes to all, as `any` does.
    pub fn holds(&self, word: &str) -> bool {
        match self {
            Self::Unset | Self::Any => true,
            Self::None => false,
            Self::These(list) => list.iter().any(|item| item == word),
        }
    }
}

/// Versions of a stack by its name.
pub type StackVersions = BTreeMap<String, String>;

/// What a statement rests on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Evidence {
    /// What it is: `vendor-docs`, `vendor-code`, `release`, `third-party`, `talk`, `own-test`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// How deep it goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<Depth>,
    /// Where it can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Its day, `2026-02-11`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Who says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// From this day on it needs a fresh look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// `solid`: the vendor's or project's own text or code; `secondary`: a third party's; `unverified`: inferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
}

/// How deep evidence goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Depth {
    /// Somebody says so.
    Declared,
    /// It ran on a simulated accelerator.
    Simulated,
    /// It ran on the hardware.
    Measured,
}

/// How good a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// The vendor's or project's own text or code.
    Solid,
    /// A third party's.
    Secondary,
    /// A public talk.
    Talk,
    /// Inferred, or not read.
    Unverified,
}

impl Evidence {
    /// Fields that are unset here come from `base`.
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        let pick = |own: &Option<String>, other: &Option<String>| own.clone().or_else(|| other.clone());
        Self {
            kind: pick(&self.kind, &base.kind),
            depth: self.depth.or(base.depth),
            source: pick(&self.source, &base.source),
            date: pick(&self.date, &base.date),
            by: pick(&self.by, &base.by),
            expires: pick(&self.expires, &base.expires),
            confidence: self.confidence.or(base.confidence),
        }
    }

    /// A phrase for people: `vendor docs, 2026-02-11`.
    pub fn describe(&self) -> String {
        let kind = self.kind.as_deref().map(|kind| kind.replace('-', " "));
        let parts: Vec<String> = [kind.or_else(|| self.source.clone()), self.date.clone()]
            .into_iter()
            .flatten()
            .collect();
        if parts.is_empty() {
            "no evidence named".to_owned()
        } else {
            parts.join(", ")
        }
    }
}
