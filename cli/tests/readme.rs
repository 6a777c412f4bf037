//! What the two READMEs show of `plimsoll` is what it prints.

use std::{fs, path::Path};

use assert_cmd::Command;

/// Without what every new row of the matrix changes: its revision, and how many candidates were rejected.
fn lasting(text: &str) -> String {
    let line = |line: &str| match (line.split_once("shipped@"), line.starts_with("rejected")) {
        (Some((before, _)), _) => before.to_owned(),
        (None, true) => line.replace(|letter: char| letter.is_ascii_digit(), ""),
        (None, false) => line.trim_end().to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_transcripts_of_both_readmes_are_what_the_program_prints() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for name in ["README.md", "README.zh-CN.md"] {
        let readme = fs::read_to_string(repository.join(name)).unwrap();
        let transcripts: Vec<&str> = readme.split("```\n$ plimsoll ").skip(1).collect();
        assert!(!transcripts.is_empty(), "{name} shows no answer");
        for transcript in transcripts {
            let (command, rest) = transcript.split_once('\n').unwrap();
            let shown = rest.split("```").next().unwrap();
            let mut program = Command::cargo_bin("plimsoll").unwrap();
            let run = program.current_dir(&repository).args(command.split_whitespace());
            let output = String::from_utf8(run.output().unwrap().stdout).unwrap();
            assert_eq!(lasting(shown), lasting(&output), "{name}: plimsoll {command}");
        }
    }
}
