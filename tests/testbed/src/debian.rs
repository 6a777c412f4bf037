//! Programs that come from Debian's packages.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use crate::command::{is_installed, run, succeeds};
use crate::error::Error;

/// apt keeps locks of its own, and two runs at once fail.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Packages and the program by which each is recognised, so that other distributions work when the programs are there.
const PROGRAMS: &[(&str, &str)] = &[
    ("clang", "clang"),
    ("cmake", "cmake"),
    ("g++", "g++"),
    ("gcc", "gcc"),
    ("iproute2", "ip"),
    ("iptables", "iptables"),
    ("make", "make"),
    ("musl-tools", "musl-gcc"),
    ("nftables", "nft"),
    ("openssl", "openssl"),
    ("pkg-config", "pkg-config"),
    ("protobuf-compiler", "protoc"),
    ("runc", "runc"),
    ("util-linux", "nsenter"),
    ("xz-utils", "xz"),
];

/// Installs those of these packages that are missing.
pub fn ensure(packages: &[&str]) -> Result<(), Error> {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let missing: Vec<_> = packages
        .iter()
        .copied()
        .filter(|package| !is_present(package))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    install(&missing).map_err(|source| missing_packages(&missing, source))
}

/// Unpacks a package into a folder without installing it.
pub(crate) fn unpack(package: &str, folder: &Path) -> Result<(), Error> {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    fs::create_dir_all(folder).map_err(Error::io("make folder", folder))?;
    download(package, folder).map_err(|source| missing_packages(&[package], source))?;
    let entries = fs::read_dir(folder).map_err(Error::io("read", folder))?.flatten();
    let archive = entries
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|end| end == "deb"));
    let archive = archive.ok_or_else(|| Error::Malformed {
        what: format!("the download of {package}"),
        reason: format!("no .deb file in {}", folder.display()),
    })?;
    run(
        "unpack a package",
        Command::new("dpkg-deb").arg("--extract").arg(archive).arg(folder),
    )
    .map(drop)
}

fn is_present(package: &str) -> bool {
    match PROGRAMS.iter().find(|(name, _)| *name == package) {
        Some((_, program)) => is_installed(program),
        None => succeeds(Command::new("dpkg").args(["--status", package])),
    }
}

fn install(packages: &[&str]) -> Result<(), Error> {
    update()?;
    let mut command = Command::new("apt-get");
    command
        .args(["install", "--yes", "--no-install-recommends"])
        .args(packages);
    run("install packages", command.env("DEBIAN_FRONTEND", "noninteractive")).map(drop)
}

fn download(package: &str, folder: &Path) -> Result<(), Error> {
    update()?;
    // apt drops to a user of its own, who may not write here; the option keeps it from complaining.
    let mut command = Command::new("apt-get");
    command
        .args(["download", "-o", "APT::Sandbox::User=root", package])
        .current_dir(folder);
    run("download a package", &mut command).map(drop)
}

fn update() -> Result<(), Error> {
    run(
        "read the package lists",
        Command::new("apt-get").args(["update", "--quiet"]),
    )
    .map(drop)
}

fn missing_packages(packages: &[&str], source: Error) -> Error {
    let packages = packages.iter().map(|package| (*package).to_owned()).collect();
    Error::MissingPackages {
        packages,
        source: Some(Box::new(source)),
    }
}
