//! Every row that a source publishes, with what asks it.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::claim;

/// The rows of one table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    table: String,
    rows: Vec<Row>,
}

/// A row in the words of its source.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Row {
    /// A claim says the same.
    Asked(String),
    /// Claims say parts of it.
    InParts(InParts),
    /// None does.
    NotAsked(NotAsked),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct InParts {
    says: String,
    asked: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NotAsked {
    says: String,
    not_asked: String,
}

pub(crate) fn read(name: &str, text: &str) -> Vec<Table> {
    claim::parse(name, text)
}

/// Rows that nothing asks although they should be, rows that are asked although they say otherwise, and claims of no row.
pub(crate) fn faults(tables: &[Table], claims: &BTreeSet<&str>) -> Vec<String> {
    let mut faults = Vec::new();
    let mut known: BTreeSet<&str> = BTreeSet::new();
    for (table, row) in tables
        .iter()
        .flat_map(|table| table.rows.iter().map(move |row| (&table.table, row)))
    {
        let fault = match row {
            Row::Asked(says) => {
                known.insert(says);
                (!claims.contains(says.as_str())).then(|| format!("{table}: nothing asks `{says}`"))
            }
            Row::InParts(row) => {
                known.extend(row.asked.iter().map(String::as_str));
                let missing = row.asked.iter().find(|part| !claims.contains(part.as_str()));
                let none = row.asked.is_empty().then_some(&row.says);
                missing.or(none).map(|part| format!("{table}: nothing asks `{part}`"))
            }
            Row::NotAsked(row) => {
                let reason = row.not_asked.trim();
                let fault = if reason.is_empty() {
                    Some("has no reason")
                } else if claims.contains(row.says.as_str()) {
                    Some("is asked all the same")
                } else {
                    None
                };
                fault.map(|fault| format!("{table}: `{}` {fault}", row.says))
            }
        };
        faults.extend(fault);
    }
    let strangers = claims.difference(&known);
    faults.extend(strangers.map(|says| format!("no table has the row `{says}`")));
    faults
}
