//! The command line: arguments in, library calls, text out.

mod arguments;
mod inspect;
mod plan;
mod pull;
mod push;
mod registry_commands;
mod setup;
mod verify;

use std::process::ExitCode;

pub use arguments::Arguments;
use arguments::{Command, Output, Shared};
use serde_json::json;

use crate::error::PackError;
use crate::text::with_causes;

/// The program's own log, on stderr: off unless `-vv` or `RUST_LOG` asks for it.
pub fn start_log(arguments: &Arguments) {
    let asked = std::env::var("RUST_LOG").ok();
    let filter =
        asked.or_else(|| (arguments.shared.verbose > 1).then(|| "model_packer=debug,registry=debug".to_owned()));
    if let Some(filter) = filter {
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .init();
    }
}

/// Runs a command; errors are printed here, once.
pub async fn run(arguments: Arguments) -> ExitCode {
    let outcome = match &arguments.command {
        Command::Push(command) => push::run(command, &arguments.shared).await,
        Command::Plan(command) => plan::run(command, &arguments.shared).await,
        Command::Pull(command) => pull::run(command, &arguments.shared).await,
        Command::Inspect(command) => inspect::run(command, &arguments.shared).await,
        Command::Verify(command) => verify::run(command, &arguments.shared).await,
        Command::Versions(command) => registry_commands::list_versions(command, &arguments.shared).await,
        Command::Tag(command) => registry_commands::tag(command, &arguments.shared).await,
        Command::Untag(command) => registry_commands::untag(command, &arguments.shared).await,
        Command::Diff(command) => registry_commands::diff(command, &arguments.shared).await,
        Command::Index(command) => registry_commands::index(command, &arguments.shared).await,
        Command::Doctor(command) => registry_commands::doctor(command, &arguments.shared).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => tell(&error, &arguments.shared),
    }
}

/// On stderr for people, and on stdout as the last event where a program reads events.
fn tell(error: &PackError, shared: &Shared) -> ExitCode {
    setup::talk(&format!("error: {}", text_of(error)));
    let code = if error.is_ours() { 2 } else { 1 };
    if shared.output == Output::Json {
        let event = json!({"event": "error", "message": with_causes(error), "hint": error.hint(), "exit": code});
        // It was told above already.
        let _ = setup::print(&event.to_string());
    }
    ExitCode::from(code)
}

/// The causes, and the hint below them.
fn text_of(error: &PackError) -> String {
    let hint = error.hint();
    let below = hint.map_or_else(String::new, |hint| format!("\n  fix: {hint}"));
    with_causes(error) + &below
}
