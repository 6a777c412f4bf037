//! `plimsoll matrix diff`: what changed between two matrices, entry by entry.

use std::fmt::Write as _;

use std::collections::{BTreeMap, BTreeSet};

use matrix::Matrix;
use serde::Serialize;
use serde_json::Value;

use crate::{
    arguments::Diff,
    documents,
    fault::{Answer, Ours},
    output::{self, Format},
};

/// One entry that differs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Change {
    kind: &'static str,
    name: String,
    #[serde(rename = "change")]
    what: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fields: Vec<String>,
}

type Entries = BTreeMap<String, Value>;

pub(crate) fn run(own: &Diff, format: Format) -> anyhow::Result<Answer> {
    let from = documents::load(Some(&own.from))?.matrix;
    let to = documents::load(Some(&own.to))?.matrix;
    let mut changes = Vec::new();
    for (kind, entries) in KINDS {
        compare(kind, &entries(&from)?, &entries(&to)?, &mut changes);
    }
    output::print(format, &changes, || text(&changes, &from, &to))?;
    Ok(if changes.is_empty() { Answer::Yes } else { Answer::No })
}

type Lister = fn(&Matrix) -> anyhow::Result<Entries>;

const KINDS: [(&str, Lister); 5] = [
    ("vendor", |matrix| {
        listed(matrix.vendors().iter().map(|(id, vendor)| (id.clone(), vendor)))
    }),
    ("product", |matrix| {
        listed(matrix.products().iter().map(|(id, product)| (id.clone(), product)))
    }),
    ("build", |matrix| {
        listed(matrix.builds().iter().map(|build| (build.id.clone(), build)))
    }),
    ("row", rows),
    ("launch", |matrix| {
        listed(
            matrix
                .launch_profiles()
                .iter()
                .map(|(name, profile)| (name.clone(), profile)),
        )
    }),
];

fn listed<'run, T: Serialize + 'run>(entries: impl Iterator<Item = (String, &'run T)>) -> anyhow::Result<Entries> {
    entries.map(|(name, entry)| Ok((name, plain(entry)?))).collect()
}

/// An entry without its place: a row that only moved did not change.
fn plain<T: Serialize>(entry: &T) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(entry).map_err(|error| Ours(format!("comparing: {error}")))?;
    if let Some(map) = value.as_object_mut() {
        map.remove("row");
    }
    Ok(value)
}

/// Rows have no names: what they select is their name.
fn rows(matrix: &Matrix) -> anyhow::Result<Entries> {
    let mut entries = Entries::new();
    for row in matrix.rows() {
        let value = plain(row)?;
        let file = row.row.path.rsplit('/').next().unwrap_or(&row.row.path);
        let mut name = format!("{file}: {} {} {}", value["builds"], value["models"], value["products"]);
        let _ = write!(name, " {}", value["quantizations"]);
        while entries.contains_key(&name) {
            name.push('+');
        }
        entries.insert(name, value);
    }
    Ok(entries)
}

fn compare(kind: &'static str, from: &Entries, to: &Entries, changes: &mut Vec<Change>) {
    let names: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    for name in names {
        let (change, fields) = match (from.get(name), to.get(name)) {
            (None, Some(_)) => ("added", Vec::new()),
            (Some(_), None) => ("removed", Vec::new()),
            (Some(old), Some(new)) if old != new => ("changed", fields(old, new)),
            _ => continue,
        };
        changes.push(Change {
            kind,
            name: name.clone(),
            what: change,
            fields,
        });
    }
}

/// Fields that differ, with both values.
fn fields(old: &Value, new: &Value) -> Vec<String> {
    let (Some(before), Some(after)) = (old.as_object(), new.as_object()) else {
        return Vec::new();
    };
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differing = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    differing
        .map(|name| format!("{name}: {} -> {}", old[name], new[name]))
        .collect()
}

fn text(changes: &[Change], from: &Matrix, to: &Matrix) -> String {
    let mut text = format!("{} -> {}\n", from.revision().short(), to.revision().short());
    for change in changes {
        let mark = match change.what {
            "added" => "+",
            "removed" => "-",
            _ => "~",
        };
        let _ = writeln!(text, "{mark} {:<8} {}", change.kind, change.name);
        for field in &change.fields {
            let _ = writeln!(text, "             {field}");
        }
    }
    if changes.is_empty() {
        text.push_str("no change\n");
    }
    text
}
