//! The documents that are built into the program.

use std::collections::BTreeSet;

use matrix::{LaunchInput, LintOptions, Matrix, Policy, Request, decide, launch, shipped_documents};
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

#[test]
fn weights_in_one_file_are_loaded_by_the_file_and_others_by_the_folder() {
    let matrix = Matrix::shipped();
    let pools = matrix::recognise(matrix, &matrix::observe(&two_nodes())).pools;
    let started = |engine: &str, format: &str, label: &str, files: &[&str]| -> Vec<String> {
        let facts = json!({
            "architectures": ["Qwen3ForCausalLM"], "family": "qwen3", "format": format, "dtype": "bf16",
            "quantization": {"method": label, "label": label}, "weightBytes": 5_u64 << 30, "layers": 36,
            "attentionHeads": 32, "kvHeads": 8, "contextLength": 8192, "task": "generate",
            "kvCache": {"groups": [{"layers": 36, "kind": {"kind": "full", "kvHeads": 8, "keyDim": 128, "valueDim": 128}}]},
        });
        let request = Request {
            facts: serde_json::from_value(facts).unwrap(),
            pools: pools.clone(),
            policy: Policy {
                engine: Some(engine.to_owned()),
                ..Policy::default()
            },
            ..Request::default()
        };
        let choice = decide(matrix, &request).chosen.unwrap();
        let input = LaunchInput {
            facts: request.facts.clone(),
            model_path: "/models".to_owned(),
            files: files.iter().map(|name| (*name).to_owned()).collect(),
            served_name: "m".to_owned(),
            ..LaunchInput::default()
        };
        launch(matrix, &choice, &input).args
    };
    let split = ["config.json", "q4-00001-of-00002.gguf", "q4-00002-of-00002.gguf"];
    for engine in ["vllm", "sglang", "llama.cpp"] {
        let args = started(engine, "gguf", "gguf", &split);
        assert!(args.contains(&"/models/q4-00001-of-00002.gguf".to_owned()), "{args:?}");
    }
    for engine in ["vllm", "sglang"] {
        let args = started(engine, "safetensors", "bf16", &["a.safetensors", "stray.gguf"]);
        assert!(args.contains(&"/models".to_owned()), "{args:?}");
    }
}

#[test]
fn a_row_that_claims_a_method_which_the_release_has_lost_is_found() {
    let claims = |change: bool| -> Vec<String> {
        let mut documents = shipped_documents();
        for document in documents
            .iter_mut()
            .filter(|document| change && document.path.ends_with("support/vllm.yaml"))
        {
            document.text = document.text.replace("\"<0.24.0\"", "\">=0.6.0\"");
        }
        let findings = matrix::lint(&documents, &LintOptions::default());
        let claims = findings.into_iter().filter(|finding| finding.rule == "claim");
        claims.map(|finding| finding.message).collect()
    };
    assert_eq!(claims(false), Vec::<String>::new());
    let found = claims(true);
    assert!(
        found.len() == 1 && found[0].contains("does not accept gguf"),
        "{found:?}"
    );
}
