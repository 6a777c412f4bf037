//! Starting one component and waiting until it is ready.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::bed::Bed;
use crate::command::wait_for;
use crate::error::Error;
use crate::failure::StartFailure;
use crate::process::{ProcessId, spawn};
use crate::state::{ComponentState, now};

/// How long a component may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// A component that was started and is not known to be ready.
pub(crate) struct Launched<'a> {
    bed: &'a Bed,
    label: String,
    process: ProcessId,
    log: PathBuf,
    started: Instant,
}

/// Starts a component on the machine.
pub(crate) fn launch<'a>(bed: &'a Bed, name: &str, command: &mut Command) -> Result<Launched<'a>, Error> {
    start(bed, name, None, command, Some)
}

/// Starts a component in a node: the command forks once into the node's process namespace.
pub(crate) fn launch_in_node<'a>(
    bed: &'a Bed,
    name: &str,
    node: &str,
    command: &mut Command,
) -> Result<Launched<'a>, Error> {
    start(bed, name, Some(node), command, |outer| {
        let inner = wait_for("the component's process", Duration::from_secs(10), || {
            Ok(if outer.is_alive() { outer.child() } else { Some(outer) })
        });
        inner.ok()
    })
}

/// Spawned and recorded under one lock, so that a bed going down never misses a process.
fn start<'a>(
    bed: &'a Bed,
    name: &str,
    node: Option<&str>,
    command: &mut Command,
    find_process: impl FnOnce(ProcessId) -> Option<ProcessId>,
) -> Result<Launched<'a>, Error> {
    let label = node.map_or_else(|| name.to_owned(), |node| format!("{node}-{name}"));
    let log = bed.layout().logs().join(format!("{label}.log"));
    let started = Instant::now();
    let process = bed.change(|state| {
        let outer = spawn(command, &log, bed.layout().root())?;
        let process = find_process(outer).unwrap_or(outer);
        state
            .components
            .retain(|other| other.name != name || other.node.as_deref() != node);
        state.components.push(ComponentState {
            name: name.into(),
            node: node.map(Into::into),
            process,
            log: log.clone(),
            started: now(),
        });
        Ok::<_, Error>(process)
    })??;
    Ok(Launched {
        bed,
        label,
        process,
        log,
        started,
    })
}

impl Launched<'_> {
    /// Waits until `is_ready`, and reports how long it took; a component that ended or never got ready is examined.
    pub(crate) fn wait_until(&self, mut is_ready: impl FnMut() -> bool) -> Result<(), Error> {
        let ready = wait_for(&self.label, PATIENCE, || {
            if self.bed.is_stopping() {
                return Err(Error::Stopping);
            }
            if is_ready() {
                return Ok(Some(()));
            }
            if self.process.is_alive() {
                Ok(None)
            } else {
                Err(self.failure("it ended").into())
            }
        });
        if self.bed.is_stopping() {
            return Err(Error::Stopping);
        }
        match ready {
            Err(Error::Timeout { .. }) => Err(self.failure("it was not ready").into()),
            Err(error) => Err(error),
            Ok(()) => {
                let seconds = self.started.elapsed().as_secs_f32();
                self.bed
                    .reporter()
                    .line(format!("{} ready in {seconds:.1} s", self.label));
                Ok(())
            }
        }
    }

    fn failure(&self, observed: &str) -> StartFailure {
        let observed = format!("{observed} after {:.1} s", self.started.elapsed().as_secs_f32());
        StartFailure::examine(&self.label, &observed, &self.log)
    }
}

/// Writes a configuration file, with its folder.
pub(crate) fn write(path: &std::path::Path, text: &str) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Error::io("make folder", folder))?;
    }
    fs::write(path, text).map_err(Error::io("write", path))
}
