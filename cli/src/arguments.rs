//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::output::Format;

/// Which model may run on which accelerator with which engine build, and why.
///
/// Everything here works offline on recorded objects, with the same code that the controller runs. Exit codes: 0 yes, 1 the
/// answer is no or the input is wrong, 2 a fault of this program.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, propagate_version = true)]
pub(crate) struct Arguments {
    /// How data is printed.
    #[arg(short, long, global = true, value_enum, default_value_t)]
    pub(crate) output: Format,
    /// The matrix: a folder of documents, or a rendered revision. Without it, the one that is built in.
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) matrix: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say which build and pool a deployment would get, why, and why not the others.
    Explain(Explain),
    /// Say what speaks against one build for a deployment.
    WhyNot(WhyNot),
    /// Show the pools of a cluster, and what each deployment would get on it.
    Simulate(Simulate),
    /// Print the facts of a model: a folder, a weight file, or an artifact in a registry.
    Facts(Facts),
    /// Work on the matrix.
    #[command(subcommand)]
    Matrix(MatrixCommand),
    /// Show which deployments a change of the matrix would move, and how.
    BlastRadius(BlastRadius),
    /// Print the completion script of a shell.
    Completions(Completions),
    /// Print the manual page.
    Man,
}

/// Where the facts of the model come from.
#[derive(Debug, Args, Default)]
pub(crate) struct ModelArguments {
    /// A file with the facts, as `plimsoll facts -o json` prints them.
    #[arg(long, value_name = "FILE")]
    pub(crate) facts: Option<PathBuf>,
    /// A folder with config.json and weights, one weight file, or an artifact in a registry.
    #[arg(long, value_name = "PATH|REF", conflicts_with = "facts")]
    pub(crate) model: Option<String>,
    /// Registry hosts that speak plain http.
    #[arg(long, value_name = "HOST")]
    pub(crate) plain_http: Vec<String>,
}

/// A question about deployments on a recorded cluster.
#[derive(Debug, Args)]
pub(crate) struct Question {
    /// The deployment: a file with `ModelDeployment` objects, `-` for stdin.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub(crate) deployment: PathBuf,
    /// The cluster: what `kubectl get nodes,resourceslices,deviceclasses,runtimeclasses -o yaml` prints.
    #[arg(long, value_name = "FILE")]
    pub(crate) cluster: PathBuf,
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    /// Count images that come as files as available: a mirror holds them.
    #[arg(long)]
    pub(crate) offline_images: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) question: Question,
    /// List every verdict.
    #[arg(long)]
    pub(crate) all: bool,
    /// Print the pod's command, arguments and devices too.
    #[arg(long)]
    pub(crate) launch: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WhyNot {
    /// The build, as `explain --all` names it.
    #[arg(long, value_name = "ID")]
    pub(crate) build: String,
    #[command(flatten)]
    pub(crate) question: Question,
}

#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// The cluster: what `kubectl get nodes,resourceslices,deviceclasses,runtimeclasses -o yaml` prints.
    #[arg(long, visible_alias = "cluster", value_name = "FILE")]
    pub(crate) nodes: PathBuf,
    /// Deployments to place.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub(crate) deployments: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArguments,
}

#[derive(Debug, Args)]
pub(crate) struct Facts {
    /// A folder with config.json and weights, one weight file, or an artifact in a registry.
    #[arg(value_name = "PATH|REF")]
    pub(crate) model: String,
    /// Registry hosts that speak plain http.
    #[arg(long, value_name = "HOST")]
    pub(crate) plain_http: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MatrixCommand {
    /// Say what is wrong with a folder of documents.
    Lint(Lint),
    /// Show what changed between two matrices.
    Diff(Diff),
    /// Show how many builds of each vendor serve each model.
    Coverage(Coverage),
    /// List every image to mirror, with digests where they are known.
    MirrorList(MirrorList),
    /// List drivers and stacks that the builds need, by product.
    Requirements(Requirements),
    /// Print a `MatrixRevision` and the `MatrixChannel` that points to it.
    Render(Render),
    /// Write a static page that shows the matrix.
    Site(Site),
}

#[derive(Debug, Args)]
pub(crate) struct Lint {
    /// The folder; without it, the matrix that is built in.
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// The day against which the age of evidence is judged, `2026-11-30`. Without it, nothing expires.
    #[arg(long, value_name = "DATE")]
    pub(crate) date: Option<String>,
    /// Warnings count as errors.
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The older one: a folder, or a rendered revision.
    pub(crate) from: PathBuf,
    /// The newer one.
    pub(crate) to: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Coverage {
    /// Only this vendor.
    #[arg(long)]
    pub(crate) vendor: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct MirrorList {
    /// Only images for these vendors.
    #[arg(long)]
    pub(crate) vendor: Vec<String>,
    /// Only final releases.
    #[arg(long)]
    pub(crate) final_only: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Requirements {
    /// Only this vendor.
    #[arg(long)]
    pub(crate) vendor: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Render {
    /// Name of the channel (`stable`, `candidate`).
    #[arg(long, value_name = "NAME")]
    pub(crate) channel: String,
}

#[derive(Debug, Args)]
pub(crate) struct Site {
    /// The folder to write to.
    #[arg(value_name = "OUT")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct BlastRadius {
    /// The matrix in force: a folder, or a rendered revision.
    #[arg(long, value_name = "PATH")]
    pub(crate) from: PathBuf,
    /// The matrix to come.
    #[arg(long, value_name = "PATH")]
    pub(crate) to: PathBuf,
    #[command(flatten)]
    pub(crate) question: Question,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}
