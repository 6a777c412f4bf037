//! The worked example of `docs/matrix.md`, carried out as its reader would.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use assert_cmd::Command;

const NODE: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: acme-1, labels: {kubernetes.io/arch: amd64, acme.example.com/gpu.product: ACME-A100X-64G}}
status:
  allocatable: {cpu: "64", memory: 512Gi, acme.example.com/gpu: "8"}
  conditions: [{type: Ready, status: "True"}]
  nodeInfo: {architecture: amd64}
"#;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn guide() -> String {
    fs::read_to_string(repository().join("docs/matrix.md")).unwrap()
}

/// Blocks whose first line names their file.
fn files(guide: &str) -> Vec<(&str, &str)> {
    let blocks = guide.split("```yaml\n").skip(1);
    blocks
        .filter_map(|block| {
            let text = block.split("```").next()?;
            let name = text.lines().next()?.strip_prefix("# ")?;
            Some((name, text))
        })
        .collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// The shipped matrix with the example's files beside it.
fn matrix_with_example(guide: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&repository().join("matrix/data"), folder.path());
    for (name, text) in files(guide) {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn plimsoll(arguments: &[&str], matrix: &Path) -> String {
    let mut command = Command::cargo_bin("plimsoll").unwrap();
    let output = command
        .current_dir(repository())
        .args(arguments)
        .arg(matrix)
        .output()
        .unwrap();
    let both = [output.stdout, output.stderr].concat();
    String::from_utf8(both).unwrap()
}

/// The block of the guide that begins with this command, without the command.
fn transcript<'run>(guide: &'run str, command: &str) -> &'run str {
    let start = guide.find(command).unwrap();
    let block = guide[start..].split("```").next().unwrap();
    block.split_once('\n').unwrap().1
}

#[test]
fn a_new_vendor_takes_three_files_and_gets_the_answer_that_the_guide_shows() {
    let guide = guide();
    let names: Vec<&str> = files(&guide).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        ["products/acme.yaml", "builds/vllm-acme.yaml", "support/vllm-acme.yaml"]
    );
    let matrix = matrix_with_example(&guide);
    let findings = plimsoll(&["matrix", "lint"], matrix.path());
    assert!(findings.contains("0 errors"), "{findings}");

    let node = matrix.path().with_extension("node.yaml");
    fs::write(&node, NODE).unwrap();
    let question = [
        "explain",
        "-f",
        "examples/deployments/qwen3-8b.yaml",
        "--facts",
        "examples/facts/qwen3-8b.json",
        "--cluster",
        node.to_str().unwrap(),
        "--matrix",
    ];
    let answer = plimsoll(&question, matrix.path());
    fs::remove_file(&node).unwrap();
    let shown = transcript(&guide, "$ plimsoll explain --matrix matrix/data");
    for line in shown.lines() {
        // The digest of the matrix moves with every change of the shipped data.
        let line = line.split(", matrix data@").next().unwrap();
        assert!(answer.contains(line), "{line}\nis not in\n{answer}");
    }
}

#[test]
fn a_slip_is_told_as_the_guide_shows() {
    let guide = guide();
    let matrix = matrix_with_example(&guide);
    let product = matrix.path().join("products/acme.yaml");
    let text = fs::read_to_string(&product).unwrap();
    fs::write(&product, text.replace("memoryMiB: 65536", "memory: 64GiB")).unwrap();
    let findings = plimsoll(&["matrix", "lint"], matrix.path());
    let shown = transcript(&guide, "$ plimsoll matrix lint matrix/data");
    assert!(findings.contains(shown.trim_end()), "{shown}\nis not in\n{findings}");
}
