//! `plimsoll explain` on recorded nodes of many vendors, and on the demo's cluster: the right product, or what is missing.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use assert_cmd::Command;
use serde_json::Value;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The decision on one of the example deployments.
fn explain(deployment: &str, facts: &str, cluster: &Path) -> Value {
    let examples = repository().join("examples");
    let output = Command::cargo_bin("plimsoll")
        .unwrap()
        .args(["explain", "-o", "json", "-f"])
        .arg(examples.join("deployments").join(deployment))
        .arg("--facts")
        .arg(examples.join("facts").join(facts))
        .arg("--cluster")
        .arg(cluster)
        .output()
        .unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() != Some(2), "{}: {talk}", cluster.display());
    let answers: Value = serde_json::from_slice(&output.stdout).unwrap();
    answers[0]["decision"].clone()
}

/// What the answer beside a recorded node says: pools with vendor and product, where both are known.
fn expected(answer: &str) -> Vec<(String, String, Option<String>)> {
    let heads = answer.lines().filter(|line| !line.starts_with(' '));
    heads
        .filter_map(|line| {
            let (pool, rest) = line.split_once(": ")?;
            let mut words = rest.split(", ");
            let (vendor, product) = (words.next()?, words.next()?);
            let product = (product != "unknown product").then(|| product.to_owned());
            Some((pool.to_owned(), vendor.to_owned(), product))
        })
        .filter(|(_, vendor, _)| !vendor.contains(' '))
        .collect()
}

fn is_of(verdict: &Value, pool: &str) -> bool {
    let also = verdict["also"].as_array().into_iter().flatten();
    verdict["pool"] == pool || also.into_iter().any(|other| other == pool)
}

fn lacks_product(verdict: &Value) -> bool {
    let reasons = verdict["reasons"].as_array().into_iter().flatten();
    reasons.into_iter().any(|reason| reason["reason"] == "ProductUnknown")
}

#[test]
fn recorded_nodes_are_explained_by_their_products_or_by_what_is_missing() {
    let nodes = repository().join("matrix/tests/nodes");
    let mut vendors = BTreeSet::new();
    for entry in fs::read_dir(&nodes).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "pools") {
            continue;
        }
        let pools = expected(&fs::read_to_string(&path).unwrap());
        // A program that starts reads the whole matrix, so one node of each vendor has to do; the library's tests read them all.
        if pools.iter().all(|(_, vendor, _)| vendors.contains(vendor)) {
            continue;
        }
        let decision = explain("qwen3-8b.yaml", "qwen3-8b.json", &path.with_extension("yaml"));
        let verdicts = decision["verdicts"].as_array().unwrap();
        for (pool, vendor, product) in pools {
            let own: Vec<&Value> = verdicts.iter().filter(|verdict| is_of(verdict, &pool)).collect();
            assert!(!own.is_empty(), "{}: nothing is said of {pool}", path.display());
            let missing = own.iter().all(|verdict| lacks_product(verdict));
            assert_eq!(missing, product.is_none(), "{}: {pool}", path.display());
            vendors.insert(vendor);
        }
    }
    assert!(vendors.len() >= 10, "only {vendors:?}");
}

#[test]
fn the_demos_deployments_get_the_builds_that_the_demo_runs() {
    let cluster = repository().join("examples/clusters/demo.yaml");
    let choice = |deployment, facts| {
        let chosen = explain(deployment, facts, &cluster)["chosen"].clone();
        (
            chosen["distribution"].as_str().unwrap_or_default().to_owned(),
            chosen["product"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let pair = |build: &str, product: &str| (build.to_owned(), product.to_owned());
    assert_eq!(
        choice("qwen3-8b.yaml", "qwen3-8b.json"),
        pair("vllm-gcu", "enflame-s60")
    );
    assert_eq!(
        choice("smollm2.yaml", "smollm2-135m-q4_1.json"),
        pair("llama.cpp", "cpu")
    );
}
