//! Files that grew too long to hold one idea, and files that lost what they held.

use std::path::Path;

use super::Finding;

/// Lines that a Rust file may have outside of tests.
const LIMIT: usize = 600;

/// Finds an empty file, and a Rust file that is too long.
pub(super) fn lint(path: &Path, text: &str) -> Option<Finding> {
    lost(path, text).or_else(|| too_long(path, text))
}

/// A script that lost its lines passes every run.
fn lost(path: &Path, text: &str) -> Option<Finding> {
    text.trim().is_empty().then(|| Finding {
        path: path.to_owned(),
        line: 1,
        message: "the file is empty: fill or remove it".into(),
    })
}

/// Tests may be as long as their tables.
fn too_long(path: &Path, text: &str) -> Option<Finding> {
    if path.extension().is_none_or(|extension| extension != "rs") || is_test(path) {
        return None;
    }
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").count();
    let message = format!("{lines} lines outside of tests, more than {LIMIT}: split it by ideas");
    (lines > LIMIT).then(|| Finding {
        path: path.to_owned(),
        line: LIMIT,
        message,
    })
}

/// Whether a file is a test by its place: a folder `tests` of a crate, or a module `tests`.
fn is_test(path: &Path) -> bool {
    // The crates below the root's own folder `tests` are programs and libraries like any other.
    let inside = path.strip_prefix("tests").unwrap_or(path);
    inside.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_outside_of_tests_counts_and_an_empty_file_is_found() {
        let long = "x\n".repeat(601);
        let tested = format!("x\n#[cfg(test)]\n{long}");
        let cases = [
            ("matrix/src/a.rs", long.as_str(), true),
            ("tests/testbed/src/a.rs", &long, true),
            ("matrix/src/a.rs", &tested, false),
            ("matrix/tests/a.rs", &long, false),
            ("tests/e2e/tests/a.rs", &long, false),
            ("matrix/src/version/tests.rs", &long, false),
            ("docs/a.md", &long, false),
            (".ci/run", "\n", true),
        ];
        for (path, text, expected) in cases {
            assert_eq!(lint(Path::new(path), text).is_some(), expected, "{path}");
        }
    }
}
