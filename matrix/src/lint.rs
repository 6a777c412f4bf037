//! What a matrix could do better: everything that loads, yet will not do what its author meant.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{
    build::{Build, Pull},
    document::{Document, LoadError},
    index::{Index, in_bounds},
    reading::{Contents, parse, read},
    reason::RowReference,
    support::{ModelMatch, SupportRow},
    words::{Evidence, Words},
};

mod overlap;

/// How a lint run judges.
#[derive(Debug, Clone, Default)]
pub struct LintOptions {
    /// Today, `2026-11-30`; without it nothing expires.
    pub date: Option<String>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// The matrix cannot be used.
    Error,
    /// It can, but somebody should look.
    Warning,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// A fixed word: `load`, `tie`, `shadowed`, `unreachable`, `digest`, `expired`, `launch`, `unsatisfiable`, `claim`, ...
    pub rule: String,
    /// Path of the document.
    pub path: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// How to mend it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// The line as it is written, with a caret line.
    #[serde(skip)]
    text: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = if self.severity == Severity::Error {
            "error"
        } else {
            "warning"
        };
        write!(out, "{word}[{}] {}", self.rule, self.text)
    }
}

/// Looks at documents. Errors of loading come first; with them nothing else is looked at.
pub fn lint(documents: &[Document], options: &LintOptions) -> Vec<Finding> {
    let mut errors: Vec<LoadError> = Vec::new();
    let parsed = parse(documents, &mut errors);
    let contents = read(&parsed, &mut errors);
    crate::reading::check(&contents, &parsed, &mut errors);
    if !errors.is_empty() {
        errors.sort();
        errors.dedup();
        return errors
            .into_iter()
            .map(|error| finding(Severity::Error, "load", error))
            .collect();
    }
    let index = Index::new(&contents);
    let mut linter = Linter {
        documents,
        contents: &contents,
        index: &index,
        options,
        findings: Vec::new(),
    };
    linter.builds();
    linter.rows();
    overlap::look(&mut linter);
    linter.findings.sort();
    linter.findings
}

fn finding(severity: Severity, rule: &str, error: LoadError) -> Finding {
    Finding {
        severity,
        rule: rule.to_owned(),
        text: error.to_string(),
        path: error.path,
        line: error.line,
        column: error.column,
        message: error.message,
        fix: error.hint,
    }
}

struct Linter<'run> {
    documents: &'run [Document],
    contents: &'run Contents,
    index: &'run Index,
    options: &'run LintOptions,
    findings: Vec<Finding>,
}

impl Linter<'_> {
    fn warn(&mut self, rule: &str, row: &RowReference, message: impl Into<String>, fix: impl Into<String>) {
        let Some(document) = self.documents.iter().find(|document| *document.path == *row.path) else {
            return;
        };
        let error = LoadError::at_row(document, row.line, message).with_hint(fix);
        self.findings.push(finding(Severity::Warning, rule, error));
    }

    fn builds(&mut self) {
        let contents = self.contents;
        for (position, build) in contents.builds.iter().enumerate() {
            if build.launch.is_none() && !build.images.is_empty() {
                self.warn(
                    "launch",
                    &build.row,
                    format!("{} has no launch profile", build.id),
                    "name one with `launch:`, so that flags and probes are known",
                );
            }
            self.digests(build);
            self.stacks(position, build);
            self.moving_tags(build);
            self.expiry(&build.evidence, &build.row);
        }
    }

    fn digests(&mut self, build: &Build) {
        let mut bare: Vec<&str> = build
            .images
            .values()
            .flatten()
            .filter(|image| image.digest.is_none() && image.pull != Pull::Offline)
            .map(|image| image.image.as_str())
            .collect();
        bare.sort_unstable();
        bare.dedup();
        if let Some(first) = bare.first() {
            let more = if bare.len() > 1 {
                format!(" and {} more", bare.len() - 1)
            } else {
                String::new()
            };
            self.warn(
                "digest",
                &build.row,
                format!("{first}{more}: no digest, so the tag may move"),
                "add `digest: sha256:...` beside `image:`",
            );
        }
    }

    /// A stack that no vendor of the images knows is never compared with a host.
    fn stacks(&mut self, position: usize, build: &Build) {
        let vendors = self.index.vendors_of[position]
            .iter()
            .filter_map(|id| self.contents.vendors.get(id));
        let known: BTreeSet<&str> = vendors
            .flat_map(|vendor| &vendor.stacks)
            .map(|rule| rule.name.as_str())
            .collect();
        let strange: Vec<&str> = build
            .stack
            .keys()
            .map(String::as_str)
            .filter(|name| !known.contains(name))
            .collect();
        if let Some(name) = strange.first() {
            let message = format!("no vendor of {} has a stack called `{name}`", build.id);
            self.warn(
                "stack",
                &build.row,
                message,
                "add it to `stacks` of the Products document, or spell it as there",
            );
        }
    }

    fn moving_tags(&mut self, build: &Build) {
        let moving = |image: &str| {
            let tag = image
                .rsplit('/')
                .next()
                .and_then(|name| name.split_once(':'))
                .map(|(_, tag)| tag);
            tag.is_none_or(|tag| matches!(tag, "latest" | "nightly" | "main" | "master"))
        };
        let found: Option<String> = build
            .images
            .values()
            .flatten()
            .find(|image| image.digest.is_none() && moving(&image.image))
            .map(|image| image.image.clone());
        if let Some(image) = found {
            self.warn(
                "moving-tag",
                &build.row,
                format!("{image} is a moving tag"),
                "pin it by digest, or name a release tag",
            );
        }
    }

    fn rows(&mut self) {
        let contents = self.contents;
        for (position, row) in contents.rows.iter().enumerate() {
            self.expiry(&row.evidence, &row.row);
            self.evidence(row);
            self.reachable(position, row);
            self.claim(position, row);
            self.method(position, row);
        }
    }

    fn evidence(&mut self, row: &SupportRow) {
        if row.evidence.source.is_none() {
            self.warn(
                "evidence",
                &row.row,
                "the row names no source",
                "add `evidence: {source: ...}` to the row or to the document",
            );
        }
    }

    fn expiry(&mut self, evidence: &Evidence, row: &RowReference) {
        let (Some(today), Some(expires)) = (&self.options.date, &evidence.expires) else {
            return;
        };
        if expires <= today {
            let message = format!("its evidence expired on {expires}");
            self.warn(
                "expired",
                row,
                message,
                "look at the source again and move the date, or take the row out",
            );
        }
    }

    /// A row that selects no build, or builds without an image for any of its products.
    fn reachable(&mut self, position: usize, row: &SupportRow) {
        let builds = self.index.row_builds(position);
        if builds.is_empty() {
            self.warn(
                "unsatisfiable",
                &row.row,
                "no build meets the row's selector",
                "widen `builds:`, or add the build",
            );
            return;
        }
        let contents = self.contents;
        let bounded: Vec<usize> = builds
            .iter()
            .copied()
            .filter(|build| in_bounds(row, &contents.builds[*build]))
            .collect();
        if bounded.is_empty() {
            self.warn(
                "unsatisfiable",
                &row.row,
                "no build of the selector lies between `since` and `until`",
                "look at the versions",
            );
            return;
        }
        let with_image = bounded
            .iter()
            .filter(|build| !contents.builds[**build].images.is_empty());
        let served = with_image
            .clone()
            .any(|build| self.serves(&contents.builds[*build], row));
        if with_image.count() > 0 && !served {
            self.warn(
                "unsatisfiable",
                &row.row,
                "no build of the selector has an image for these products",
                "look at `products:` and at the keys of `images:`",
            );
        }
    }

    fn serves(&self, build: &Build, row: &SupportRow) -> bool {
        let products = self.contents.products.values();
        let on_row = |words: &Words, product: &crate::product::Product| match words {
            Words::Unset | Words::Any => true,
            Words::None => false,
            Words::These(list) => list.iter().any(|word| product.answers_to(word)),
        };
        products
            .filter(|product| on_row(&row.products, product))
            .any(|product| crate::decide::image::images_for(build, product).is_some())
    }

    /// An architecture that the upstream release does not list, claimed by a build that does not bring model code of its own.
    fn claim(&mut self, position: usize, row: &SupportRow) {
        if row.level.level().is_none() || row.models.closeness() != ModelMatch::Architecture || has_own_code(row) {
            return;
        }
        let contents = self.contents;
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for build in self
            .index
            .row_builds(position)
            .iter()
            .map(|build| &contents.builds[*build])
        {
            let Some(list) = contents.lists.get(&build.upstream_engine) else {
                continue;
            };
            let Some(upstream) = build.upstream.as_ref().filter(|_| in_bounds(row, build)) else {
                continue;
            };
            for name in row.models.architectures.list() {
                if !list
                    .architectures
                    .get(name)
                    .is_some_and(|listed| listed.holds(upstream))
                {
                    missing.entry(name).or_default().insert(&build.id);
                }
            }
        }
        if let Some((name, builds)) = missing.iter().next() {
            let first = builds.iter().next().copied().unwrap_or_default();
            let message = format!("{name} is not in the list of the upstream release of {first}");
            self.warn(
                "claim",
                &row.row,
                message,
                "bound the row with `since`, or say in a note that the plugin brings its own model code",
            );
        }
    }

    /// A quantization whose method the upstream release does not accept.
    fn method(&mut self, position: usize, row: &SupportRow) {
        if row.level.level().is_none() || has_own_code(row) {
            return;
        }
        let contents = self.contents;
        let claimed = METHODS
            .iter()
            .filter(|(label, _)| row.quantizations.list().iter().any(|word| word == label));
        for (label, method) in claimed {
            let without = self.index.row_builds(position).iter().find(|build| {
                let build = &contents.builds[**build];
                let listed = contents
                    .lists
                    .get(&build.upstream_engine)
                    .and_then(|list| list.quantizations.get(*method));
                let upstream = build.upstream.as_ref().filter(|_| in_bounds(row, build));
                matches!((listed, upstream), (Some(listed), Some(upstream)) if !listed.holds(upstream))
            });
            if let Some(build) = without {
                let message = format!(
                    "the upstream release of {} does not accept {method}, which {label} needs",
                    contents.builds[*build].id
                );
                self.warn(
                    "claim",
                    &row.row,
                    message,
                    "bound the row with `upstream`, or say in a note that the plugin brings its own model code",
                );
            }
        }
    }
}

/// Words for quantizations that are a method of the engine itself, with the method.
const METHODS: [(&str, &str); 3] = [
    ("gguf", "gguf"),
    ("bnb-4bit", "bitsandbytes"),
    ("bnb-8bit", "bitsandbytes"),
];

/// The note of a row answers for architectures that upstream does not list.
fn has_own_code(row: &SupportRow) -> bool {
    row.note.as_ref().is_some_and(|note| note.contains("own model code"))
}
