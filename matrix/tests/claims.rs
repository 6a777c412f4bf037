//! Every statement of the shipped support documents, asked back: a model that it names, on a product that it names, gets a build by it.
//!
//! The rule: one case per row, with the first model, the first product with an image and the first quantization that the row names, on a
//! pool that is large enough for any limit; of long documents about forty rows. What the document and its builds answer is
//! the snapshot of the document, so that an edit shows what it moves.
#![expect(clippy::panic, reason = "a test that cannot go on stops")]

use std::{collections::BTreeSet, sync::Arc};

use matrix::{
    Build, Demand, DeviceMemory, Document, HostStack, Level, Matrix, Offer, Outcome, Policy, Pool, PoolNode, Product,
    Pull, Request, Standing, SupportRow, Verdict, decide, shipped_documents,
};
use model_facts::{ModelFacts, Quantization, WeightFormat};

/// The model that a row speaks of, as far as the row says.
fn model(row: &SupportRow, product: &Product) -> ModelFacts {
    let first = |words: &matrix::Words| words.list().first().cloned();
    let lacks = |format: &str| product.no_formats.list().iter().any(|word| word == format);
    let plain = if lacks("bf16") || (!product.formats.is_unset() && !product.formats.holds("bf16")) {
        "fp16"
    } else {
        "bf16"
    };
    let label = first(&row.quantizations).unwrap_or_else(|| plain.to_owned());
    let gguf = row.models.formats.holds("gguf") && !row.models.formats.is_unset();
    ModelFacts {
        checkpoint: first(&row.models.checkpoints).map(|glob| name(&glob)),
        architectures: first(&row.models.architectures).map(listed).into_iter().collect(),
        family: first(&row.models.families),
        format: if gguf {
            WeightFormat::Gguf
        } else {
            WeightFormat::Safetensors
        },
        quantization: Quantization {
            method: Some("stated".to_owned()),
            label: Some(label),
            ..Quantization::default()
        },
        weight_bytes: Some(1 << 30),
        context_length: Some(4096),
        task: Some(first(&row.models.tasks).unwrap_or_else(|| "generate".to_owned())),
        ..ModelFacts::default()
    }
}

/// An architecture; of an engine's own list one that all engines have.
fn listed(word: String) -> String {
    if word == "engine-list" {
        "LlamaForCausalLM".to_owned()
    } else {
        word
    }
}

/// A checkpoint that a glob means.
fn name(glob: &str) -> String {
    let bare = glob.trim_matches('*').trim_matches(['/', '-']);
    let bare = bare.replace('*', "x");
    if bare.contains('/') {
        bare
    } else {
        format!("acme/{bare}")
    }
}

/// A pool that no limit can exceed.
fn pool(product: &Product) -> Pool {
    let offer = match product.vendor.as_str() {
        "cpu" => Offer::Node,
        _ => Offer::Whole {
            resource: "example.com/device".to_owned(),
        },
    };
    let devices = if offer == Offer::Node { 1 } else { 16 };
    let node = |index| PoolNode {
        name: format!("node-{index}"),
        devices,
    };
    Pool {
        id: product.id.clone(),
        vendor: Some(product.vendor.clone()),
        product: Some(product.id.clone()),
        raw: None,
        evidence: None,
        offer,
        standing: Standing::Usable,
        nodes: (0..16).map(node).collect(),
        memory: DeviceMemory {
            bytes: Some(256 << 30),
            source: Some("the test".to_owned()),
            ..DeviceMemory::default()
        },
        architecture: Some("amd64".to_owned()),
        runtime: None,
        host: HostStack::default(),
        affinity: Vec::new(),
        taints: Vec::new(),
        notes: Vec::new(),
    }
}

/// Products that a row speaks of and that one of its builds has an image for.
fn products(matrix: &Matrix, row: &SupportRow) -> BTreeSet<String> {
    let has_image = |build: &Build, product: &Product| build.images.keys().any(|key| product.answers_to(key));
    let named: BTreeSet<&str> = row
        .products
        .list()
        .iter()
        .flat_map(|word| matrix.products_for(word))
        .collect();
    matrix
        .products()
        .values()
        .filter(|product| row.products.list().is_empty() || named.contains(product.id.as_str()))
        .filter(|product| matrix.builds_of(row).any(|build| has_image(build, product)))
        .map(|product| product.id.clone())
        .collect()
}

fn policy() -> Policy {
    Policy {
        minimum_level: Level::Untested,
        channels: ["final", "candidate", "model-specific"].map(str::to_owned).into(),
        pull: BTreeSet::from([Pull::Public, Pull::Login, Pull::Offline]),
        ..Policy::default()
    }
}

/// The verdict that answers the row: by the row itself, else by a closer one, else the nearest rejection.
fn answer<'all>(verdicts: &'all [Arc<Verdict>], builds: &BTreeSet<&str>, row: &SupportRow) -> Option<&'all Verdict> {
    let ours = || {
        verdicts
            .iter()
            .map(AsRef::as_ref)
            .filter(|verdict: &&Verdict| builds.contains(verdict.build.as_str()))
    };
    let eligible = || ours().filter(|verdict| verdict.outcome != Outcome::Rejected);
    eligible()
        .find(|verdict| verdict.row.as_ref() == Some(&row.row))
        .or_else(|| eligible().next())
        .or_else(|| ours().next())
}

fn describe(row: &SupportRow, facts: &ModelFacts, product: &str, verdict: Option<&Verdict>) -> String {
    let named = [
        facts.checkpoint.as_ref(),
        facts.architectures.first(),
        facts.family.as_ref(),
    ]
    .into_iter()
    .flatten()
    .next();
    let label = facts.quantization.label.as_deref().unwrap_or_default();
    let asked = format!("{} {label} on {product}", named.map_or("any model", String::as_str));
    let Some(verdict) = verdict else {
        return format!("{asked}: no candidate");
    };
    if verdict.outcome == Outcome::Rejected {
        let word = verdict
            .reasons
            .first()
            .map(|reason| serde_json::to_value(reason).unwrap_or_default());
        let word = word.and_then(|reason| reason.get("reason").and_then(|word| word.as_str().map(str::to_owned)));
        return format!("{asked}: rejected, {}", word.unwrap_or_default());
    }
    let level = verdict.level.map_or("", Level::word);
    let other = if verdict.row.as_ref() == Some(&row.row) {
        ""
    } else {
        ", by a closer row"
    };
    format!(
        "{asked}: {} {level}, {} devices{other}",
        verdict.build,
        verdict.devices.unwrap_or(0)
    )
}

/// The documents that one support document needs: without the others a case takes a fraction of the time.
fn alone(path: &str) -> Matrix {
    let shipped = Matrix::shipped();
    let rows = shipped.rows().iter().filter(|row| *row.row.path == *path);
    let builds: Vec<&Build> = rows.flat_map(|row| shipped.builds_of(row)).collect();
    let files: BTreeSet<&str> = builds.iter().map(|build| &*build.row.path).collect();
    // A file may hold builds of other vendors beside those that the rows select.
    let beside: Vec<&Build> = shipped
        .builds()
        .iter()
        .filter(|build| files.contains(&*build.row.path))
        .collect();
    let by_image = beside.iter().flat_map(|build| build.images.keys());
    let by_image = by_image
        .flat_map(|key| shipped.products_for(key))
        .filter_map(|id| Some(shipped.products().get(id)?.vendor.as_str()));
    let named = beside.iter().flat_map(|build| &build.vendors).map(String::as_str);
    let vendors = named.chain(by_image).filter_map(|vendor| shipped.vendors().get(vendor));
    let products: BTreeSet<&str> = vendors.map(|vendor| &*vendor.row.path).collect();
    let needed = |document: &Document| match document.path.split_once('/') {
        Some(("support", _)) => document.path == path,
        Some(("builds", _)) => files.contains(document.path.as_str()),
        Some(("products", _)) => products.contains(document.path.as_str()),
        Some(("metrics", _)) => false,
        _ => true,
    };
    let documents: Vec<Document> = shipped_documents().into_iter().filter(needed).collect();
    Matrix::load(&documents).unwrap_or_else(|errors| panic!("{path} alone: {errors}"))
}

fn answers(matrix: &Matrix, path: &str) -> Vec<String> {
    const MANY: usize = 40;
    let rows: Vec<&SupportRow> = matrix.rows().iter().filter(|row| *row.row.path == *path).collect();
    let step = rows.len().div_ceil(MANY);
    let cases = rows
        .into_iter()
        .step_by(step)
        .filter_map(|row| Some((row, products(matrix, row).into_iter().next()?)));
    cases
        .map(|(row, id)| {
            format!(
                "{} | {}",
                row.level.level().map_or("no", Level::word),
                ask(matrix, row, &id)
            )
        })
        .collect()
}

fn ask(matrix: &Matrix, row: &SupportRow, id: &str) -> String {
    let builds: BTreeSet<&str> = matrix.builds_of(row).map(|build| build.id.as_str()).collect();
    let product = &matrix.products()[id];
    let facts = model(row, product);
    let demand = Demand {
        context: Some(1024),
        ..Demand::default()
    };
    let request = Request {
        facts: facts.clone(),
        pools: vec![pool(product)],
        demand,
        policy: policy(),
    };
    let decision = decide(matrix, &request);
    describe(row, &facts, id, answer(&decision.verdicts, &builds, row))
}

#[test]
fn every_published_statement_is_answered_as_it_was() {
    let paths: BTreeSet<&str> = Matrix::shipped().rows().iter().map(|row| &*row.row.path).collect();
    let mut cases = 0;
    for path in paths {
        let lines = answers(&alone(path), path);
        cases += lines.len();
        let name = path.trim_start_matches("support/").trim_end_matches(".yaml");
        insta::assert_snapshot!(name, lines.join("\n"));
    }
    assert!(cases >= 200, "only {cases} cases");
}
