//! The rooms of the repository: who may depend on whom, and which of them are pure.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use cargo_metadata::{Dependency, DependencyKind, Metadata, MetadataCommand, Package};

/// What each room may depend on, as docs/architecture.md draws it.
const ROOMS: [(&str, &[&str]); 9] = [
    ("model-facts", &[]),
    ("registry", &[]),
    ("crds", &[]),
    ("matrix", &["model-facts"]),
    ("artifact", &["model-facts"]),
    ("controller", &["matrix", "model-facts", "artifact", "crds", "registry"]),
    ("model-packer", &["model-facts", "artifact", "registry"]),
    ("node-fetcher", &["artifact", "crds", "registry"]),
    ("plimsoll", &["matrix", "model-facts", "artifact", "crds", "registry"]),
];

/// Rooms that compute and do nothing else.
const PURE: [&str; 4] = ["matrix", "model-facts", "artifact", "crds"];

/// Crates that a pure room has no use for: they wait, talk, look at the machine or roll dice.
const IMPURE: [&str; 17] = [
    "axum",
    "backon",
    "fastrand",
    "futures",
    "getrandom",
    "hyper",
    "kube",
    "oci-client",
    "rand",
    "reqwest",
    "rustix",
    "tempfile",
    "tokio",
    "tokio-stream",
    "tokio-util",
    "tonic",
    "tracing-subscriber",
];

/// `crds` takes the derive macros of kube, and no client.
const EXCEPTIONS: [(&str, &str); 1] = [("crds", "kube")];

fn workspace() -> Metadata {
    MetadataCommand::new().no_deps().exec().unwrap()
}

fn folder(package: &Package) -> &cargo_metadata::camino::Utf8Path {
    package.manifest_path.parent().unwrap()
}

/// Whether a package is a program of the tests or the task runner, which may use every room.
fn is_outside(metadata: &Metadata, package: &Package) -> bool {
    let folder = folder(package);
    folder.starts_with(metadata.workspace_root.join("tests")) || folder == metadata.workspace_root.join("xtask")
}

fn inside<'a>(metadata: &'a Metadata, package: &'a Package) -> impl Iterator<Item = &'a Dependency> {
    let is_inside = |dependency: &&Dependency| {
        dependency
            .path
            .as_ref()
            .is_some_and(|path| path.starts_with(&metadata.workspace_root))
    };
    package.dependencies.iter().filter(is_inside)
}

#[test]
fn every_package_is_a_room_or_serves_the_tests() {
    let metadata = workspace();
    let packages = metadata.workspace_packages().into_iter();
    let mut names: Vec<&str> = packages
        .filter(|package| !is_outside(&metadata, package))
        .map(|package| package.name.as_str())
        .collect();
    names.sort_unstable();
    let mut rooms = ROOMS.map(|(name, _)| name);
    rooms.sort_unstable();
    assert_eq!(
        names, rooms,
        "a new room needs a line in this test and in docs/architecture.md"
    );
}

#[test]
fn rooms_depend_on_each_other_in_one_direction() {
    let metadata = workspace();
    let allowed = BTreeMap::from(ROOMS);
    let outside: Vec<&str> = metadata
        .workspace_packages()
        .into_iter()
        .filter(|package| is_outside(&metadata, package) && package.name != "xtask")
        .map(|package| package.name.as_str())
        .collect();
    let mut violations = Vec::new();
    for package in metadata.workspace_packages() {
        let Some(allowed) = allowed.get(package.name.as_str()) else {
            continue;
        };
        for dependency in inside(&metadata, package) {
            let name = dependency.name.as_str();
            let for_tests = dependency.kind == DependencyKind::Development && outside.contains(&name);
            if !allowed.contains(&name) && !for_tests {
                violations.push(format!("{} -> {name} ({})", package.name, dependency.kind));
            }
        }
    }
    assert_eq!(violations, Vec::<String>::new());
}

#[test]
fn pure_rooms_use_nothing_that_waits_talks_or_looks_at_the_machine() {
    let metadata = workspace();
    let mut violations = Vec::new();
    for package in metadata.workspace_packages() {
        let room = package.name.as_str();
        if !PURE.contains(&room) {
            continue;
        }
        let normal = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind == DependencyKind::Normal);
        for name in normal.map(|dependency| dependency.name.as_str()) {
            if IMPURE.contains(&name) && !EXCEPTIONS.contains(&(room, name)) {
                violations.push(format!("{room} -> {name}"));
            }
        }
    }
    assert_eq!(violations, Vec::<String>::new());
}

#[test]
fn pure_rooms_carry_the_same_purity_lints() {
    let root = workspace().workspace_root;
    let lints = |room: &str| std::fs::read_to_string(root.join(room).join("clippy.toml")).unwrap();
    let first = lints(PURE[0]);
    for forbidden in [
        "std::time::SystemTime::now",
        "std::env::var",
        "std::fs::read",
        "std::collections::HashMap",
    ] {
        assert!(first.contains(forbidden), "{forbidden} is allowed in {}", PURE[0]);
    }
    for room in PURE {
        assert_eq!(
            lints(room),
            first,
            "{room}/clippy.toml differs from {}/clippy.toml",
            PURE[0]
        );
    }
}

#[test]
fn every_package_takes_the_lints_of_the_workspace() {
    for package in workspace().workspace_packages() {
        let manifest = std::fs::read_to_string(&package.manifest_path).unwrap();
        assert!(
            manifest.contains("[lints]\nworkspace = true"),
            "{} sets lints of its own",
            package.manifest_path
        );
    }
}
