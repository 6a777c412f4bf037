//! `plimsoll matrix lint`: what is wrong with a folder of documents.

use std::fmt::Write as _;

use std::path::Path;

use matrix::{Finding, LintOptions, Severity};
use serde::Serialize;

use crate::{
    arguments::Lint,
    documents,
    fault::{Answer, hinted},
    output::{self, Format},
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    errors: usize,
    warnings: usize,
    findings: Vec<Finding>,
}

pub(crate) fn run(own: &Lint, matrix: Option<&Path>, format: Format) -> anyhow::Result<Answer> {
    let documents = match own.folder.as_deref().or(matrix) {
        Some(folder) if folder.is_dir() => documents::read_folder(folder)?,
        Some(other) => {
            return Err(hinted(
                format!("{} is not a folder", other.display()),
                "give the folder with the documents",
            ));
        }
        None => matrix::shipped_documents(),
    };
    let findings = matrix::lint(&documents, &LintOptions { date: own.date.clone() });
    let errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .count();
    let report = Report {
        errors,
        warnings: findings.len() - errors,
        findings,
    };
    output::print(format, &report, || text(&report))?;
    let bad = report.errors > 0 || (own.strict && report.warnings > 0);
    Ok(if bad { Answer::No } else { Answer::Yes })
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        let _ = writeln!(text, "{finding}");
    }
    let _ = writeln!(text, "{} errors, {} warnings", report.errors, report.warnings);
    text
}
