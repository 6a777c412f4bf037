//! Tasks of the repository. `cargo xtask --help` lists them.

mod bed;
mod bench;
mod binaries;
mod demo;
mod generate;
mod images;
mod product;
mod ring;
mod text;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of the repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run the demo: a model goes from a hub to an answered prompt, on real parts.
    Demo(demo::Arguments),
    /// Run the scenarios on a real cluster.
    Ring(ring::Arguments),
    /// Start, look at, and take down the test bed.
    Testbed(bed::Arguments),
    /// Make container images from static binaries and push them to the test bed's registry.
    Images(images::Arguments),
    /// Write everything that is generated and committed: CRDs, the chart's copy and README, the command reference.
    Generate(generate::Arguments),
    /// Measure ratios against other tools, in one run on this machine.
    Bench(bench::Arguments),
    /// Look for leftovers in the tracked files: unfinished work, files that grew too long, links that lead nowhere.
    LintText,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Demo(arguments) => demo::run(&arguments),
        Task::Ring(arguments) => ring::run(&arguments),
        Task::Testbed(arguments) => bed::run(&arguments),
        Task::Images(arguments) => images::run(&arguments),
        Task::Generate(arguments) => generate::run(&arguments),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::LintText => text::run(),
    };
    testbed::wait_if_interrupted();
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}
