//! Where images really come from: rules that point an image's registry to a mirror.

use std::fmt;
use std::str::FromStr;

/// One rule: images below `from` are taken from `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewriteRule {
    from: Prefix,
    to: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Prefix {
    /// Every image; its whole name is appended to `to`.
    Any,
    /// Images below this registry, or registry and path.
    Under(String),
}

/// A rule that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "image rewrite rule `{0}` is not FROM=TO, such as quay.io=registry.local/mirror/quay.io or *=registry.local/mirror"
)]
pub struct RewriteRuleError(String);

impl FromStr for RewriteRule {
    type Err = RewriteRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || RewriteRuleError(text.to_owned());
        let (from, to) = text.split_once('=').ok_or_else(refuse)?;
        let (from, to) = (from.trim_end_matches('/'), to.trim_end_matches('/'));
        if from.is_empty() || to.is_empty() || to.contains("://") || from.contains("://") {
            return Err(refuse());
        }
        let from = if from == "*" {
            Prefix::Any
        } else {
            Prefix::Under(from.to_owned())
        };
        Ok(Self {
            from,
            to: to.to_owned(),
        })
    }
}

impl fmt::Display for RewriteRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from {
            Prefix::Any => write!(formatter, "*={}", self.to),
            Prefix::Under(from) => write!(formatter, "{from}={}", self.to),
        }
    }
}

impl RewriteRule {
    /// How specific the rule is; the longest prefix wins.
    fn weight(&self) -> usize {
        match &self.from {
            Prefix::Any => 0,
            Prefix::Under(from) => from.len(),
        }
    }

    fn apply(&self, image: &str) -> Option<String> {
        match &self.from {
            Prefix::Any => Some(format!("{}/{image}", self.to)),
            Prefix::Under(from) => {
                let rest = image.strip_prefix(from.as_str())?;
                // A prefix ends at a path, tag or digest boundary, or it is another name.
                let ends = rest.is_empty() || rest.starts_with(['/', ':', '@']);
                ends.then(|| format!("{}{rest}", self.to))
            }
        }
    }
}

/// All rules of a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageRewrite {
    rules: Vec<RewriteRule>,
}

impl ImageRewrite {
    /// The rules in the order in which they are tried: the most specific first.
    pub fn new(mut rules: Vec<RewriteRule>) -> Self {
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.weight()));
        Self { rules }
    }

    /// Whether there is no rule at all.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Where this image is taken from instead; `None` when no rule covers it.
    pub fn rewrite(&self, image: &str) -> Option<String> {
        let image = full_name(image);
        self.rules.iter().find_map(|rule| rule.apply(&image))
    }
}

/// The name with its registry: a name without one means Docker Hub.
fn full_name(image: &str) -> String {
    let first = image.split('/').next().unwrap_or_default();
    let names_registry = image.contains('/') && (first.contains(['.', ':']) || first == "localhost");
    match (names_registry, image.contains('/')) {
        (true, _) => image.to_owned(),
        (false, true) => format!("docker.io/{image}"),
        (false, false) => format!("docker.io/library/{image}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewrite(rules: &[&str], image: &str) -> Option<String> {
        ImageRewrite::new(rules.iter().map(|rule| rule.parse().unwrap()).collect()).rewrite(image)
    }

    #[test]
    fn a_rule_covers_what_lies_below_its_prefix() {
        let cases: [(&[&str], &str, Option<&str>); 8] = [
            (
                &["quay.io=r.local/mirror/quay.io"],
                "quay.io/a/b:v1",
                Some("r.local/mirror/quay.io/a/b:v1"),
            ),
            (&["quay.io=r.local"], "quay.io.evil/a/b:v1", None),
            (
                &["quay.io/a=r.local/x"],
                "quay.io/a/b@sha256:00",
                Some("r.local/x/b@sha256:00"),
            ),
            (&["quay.io/a=r.local/x"], "quay.io/ab/b:v1", None),
            (
                &["*=r.local/all", "quay.io=r.local/quay"],
                "quay.io/a:1",
                Some("r.local/quay/a:1"),
            ),
            (
                &["*=r.local:5000/all"],
                "vllm/vllm-openai:v1",
                Some("r.local:5000/all/docker.io/vllm/vllm-openai:v1"),
            ),
            (&["docker.io=r.local"], "nginx", Some("r.local/library/nginx")),
            (&[], "quay.io/a:1", None),
        ];
        for (rules, image, expected) in cases {
            assert_eq!(rewrite(rules, image).as_deref(), expected, "{rules:?} on {image}");
        }
    }

    #[test]
    fn a_rule_that_names_no_target_is_refused() {
        for text in [
            "",
            "quay.io",
            "=x",
            "quay.io=",
            "https://quay.io=r.local",
            "quay.io=http://r.local",
        ] {
            assert!(text.parse::<RewriteRule>().is_err(), "{text:?} was taken");
        }
    }
}
