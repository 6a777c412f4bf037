//! config.json as a table of keys: the language model first, then the root.

use serde_json::{Map, Value};

use crate::json;

/// Objects that hold the language model inside a larger one.
const NESTED: &[&[&str]] = &[
    &["text_config"],
    &["llm_config"],
    &["language_config"],
    &["thinker_config", "text_config"],
    &["language_model_config"],
    &["llm_cfg"],
];

/// What a lookup gave.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Lookup<T> {
    /// The value and the key that held it.
    Found(T, &'static str),
    /// None of the keys is there, or all are null.
    Absent,
    /// A key is there with a value that cannot be used: the phrase says what it is.
    Wrong(String),
}

impl<T> Lookup<T> {
    /// The value, forgetting why there is none.
    pub(crate) fn found(self) -> Option<T> {
        match self {
            Self::Found(value, _) => Some(value),
            _ => None,
        }
    }
}

/// A parsed configuration.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    file: &'static str,
    root: Map<String, Value>,
    path: &'static [&'static str],
}

impl Config {
    /// Wraps the object of `file` and finds the language model in it.
    pub(crate) fn new(file: &'static str, root: Map<String, Value>) -> Self {
        let path = NESTED
            .iter()
            .copied()
            .find(|path| descend(&root, path).is_some())
            .unwrap_or(&[]);
        Self { file, root, path }
    }

    /// The file it came from.
    pub(crate) fn file(&self) -> &'static str {
        self.file
    }

    /// The root object.
    pub(crate) fn root(&self) -> &Map<String, Value> {
        &self.root
    }

    /// The object of the language model; the root when it is not nested.
    pub(crate) fn language(&self) -> &Map<String, Value> {
        descend(&self.root, self.path).unwrap_or(&self.root)
    }

    /// Where the language model is, with dots; `None` for the root.
    pub(crate) fn nested(&self) -> Option<String> {
        (!self.path.is_empty()).then(|| self.path.join("."))
    }

    /// The value of `key` in the language model, else in the root; null is as good as absent.
    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        [self.language(), &self.root]
            .into_iter()
            .find_map(|map| map.get(key).filter(|value| !value.is_null()))
    }

    /// The first of `keys` that is set, in the language model, else in the root.
    pub(crate) fn first(&self, keys: &[&'static str]) -> Option<(&'static str, &Value)> {
        [self.language(), &self.root].into_iter().find_map(|map| {
            keys.iter().find_map(|key| {
                map.get(*key)
                    .filter(|value| !value.is_null())
                    .map(|value| (*key, value))
            })
        })
    }

    /// True when `key` is written down, even as null.
    pub(crate) fn mentions(&self, key: &str) -> bool {
        self.language().contains_key(key) || self.root.contains_key(key)
    }

    /// The first of `keys` that is set, as a whole number.
    pub(crate) fn number(&self, keys: &[&'static str]) -> Lookup<u64> {
        match self.first(keys) {
            None => Lookup::Absent,
            Some((key, value)) => match json::whole(value) {
                Some(number) => Lookup::Found(number, key),
                None => Lookup::Wrong(format!("{key} is {}, not a whole number", describe(value))),
            },
        }
    }

    /// The first of `keys` that is set, as a positive number that fits into 32 bits.
    pub(crate) fn count(&self, keys: &[&'static str]) -> Lookup<u32> {
        match self.number(keys) {
            Lookup::Absent => Lookup::Absent,
            Lookup::Wrong(reason) => Lookup::Wrong(reason),
            Lookup::Found(number, key) => match u32::try_from(number) {
                Ok(count) if count > 0 => Lookup::Found(count, key),
                _ => Lookup::Wrong(format!("{key} is {number}, which is not possible")),
            },
        }
    }

    /// A positive 32-bit number, forgetting why there is none.
    pub(crate) fn small(&self, keys: &[&'static str]) -> Option<u32> {
        self.count(keys).found()
    }

    /// The boolean of `key`.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.value(key).and_then(Value::as_bool)
    }

    /// The text of `key`.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.value(key).and_then(Value::as_str)
    }

    /// The list of `key`.
    pub(crate) fn list(&self, key: &str) -> Option<&[Value]> {
        self.value(key).and_then(Value::as_array).map(Vec::as_slice)
    }

    /// The object of `key`.
    pub(crate) fn object(&self, key: &str) -> Option<&Map<String, Value>> {
        self.value(key).and_then(Value::as_object)
    }

    /// True when the language model or the root is of one of these families.
    pub(crate) fn is_family(&self, families: &[&str]) -> bool {
        [self.language(), &self.root]
            .into_iter()
            .filter_map(|map| json::text(map, "model_type"))
            .any(|family| families.contains(&family))
    }
}

fn descend<'a>(root: &'a Map<String, Value>, path: &[&str]) -> Option<&'a Map<String, Value>> {
    path.iter()
        .try_fold(root, |map, key| json::inner(map, key))
        .filter(|map| !map.is_empty())
}

/// A value for a message: short ones as they are, others by their kind.
pub(crate) fn describe(value: &Value) -> String {
    const SHORT: usize = 40;
    match value {
        Value::Array(_) | Value::Object(_) => json::kind(value).to_owned(),
        _ => {
            let text = value.to_string();
            if text.len() <= SHORT {
                text
            } else {
                json::kind(value).to_owned()
            }
        }
    }
}
