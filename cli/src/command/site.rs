//! `plimsoll matrix site`: the matrix as one static page that works from a file.

use std::collections::BTreeSet;

use anyhow::Context as _;
use matrix::{Matrix, Statement, SupportRow, Words};
use serde::Serialize;

use crate::{
    arguments::Site,
    documents::Loaded,
    fault::{Answer, Ours},
};

/// One row of the page.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    vendors: Vec<String>,
    products: Vec<String>,
    models: Vec<String>,
    engine: String,
    distribution: String,
    builds: Vec<String>,
    quantizations: Vec<String>,
    level: Statement,
    limits: String,
    evidence: String,
    source: String,
    note: String,
    row: String,
}

pub(crate) fn run(own: &Site, loaded: &Loaded) -> anyhow::Result<Answer> {
    let rows: Vec<Shown> = loaded
        .matrix
        .rows()
        .iter()
        .map(|row| shown(&loaded.matrix, row))
        .collect();
    let data = serde_json::to_string(&rows).map_err(|error| Ours(format!("writing the page: {error}")))?;
    let page = include_str!("site.html")
        .replace("@REVISION@", loaded.matrix.revision().short())
        // A text of the matrix must not end the script.
        .replace("@ROWS@", &data.replace("</", "<\\/").replace("<!--", "<\\!--"));
    std::fs::create_dir_all(&own.out).with_context(|| format!("making {}", own.out.display()))?;
    let file = own.out.join("index.html");
    std::fs::write(&file, page).with_context(|| format!("writing {}", file.display()))?;
    eprintln!("wrote {}", file.display());
    Ok(Answer::Yes)
}

fn shown(matrix: &Matrix, row: &SupportRow) -> Shown {
    let builds: Vec<&matrix::Build> = matrix.builds_of(row).collect();
    let products = matrix.products().values().filter(|product| match &row.products {
        Words::These(list) => list.iter().any(|word| product.answers_to(word)),
        Words::Unset | Words::Any => builds
            .iter()
            .any(|build| build.images.keys().any(|key| product.answers_to(key))),
        Words::None => false,
    });
    let products: Vec<&matrix::Product> = products.collect();
    let models = [&row.models.checkpoints, &row.models.architectures, &row.models.families];
    let models: Vec<String> = models.into_iter().flat_map(|words| words.list().to_vec()).collect();
    let engines: BTreeSet<&str> = builds.iter().map(|build| build.engine.as_str()).collect();
    let vendors: BTreeSet<&str> = products.iter().map(|product| product.vendor.as_str()).collect();
    Shown {
        vendors: vendors.into_iter().map(str::to_owned).collect(),
        products: products.iter().map(|product| product.name.clone()).collect(),
        models: if models.is_empty() {
            vec!["any model".to_owned()]
        } else {
            models
        },
        engine: engines.into_iter().collect::<Vec<_>>().join(", "),
        distribution: row.builds.distribution.0.join(", "),
        builds: builds.iter().map(|build| build.id.clone()).collect(),
        quantizations: row.quantizations.list().to_vec(),
        level: row.level,
        limits: limits(row),
        evidence: row.evidence.describe(),
        source: row.evidence.source.clone().unwrap_or_default(),
        note: row.note.clone().unwrap_or_default(),
        row: row.row.to_string(),
    }
}

fn limits(row: &SupportRow) -> String {
    let limits = &row.limits;
    let parts = [
        limits.devices.map(|number| format!("at least {number} devices")),
        limits.multiple_of.map(|number| format!("a multiple of {number}")),
        limits.nodes.map(|number| format!("at least {number} nodes")),
        limits.max_context.map(|tokens| format!("up to {tokens} tokens")),
        row.since.as_ref().map(|version| format!("since {version}")),
        row.stable_since
            .as_ref()
            .map(|version| format!("stable since {version}")),
        row.until.as_ref().map(|version| format!("until {version}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
