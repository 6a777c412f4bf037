//! Golden decisions: a folder each with a cluster and a question; the explanation, the whole decision and the launch stand
//! beside them.
//!
//! The matrix of all cases is `tests/cases/matrix`. `GOLDEN=write cargo test -p matrix --test cases` writes the answers; read
//! them before you commit them.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::{collections::BTreeSet, fs, path::Path};

use matrix::{
    Demand, Document, ExplainOptions, Explained, LaunchInput, Matrix, Policy, ReasonKind, Request, decide, explain,
    launch,
};
use model_facts::ModelFacts;
use serde::Deserialize;
use serde_json::Value;

mod golden;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Question {
    facts: ModelFacts,
    #[serde(default)]
    demand: Demand,
    #[serde(default)]
    policy: Value,
}

#[expect(clippy::disallowed_methods, reason = "a test looks at its own files")]
fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "a test looks at its own files")]
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn case_matrix(root: &Path) -> Matrix {
    let folder = root.join("matrix");
    let document = |name: String| Document {
        text: read(&folder.join(&name)),
        path: name,
    };
    let documents: Vec<Document> = names(&folder).into_iter().map(document).collect();
    Matrix::load(&documents).unwrap()
}

/// A case states only what differs from the usual policy.
fn policy(stated: &Value) -> Policy {
    let mut whole = serde_json::to_value(Policy::default()).unwrap();
    for (key, value) in stated.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    serde_json::from_value(whole).unwrap()
}

fn answer(matrix: &Matrix, folder: &Path, name: &str, tokens: &mut BTreeSet<String>) -> String {
    let question: Question = serde_json::from_str(&read(&folder.join("question.json"))).unwrap();
    let objects: Value = serde_json::from_str(&read(&folder.join("cluster.json"))).unwrap();
    let cluster = matrix::recognise(matrix, &matrix::observe(&[objects]));
    let request = Request {
        facts: question.facts,
        pools: cluster.pools.clone(),
        demand: question.demand,
        policy: policy(&question.policy),
    };
    let mut decision = decide(matrix, &request);
    for verdict in &decision.verdicts {
        let words = verdict.reasons.iter().chain(&verdict.caveats);
        tokens.extend(words.map(|reason| reason.kind.token().to_owned()));
    }
    // The digest changes with every word of the shared matrix; it has a test of its own.
    "sha256:000000000000".clone_into(&mut decision.revision);
    let explained = Explained {
        name,
        facts: &request.facts,
        cluster: &cluster,
        decision: &decision,
        channel: "stable",
    };
    let text = explain(&explained, ExplainOptions { all: true });
    let plan = decision.chosen.as_ref().map(|choice| {
        let input = LaunchInput {
            facts: request.facts.clone(),
            pool: cluster.pools.iter().find(|pool| pool.id == choice.pool).cloned(),
            model_path: "/models".to_owned(),
            files: vec!["config.json".to_owned(), "model.safetensors".to_owned()],
            served_name: name.to_owned(),
            runtime_classes: Some(BTreeSet::from(["acme".to_owned()])),
            ..LaunchInput::default()
        };
        serde_json::to_string_pretty(&launch(matrix, choice, &input)).unwrap()
    });
    let decision = serde_json::to_string_pretty(&decision).unwrap();
    let plan = plan.unwrap_or_else(|| "none".to_owned());
    format!("{text}\n--- decision\n{decision}\n--- launch\n{plan}\n")
}

#[test]
fn every_case_is_decided_as_its_answer_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let matrix = case_matrix(&root);
    let mut tokens = BTreeSet::new();
    let mut wrong = Vec::new();
    let is_case = |name: &String| root.join(name).join("question.json").exists();
    for name in names(&root).into_iter().filter(is_case) {
        let folder = root.join(&name);
        let got = answer(&matrix, &folder, &name, &mut tokens);
        wrong.extend(golden::difference(&name, &folder.join("answer.txt"), &got));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let uncovered: Vec<&&str> = ReasonKind::TOKENS
        .iter()
        .filter(|token| !tokens.contains(**token))
        .collect();
    assert!(uncovered.is_empty(), "no case meets {uncovered:?}");
}

#[test]
fn every_reason_has_a_page() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reasons");
    let there = names(&pages);
    for token in ReasonKind::TOKENS {
        assert!(
            there.contains(&format!("{token}.md")),
            "docs/reasons/{token}.md is missing"
        );
    }
    assert_eq!(
        there.len(),
        ReasonKind::TOKENS.len() + 1,
        "a page for a reason that does not exist"
    );
}
