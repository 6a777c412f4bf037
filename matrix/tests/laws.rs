//! The laws of the decision, on random small matrices: order never matters, unrelated rows change nothing, a `no` only removes,
//! the same input gives the same bytes, nothing is rejected without a reason, and every reason names a row that exists.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test may stop")]

use std::collections::BTreeSet;

use matrix::{
    Decision, Demand, DeviceMemory, Document, HostStack, Level, Matrix, Offer, Outcome, Policy, Pool, PoolNode,
    Preference, Request, Standing, decide,
};
use model_facts::{KvCache, LayerGroup, LayerKind, ModelFacts, Quantization, WeightFormat};
use proptest::{prelude::*, sample::select};

const PRODUCTS: &str = "kind: Products\nvendor: VENDOR\nstacks: [{name: kit, scheme: dotted}]\nproducts:\n\
- {id: VENDOR-one, variant: VENDOR-v1, match: [one], memoryMiB: 65536, formats: [bf16, fp16]}\n\
- {id: VENDOR-two, variant: VENDOR-v2, match: [two], memoryMiB: 32768, noFormats: [fp8], unit: {is: die, multipleOf: 2}}\n";

const LAUNCH: &str = "kind: Launch\nname: eng\ncommand: [serve]\nport: 8000\nmetricsPath: /metrics\nprobes: {startup: /h, readiness: /h, liveness: /h}\npod: {}\nmemory: {usablePermille: 840, baseMib: 2355, weightsPermille: 50}\nstartup: {loadMibPerSecond: 200, warmupSeconds: 60}\nparallel: {tensor: true, nodes: true}\n";
const LIST: &str = "kind: EngineList\nengine: eng\nreleases: [\"0.1.0\", \"0.9.0\"]\narchitectures: {\
Alpha: {first: \"0.1.0\"}, Beta: {first: \"0.1.0\", last: \"0.4.0\"}}\n";

/// Rows of one document each, as text, so that they can be shuffled.
#[derive(Debug, Clone)]
struct Sketch {
    builds: Vec<String>,
    rows: Vec<String>,
}

fn build() -> impl Strategy<Value = String> {
    let key = select(vec!["a", "a-v1", "a-one", "a-v2", "b", "b-two"]);
    let channel = select(vec!["final", "candidate"]);
    (1u32..7, key, channel, select(vec!["", "4.1", "5.0"]), any::<bool>()).prop_map(|(minor, key, channel, kit, arm)| {
        let stack = if kit.is_empty() { String::new() } else { format!(", stack: {{kit: \"{kit}\"}}") };
        let architectures = if arm { "[arm64]" } else { "[amd64, arm64]" };
        format!(
            "{{version: \"0.{minor}.0\", upstream: \"0.{minor}.0\", channel: {channel}{stack}, images: {{{key}: {{image: \"r.io/e:{minor}\", architectures: {architectures}}}}}}}"
        )
    })
}

fn row() -> impl Strategy<Value = String> {
    let models = select(vec![
        "{architectures: [Alpha]}",
        "{architectures: [Beta]}",
        "{families: [alpha]}",
        "{checkpoints: [\"org/alpha*\"]}",
        "{architectures: engine-list}",
        "{architectures: any}",
    ]);
    let products = select(vec!["any", "[a]", "[a-v1]", "[a-one]", "[b, a-two]"]);
    let quantizations = select(vec!["any", "[bf16]", "[fp8]", "[bf16, awq-w4a16]", "none"]);
    let level = select(vec!["verified", "declared", "experimental", "untested", "no"]);
    let limits = select(vec![
        "{}",
        "{devices: 2}",
        "{devices: 4, multipleOf: 4}",
        "{maxContext: 4096}",
        "{nodes: 2}",
    ]);
    let bounds = select(vec![
        "",
        ", since: \"0.3.0\"",
        ", until: \"0.4.0\"",
        ", since: \"0.2.0\", stableSince: \"0.5.0\"",
    ]);
    (models, products, quantizations, level, limits, bounds).prop_map(|(models, products, quantizations, level, limits, bounds)| {
        format!("{{models: {models}, products: {products}, quantizations: {quantizations}, level: {level}, limits: {limits}{bounds}}}")
    })
}

fn sketch() -> impl Strategy<Value = Sketch> {
    (
        prop::collection::vec(build(), 1..7),
        prop::collection::vec(row(), 0..12),
    )
        .prop_map(|(builds, rows)| Sketch { builds, rows })
}

/// Builds get a flavor each, so that their ids differ; it travels with the text when they are shuffled.
fn documents(sketch: &Sketch) -> Vec<Document> {
    let head = "kind: Builds\ndistribution: dist\nengine: eng\nvendor: [a, b]\nlaunch: eng\nbuilds:\n";
    let builds: String = sketch
        .builds
        .iter()
        .fold(String::new(), |text, build| text + "- " + build + "\n");
    let rows: String = sketch
        .rows
        .iter()
        .fold(String::new(), |text, row| text + "- " + row + "\n");
    let rows = if rows.is_empty() {
        " []\n".to_owned()
    } else {
        format!("\n{rows}")
    };
    let document = |path: &str, text: String| Document {
        path: path.to_owned(),
        text,
    };
    vec![
        document("products/a.yaml", PRODUCTS.replace("VENDOR", "a")),
        document("products/b.yaml", PRODUCTS.replace("VENDOR", "b")),
        document("engines/eng.yaml", LIST.to_owned()),
        document("launch/eng.yaml", LAUNCH.to_owned()),
        document("builds/dist.yaml", format!("{head}{builds}")),
        document(
            "support/dist.yaml",
            format!("kind: Support\nbuilds: {{distribution: dist}}\nrows:{rows}"),
        ),
    ]
}

fn with_flavors(sketch: Sketch) -> Sketch {
    let flavored = sketch
        .builds
        .iter()
        .enumerate()
        .map(|(index, build)| build.replacen('{', &format!("{{flavor: f{index}, "), 1));
    Sketch {
        builds: flavored.collect(),
        rows: sketch.rows,
    }
}

fn load(sketch: &Sketch) -> Matrix {
    Matrix::load(&documents(sketch)).unwrap_or_else(|errors| panic!("{errors}"))
}

fn pool(id: &str, vendor: &str, product: Option<&str>, memory: Option<u64>, devices: u32, architecture: &str) -> Pool {
    Pool {
        id: id.to_owned(),
        vendor: Some(vendor.to_owned()),
        product: product.map(str::to_owned),
        raw: product.map(str::to_owned),
        evidence: None,
        offer: Offer::Whole {
            resource: format!("{vendor}.com/x"),
        },
        standing: Standing::Usable,
        nodes: vec![PoolNode {
            name: format!("{id}-node"),
            devices,
        }],
        memory: DeviceMemory {
            bytes: memory.map(|gibibytes| gibibytes << 30),
            source: None,
            missing: None,
        },
        architecture: Some(architecture.to_owned()),
        runtime: None,
        host: HostStack::default(),
        affinity: Vec::new(),
        taints: Vec::new(),
        notes: Vec::new(),
    }
}

fn request() -> impl Strategy<Value = Request> {
    let facts = (
        select(vec!["Alpha", "Beta", "Gamma"]),
        select(vec![Some("bf16"), Some("fp8"), Some("awq-w4a16"), None]),
        1u64..120,
    );
    let pools = prop::collection::vec(
        (
            select(vec!["a", "b"]),
            select(vec![Some("one"), Some("two"), None]),
            select(vec![Some(24), Some(64), None]),
            0u32..9,
            any::<bool>(),
        ),
        0..5,
    );
    let policy = (
        select(vec![Level::Verified, Level::Declared, Level::Untested]),
        any::<bool>(),
    );
    let demand = (
        select(vec![None, Some(2048u64), Some(8192)]),
        select(vec![None, Some(2u32), Some(3)]),
        any::<bool>(),
    );
    (facts, pools, policy, demand).prop_map(
        |((architecture, label, gibibytes), pools, (minimum_level, explicit_engine), demand)| {
            let pools = pools
                .into_iter()
                .enumerate()
                .map(|(index, (vendor, product, memory, devices, arm))| {
                    let product = product.map(|name| format!("{vendor}-{name}"));
                    pool(
                        &format!("pool-{index}"),
                        vendor,
                        product.as_deref(),
                        memory,
                        devices,
                        if arm { "arm64" } else { "amd64" },
                    )
                });
            let accelerators = match (demand.1, demand.2) {
                (None, false) => Vec::new(),
                (devices, _) => vec![
                    Preference {
                        vendor: Some("a".to_owned()),
                        devices,
                        ..Preference::default()
                    },
                    Preference {
                        product: Some("b-two".to_owned()),
                        devices,
                        ..Preference::default()
                    },
                ],
            };
            Request {
                facts: facts_of(architecture, label, gibibytes),
                pools: pools.collect(),
                demand: Demand {
                    context: demand.0,
                    accelerators,
                    ..Demand::default()
                },
                policy: Policy {
                    minimum_level,
                    explicit_engine,
                    ..Policy::default()
                },
            }
        },
    )
}

fn facts_of(architecture: &str, label: Option<&str>, gibibytes: u64) -> ModelFacts {
    let kind = LayerKind::Full {
        kv_heads: 8,
        key_dim: 128,
        value_dim: 128,
    };
    ModelFacts {
        checkpoint: Some(format!("org/{}-x", architecture.to_lowercase())),
        architectures: vec![architecture.to_owned()],
        family: Some(architecture.to_lowercase()),
        format: WeightFormat::Safetensors,
        dtype: Some("bf16".to_owned()),
        quantization: Quantization {
            method: label.map(str::to_owned),
            label: label.map(str::to_owned),
            ..Quantization::default()
        },
        weight_bytes: Some(gibibytes << 30),
        attention_heads: Some(32),
        kv_heads: Some(8),
        context_length: Some(16384),
        kv_cache: KvCache {
            groups: Some(vec![LayerGroup { layers: 32, kind }]),
            lower_bound: false,
        },
        ..ModelFacts::default()
    }
}

/// What must not change: everything but the places of rows and the digest.
fn essence(decision: &Decision) -> serde_json::Value {
    fn strip(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Object(map) => {
                for key in ["row", "buildRow", "revision"] {
                    map.remove(key);
                }
                map.values_mut().for_each(strip);
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(decision).unwrap();
    strip(&mut value);
    value
}

/// Candidates that would work.
fn eligible(decision: &Decision) -> BTreeSet<(String, String)> {
    let would = decision
        .verdicts
        .iter()
        .filter(|verdict| verdict.outcome != Outcome::Rejected);
    would
        .flat_map(|verdict| {
            let pools = verdict.pool.iter().chain(&verdict.also);
            pools
                .map(|pool| (verdict.build.clone(), pool.clone()))
                .collect::<Vec<_>>()
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn order_of_files_rows_builds_and_pools_never_matters(
        (original, builds, rows) in sketch().prop_map(with_flavors).prop_flat_map(|sketch| {
            let builds = Just(sketch.builds.clone()).prop_shuffle();
            let rows = Just(sketch.rows.clone()).prop_shuffle();
            (Just(sketch), builds, rows)
        }),
        (request, pools) in request().prop_flat_map(|request| {
            let pools = Just(request.pools.clone()).prop_shuffle();
            (Just(request), pools)
        }),
    ) {
        let shuffled = Sketch { builds, rows };
        let mut reversed = documents(&shuffled);
        reversed.reverse();
        let there = decide(&load(&original), &request);
        let back = decide(&Matrix::load(&reversed).unwrap(), &Request { pools, ..request });
        prop_assert_eq!(essence(&there), essence(&back));
    }

    #[test]
    fn the_same_input_gives_the_same_bytes(sketch in sketch().prop_map(with_flavors), request in request()) {
        let once = serde_json::to_string(&decide(&load(&sketch), &request)).unwrap();
        let again = serde_json::to_string(&decide(&load(&sketch), &request)).unwrap();
        prop_assert_eq!(&once, &again);
        let frozen = Matrix::from_revision(&load(&sketch).revision().text).unwrap();
        prop_assert_eq!(once, serde_json::to_string(&decide(&frozen, &request)).unwrap());
    }

    #[test]
    fn an_unrelated_row_changes_nothing(sketch in sketch().prop_map(with_flavors), request in request(), extra in row()) {
        let before = decide(&load(&sketch), &request);
        let unrelated = ["{architectures: [Alpha]}", "{architectures: [Beta]}", "{families: [alpha]}", "{checkpoints: [\"org/alpha*\"]}",
            "{architectures: engine-list}", "{architectures: any}"]
            .iter().fold(extra, |row, models| row.replace(models, "{architectures: [Nobody]}"));
        let mut wider = sketch;
        wider.rows.push(unrelated);
        prop_assert_eq!(essence(&before), essence(&decide(&load(&wider), &request)));
    }

    #[test]
    fn a_no_only_ever_removes(sketch in sketch().prop_map(with_flavors), request in request(), extra in row()) {
        let before = decide(&load(&sketch), &request);
        let mut stricter = sketch;
        let levels = ["verified", "declared", "experimental", "untested"];
        stricter.rows.push(levels.iter().fold(extra, |row, level| row.replace(&format!("level: {level}"), "level: no")));
        let after = decide(&load(&stricter), &request);
        prop_assert!(eligible(&after).is_subset(&eligible(&before)));
    }

    #[test]
    fn every_rejection_has_a_reason_and_every_reason_a_row(sketch in sketch().prop_map(with_flavors), request in request()) {
        let documents = documents(&sketch);
        let decision = decide(&load(&sketch), &request);
        for verdict in &decision.verdicts {
            prop_assert_eq!(verdict.outcome == Outcome::Rejected, !verdict.reasons.is_empty(), "{:?}", verdict);
            for reason in verdict.reasons.iter().chain(&verdict.caveats) {
                let document = documents.iter().find(|document| *document.path == *reason.row.path);
                let line = document.and_then(|document| document.text.lines().nth(reason.row.line as usize - 1));
                prop_assert!(line.is_some(), "{} does not exist", reason.row);
            }
        }
        let counts = &decision.counts;
        prop_assert_eq!(counts.eligible + counts.rejected, counts.candidates);
        let pairs: usize = decision.verdicts.iter().map(|verdict| 1 + verdict.also.len()).sum();
        prop_assert_eq!(pairs, counts.candidates);
        prop_assert_eq!(counts.by_heaviest.values().sum::<usize>(), counts.rejected);
        prop_assert_eq!(decision.chosen.is_some(), counts.eligible > 0);
    }
}

/// The laws would hold on empty answers too, so the generator must reach full ones.
#[test]
fn the_generated_questions_have_answers_of_every_kind() {
    use proptest::{strategy::ValueTree as _, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let (mut chosen, mut several, mut tokens) = (0, 0, BTreeSet::new());
    for _ in 0..150 {
        let (sketch, request) = (sketch().prop_map(with_flavors), request())
            .new_tree(&mut runner)
            .unwrap()
            .current();
        let decision = decide(&load(&sketch), &request);
        chosen += usize::from(decision.chosen.is_some());
        several += usize::from(decision.counts.eligible > 1);
        tokens.extend(decision.counts.by_reason.keys().cloned());
    }
    assert!(chosen > 10, "{chosen} of 150 have a choice");
    assert!(several > 5, "{several} of 150 have several candidates");
    for token in [
        "OtherVendor",
        "ProductUnknown",
        "ProductNotServed",
        "ExplicitNo",
        "NumberFormat",
        "Quantization",
        "NotListed",
        "VersionOutsideRow",
        "CpuArchitecture",
        "AcceleratorNotAsked",
        "LevelTooLow",
        "ContextTooLong",
        "TooFewNodes",
        "TooFewDevices",
        "Divisibility",
        "TooLittleMemory",
    ] {
        assert!(
            tokens.contains(token),
            "no generated question meets {token}: {tokens:?}"
        );
    }
}
