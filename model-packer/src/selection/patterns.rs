//! The hub's globs: `*` also crosses `/`, case counts, a trailing `/` means everything below.

use std::fmt;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// A list of patterns.
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    texts: Vec<String>,
    set: GlobSet,
}

/// A pattern that is none.
#[derive(Debug, thiserror::Error)]
#[error("`{pattern}` is no pattern")]
pub struct PatternError {
    pattern: String,
    #[source]
    source: globset::Error,
}

impl Patterns {
    /// Compiles the patterns.
    pub fn new<Text: AsRef<str>>(texts: impl IntoIterator<Item = Text>) -> Result<Self, PatternError> {
        let texts: Vec<String> = texts.into_iter().map(|text| text.as_ref().to_owned()).collect();
        let mut builder = GlobSetBuilder::new();
        for text in &texts {
            let below = if text.ends_with('/') {
                format!("{text}*")
            } else {
                text.clone()
            };
            let glob = GlobBuilder::new(&below)
                .literal_separator(false)
                .backslash_escape(false)
                .build();
            builder.add(glob.map_err(|source| PatternError {
                pattern: text.clone(),
                source,
            })?);
        }
        let set = builder.build().map_err(|source| PatternError {
            pattern: texts.join(" "),
            source,
        })?;
        Ok(Self { texts, set })
    }

    /// One pattern per line, as [`fmt::Display`] writes them.
    pub fn parse_lines(text: &str) -> Result<Self, PatternError> {
        Self::new(text.lines())
    }

    /// Whether any of them matches.
    pub fn matches(&self, path: &str) -> bool {
        self.set.is_match(path)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}

impl fmt::Display for Patterns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.texts.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_the_hubs_users_expect() {
        let cases = [
            ("*.json", "config.json", true),
            ("*.json", "a/b/config.json", true),
            ("original/", "original/a/b.pth", true),
            ("original/", "original", false),
            ("original/*", "original/a/b.pth", true),
            ("Model.bin", "model.bin", false),
            ("model-?.bin", "model-1.bin", true),
            ("model-[0-4].bin", "model-7.bin", false),
            ("model-[!0-4].bin", "model-7.bin", true),
            ("config", "config.json", false),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(
                Patterns::new([pattern]).unwrap().matches(path),
                expected,
                "{pattern} {path}"
            );
        }
        assert!(Patterns::new(["a[", "b"]).is_err());
        assert!(!Patterns::default().matches("x"));
    }
}
