//! Files that grew too long to hold one idea.

use std::path::Path;

use super::Finding;

/// Lines that a Rust file may have outside of tests.
const LIMIT: usize = 600;

/// Finds a Rust file that is too long; tests may be as long as their tables.
pub(super) fn lint(path: &Path, text: &str) -> Option<Finding> {
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
    fn only_code_outside_of_tests_counts() {
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
        ];
        for (path, text, expected) in cases {
            assert_eq!(lint(Path::new(path), text).is_some(), expected, "{path}");
        }
    }
}
