//! What can be written on the command line. The comments are its help text, so they are written for a terminal.
#![expect(
    clippy::doc_markdown,
    reason = "the comments are shown on a terminal, where backticks and brackets only disturb"
)]

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Packs a model from a hub as an OCI artifact, every byte checked.
///
/// Sources: hf://owner/name[@revision], ms://owner/name[@revision], a folder, a file, or a Hugging Face cache folder.
/// Tokens are read from the environment (HF_TOKEN, MODELSCOPE_API_TOKEN) and from docker's config.json, never from arguments.
/// Exit codes: 0 yes, 1 the answer is no or the input is wrong, 2 a mistake of this program.
#[derive(Debug, Parser)]
#[command(name = "model-packer", version)]
pub struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
    #[command(flatten)]
    pub(super) shared: Shared,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Pack a model and push it.
    Push(Push),
    /// Show what a push would move, without moving it.
    Plan(Plan),
    /// Fetch a packed model into a folder.
    Pull(Pull),
    /// Show facts, source and files of a packed model.
    Inspect(Inspect),
    /// Make the manifest again from the source and compare it with the artifact.
    Verify(Verify),
    /// List the versions of a model in a repository.
    Versions(Versions),
    /// Give a model another tag: a rollout, or a rollback.
    Tag(Tag),
    /// Remove a tag.
    Untag(Untag),
    /// Show what differs between two models: files and tensors.
    Diff(Diff),
    /// Put variants of a model (precision, quantisation, layout) under one tag for controllers.
    Index(Index),
    /// Measure what a registry can do, and keep it.
    Doctor(Doctor),
}

/// Settings of all commands.
#[derive(Debug, Args)]
pub(super) struct Shared {
    /// Speak http without TLS to the registry that is named.
    #[arg(long, global = true)]
    pub(super) plain_http: bool,
    /// Address of Hugging Face or of a mirror.
    #[arg(long, visible_alias = "endpoint", value_name = "URL", global = true)]
    pub(super) hf_endpoint: Option<String>,
    /// Address of ModelScope.
    #[arg(long, value_name = "URL", global = true)]
    pub(super) ms_endpoint: Option<String>,
    /// PEM file with certificates to trust besides the system's.
    #[arg(long, value_name = "FILE", global = true)]
    pub(super) ca_file: Option<PathBuf>,
    /// How to tell what happens.
    #[arg(long, value_enum, default_value_t, global = true)]
    pub(super) output: Output,
    /// Say only what goes wrong.
    #[arg(short, long, global = true)]
    pub(super) quiet: bool,
    /// Say more; twice for the program's own log.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub(super) verbose: u8,
    /// Folder for what survives a kill (default: below XDG_STATE_HOME or ~/.local/state).
    #[arg(long, value_name = "DIR", global = true)]
    pub(super) state: Option<PathBuf>,
    /// Files at the same time.
    #[arg(short, long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64), global = true)]
    pub(super) jobs: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum Output {
    /// Bars on a terminal, lines elsewhere.
    #[default]
    Text,
    /// JSON events on stdout, one per line; the last one is the summary.
    Json,
}

/// What to take from the source.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(super) struct Choice {
    /// Take only files that match. `*` also crosses `/`; a trailing `/` means everything below. Can be repeated.
    #[arg(long, value_name = "GLOB")]
    pub(super) include: Vec<String>,
    /// Leave out files that match. Can be repeated; comes after --include.
    #[arg(long, value_name = "GLOB")]
    pub(super) exclude: Vec<String>,
    /// The GGUF quantisation, such as Q4_K_M.
    #[arg(long, value_name = "NAME")]
    pub(super) quant: Option<String>,
    /// The variant of the weights, such as fp16.
    #[arg(long, value_name = "NAME")]
    pub(super) variant: Option<String>,
    /// The weight set, where there are several.
    #[arg(long, value_name = "FORMAT", value_parser = ["safetensors", "mistral", "bin", "pt", "gguf"])]
    pub(super) format: Option<String>,
    /// Pack Python code of the repository too.
    #[arg(long)]
    pub(super) allow_remote_code: bool,
    /// Refuse files that the hub has no hash for.
    #[arg(long)]
    pub(super) require_hash: bool,
    /// Pack configuration, tokenizer and documents with the facts, but no weights.
    #[arg(long)]
    pub(super) facts_only: bool,
    /// How files become layers.
    #[arg(long, value_enum, default_value_t)]
    pub(super) layout: LayoutName,
    /// Refuse a source that is not what this lock holds (default: source.lock).
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "source.lock")]
    pub(super) locked: Option<PathBuf>,
    /// Leave `artifactType` out, for registries that refuse it.
    #[arg(long)]
    pub(super) omit_artifact_type: bool,
    /// Attach a piece map, with which readers repair and reuse parts of files. Hashes the weights a second time.
    #[arg(long)]
    pub(super) pieces: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum LayoutName {
    /// A layer is a file; its digest is the hub's sha256.
    #[default]
    Raw,
    /// A layer is a tar of one file, and a mountable image is put beside the model under TAG-image.
    Tar,
}

#[derive(Debug, Args)]
pub(super) struct Push {
    /// hf://owner/name[@revision], ms://owner/name[@revision], or a path.
    pub(super) source: String,
    /// registry[:port]/repository[:tag]
    pub(super) target: String,
    #[command(flatten)]
    pub(super) choice: Choice,
    /// Repository of the same registry that may have some of the files. Can be repeated.
    #[arg(long, value_name = "REPOSITORY")]
    pub(super) mount_from: Vec<String>,
    /// Write source.lock here as well.
    #[arg(long, value_name = "FILE")]
    pub(super) write_lock: Option<PathBuf>,
    /// Write each file here before it is sent, for registries that cannot take a stream.
    #[arg(long, value_name = "DIR")]
    pub(super) spool: Option<PathBuf>,
    /// Sign with this private key (cosign's, or PKCS#8). The password is read from COSIGN_PASSWORD.
    #[arg(long, value_name = "FILE")]
    pub(super) sign: Option<PathBuf>,
    /// Attach provenance (in-toto) and a bill of materials (CycloneDX).
    #[arg(long)]
    pub(super) attest: bool,
}

#[derive(Debug, Args)]
pub(super) struct Plan {
    /// hf://owner/name[@revision], ms://owner/name[@revision], or a path.
    pub(super) source: String,
    /// registry[:port]/repository[:tag]; without it only the choice is shown.
    pub(super) target: Option<String>,
    #[command(flatten)]
    pub(super) choice: Choice,
}

#[derive(Debug, Args)]
pub(super) struct Pull {
    /// registry[:port]/repository[:tag][@digest]
    pub(super) reference: String,
    /// The folder.
    pub(super) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// registry[:port]/repository[:tag][@digest]
    pub(super) reference: String,
}

#[derive(Debug, Args)]
pub(super) struct Verify {
    /// registry[:port]/repository[:tag][@digest]
    pub(super) reference: String,
    /// The source, where the artifact does not name one (a local folder).
    #[arg(long)]
    pub(super) source: Option<String>,
    /// Also demand a signature of this public key.
    #[arg(long, value_name = "FILE")]
    pub(super) key: Option<PathBuf>,
    /// Check the signature only, and ask no hub.
    #[arg(long, requires = "key")]
    pub(super) signature_only: bool,
}

#[derive(Debug, Args)]
pub(super) struct Versions {
    /// registry[:port]/repository
    pub(super) repository: String,
}

#[derive(Debug, Args)]
pub(super) struct Tag {
    /// registry[:port]/repository[:tag][@digest]
    pub(super) reference: String,
    /// The new tag in the same repository.
    pub(super) tag: String,
}

#[derive(Debug, Args)]
pub(super) struct Untag {
    /// registry[:port]/repository:tag
    pub(super) reference: String,
}

#[derive(Debug, Args)]
pub(super) struct Diff {
    /// registry[:port]/repository[:tag][@digest]
    pub(super) first: String,
    /// The same, or a tag of the same repository.
    pub(super) second: String,
}

#[derive(Debug, Args)]
pub(super) struct Index {
    /// registry[:port]/repository:TAG-index
    pub(super) target: String,
    /// The variants: tags or digests of the same repository.
    #[arg(required = true)]
    pub(super) variants: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// registry[:port][/repository]; small blobs are pushed there (default repository: plimsoll-doctor).
    pub(super) registry: String,
}
