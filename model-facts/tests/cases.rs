//! A folder per model: its files, and every fact that follows from them.
#![expect(
    clippy::disallowed_methods,
    reason = "the cases are files; the library itself reads none"
)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::fs;
use std::path::{Path, PathBuf};

use model_facts::{ModelFacts, ModelFiles, derive};

const EXPECTED: &str = "expected.json";

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut folders: Vec<PathBuf> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
}

fn read(folder: &Path) -> ModelFiles {
    let mut files = ModelFiles::default();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        match name.as_str() {
            "config.json" => files.config = Some(text),
            EXPECTED => {}
            _ => {
                files.texts.insert(name, text);
            }
        }
    }
    files
}

#[test]
fn every_case_gives_exactly_its_facts() {
    let folders = folders();
    for folder in &folders {
        let facts = derive(&read(folder)).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let found = serde_json::to_string_pretty(&facts).unwrap();
        let path = folder.join(EXPECTED);
        let expected = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}\n{found}", path.display()));
        let expected: ModelFacts = serde_json::from_str(&expected).unwrap();
        assert_eq!(
            found,
            serde_json::to_string_pretty(&expected).unwrap(),
            "{}",
            folder.display()
        );
    }
    assert!(folders.len() >= 32, "only {} cases", folders.len());
}
