//! Turns a `ModelDeployment` into the right engine on the right accelerator, and says why.

use std::io::IsTerminal as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use controller::rewrite::{ImageRewrite, RewriteRule};
use controller::run::{Options, run};

/// The controller of Plimsoll.
#[derive(Parser)]
#[command(name = "controller", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run until SIGTERM.
    Run(RunArguments),
    /// Print the custom resource definitions as YAML.
    Crd,
}

#[derive(clap::Args)]
struct RunArguments {
    /// Take images from a mirror: FROM=TO, such as quay.io=registry.local/mirror/quay.io; `*` stands for every registry and appends
    /// the whole name. The longest FROM wins. May be repeated.
    #[arg(long = "image-rewrite", value_name = "FROM=TO")]
    image_rewrite: Vec<RewriteRule>,
    /// A registry that speaks plain http (host:port). May be repeated.
    #[arg(long = "plain-http-registry", value_name = "HOST")]
    plain_http: Vec<String>,
    /// Where /healthz, /readyz and /metrics are served.
    #[arg(long, default_value = "0.0.0.0:8080")]
    metrics_address: SocketAddr,
    /// The namespace that holds the leader lease.
    #[arg(long, env = "POD_NAMESPACE", default_value = "plimsoll-system")]
    namespace: String,
    /// What tells this replica from others.
    #[arg(long, env = "POD_NAME")]
    identity: Option<String>,
    /// Log lines as JSON.
    #[arg(long)]
    log_json: bool,
}

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Crd => print_definitions(),
        Command::Run(arguments) => start(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("controller: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn print_definitions() -> anyhow::Result<()> {
    let mut text = String::new();
    for definition in crds::all() {
        let yaml = serde_saphyr::to_string(&definition).context("cannot write a definition as YAML")?;
        text.push_str("---\n");
        text.push_str(yaml.trim_end());
        text.push('\n');
    }
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // A reader that has seen enough is no fault of anybody.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write the definitions"),
    }
}

fn start(arguments: RunArguments) -> anyhow::Result<()> {
    init_logs(arguments.log_json);
    let identity = arguments
        .identity
        .unwrap_or_else(|| format!("controller-{}", std::process::id()));
    let options = Options {
        rewrite: ImageRewrite::new(arguments.image_rewrite),
        plain_http: arguments.plain_http,
        metrics_address: arguments.metrics_address,
        namespace: arguments.namespace,
        identity,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(run(options))
}

fn init_logs(json: bool) {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    if json { logs.json().init() } else { logs.init() }
}
