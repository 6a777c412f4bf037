//! `plimsoll matrix requirements`: what hosts must have, by product and build.

use matrix::{Build, Product, Vendor};
use serde::Serialize;

use crate::{
    arguments::Requirements,
    documents::Loaded,
    fault::{Answer, hinted},
    output::{self, Format},
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Required {
    vendor: String,
    variant: String,
    build: String,
    stack: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    driver: Option<String>,
    row: String,
}

pub(crate) fn run(own: &Requirements, loaded: &Loaded, format: Format) -> anyhow::Result<Answer> {
    let matrix = &loaded.matrix;
    if let Some(vendor) = &own.vendor
        && !matrix.vendors().contains_key(vendor)
    {
        let known: Vec<&str> = matrix.vendors().keys().map(String::as_str).collect();
        return Err(hinted(
            format!("no vendor is called {vendor}"),
            format!("known: {}", known.join(", ")),
        ));
    }
    let mut required = Vec::new();
    for build in matrix.builds() {
        for key in build.images.keys() {
            let product = matrix.products().values().find(|product| product.answers_to(key));
            let Some(vendor) = product.and_then(|product| matrix.vendors().get(&product.vendor)) else {
                continue;
            };
            if own.vendor.as_ref().is_none_or(|wanted| *wanted == vendor.id) {
                required.push(one(build, key, product, vendor));
            }
        }
    }
    required.sort_by(|left, right| {
        (&left.vendor, &left.variant, &left.build).cmp(&(&right.vendor, &right.variant, &right.build))
    });
    output::print(format, &required, || table(&required))?;
    Ok(Answer::Yes)
}

fn one(build: &Build, key: &str, product: Option<&Product>, vendor: &Vendor) -> Required {
    let stack: Vec<String> = build
        .stack
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let by_table = vendor
        .stacks
        .iter()
        .find_map(|rule| rule.driver_for(build.stack.get(&rule.name)?));
    Required {
        vendor: vendor.id.clone(),
        variant: product.map_or_else(|| key.to_owned(), |_| key.to_owned()),
        build: build.id.clone(),
        stack: stack.join(", "),
        driver: build.driver.clone().or(by_table),
        row: build.row.to_string(),
    }
}

fn table(required: &[Required]) -> String {
    let known = |text: &str| {
        if text.is_empty() {
            "not stated".to_owned()
        } else {
            text.to_owned()
        }
    };
    let row = |one: &Required| {
        let driver = one
            .driver
            .clone()
            .map_or_else(|| "not stated".to_owned(), |driver| format!(">= {driver}"));
        vec![
            one.vendor.clone(),
            one.variant.clone(),
            one.build.clone(),
            known(&one.stack),
            driver,
            one.row.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = required.iter().map(row).collect();
    output::columns(
        &["vendor", "image for", "build", "stack", "host driver", "stated in"],
        &rows,
    )
}
