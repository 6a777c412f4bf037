//! The program as a pod would start it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

struct Program {
    child: Child,
    log: Vec<String>,
    address: String,
}

impl Program {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_standin-engine"))
            .args(arguments)
            .env("ENFLAME_VISIBLE_DEVICES", "gcu-1")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = Vec::new();
        for line in BufReader::new(child.stderr.take().unwrap()).lines() {
            let line = line.unwrap();
            log.push(line.clone());
            if let Some((_, address)) = line.split_once(" on ") {
                return Self {
                    child,
                    log,
                    address: address.to_owned(),
                };
            }
        }
        child.wait().unwrap();
        panic!("the program ended early: {log:?}");
    }

    fn ask(&self, method: &str, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: engine\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

const COMMAND: [&str; 9] = [
    "-m",
    "vllm.entrypoints.openai.api_server",
    "--host",
    "127.0.0.1",
    "--port",
    "0",
    "--served-model-name",
    "qwen3-8b",
    "--x",
];

#[test]
fn the_log_names_the_arguments_and_the_devices() {
    let program = Program::start(&COMMAND);
    assert!(
        program.log[1].contains("\"--served-model-name\", \"qwen3-8b\""),
        "{:?}",
        program.log
    );
    assert!(
        program
            .log
            .contains(&"devices: ENFLAME_VISIBLE_DEVICES=gcu-1".to_owned()),
        "{:?}",
        program.log
    );
}

#[test]
fn health_models_and_metrics_answer_and_generation_is_refused_honestly() {
    let program = Program::start(&COMMAND);
    assert_eq!(program.ask("GET", "/health").0, 200);
    let (status, models) = program.ask("GET", "/v1/models");
    assert_eq!(
        (status, models.contains("\"id\":\"qwen3-8b\"")),
        (200, true),
        "{models}"
    );
    for path in ["/v1/chat/completions", "/v1/completions"] {
        let (status, answer) = program.ask("POST", path);
        assert_eq!((status, answer.contains("owns no model")), (501, true), "{answer}");
    }
    let (status, metrics) = program.ask("GET", "/metrics");
    assert_eq!(status, 200);
    assert!(
        metrics.contains("standin_engine_refused_requests_total{model_name=\"qwen3-8b\"} 2\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("vllm:num_requests_running{model_name=\"qwen3-8b\"} 0\n"),
        "{metrics}"
    );
}

#[test]
fn a_command_line_without_a_model_is_the_callers_mistake() {
    let output = Command::new(env!("CARGO_BIN_EXE_standin-engine"))
        .args(["--port", "0"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("give --served-model-name or --model")
    );
}
