//! Running other programs to their end.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::error::Error;

/// Runs a command to its end and returns its standard output; `step` says what it is for.
pub(crate) fn run(step: &str, command: &mut Command) -> Result<String, Error> {
    let output = start(step, command.stdin(Stdio::null()))?;
    finish(step, command, &output)
}

/// As [`run`], with `input` on standard input.
pub(crate) fn run_with_input(step: &str, command: &mut Command, input: &str) -> Result<String, Error> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(Error::io("start", command.get_program()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends early closes the pipe; its exit status tells more than the broken pipe.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child
        .wait_with_output()
        .map_err(Error::io("wait for", command.get_program()))?;
    finish(step, command, &output)
}

/// Runs a command and says only whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// A program found in the search path.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(std::path::PathBuf::from);
    std::env::split_paths(&path)
        .chain(system)
        .any(|folder| folder.join(program).is_file())
}

/// Repeats `attempt` until it gives a value; the text is the last observation.
pub(crate) fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut attempt: impl FnMut() -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_millis(20);
    loop {
        let last = match attempt() {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => String::new(),
            Err(error @ (Error::Start(_) | Error::Stopping)) => return Err(error),
            Err(error) => error.to_string(),
        };
        if Instant::now() >= deadline {
            return Err(Error::Timeout {
                what: what.into(),
                seconds: limit.as_secs(),
                last,
            });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(250));
    }
}

fn start(step: &str, command: &mut Command) -> Result<Output, Error> {
    command
        .output()
        .map_err(Error::io(&format!("{step}: start"), command.get_program()))
}

fn finish(step: &str, command: &Command, output: &Output) -> Result<String, Error> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = if output.stderr.is_empty() {
        &output.stdout
    } else {
        &output.stderr
    };
    Err(Error::Command {
        step: step.into(),
        program: describe(command),
        status: output.status.to_string(),
        output: last_lines(&String::from_utf8_lossy(said), 15),
    })
}

/// The program and its arguments, bounded in length.
pub(crate) fn describe(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// The last `count` lines of a text.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
