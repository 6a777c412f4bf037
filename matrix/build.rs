//! Lists the documents of `data/` so that the crate can carry them: a new file needs no code.

use std::{env, fmt::Write as _, path::Path};

#[expect(
    clippy::disallowed_methods,
    reason = "the crate is pure, its build script has to look at files"
)]
fn main() {
    println!("cargo::rerun-if-changed=data");
    let root = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let mut files = Vec::new();
    collect(&Path::new(&root).join("data"), &mut files);
    files.sort();
    let mut code = String::from("&[\n");
    for file in &files {
        let relative = file.strip_prefix(&format!("{root}/data/")).unwrap_or(file);
        let _ = writeln!(code, "    ({relative:?}, include_str!({file:?})),");
    }
    code.push_str("]\n");
    let target = Path::new(&env::var("OUT_DIR").unwrap_or_default()).join("documents.rs");
    if let Err(error) = std::fs::write(&target, code) {
        println!("cargo::error=writing {}: {error}", target.display());
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the crate is pure, its build script has to look at files"
)]
fn collect(folder: &Path, files: &mut Vec<String>) {
    println!("cargo::rerun-if-changed={}", folder.display());
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.extend(path.to_str().map(str::to_owned));
        }
    }
}
