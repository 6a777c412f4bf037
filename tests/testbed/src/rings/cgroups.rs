//! A cgroup of its own for each node, on machines with cgroup v1, v2, or both.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Error;

/// The parent of all nodes' cgroups, in every hierarchy.
const PARENT: &str = "plimsoll-testbed";
/// What the kubelet wants to manage.
const NEEDED: &[&str] = &["cpu", "cpuset", "memory", "pids"];

/// Which interface the kubelet will find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// One mounted hierarchy.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    path: PathBuf,
    unified: bool,
    controllers: Vec<String>,
}

/// A v2 tree mounted beside v1 controllers (hybrid) counts as v1.
fn version_of(hierarchies: &[Hierarchy]) -> Version {
    let root_is_unified = hierarchies
        .iter()
        .any(|one| one.unified && one.path == Path::new("/sys/fs/cgroup"));
    if root_is_unified { Version::Two } else { Version::One }
}

/// The cgroup of a node, as the kubelet's `cgroupRoot`.
pub(super) fn root_of(node: &str) -> String {
    format!("/{PARENT}/{node}")
}

/// Makes a node's cgroup in every hierarchy.
pub(super) fn make(node: &str) -> Result<(), Error> {
    let hierarchies = mounted()?;
    match version_of(&hierarchies) {
        Version::Two => make_unified(Path::new("/sys/fs/cgroup"), node),
        Version::One => {
            check_controllers(&hierarchies)?;
            hierarchies
                .iter()
                .filter(|one| !one.unified)
                .try_for_each(|one| make_in(one, node))
        }
    }
}

/// Removes all nodes' cgroups, with those that pods left behind.
pub(super) fn remove() -> Result<(), Error> {
    for hierarchy in mounted()? {
        remove_tree(&hierarchy.path.join(PARENT))?;
    }
    Ok(())
}

fn mounted() -> Result<Vec<Hierarchy>, Error> {
    let mounts = fs::read_to_string("/proc/self/mounts").map_err(Error::io("read", "/proc/self/mounts"))?;
    Ok(parse(&mounts))
}

fn parse(mounts: &str) -> Vec<Hierarchy> {
    let mut found = Vec::new();
    for line in mounts.lines() {
        let [_, path, kind, options, ..] = line.split(' ').collect::<Vec<_>>()[..] else {
            continue;
        };
        if kind == "cgroup" || kind == "cgroup2" {
            let controllers = options.split(',').map(str::to_owned).collect();
            found.push(Hierarchy {
                path: path.into(),
                unified: kind == "cgroup2",
                controllers,
            });
        }
    }
    found
}

fn check_controllers(hierarchies: &[Hierarchy]) -> Result<(), Error> {
    let has = |controller: &str| {
        hierarchies
            .iter()
            .any(|one| one.controllers.iter().any(|name| name == controller))
    };
    match NEEDED.iter().find(|controller| !has(controller)) {
        None => Ok(()),
        Some(missing) => Err(Error::Cgroup {
            controller: (*missing).into(),
            reason: "it is not mounted".into(),
        }),
    }
}

fn make_in(hierarchy: &Hierarchy, node: &str) -> Result<(), Error> {
    let parent = hierarchy.path.join(PARENT);
    let own = parent.join(node);
    for folder in [&parent, &own] {
        fs::create_dir_all(folder).map_err(Error::io("make cgroup", folder))?;
        if hierarchy.controllers.iter().any(|name| name == "cpuset") {
            inherit(folder, "cpuset.cpus")?;
            inherit(folder, "cpuset.mems")?;
        }
    }
    Ok(())
}

/// A new cpuset is empty, and no process can enter an empty one.
fn inherit(folder: &Path, file: &str) -> Result<(), Error> {
    let parent = folder.parent().unwrap_or(folder).join(file);
    let value = fs::read_to_string(&parent).map_err(Error::io("read", &parent))?;
    fs::write(folder.join(file), value.trim()).map_err(Error::io("write", folder.join(file)))
}

/// In v2 a controller has to be passed down from each parent.
fn make_unified(root: &Path, node: &str) -> Result<(), Error> {
    let parent = root.join(PARENT);
    fs::create_dir_all(parent.join(node)).map_err(Error::io("make cgroup", parent.join(node)))?;
    for folder in [root, &parent] {
        let offered = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
        for controller in offered.split_whitespace() {
            let passed = fs::write(folder.join("cgroup.subtree_control"), format!("+{controller}"));
            if let (Err(error), true) = (passed, NEEDED.contains(&controller)) {
                return Err(Error::Cgroup {
                    controller: controller.into(),
                    reason: error.to_string(),
                });
            }
        }
    }
    let given = fs::read_to_string(parent.join(node).join("cgroup.controllers")).unwrap_or_default();
    match NEEDED
        .iter()
        .find(|needed| !given.split_whitespace().any(|name| name == **needed))
    {
        None => Ok(()),
        Some(missing) => Err(Error::Cgroup {
            controller: (*missing).into(),
            reason: "it is not delegated here".into(),
        }),
    }
}

fn remove_tree(folder: &Path) -> Result<(), Error> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path())?;
        }
    }
    // The kernel lets go of a dead process a moment after it is gone from the list.
    for _ in 0..50 {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("remove cgroup", folder)(error));
            }
            _ => return Ok(()),
        }
    }
    fs::remove_dir(folder).map_err(Error::io("remove cgroup", folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
        cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n\
        cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0\n\
        cgroup /sys/fs/cgroup/pids cgroup rw,relatime,pids 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";

    #[test]
    fn a_hybrid_machine_counts_as_version_one() {
        assert_eq!(version_of(&parse(HYBRID)), Version::One);
        assert_eq!(
            version_of(&parse("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")),
            Version::Two
        );
    }

    #[test]
    fn a_missing_controller_is_named() {
        let error = check_controllers(&parse(HYBRID)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cgroup controller memory is not available: it is not mounted"
        );
    }
}
