//! What every command prints for programs is what `docs/reference/output.schema.json` says, no field more.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use assert_cmd::Command;
use serde_json::{Map, Value};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn plimsoll(arguments: &[&str], format: &str) -> String {
    let mut command = Command::cargo_bin("plimsoll").unwrap();
    let output = command
        .current_dir(repository())
        .args(arguments)
        .args(["-o", format])
        .output()
        .unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {talk}");
    String::from_utf8(output.stdout).unwrap()
}

/// The part of JSON Schema that the document uses. A keyword that is not understood here is a fault of the schema.
struct Schema(Value);

impl Schema {
    fn faults(&self, schema: &Value, value: &Value, place: &str) -> Vec<String> {
        let rules = schema.as_object().unwrap();
        let fault = |text: String| vec![format!("{place}: {text}")];
        let mut faults = Vec::new();
        for (keyword, rule) in rules {
            let found = match keyword.as_str() {
                "$ref" => {
                    let name = rule.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                    self.faults(&self.0["$defs"][name], value, place)
                }
                "const" if rule != value => fault(format!("{value} is not {rule}")),
                "enum" if !rule.as_array().unwrap().contains(value) => fault(format!("{value} is none of {rule}")),
                "type" if !is_of_type(value, rule.as_str().unwrap()) => fault(format!("{value} is no {rule}")),
                "minimum" if value.as_i64().is_some_and(|number| number < 0) => fault(format!("{value} is negative")),
                "description" | "properties" | "additionalProperties" | "const" | "enum" | "type" | "minimum" => {
                    Vec::new()
                }
                "required" => missing(rule, value).map(&fault).unwrap_or_default(),
                "items" => self.items(rule, value, place),
                "oneOf" | "anyOf" => self.one_of(keyword, rule, value, place),
                other => fault(format!("the schema uses {other}")),
            };
            faults.extend(found);
        }
        if let (Some(fields), true) = (value.as_object(), rules.contains_key("additionalProperties")) {
            faults.extend(self.fields(rules, fields, place));
        }
        faults
    }

    fn items(&self, rule: &Value, value: &Value, place: &str) -> Vec<String> {
        let items = value.as_array().into_iter().flatten().enumerate();
        items
            .flat_map(|(index, item)| self.faults(rule, item, &format!("{place}[{index}]")))
            .collect()
    }

    fn fields(&self, rules: &Map<String, Value>, fields: &Map<String, Value>, place: &str) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, value) in fields {
            let inside = format!("{place}.{name}");
            let known = rules.get("properties").and_then(|properties| properties.get(name));
            match (known, &rules["additionalProperties"]) {
                (None, Value::Bool(true)) => {}
                (None, Value::Bool(false)) => faults.push(format!("{inside} is not in the schema")),
                (Some(schema), _) | (None, schema) => faults.extend(self.faults(schema, value, &inside)),
            }
        }
        faults
    }

    fn one_of(&self, keyword: &str, rule: &Value, value: &Value, place: &str) -> Vec<String> {
        let tried: Vec<Vec<String>> = rule
            .as_array()
            .unwrap()
            .iter()
            .map(|schema| self.faults(schema, value, place))
            .collect();
        let fitting = tried.iter().filter(|faults| faults.is_empty()).count();
        if fitting == 1 || (fitting > 1 && keyword == "anyOf") {
            return Vec::new();
        }
        let fewest = tried.into_iter().min_by_key(Vec::len).unwrap_or_default();
        [vec![format!("{place}: {fitting} of {keyword} fit")], fewest].concat()
    }
}

fn is_of_type(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => false,
    }
}

fn missing(rule: &Value, value: &Value) -> Option<String> {
    let fields = value.as_object()?;
    let absent = rule
        .as_array()?
        .iter()
        .filter_map(Value::as_str)
        .find(|name| !fields.contains_key(*name))?;
    Some(format!("{absent} is missing"))
}

/// A matrix with another wording, a build less and a row less: there is something to compare.
fn changed_matrix() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let data = repository().join("matrix/data");
    for kind in fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()) {
        if !kind.is_dir() {
            continue;
        }
        let target = folder.path().join(kind.file_name().unwrap());
        fs::create_dir(&target).unwrap();
        for file in fs::read_dir(&kind).unwrap().map(|entry| entry.unwrap().path()) {
            fs::copy(&file, target.join(file.file_name().unwrap())).unwrap();
        }
    }
    let builds = folder.path().join("builds/vllm-gcu.yaml");
    let text = fs::read_to_string(&builds).unwrap();
    let (before, withdrawn) = text.split_once("- version: \"0.9.2\"").unwrap();
    let (_, after) = withdrawn.split_once("\n- version").unwrap();
    fs::write(builds, format!("{before}- version{after}")).unwrap();
    folder
}

const QUESTION: [&str; 6] = [
    "-f",
    "examples/deployments/qwen3-8b.yaml",
    "--cluster",
    "examples/clusters/mixed.yaml",
    "--facts",
    "examples/facts/qwen3-8b.json",
];

fn asked<'own>(command: &[&'own str]) -> Vec<&'own str> {
    [command, &QUESTION].concat()
}

#[test]
fn every_command_prints_what_the_schema_says() {
    let path = repository().join("docs/reference/output.schema.json");
    let schema = Schema(serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap());
    let changed = changed_matrix();
    let to = changed.path().to_str().unwrap();
    let simulate = [
        "simulate",
        "--nodes",
        "examples/clusters/mixed.yaml",
        "-f",
        "examples/deployments/qwen3-8b.yaml",
        "--facts",
        "examples/facts/qwen3-8b.json",
    ];
    let runs: [(&str, Vec<&str>); 13] = [
        ("explain", asked(&["explain", "--launch"])),
        ("whyNot", asked(&["why-not", "--build", "vllm-gcu-0.9.2"])),
        ("simulate", simulate.to_vec()),
        (
            "simulate",
            vec![
                "simulate",
                "--nodes",
                "matrix/tests/nodes/dra-partitions-with-shared-counters.yaml",
            ],
        ),
        (
            "facts",
            vec!["facts", "model-facts/tests/cases/kimi-k3-nested-mla-linear-mxfp4"],
        ),
        (
            "facts",
            vec!["facts", "model-facts/tests/cases/mimo-v2.6-flash-asymmetric-kv"],
        ),
        ("matrixLint", vec!["matrix", "lint"]),
        ("matrixDiff", vec!["matrix", "diff", "matrix/data", to]),
        ("matrixCoverage", vec!["matrix", "coverage"]),
        ("matrixMirrorList", vec!["matrix", "mirror-list"]),
        ("matrixRequirements", vec!["matrix", "requirements"]),
        ("matrixRender", vec!["matrix", "render", "--channel", "stable"]),
        (
            "blastRadius",
            asked(&["blast-radius", "--from", "matrix/data", "--to", to]),
        ),
    ];
    let mut faults = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (name, arguments) in &runs {
        let printed: Value = serde_json::from_str(&plimsoll(arguments, "json")).unwrap();
        let found = schema.faults(&schema.0["properties"][*name], &printed, name);
        assert_ne!(printed, Value::Array(Vec::new()), "{name} has nothing to look at");
        faults.extend(found.into_iter().take(5));
        seen.push(name);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let described = schema.0["properties"].as_object().unwrap().keys();
    let unseen: Vec<&String> = described.filter(|name| !seen.contains(&name.as_str())).collect();
    assert!(
        unseen.is_empty(),
        "the schema describes {unseen:?}, which no run printed"
    );
}

#[test]
fn a_withdrawn_build_shows_who_loses_it_and_what_comes_nearest() {
    let changed = changed_matrix();
    let to = changed.path().to_str().unwrap();
    let question = [
        "-f",
        "examples/deployments/qwen3-8b.yaml",
        "--cluster",
        "examples/clusters/demo.yaml",
        "--facts",
        "examples/facts/qwen3-8b.json",
    ];
    let arguments = [
        ["blast-radius", "--from", "matrix/data", "--to", to].as_slice(),
        &question,
    ]
    .concat();
    insta::assert_snapshot!("blast-radius-of-a-withdrawn-build", plimsoll(&arguments, "table"));
    let back = [
        ["blast-radius", "--from", to, "--to", "matrix/data"].as_slice(),
        &question,
    ]
    .concat();
    insta::assert_snapshot!("blast-radius-of-a-build-that-comes-back", plimsoll(&back, "table"));
}

#[test]
fn completions_of_every_shell_and_the_manual_page_name_every_command() {
    let commands = [
        "explain",
        "why-not",
        "simulate",
        "facts",
        "matrix",
        "blast-radius",
        "mirror-list",
    ];
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = plimsoll(&["completions", shell], "table");
        for command in commands {
            assert!(script.contains(command), "{shell} does not complete {command}");
        }
    }
    let page = plimsoll(&["man"], "table");
    assert!(page.contains(".TH") && page.contains("blast\\-radius"), "{page}");
}
