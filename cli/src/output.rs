//! stdout is data: a table for people, JSON or YAML for programs.

use std::io::Write as _;

use anyhow::Context as _;
use serde::Serialize;

use crate::fault::Ours;

/// How data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// Prints a value for programs, or its text for people.
pub(crate) fn print<T: Serialize>(format: Format, value: &T, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    let out = match format {
        Format::Table => text(),
        Format::Json => {
            serde_json::to_string_pretty(value).map_err(|error| Ours(format!("writing JSON: {error}")))? + "\n"
        }
        Format::Yaml => yaml(value)?,
    };
    write(&out)
}

/// A value as YAML.
pub(crate) fn yaml<T: Serialize>(value: &T) -> anyhow::Result<String> {
    let mut text = serde_saphyr::to_string(value).map_err(|error| Ours(format!("writing YAML: {error}")))?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// Writes text to stdout.
pub(crate) fn write(text: &str) -> anyhow::Result<()> {
    std::io::stdout()
        .lock()
        .write_all(text.as_bytes())
        .context("writing to stdout")
}

/// Rows as columns, as wide as their widest cell; the last column is not padded.
pub(crate) fn columns(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let lines = std::iter::once(&head).chain(rows).map(|row| line(row, &widths));
    lines.collect::<String>()
}

fn line(row: &[String], widths: &[usize]) -> String {
    let mut text = String::new();
    for (cell, width) in row.iter().zip(widths) {
        text.push_str(cell);
        text.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
    }
    text.trim_end().to_owned() + "\n"
}
