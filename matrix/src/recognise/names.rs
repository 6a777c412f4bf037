//! Names of products, in all the spellings of labels, attributes and registrations.

use crate::product::{Product, SuffixMeaning, SuffixRule, Vendor};

/// Words that fill a field without saying anything.
const PLACEHOLDERS: [&str; 11] = [
    "",
    "unknown",
    "none",
    "null",
    "n/a",
    "na",
    "<none>",
    "<nil>",
    "undefined",
    "invalid",
    "not-available",
];

/// Whether a value says nothing.
pub(super) fn is_placeholder(value: &str) -> bool {
    PLACEHOLDERS.contains(&value.trim().to_ascii_lowercase().as_str())
}

/// One spelling for comparison: lower case, runs of separators as one hyphen.
fn plain(name: &str) -> String {
    let lower = name.trim().to_lowercase();
    let words: Vec<&str> = lower
        .split([' ', '_', '-', '\t'])
        .filter(|word| !word.is_empty())
        .collect();
    words.join("-")
}

/// The plain spelling without the words in front that say nothing.
fn bare<'name>(vendor: &Vendor, name: &'name str) -> &'name str {
    let mut rest = name;
    loop {
        let before = rest;
        for prefix in &vendor.prefixes {
            if let Some(after) = rest
                .strip_prefix(plain(prefix).as_str())
                .map(|after| after.trim_start_matches('-'))
                && !after.is_empty()
            {
                rest = after;
            }
        }
        if rest == before {
            return rest;
        }
    }
}

/// Whether a word is a name of a product: its id or one of its names, in any spelling.
pub(crate) fn means(vendor: &Vendor, product: &Product, word: &str) -> bool {
    let word = plain(word);
    let names = product.matches.iter().chain([&product.id, &product.name]);
    names
        .map(|name| plain(name))
        .any(|name| name == word || bare(vendor, &name) == bare(vendor, &word))
}

/// The product that a name means: exact spellings first, so that `Ascend910` and `910A` stay apart.
pub(super) fn product<'all>(
    vendor: &Vendor,
    products: impl Iterator<Item = &'all Product> + Clone,
    name: &str,
) -> Option<&'all Product> {
    let own = products.filter(|product| product.vendor == vendor.id);
    let exact = own
        .clone()
        .find(|product| product.matches.iter().any(|known| plain(known) == plain(name)));
    exact.or_else(|| own.clone().find(|product| means(vendor, product, name)))
}

/// A product name taken apart.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tail<'name> {
    /// The name without its tails.
    pub(super) name: &'name str,
    /// What the tails say about the card, sharing aside.
    pub(super) means: Option<SuffixMeaning>,
    /// A tail says that the card, or the partition, is shared.
    pub(super) shared: bool,
    /// The profile in the tail.
    pub(super) profile: Option<&'name str>,
}

/// Takes the tails off a product name: `-SHARED`, `-MIG-1g.5gb`, `-MIG-INVALID`, `-MIG-1g.5gb-SHARED`.
pub(super) fn tail<'name>(vendor: &Vendor, name: &'name str) -> Tail<'name> {
    let mut tail = Tail {
        name,
        means: None,
        shared: false,
        profile: None,
    };
    while let Some((rule, at, profile)) = last_tail(vendor, tail.name) {
        tail.name = &tail.name[..at];
        match rule.means {
            SuffixMeaning::TimeSlicing => tail.shared = true,
            means => tail.means = Some(means),
        }
        tail.profile = profile.or(tail.profile);
    }
    tail
}

/// The tail at the end of a name; those that are all letters before those with a profile, which could hold them.
fn last_tail<'rule, 'name>(
    vendor: &'rule Vendor,
    name: &'name str,
) -> Option<(&'rule SuffixRule, usize, Option<&'name str>)> {
    let lower = name.to_ascii_lowercase();
    let cut = |rule: &'rule SuffixRule| {
        let suffix = rule.suffix.to_ascii_lowercase();
        let (at, profile) = match suffix.strip_suffix('*') {
            Some(start) => lower.rfind(start).map(|at| (at, Some(&name[at + start.len()..])))?,
            None => (lower.strip_suffix(&suffix)?.len(), None),
        };
        (at > 0).then_some((rule, at, profile))
    };
    let (open, closed): (Vec<_>, Vec<_>) = vendor.suffixes.iter().partition(|rule| rule.suffix.ends_with('*'));
    closed.into_iter().chain(open).find_map(cut)
}

/// Whether a name meets a pattern with at most one `*`.
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    capture(pattern, name).is_some()
}

/// What `*` stands for in a name; an empty text for a pattern without one.
pub(crate) fn capture<'name>(pattern: &str, name: &'name str) -> Option<&'name str> {
    match pattern.split_once('*') {
        None => (pattern == name).then_some(""),
        Some((front, back)) => {
            let middle = name.strip_prefix(front)?.strip_suffix(back)?;
            (!middle.is_empty()).then_some(middle)
        }
    }
}

/// A pattern with `*` filled in.
pub(super) fn filled(pattern: &str, middle: &str) -> String {
    pattern.replacen('*', middle, 1)
}
