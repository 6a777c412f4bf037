//! `plimsoll matrix coverage`: which models which vendor's builds are said to serve.

use std::collections::{BTreeMap, BTreeSet};

use matrix::{Level, Matrix, SupportRow, Words};
use serde::Serialize;

use crate::{
    arguments::Coverage,
    documents::Loaded,
    fault::Answer,
    output::{self, Format},
};

/// The best statement about a model on a vendor's devices.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Cell {
    level: Option<Level>,
    rows: usize,
    builds: BTreeSet<String>,
}

type Table = BTreeMap<String, BTreeMap<String, Cell>>;

pub(crate) fn run(own: &Coverage, loaded: &Loaded, format: Format) -> anyhow::Result<Answer> {
    let table = table(&loaded.matrix, own.vendor.as_deref());
    output::print(format, &table, || text(&table))?;
    Ok(Answer::Yes)
}

fn table(matrix: &Matrix, only: Option<&str>) -> Table {
    let mut table = Table::new();
    for row in matrix.rows() {
        let builds: Vec<&matrix::Build> = matrix.builds_of(row).collect();
        for vendor in vendors_of(matrix, row, &builds)
            .iter()
            .filter(|vendor| only.is_none_or(|word| word == vendor.as_str()))
        {
            for model in models_of(row) {
                let cell = table
                    .entry(model)
                    .or_default()
                    .entry(vendor.clone())
                    .or_insert_with(|| Cell {
                        level: None,
                        rows: 0,
                        builds: BTreeSet::new(),
                    });
                cell.rows += 1;
                if let Some(level) = row.level.level() {
                    cell.level = Some(cell.level.map_or(level, |known| known.min(level)));
                    cell.builds.extend(builds.iter().map(|build| build.id.clone()));
                }
            }
        }
    }
    table
}

/// What a row calls its models.
fn models_of(row: &SupportRow) -> Vec<String> {
    let models = &row.models;
    let lists = [&models.checkpoints, &models.architectures, &models.families];
    let named: Vec<String> = lists
        .into_iter()
        .find(|words| !words.list().is_empty())
        .map(|words| words.list().to_vec())
        .unwrap_or_default();
    if named.is_empty() {
        vec!["any model".to_owned()]
    } else {
        named
    }
}

fn vendors_of(matrix: &Matrix, row: &SupportRow, builds: &[&matrix::Build]) -> BTreeSet<String> {
    let products = matrix.products().values().filter(|product| match &row.products {
        Words::These(list) => list.iter().any(|word| product.answers_to(word)),
        Words::Unset | Words::Any => builds
            .iter()
            .any(|build| build.images.keys().any(|key| product.answers_to(key))),
        Words::None => false,
    });
    products.map(|product| product.vendor.clone()).collect()
}

fn text(table: &Table) -> String {
    let vendors: BTreeSet<&String> = table.values().flat_map(BTreeMap::keys).collect();
    let mut head = vec!["model"];
    head.extend(vendors.iter().map(|vendor| vendor.as_str()));
    let rows: Vec<Vec<String>> = table
        .iter()
        .map(|(model, cells)| {
            let marks = vendors
                .iter()
                .map(|vendor| cells.get(*vendor).map_or(String::new(), mark));
            std::iter::once(model.clone()).chain(marks).collect()
        })
        .collect();
    output::columns(&head, &rows)
}

/// The level and how many builds it is said of; `no` where nothing else is said.
fn mark(cell: &Cell) -> String {
    cell.level.map_or_else(
        || "no".to_owned(),
        |level| format!("{} ({})", level.word(), cell.builds.len()),
    )
}
