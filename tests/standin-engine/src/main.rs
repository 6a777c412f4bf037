//! The program `standin-engine`: started with a vendor engine's command line in place of that engine.

use std::process::ExitCode;

use anyhow::Context as _;
use standin_engine::{Arguments, router};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    describe_start(&words);
    let arguments = match Arguments::parse(words.get(1..).unwrap_or_default()) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(1);
        }
    };
    match serve(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Tells what a test wants to see in the pod's log: the command line and the devices that were handed over.
fn describe_start(words: &[String]) {
    eprintln!("standin-engine: a stand-in that owns no model");
    eprintln!("arguments: {words:?}");
    let mut devices: Vec<_> = std::env::vars_os()
        .filter(|(name, _)| is_device_variable(name))
        .collect();
    devices.sort();
    for (name, value) in devices {
        eprintln!("devices: {}={}", name.display(), value.display());
    }
}

fn is_device_variable(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|name| name.ends_with("VISIBLE_DEVICES"))
}

async fn serve(arguments: Arguments) -> anyhow::Result<()> {
    let address = (arguments.host, arguments.port);
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .with_context(|| format!("listen on {}:{}", arguments.host, arguments.port))?;
    eprintln!(
        "serving {} on {}",
        arguments.served_names.join(", "),
        listener.local_addr()?
    );
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let stop = async move {
        terminate.recv().await;
    };
    axum::serve(listener, router(arguments.served_names))
        .with_graceful_shutdown(stop)
        .await
        .context("serve")
}
