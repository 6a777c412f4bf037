//! How long a decision takes, and how it grows with rows, builds and pools: `cargo xtask bench decide` runs it in release mode.
//!
//! A generated matrix of 14 vendors with six products each; a model that some rows list; pools of all vendors and products, with
//! four driver versions and two numbers of devices. Times are of the processor, so other work on the machine counts little.
#![expect(
    clippy::disallowed_methods,
    reason = "a measurement looks at the time it took and the memory it holds"
)]
#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made may stop")]

use std::{fmt::Write as _, hint::black_box};

use matrix::{
    Decision, Demand, DeviceMemory, Document, HostStack, Matrix, Offer, Policy, Pool, PoolNode, Request, Standing,
    decide,
};
use model_facts::{KvCache, LayerGroup, LayerKind, ModelFacts, Quantization, WeightFormat};

const VENDORS: usize = 14;
const PRODUCTS: usize = 6;
const LAUNCH: &str = "kind: Launch\nname: e\ncommand: [serve]\nport: 8000\nmetricsPath: /metrics\nprobes: {startup: /h, readiness: /h, liveness: /h}\npod: {}\nmemory: {usablePermille: 900, baseMib: 1024, weightsPermille: 50}\nstartup: {loadMibPerSecond: 200, warmupSeconds: 60}\nparallel: {tensor: true, nodes: true}\n";

/// As in the programs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    println!(
        "{:>6} {:>7} {:>6} {:>9} {:>12} {:>14} {:>12}",
        "rows", "builds", "pools", "eligible", "decision us", "us per pool", "matrix KiB"
    );
    // All stay loaded: memory that one gives back would be taken for the next one's.
    let mut loaded = Vec::new();
    for (rows, builds) in [(1_000, 1_000), (5_000, 200), (5_000, 1_000), (20_000, 1_000)] {
        let documents = documents(rows, builds);
        let before = resident();
        let matrix = Matrix::load(&documents).unwrap();
        let memory = resident().saturating_sub(before);
        for pools in [1, 10, 100, 1_000] {
            let request = request(pools);
            let decision = decide(&matrix, &request);
            let micros = best_of(if pools > 10 { 20 } else { 500 }, || decide(&matrix, &request));
            let each = micros / u32::try_from(pools).map_or(1.0, f64::from);
            println!(
                "{rows:>6} {builds:>7} {pools:>6} {:>9} {micros:>12.1} {each:>14.2} {memory:>12}",
                decision.counts.eligible
            );
        }
        loaded.push(matrix);
    }
}

/// The fastest of several runs, in microseconds of processor time.
fn best_of(runs: usize, work: impl Fn() -> Decision) -> f64 {
    let mut best = u32::MAX;
    for _ in 0..runs {
        let start = on_processor();
        black_box(work());
        let taken = u32::try_from(on_processor() - start).unwrap_or(u32::MAX);
        best = best.min(taken);
    }
    f64::from(best) / 1e3
}

/// Nanoseconds that this thread has been on a processor. The kernel brings the number up to date when the thread gives way.
fn on_processor() -> u64 {
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// Kibibytes that the process holds in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok())
        .unwrap_or(0)
        * 4
}

fn documents(rows: usize, builds: usize) -> Vec<Document> {
    let launch = Document {
        path: "launch/e.yaml".to_owned(),
        text: LAUNCH.to_owned(),
    };
    (0..VENDORS)
        .flat_map(|vendor| documents_of(vendor, rows, builds))
        .chain([launch])
        .collect()
}

fn documents_of(vendor: usize, rows: usize, builds: usize) -> [Document; 3] {
    let mut products = format!(
        "kind: Products\nvendor: v{vendor}\nstacks: [{{name: kit, scheme: dotted, driverMin: {{\"5\": \"500\"}}}}]\nproducts:\n"
    );
    for product in 0..PRODUCTS {
        let group = product / 2;
        let _ = writeln!(
            products,
            "- {{id: v{vendor}-p{product}, variant: v{vendor}-g{group}, match: [p{product}], memoryMiB: 65536}}"
        );
    }
    let mut text = format!(
        "kind: Builds\ndistribution: d{vendor}\nengine: e\nvendor: v{vendor}\nlaunch: e\nloads: [safetensors]\nbuilds:\n"
    );
    for build in 0..=builds / VENDORS {
        let (minor, patch, group) = (build / 4, build % 4, build % 3);
        let image = format!("v{vendor}-g{group}: {{image: \"r.io/v{vendor}:{build}\", architectures: [amd64]}}");
        let _ = writeln!(
            text,
            "- {{version: \"0.{minor}.{patch}\", upstream: \"0.{minor}.{patch}\", stack: {{kit: \"5.{minor}\"}}, images: {{{image}}}}}"
        );
    }
    let mut support = format!("kind: Support\nbuilds: {{distribution: d{vendor}}}\nrows:\n");
    for row in 0..rows / VENDORS {
        let (model, group, since) = (row % 160, row % 3, row % 7);
        let level = ["verified", "declared", "experimental"][row % 3];
        let _ = writeln!(
            support,
            "- {{models: {{architectures: [Model{model}ForCausalLM]}}, products: [v{vendor}-g{group}], quantizations: [bf16, fp8], level: {level}, since: \"0.{since}.0\"}}"
        );
    }
    [("products", products), ("builds", text), ("support", support)].map(|(name, text)| Document {
        path: format!("{name}/v{vendor}.yaml"),
        text,
    })
}

fn request(pools: usize) -> Request {
    let kind = LayerKind::Full {
        kv_heads: 8,
        key_dim: 128,
        value_dim: 128,
    };
    let facts = ModelFacts {
        architectures: vec!["Model7ForCausalLM".to_owned()],
        format: WeightFormat::Safetensors,
        dtype: Some("bf16".to_owned()),
        quantization: Quantization {
            label: Some("bf16".to_owned()),
            ..Quantization::default()
        },
        weight_bytes: Some(16 << 30),
        attention_heads: Some(32),
        kv_heads: Some(8),
        context_length: Some(32768),
        kv_cache: KvCache {
            groups: Some(vec![LayerGroup { layers: 36, kind }]),
            lower_bound: false,
        },
        ..ModelFacts::default()
    };
    Request {
        facts,
        pools: (0..pools).map(pool).collect(),
        demand: Demand::default(),
        policy: Policy::default(),
    }
}

/// Pools of all vendors and products, with four driver versions and two numbers of devices.
fn pool(number: usize) -> Pool {
    let (vendor, product) = (number % VENDORS, (number / VENDORS) % PRODUCTS);
    let devices = if number.is_multiple_of(2) { 8 } else { 16 };
    Pool {
        id: format!("pool-{number:04}"),
        vendor: Some(format!("v{vendor}")),
        product: Some(format!("v{vendor}-p{product}")),
        raw: Some(format!("p{product}")),
        evidence: None,
        offer: Offer::Whole {
            resource: format!("v{vendor}.com/x"),
        },
        standing: Standing::Usable,
        nodes: vec![PoolNode {
            name: format!("node-{number}"),
            devices,
        }],
        memory: DeviceMemory {
            bytes: Some(64 << 30),
            source: Some("label".to_owned()),
            missing: None,
        },
        architecture: Some("amd64".to_owned()),
        runtime: None,
        host: HostStack {
            driver: Some(format!("{}.1", 490 + number % 4 * 20)),
            ..HostStack::default()
        },
        affinity: Vec::new(),
        taints: Vec::new(),
        notes: Vec::new(),
    }
}
