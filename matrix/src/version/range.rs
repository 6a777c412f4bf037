//! Ranges of versions: `>=0.20.2, <0.23`, `==0.9.2`, `0.18.* || 0.21.*`.

use std::cmp::Ordering;

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use super::{EngineVersion, VersionError, VersionScheme};
use crate::decode::FIX_MARK;

/// A set of versions: alternatives (`||`) of bounds that all hold (`,`). A candidate release lies below its final release, so
/// `<0.23` holds `0.23.0rc1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct VersionRange {
    text: String,
    alternatives: Vec<Vec<Bound>>,
}

impl From<VersionRange> for String {
    fn from(range: VersionRange) -> Self {
        range.text
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Bound {
    operator: Operator,
    version: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    AtLeast,
    Above,
    AtMost,
    Below,
    Equal,
    NotEqual,
    StartsWith,
}

/// A text that is not a range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a version range: {why}")]
pub struct RangeError {
    text: String,
    why: &'static str,
}

impl RangeError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        "write bounds like \">=0.20.2, <0.23\", one version like \"==0.9.2\", a prefix like \"0.18.*\", alternatives with \"||\""
    }
}

impl VersionRange {
    /// Reads a range.
    pub fn parse(text: &str) -> Result<Self, RangeError> {
        let error = |why| RangeError {
            text: text.to_owned(),
            why,
        };
        let mut alternatives = Vec::new();
        for alternative in text.split("||") {
            let bounds: Result<Vec<Bound>, _> = alternative.split(',').map(|term| read_bound(term.trim())).collect();
            alternatives.push(bounds.map_err(error)?);
        }
        Ok(Self {
            text: text.trim().to_owned(),
            alternatives,
        })
    }

    /// The range as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a version lies in the range; `false` where its scheme gives no answer.
    pub fn contains(&self, version: &EngineVersion) -> bool {
        self.alternatives
            .iter()
            .any(|bounds| bounds.iter().all(|bound| bound.holds(version)))
    }

    /// Checks that every version in it can be read under a scheme.
    pub fn check(&self, scheme: VersionScheme) -> Result<(), VersionError> {
        for bound in self.alternatives.iter().flatten() {
            EngineVersion::parse(&bound.version, scheme)?;
        }
        Ok(())
    }
}

impl std::fmt::Display for VersionRange {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for VersionRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(|error| D::Error::custom(format!("{error}{FIX_MARK}{}", error.hint())))
    }
}

fn read_bound(term: &str) -> Result<Bound, &'static str> {
    const OPERATORS: [(&str, Operator); 7] = [
        (">=", Operator::AtLeast),
        ("<=", Operator::AtMost),
        ("==", Operator::Equal),
        ("!=", Operator::NotEqual),
        (">", Operator::Above),
        ("<", Operator::Below),
        ("=", Operator::Equal),
    ];
    let found = OPERATORS
        .iter()
        .find_map(|(sign, operator)| Some((*operator, term.strip_prefix(sign)?.trim())));
    let (operator, version) = found.unwrap_or((Operator::Equal, term));
    if version.is_empty() {
        return Err("a bound has no version");
    }
    if version.contains(char::is_whitespace) {
        return Err("bounds are separated by commas");
    }
    match (operator, version.strip_suffix(".*")) {
        (Operator::Equal, Some(prefix)) => Ok(Bound {
            operator: Operator::StartsWith,
            version: prefix.to_owned(),
        }),
        (_, Some(_)) => Err("a prefix stands alone, without an operator"),
        (_, None) => Ok(Bound {
            operator,
            version: version.to_owned(),
        }),
    }
}

impl Bound {
    fn holds(&self, version: &EngineVersion) -> bool {
        let Ok(bound) = EngineVersion::parse(&self.version, version.scheme()) else {
            return false;
        };
        if self.operator == Operator::StartsWith {
            return version.starts_with(&bound);
        }
        let Some(order) = version.compare(&bound) else {
            return self.operator == Operator::NotEqual;
        };
        match self.operator {
            Operator::AtLeast => order != Ordering::Less,
            Operator::Above => order == Ordering::Greater,
            Operator::AtMost => order != Ordering::Greater,
            Operator::Below => order == Ordering::Less,
            Operator::Equal | Operator::StartsWith => order == Ordering::Equal,
            Operator::NotEqual => order != Ordering::Equal,
        }
    }
}
