//! `cargo xtask ring`: the scenarios of `tests/e2e` on a test bed that is brought up for them and taken down after them.

use std::process::{Command, ExitCode};
use std::sync::Arc;

use anyhow::Context as _;
use testbed::components::Origin;
use testbed::{Bed, BedConfig, ComponentStore, Reporter, Ring, fixture};

use crate::{bed, binaries, images, product, workspace};

/// Which scenarios to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run the peer-to-peer scenarios even when dfdaemon has to be built from source first.
    #[arg(long)]
    p2p: bool,
    /// Only scenarios whose name contains this.
    filter: Option<String>,
}

/// A registry address that a test puts its proxy on.
const PROXY: &str = "10.213.0.1:5001";

/// Runs the scenarios. Exit code 1 when one fails.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let reporter = Reporter::stderr();
    let peers = arguments.p2p || has_dfdaemon(&reporter)?;
    binaries::build(&[&binaries::TOOLS[..], &binaries::PRODUCT].concat())?;
    let bed = Arc::new(Bed::open(bed::guarded(BedConfig::from_environment(reporter.clone()))).map_err(bed::explain)?);
    testbed::down_on_interrupt(&bed, || {})?;
    bed.up(if peers { Ring::PeerToPeer } else { Ring::Nodes })
        .map_err(bed::explain)?;
    prepare(&bed, peers, &reporter)?;
    let passed = run_scenarios(&bed, peers, arguments.filter.as_deref())?;
    if !passed {
        eprintln!("logs of all components: {}", bed.layout().logs().display());
    }
    bed.down().map_err(bed::explain)?;
    if !peers {
        eprintln!(
            "the peer-to-peer scenarios were not run: dfdaemon is neither cached nor prebuilt. Run them with `./check --p2p`."
        );
    }
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn has_dfdaemon(reporter: &Reporter) -> anyhow::Result<bool> {
    let store = ComponentStore::from_environment(reporter.clone());
    Ok(store.origin("dfdaemon")? != Origin::Source)
}

/// What every scenario relies on: images, the accelerator, the product, the matrix, and a model of which only facts are there.
fn prepare(bed: &Arc<Bed>, dragonfly: bool, reporter: &Reporter) -> anyhow::Result<()> {
    images::push_all(bed)?;
    product::install_accelerator(bed)?;
    product::install(
        bed,
        &product::Options {
            dragonfly,
            more_plain_http: vec![PROXY.into()],
        },
    )?;
    let mut render = Command::new(binaries::path("plimsoll"));
    let matrix = render
        .args(["matrix", "render", "--channel", "stable"])
        .output()
        .context("start plimsoll")?;
    bed.apply(&String::from_utf8_lossy(&matrix.stdout))?;
    push_facts(bed, reporter)
}

fn push_facts(bed: &Bed, reporter: &Reporter) -> anyhow::Result<()> {
    let shape = fixture::hub_folder(reporter)?.join("Qwen/Qwen3-8B");
    if !shape.is_dir() {
        let made = Command::new(binaries::path("standin-hub"))
            .arg("make-qwen3-8b")
            .arg(&shape)
            .status()?;
        anyhow::ensure!(made.success(), "standin-hub could not write the shape of Qwen3-8B");
    }
    let target = format!("{}/models/qwen3-8b:v1", bed.registry_address());
    let mut push = Command::new(binaries::path("model-packer"));
    push.arg("push")
        .arg(format!("file:{}", shape.display()))
        .args([&target, "--plain-http", "--facts-only"]);
    anyhow::ensure!(
        push.status().context("start model-packer")?.success(),
        "model-packer could not push {target}"
    );
    Ok(())
}

/// One at a time: the scenarios share the nodes' disks and the registry's log.
fn run_scenarios(bed: &Bed, peers: bool, filter: Option<&str>) -> anyhow::Result<bool> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let features = if peers { "ring,peer-to-peer" } else { "ring" };
    cargo.args([
        "test",
        "--locked",
        "--package",
        "e2e",
        "--features",
        features,
        "--no-fail-fast",
        "--",
    ]);
    cargo.args(filter).args(["--test-threads", "1", "--nocapture"]);
    cargo
        .env("PLIMSOLL_BINARIES", binaries::folder())
        .env("KUBECONFIG", bed.kubeconfig());
    let status = cargo.current_dir(workspace::root()).status().context("start cargo")?;
    Ok(status.success())
}
