//! Recorded nodes in, recognised pools out: each file of `tests/nodes` has its whole answer beside it.
//!
//! `GOLDEN=write cargo test -p matrix --test nodes` writes the answers; read them before you commit them.

use std::{fs, path::Path};

use matrix::{Cluster, Matrix, Standing};
use serde_json::Value;

mod golden;

#[expect(
    clippy::disallowed_methods,
    reason = "a test looks at its own files and takes a switch from its environment"
)]
#[test]
fn every_recorded_node_is_recognised_as_its_answer_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nodes");
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".yaml").map(str::to_owned))
        .collect();
    names.sort();
    assert!(!names.is_empty());
    let mut wrong = Vec::new();
    for name in names {
        let text = fs::read_to_string(folder.join(format!("{name}.yaml"))).unwrap();
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        let answer = describe(&matrix::recognise(Matrix::shipped(), &matrix::observe(&objects)));
        wrong.extend(golden::difference(
            &name,
            &folder.join(format!("{name}.pools")),
            &answer,
        ));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One block for each pool, with everything that a decision looks at.
fn describe(cluster: &Cluster) -> String {
    let mut text: Vec<String> = Vec::new();
    for pool in &cluster.pools {
        let product = pool.product.as_deref().unwrap_or("unknown product");
        let vendor = pool.vendor.as_deref().unwrap_or("unknown vendor");
        text.push(format!("{}: {vendor}, {product}", pool.id));
        if let Some(raw) = &pool.raw {
            text.push(format!(", seen as {raw:?}"));
        }
        text.push("\n".to_owned());
        if let Some(evidence) = &pool.evidence {
            text.push(format!(
                "  by {:?} {}={}\n",
                evidence.source, evidence.key, evidence.value
            ));
        }
        let nodes: Vec<String> = pool
            .nodes
            .iter()
            .map(|node| format!("{} x{}", node.name, node.devices))
            .collect();
        text.push(format!("  {} on {}\n", pool.offer.describe(), nodes.join(", ")));
        let memory = match (pool.memory.bytes, &pool.memory.source, &pool.memory.missing) {
            (Some(bytes), Some(source), _) => format!("{} MiB by {source}", bytes >> 20),
            (_, _, Some(missing)) => format!("unknown: {missing}"),
            _ => "unknown".to_owned(),
        };
        text.push(format!("  memory {memory}\n"));
        let driver = pool.host.driver.as_deref().unwrap_or("unknown");
        let stacks: Vec<String> = pool
            .host
            .stacks
            .iter()
            .map(|(name, version)| format!(", {name} {version}"))
            .collect();
        text.push(format!("  driver {driver}{}\n", stacks.concat()));
        match &pool.standing {
            Standing::Usable => {}
            Standing::Alternative { to } => text.push(format!("  the same cards as {to}\n")),
            Standing::Unusable { why, .. } => text.push(format!("  not usable: {why}\n")),
        }
        for label in &pool.affinity {
            text.push(match label.values.as_slice() {
                [] => format!("  held away from {}\n", label.key),
                values => format!("  held by {} in {}\n", label.key, values.join(", ")),
            });
        }
        for note in &pool.notes {
            text.push(format!("  {}: {}\n", note.kind, note.text));
        }
    }
    for note in &cluster.notes {
        text.push(format!("{}: {}\n", note.kind, note.text));
    }
    text.concat()
}
