//! The rules in the schema, evaluated as an API server does, without one.

use crds::{MatrixRevision, ModelDeployment};
use kube::CustomResourceExt as _;
use kube::core::cel::Validator;
use serde_json::{Value, json};

/// What is wrong with this spec, as the messages that a user reads.
fn complaints(name: &str, spec: &Value) -> Vec<String> {
    let object = json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "ModelDeployment", "metadata": {"name": name}, "spec": spec,
    });
    errors(&schema(&ModelDeployment::crd()), &object, None)
}

fn schema(
    definition: &k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
) -> Value {
    let schema = definition.spec.versions[0]
        .schema
        .as_ref()
        .and_then(|schema| schema.open_api_v3_schema.as_ref());
    serde_json::to_value(schema.expect("has a schema")).expect("serialises")
}

fn errors(schema: &Value, object: &Value, old: Option<&Value>) -> Vec<String> {
    let found = Validator::new().validate_with_defaults(schema, object, old);
    found
        .err()
        .into_iter()
        .flat_map(kube::core::cel::ValidationErrors::into_vec)
        .map(|error| error.message)
        .collect()
}

#[test]
fn the_smallest_deployment_is_taken() {
    assert_eq!(
        complaints("one", &json!({"model": {"artifact": "r.local/m:v1"}})),
        Vec::<String>::new()
    );
}

#[test]
fn every_contradiction_is_named_with_its_remedy() {
    let model = json!({"artifact": "r.local/m:v1"});
    let cases = [
        ("a.b", json!({"model": model}), "at most 52 characters"),
        (
            "one",
            json!({"model": {"artifact": "oci://r.local/m"}}),
            "without a scheme",
        ),
        ("one", json!({"model": {"artifact": "m"}}), "name the registry too"),
        (
            "one",
            json!({"model": model, "accelerators": [{"product": "a", "vendor": "b"}]}),
            "not both",
        ),
        (
            "one",
            json!({"model": model, "accelerators": [{"count": 2}]}),
            "name a product",
        ),
        (
            "one",
            json!({"model": model, "accelerators": [{"vendor": "b", "partition": "1g"}]}),
            "name the product too",
        ),
        (
            "one",
            json!({"model": model, "engine": {"policy": "Pinned"}}),
            "needs the engine's name",
        ),
        (
            "one",
            json!({"model": model, "engine": {"policy": "Auto", "image": "x"}}),
            "needs policy Pinned",
        ),
        (
            "one",
            json!({"model": model, "engine": {"policy": "Auto", "env": [{"name": "A"}]}}),
            "value or a secretKeyRef",
        ),
        (
            "one",
            json!({"model": model, "matrix": {"channel": "a", "revision": "b"}}),
            "not both",
        ),
        (
            "one",
            json!({"model": model, "template": {"resources": {"limits": {"x.com/y": "1"}}}}),
            "devices come from the decision",
        ),
    ];
    for (name, spec, expected) in cases {
        let found = complaints(name, &spec);
        assert!(
            found.iter().any(|message| message.contains(expected)),
            "{spec}\n  expected {expected:?}, found {found:?}"
        );
    }
}

#[test]
fn a_revision_cannot_be_edited() {
    let revision = |documents: &str| {
        json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "MatrixRevision", "metadata": {"name": "m"},
            "spec": {"digest": format!("sha256:{}", "0".repeat(64)), "encoding": "Plain", "documents": documents},
        })
    };
    let schema = schema(&MatrixRevision::crd());
    assert!(errors(&schema, &revision("a"), Some(&revision("a"))).is_empty());
    assert!(
        errors(&schema, &revision("b"), Some(&revision("a")))
            .iter()
            .any(|message| message.contains("immutable"))
    );
}
