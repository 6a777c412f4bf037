//! `./demo`: a model goes from a hub to an answered prompt, through every room, on real parts.
//!
//! Stages print their results as soon as they have them, while the next stage's components are made in the background.

mod show;
mod stage_control_plane;
mod stage_nodes;
mod stage_peers;
mod stage_tools;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use testbed::cluster::condition_status;
use testbed::components::Origin;
use testbed::{Bed, BedConfig, ComponentStore, Reporter, Ring, fixture, http};

use crate::{bed, binaries, workspace};
use show::heading;

/// How far the demo goes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Stop after this stage: 1 our own tools, 2 a control plane, 3 three nodes, 4 peer to peer.
    #[arg(long, value_name = "STAGE", value_parser = clap::value_parser!(u8).range(1..=4))]
    until: Option<u8>,
    /// End after the last stage; without it the demo stays up for looking around until Ctrl-C.
    #[arg(long)]
    once: bool,
}

/// What the stages share.
struct Demo {
    bed: Arc<Bed>,
    reporter: Reporter,
    hub_root: PathBuf,
}

const HUB: &str = "http://127.0.0.1:8081";

/// Runs the stages, and takes everything down whatever way it ends.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let reporter = Reporter::stderr();
    let last = arguments.until.map_or_else(|| last_stage(&reporter), Ok)?;
    let config = bed::guarded(BedConfig::from_environment(reporter.clone()));
    let bed = Arc::new(Bed::open(config).map_err(bed::explain)?);
    testbed::down_on_interrupt(&bed, || eprintln!("\ntaking everything down"))?;
    let demo = Demo {
        hub_root: PathBuf::new(),
        bed: Arc::clone(&bed),
        reporter,
    };
    demo.stages(last, started)?;
    if !arguments.once {
        stay_up(&bed, last);
    }
    heading("taking everything down");
    bed.down()?;
    println!("done after {}", seconds(started.elapsed()));
    Ok(ExitCode::SUCCESS)
}

/// Peer to peer runs by default where its daemon need not be built: from source it takes the better part of an hour.
fn last_stage(reporter: &Reporter) -> anyhow::Result<u8> {
    let store = ComponentStore::from_environment(reporter.clone());
    if store.origin("dfdaemon")? == Origin::Source {
        reporter.line("stage 4 (peer to peer) is left out: dfdaemon would be built from source, about 50 minutes on 2 cores. Ask for it with --until 4.");
        return Ok(3);
    }
    Ok(4)
}

impl Demo {
    fn stages(mut self, last: u8, started: Instant) -> anyhow::Result<()> {
        type Stage = fn(&Demo) -> anyhow::Result<()>;
        let stages: [(&str, Stage); 4] = [
            (
                "our own tools: hub to registry and back, and a decision",
                stage_tools::run,
            ),
            (
                "a real control plane: the matrix, the controller, two deployments",
                stage_control_plane::run,
            ),
            (
                "three real nodes: the chart, the weights, an answered prompt",
                stage_nodes::run,
            ),
            ("peer to peer: a new version goes to both nodes", stage_peers::run),
        ];
        self.start()?;
        for (number, (name, stage)) in (1..=last).zip(stages) {
            let begun = Instant::now();
            heading(&format!("stage {number}: {name}"));
            stage(&self).with_context(|| format!("stage {number}"))?;
            println!(
                "\nstage {number} took {} ({} since the start)",
                seconds(begun.elapsed()),
                seconds(started.elapsed())
            );
        }
        Ok(())
    }

    /// What stage 1 needs at once, and behind it what the later stages will need.
    fn start(&mut self) -> anyhow::Result<()> {
        self.bed.up(Ring::Registry)?;
        self.hub_root = fixture::hub_folder(&self.reporter)?;
        binaries::build(&binaries::TOOLS)?;
        let bed = Arc::clone(&self.bed);
        std::thread::spawn(move || prepare_later_stages(&bed));
        self.start_hub()
    }

    /// The stand-in hub, with `SmolLM2`'s real weights and the shape of Qwen3-8B.
    fn start_hub(&self) -> anyhow::Result<()> {
        let program = binaries::path("standin-hub");
        let shape = self.hub_root.join("Qwen/Qwen3-8B");
        if !shape.is_dir() {
            show::run_quietly(Command::new(&program).arg("make-qwen3-8b").arg(&shape))?;
        }
        let mut hub = Command::new(program);
        hub.arg("--root")
            .arg(&self.hub_root)
            .args(["--listen", HUB.trim_start_matches("http://")]);
        let alive = format!("{HUB}/api/models/{}", fixture::SMOLLM2);
        self.bed.start_beside("standin-hub", &mut hub, || http::is_ok(&alive))?;
        Ok(())
    }

    /// A reference in the bed's registry.
    fn reference(&self, repository_and_tag: &str) -> String {
        format!("{}/{repository_and_tag}", self.bed.registry_address())
    }

    /// Waits for a condition of a deployment in the default namespace.
    fn await_condition(&self, name: &str, condition: &str, limit: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        self.bed.await_condition("default", name, condition, limit)?;
        println!("{name}: {condition} after {}", seconds(started.elapsed()));
        Ok(())
    }

    /// Waits until a deployment runs this artifact on all its replicas.
    fn await_artifact(&self, name: &str, digest: &str, limit: Duration) -> anyhow::Result<()> {
        let what = format!("{name} on {digest}");
        self.bed.await_deployment("default", name, &what, limit, |deployment| {
            let artifact = deployment["status"]["model"]["artifact"].as_str();
            let generations = (
                &deployment["metadata"]["generation"],
                &deployment["status"]["observedGeneration"],
            );
            artifact.is_some_and(|artifact| artifact.ends_with(digest))
                && generations.0 == generations.1
                && condition_status(deployment, "WorkloadReady") == Some("True")
        })?;
        println!("{name} runs {digest} everywhere");
        Ok(())
    }

    /// `kubectl`, shown and run.
    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        show::run(
            &format!("kubectl {}", arguments.join(" ")),
            &mut self.bed.kubectl_command(arguments)?,
        )
    }
}

/// One of our programs, as a user would call it, with the hub in its environment.
fn tool(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(binaries::path(name));
    command
        .args(arguments)
        .env("HF_ENDPOINT", HUB)
        .current_dir(workspace::root());
    command
}

/// Errors are not reported here: the stage that needs the component meets them again, and says so.
fn prepare_later_stages(bed: &Bed) {
    let _ = bed.prepare(Ring::ControlPlane);
    let _ = bed.start_unwatched("build", &mut binaries::command(&binaries::PRODUCT));
    for component in ["helm", "llama-server"] {
        let _ = bed.program(component);
    }
    let _ = bed.prepare(Ring::Nodes);
}

fn stay_up(bed: &Bed, last: u8) {
    heading("everything is up; Ctrl-C takes it down");
    if last > 1 {
        println!("KUBECONFIG={}", bed.kubeconfig().display());
    }
    println!("logs: {}", bed.layout().logs().display());
    loop {
        std::thread::park();
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.0} s", time.as_secs_f32())
}
