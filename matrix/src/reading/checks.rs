//! What must hold between documents before a matrix can be used.

use std::collections::{BTreeMap, BTreeSet};

use super::Contents;
use crate::{
    build::Build,
    decode::nearest,
    document::{LoadError, Parsed},
    reason::RowReference,
    support::SupportRow,
    version::{EngineVersion, VersionScheme},
};

/// Finds references to things that do not exist, builds that share an id, images for everything, ranges that no version of
/// the scheme can meet.
pub(crate) fn check(contents: &Contents, parsed: &[Parsed], errors: &mut Vec<LoadError>) {
    let mut checker = Checker {
        contents,
        parsed,
        errors,
        words: product_words(contents),
    };
    checker.builds();
    checker.rows();
    checker.profiles();
}

/// Every word that may select a product.
pub(crate) fn product_words(contents: &Contents) -> BTreeSet<&str> {
    let mut words: BTreeSet<&str> = contents.vendors.keys().map(String::as_str).collect();
    for product in contents.products.values() {
        words.insert(&product.id);
        words.extend(product.variant.as_deref());
        words.extend(product.groups.iter().map(String::as_str));
    }
    words
}

struct Checker<'run> {
    contents: &'run Contents,
    parsed: &'run [Parsed],
    errors: &'run mut Vec<LoadError>,
    words: BTreeSet<&'run str>,
}

impl Checker<'_> {
    fn report(&mut self, row: &RowReference, message: String, hint: impl Into<String>) {
        let Some(source) = self.parsed.iter().find(|source| *source.document.path == *row.path) else {
            return;
        };
        self.errors
            .push(LoadError::at_row(&source.document, row.line, message).with_hint(hint));
    }

    fn product_word(&mut self, row: &RowReference, word: &str) {
        if self.words.contains(word) {
            return;
        }
        let known: Vec<&str> = self.words.iter().copied().collect();
        let hint = match nearest(word, &known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "use a vendor, or a product, variant or group from the Products documents".to_owned(),
        };
        self.report(
            row,
            format!("no product, variant, group or vendor is called `{word}`"),
            hint,
        );
    }

    fn builds(&mut self) {
        let contents = self.contents;
        let mut seen: BTreeMap<&str, &RowReference> = BTreeMap::new();
        for build in &contents.builds {
            if let Some(first) = seen.insert(&build.id, &build.row) {
                let message = format!("the build `{}` is defined twice, first at {first}", build.id);
                self.report(&build.row, message, "give one of them a `flavor`");
            }
            self.build(build);
        }
    }

    fn build(&mut self, build: &Build) {
        for key in build.images.keys() {
            if key == "*" || key == "any" {
                self.report(
                    &build.row,
                    "an image for every vendor".to_owned(),
                    "name the vendor, variant or product it was built for",
                );
            } else {
                self.product_word(&build.row, key);
            }
        }
        for vendor in &build.vendors {
            if !self.contents.vendors.contains_key(vendor) {
                self.product_word(&build.row, vendor);
            }
        }
        if let Some(name) = &build.launch {
            self.profile_name(&build.row, name);
        }
    }

    fn profile_name(&mut self, row: &RowReference, name: &str) {
        if self.contents.launch.contains_key(name) {
            return;
        }
        let known: Vec<&str> = self.contents.launch.keys().map(String::as_str).collect();
        let hint = nearest(name, &known).map_or_else(
            || "add a Launch document of that name".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        self.report(row, format!("no launch profile is called `{name}`"), hint);
    }

    fn rows(&mut self) {
        let contents = self.contents;
        for row in &contents.rows {
            for word in row.products.list() {
                self.product_word(&row.row, word);
            }
            self.selector(row);
            for bound in [&row.since, &row.stable_since, &row.until].into_iter().flatten() {
                if let Err(error) = EngineVersion::parse(bound, VersionScheme::Pep440) {
                    self.report(&row.row, error.to_string(), error.hint());
                }
            }
            for glob in row.models.checkpoints.list() {
                if let Err(error) = globset::Glob::new(glob) {
                    self.report(
                        &row.row,
                        format!("`{glob}` is not a glob: {error}"),
                        "write it like `Qwen/Qwen3-8B*`",
                    );
                }
            }
        }
    }

    fn selector(&mut self, row: &SupportRow) {
        let contents = self.contents;
        let selector = &row.builds;
        if selector.distribution.0.is_empty() && selector.id.0.is_empty() {
            self.report(
                &row.row,
                "the row selects no distribution".to_owned(),
                "add `distribution:` or `id:` under `builds:`",
            );
        }
        for name in &selector.distribution.0 {
            if contents.builds.iter().any(|build| build.distribution == *name) {
                continue;
            }
            let known: BTreeSet<&str> = contents
                .builds
                .iter()
                .map(|build| build.distribution.as_str())
                .collect();
            let known: Vec<&str> = known.into_iter().collect();
            let hint = nearest(name, &known).map_or_else(
                || "add a Builds document for it".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            self.report(&row.row, format!("no build of the distribution `{name}` exists"), hint);
        }
        if let Some(range) = &selector.upstream
            && let Err(error) = range.check(VersionScheme::Pep440)
        {
            self.report(&row.row, error.to_string(), error.hint());
        }
    }

    fn profiles(&mut self) {
        let contents = self.contents;
        for profile in contents.launch.values() {
            let Some(row) = profile.row.clone() else { continue };
            if let Some(base) = &profile.extends {
                self.profile_name(&row, base);
            }
            if crate::launch::chain(&contents.launch, &profile.name).is_none() {
                self.report(
                    &row,
                    format!("the launch profile `{}` extends itself", profile.name),
                    "break the circle",
                );
            }
            for text in crate::launch::templates(profile) {
                if let Some(name) = crate::launch::unknown_placeholder(text) {
                    let hint = format!("known: {}", crate::launch::PLACEHOLDERS.join(", "));
                    self.report(&row, format!("the placeholder {{{name}}} is unknown"), hint);
                }
            }
        }
    }
}
