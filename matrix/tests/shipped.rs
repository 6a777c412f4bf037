//! The documents that are built into the program.

use std::collections::BTreeSet;

use matrix::{Matrix, Request, decide, shipped_documents};
use serde_json::{Value, json};

#[test]
fn the_shipped_matrix_loads_without_an_error() {
    if let Err(errors) = Matrix::load(&shipped_documents()) {
        panic!("{errors}");
    }
}

#[test]
fn a_frozen_matrix_reads_back_as_the_same_revision() {
    let shipped = Matrix::shipped();
    let back = Matrix::from_revision(&shipped.revision().text).unwrap();
    assert_eq!(back.revision(), shipped.revision());
    assert_eq!(back.builds(), shipped.builds());
    assert_eq!(back.rows(), shipped.rows());
    assert_eq!(back.products(), shipped.products());
    assert_eq!(back.vendors(), shipped.vendors());
}

/// Two nodes of eight 23 GiB cards, and a model that all sixteen hold.
fn two_nodes() -> Vec<Value> {
    ["a", "b"]
        .map(|name| {
            json!({
                "kind": "Node",
                "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.memory": "23034"}},
                "status": {"allocatable": {"nvidia.com/gpu": "8"}, "nodeInfo": {"architecture": "amd64"}},
            })
        })
        .to_vec()
}

#[test]
fn an_engine_whose_launch_profile_stays_on_one_node_says_so() {
    let matrix = Matrix::shipped();
    let facts = json!({
        "architectures": ["LlamaForCausalLM"], "family": "llama", "format": "safetensors", "dtype": "bf16",
        "quantization": {"method": "none", "label": "bf16"}, "weightBytes": 200_u64 << 30, "layers": 80,
        "attentionHeads": 64, "kvHeads": 8, "contextLength": 8192, "task": "generate",
        "kvCache": {"groups": [{"layers": 80, "kind": {"kind": "full", "kvHeads": 8, "keyDim": 128, "valueDim": 128}}]},
    });
    let request = Request {
        facts: serde_json::from_value(facts).unwrap(),
        pools: matrix::recognise(matrix, &matrix::observe(&two_nodes())).pools,
        ..Request::default()
    };
    let decision = decide(matrix, &request);
    let said = |distribution: &str| -> BTreeSet<String> {
        let mut texts = BTreeSet::new();
        for verdict in &decision.verdicts {
            let own = matrix
                .build(&verdict.build)
                .is_some_and(|build| build.distribution == distribution);
            let reasons = verdict.reasons.iter().filter(|_| own && verdict.pool.is_some());
            texts.extend(
                reasons
                    .map(|reason| reason.kind.text())
                    .filter(|text| text.contains("16 devices")),
            );
        }
        texts
    };
    let one_node = "needs 16 devices, a node has 8, and its launch profile starts the engine on one node only";
    for distribution in ["sglang", "lmdeploy", "tensorrt-llm"] {
        assert_eq!(
            said(distribution),
            BTreeSet::from([one_node.to_owned()]),
            "{distribution}"
        );
    }
    assert_eq!(said("vllm"), BTreeSet::new());
}
