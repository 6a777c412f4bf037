//! Answers that stand in files beside their questions. `GOLDEN=write` writes them.
#![allow(
    clippy::unwrap_used,
    reason = "a test may stop; one of the tests that share this allows it already"
)]

use std::{fs, path::Path};

/// What differs between the file and the answer, when anything does.
#[expect(
    clippy::disallowed_methods,
    reason = "a test looks at its own files, and writes them when its environment tells it to"
)]
pub(crate) fn difference(name: &str, file: &Path, got: &str) -> Option<String> {
    if std::env::var("GOLDEN").is_ok_and(|word| word == "write") {
        fs::write(file, got).unwrap();
    }
    let expected = fs::read_to_string(file).unwrap_or_default();
    (expected != got).then(|| format!("--- {name}: expected\n{expected}\n--- got\n{got}"))
}
