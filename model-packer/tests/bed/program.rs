//! The program itself, with a hub and a state folder of its own and nothing else of the machine.

use std::process::{Command, Output, Stdio};

use super::Bed;

pub(crate) fn program(bed: &Bed) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_model-packer"));
    command
        .env_clear()
        .env("HF_ENDPOINT", bed.hub.url())
        .env("MODELSCOPE_ENDPOINT", bed.hub.url())
        .env("HOME", bed.state.path());
    command.arg("--plain-http").arg("--state").arg(bed.state.path());
    command
}

pub(crate) async fn run(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.stdin(Stdio::null()).output().unwrap())
        .await
        .unwrap()
}

pub(crate) async fn packer(bed: &Bed, arguments: &[&str]) -> Output {
    let mut command = program(bed);
    command.args(arguments);
    run(command).await
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
