//! Taking a bed down: everything it made, in the order that lets each thing go, and again without complaint.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::error::Error;
use crate::layout::Layout;
use crate::network;
use crate::process::{ProcessId, marked};
use crate::state::State;

use super::cgroups;

/// Removes what the state names, and what the state missed when its writer was killed.
pub(crate) fn stop(layout: &Layout, state: &State) -> Result<(), Error> {
    let recorded = state.components.iter().map(|component| component.process);
    end_all(recorded.collect());
    // Ending a node's holder ends all that runs in its process namespace, but something may just have been started.
    end_until_none(layout.root())?;
    network::remove_bridge()?;
    cgroups::remove()?;
    for folder in layout.removable() {
        remove_folder(&folder)?;
    }
    remove_mount_points(&state.mount_points);
    match fs::remove_file(layout.state_file()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove", layout.state_file())(error))
        }
        _ => Ok(()),
    }
}

fn end_all(processes: Vec<ProcessId>) {
    for process in processes.iter().rev() {
        process.send(Signal::KILL);
    }
    for process in processes {
        process.wait_until_gone(Duration::from_secs(5));
    }
}

fn end_until_none(root: &Path) -> Result<(), Error> {
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        let left = marked(root);
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            let names: Vec<_> = left
                .iter()
                .map(|process| format!("{} ({})", process.name(), process.pid))
                .collect();
            return Err(Error::Timeout {
                what: "the end of all processes".into(),
                seconds: 15,
                last: names.join(", "),
            });
        }
        end_all(left);
    }
}

/// A node's mounts end with its namespace, which the kernel takes apart after its last process.
fn remove_folder(folder: &Path) -> Result<(), Error> {
    for _ in 0..40 {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Ok(()) => return Ok(()),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
    fs::remove_dir_all(folder).map_err(Error::io("remove", folder))
}

/// Deepest first; a folder that somebody else uses by now is not empty and stays.
fn remove_mount_points(folders: &[std::path::PathBuf]) {
    for folder in folders.iter().rev() {
        let _ = fs::remove_dir(folder);
    }
}
