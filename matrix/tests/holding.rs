//! Where running pods are held must not change with the state of nodes: each change would restart them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop")]

use matrix::{Cluster, LabelRequirement, Matrix};
use serde_json::{Value, json};

fn node(name: &str, labels: &Value, annotations: &Value, resources: &Value, ready: &str) -> Value {
    let mut amounts = json!({"cpu": "64", "memory": "527006868Ki", "pods": "110"});
    merge(&mut amounts, resources);
    let mut all = json!({"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name});
    merge(&mut all, labels);
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": all, "annotations": annotations},
        "status": {
            "allocatable": amounts, "capacity": amounts,
            "conditions": [{"type": "Ready", "status": ready}],
            "nodeInfo": {"architecture": "amd64", "containerRuntimeVersion": "containerd://2.4.2"},
        },
    })
}

fn merge(into: &mut Value, from: &Value) {
    for (key, value) in from.as_object().unwrap() {
        into[key] = value.clone();
    }
}

fn plain(name: &str, ready: &str) -> Value {
    node(name, &json!({}), &json!({}), &json!({}), ready)
}

fn labelled(name: &str, ready: &str) -> Value {
    let labels = json!({"enflame.com/gcu.model": "S60"});
    node(name, &labels, &json!({}), &json!({"enflame.com/gcu": "2"}), ready)
}

/// A card that only `HAMi`'s registration names.
fn registered(name: &str, ready: &str) -> Value {
    let card = r#"[{"id":"GPU-1","count":10,"devmem":23034,"devcore":100,"type":"NVIDIA-NVIDIA L4","mode":"hami-core","health":true}]"#;
    let annotations = json!({"hami.io/node-nvidia-register": card});
    node(name, &json!({}), &annotations, &json!({"nvidia.com/gpu": "10"}), ready)
}

fn recognise(nodes: &[Value]) -> Cluster {
    matrix::recognise(Matrix::shipped(), &matrix::observe(nodes))
}

/// Where the pods of the usable pool of this product are held.
fn held(cluster: &Cluster, product: &str) -> Vec<LabelRequirement> {
    let usable =
        |pool: &&matrix::Pool| pool.product.as_deref() == Some(product) && pool.standing == matrix::Standing::Usable;
    let pool = cluster.pools.iter().find(usable);
    pool.unwrap_or_else(|| panic!("no usable pool of {product}: {:#?}", cluster.pools))
        .affinity
        .clone()
}

#[test]
fn a_node_that_joins_or_is_not_ready_for_a_while_moves_no_running_pod() {
    let before = [
        plain("cpu-1", "True"),
        plain("cpu-2", "True"),
        labelled("gcu-1", "True"),
        registered("gpu-1", "True"),
        registered("gpu-2", "True"),
    ];
    let unready = [
        plain("cpu-1", "True"),
        plain("cpu-2", "Unknown"),
        labelled("gcu-1", "Unknown"),
        labelled("gcu-2", "True"),
        registered("gpu-1", "True"),
        registered("gpu-2", "Unknown"),
        plain("cpu-3", "True"),
    ];
    let (before, after) = (recognise(&before), recognise(&unready));
    for product in ["cpu", "enflame-s60", "nvidia-l4"] {
        assert_eq!(held(&before, product), held(&after, product), "{product}");
    }
}

#[test]
fn pods_without_an_accelerator_stay_away_from_its_nodes_and_may_use_every_other() {
    let cluster = recognise(&[plain("cpu-1", "True"), labelled("gcu-1", "True")]);
    let absent = LabelRequirement {
        key: "enflame.com/gcu.model".to_owned(),
        values: Vec::new(),
    };
    let architecture = LabelRequirement {
        key: "kubernetes.io/arch".to_owned(),
        values: vec!["amd64".to_owned()],
    };
    assert_eq!(held(&cluster, "cpu"), [absent, architecture]);
}

#[test]
fn a_label_that_plain_nodes_have_too_keeps_no_pod_away() {
    let mut labelled_plain = plain("cpu-1", "True");
    labelled_plain["metadata"]["labels"]["enflame.com/gcu.model"] = json!("");
    let cluster = recognise(&[labelled_plain, labelled("gcu-1", "True")]);
    let keys: Vec<String> = held(&cluster, "cpu").into_iter().map(|label| label.key).collect();
    assert_eq!(keys, ["kubernetes.io/arch"]);
}
