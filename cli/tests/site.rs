//! The page of `plimsoll matrix site` in a real browser, opened from a file.
#![cfg(feature = "real-browser")]
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::process::Command;

use matrix::{Matrix, SupportRow};
use tempfile::TempDir;

/// The document as the browser has it after the page's script ran.
fn opened(folder: &TempDir, filters: &str) -> String {
    let page = folder.path().join("index.html");
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=20000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}#{filters}", page.display()))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn made() -> TempDir {
    testbed::ensure_packages(&["chromium"]).unwrap();
    let folder = TempDir::new().unwrap();
    let mut command = assert_cmd::Command::cargo_bin("plimsoll").unwrap();
    command.args(["matrix", "site"]).arg(folder.path()).assert().success();
    folder
}

fn count(document: &str) -> String {
    let (_, rest) = document.split_once("id=\"count\" role=\"status\">").unwrap();
    rest.split_once('<').unwrap().0.to_owned()
}

/// The table that the browser shows; the script after it holds every row as data.
fn table(document: &str) -> &str {
    let (_, body) = document.split_once("<tbody id=\"rows\">").unwrap();
    body.split_once("</tbody>").unwrap().0
}

fn shown(document: &str) -> usize {
    table(document).matches("class=\"level\"").count()
}

fn rows(wanted: impl Fn(&SupportRow) -> bool) -> usize {
    Matrix::shipped().rows().iter().filter(|row| wanted(row)).count()
}

#[test]
fn the_page_shows_every_row_and_filters_by_its_address() {
    let folder = made();
    let all = rows(|_| true);
    let document = opened(&folder, "");
    assert_eq!(
        (shown(&document), count(&document)),
        (all, format!("{all} of {all} statements"))
    );
    let no = rows(|row| row.level.level().is_none());
    let document = opened(&folder, "level=no");
    assert_eq!(
        (shown(&document), count(&document)),
        (no, format!("{no} of {all} statements"))
    );
}

#[test]
fn a_row_of_one_vendor_and_model_opens_with_its_evidence() {
    let folder = made();
    let document = opened(&folder, "vendor=enflame&model=glm4for&open=1");
    let body = table(&document);
    for part in [
        "Enflame S60",
        "Glm4ForCausalLM",
        "vllm-gcu",
        "<strong>Evidence: </strong>",
        "support/vllm-gcu.yaml:",
    ] {
        assert!(body.contains(part), "{part} is missing in {body}");
    }
    assert!(!body.contains("MetaX"), "a row of another vendor is shown");
}
