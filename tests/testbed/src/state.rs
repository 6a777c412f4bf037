//! The state of a bed on disk: enough to take it down after its starter was killed.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::layout::Layout;
use crate::process::ProcessId;
use crate::ring::Ring;

/// Networks and cgroups are named per machine, so beds exclude each other per machine.
const MACHINE_LOCK: &str = "/run/plimsoll-testbed.lock";

/// What is written before and while a bed comes up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The program that takes the bed down when it ends; none for a bed that stays.
    pub owner: Option<ProcessId>,
    /// The largest ring that is up.
    pub ring: Option<Ring>,
    /// Components in the order they were started.
    pub components: Vec<ComponentState>,
    /// Folders outside the state folder that were made as mount points.
    pub mount_points: Vec<PathBuf>,
    /// Ports that were chosen, by component.
    pub ports: std::collections::BTreeMap<String, u16>,
}

/// One running component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentState {
    /// Its name, as in the pins.
    pub name: String,
    /// The node it runs in, or none for the machine itself.
    pub node: Option<String>,
    /// The process.
    pub process: ProcessId,
    /// Its log file.
    pub log: PathBuf,
    /// When it was started, in seconds since 1970.
    pub started: u64,
}

impl State {
    /// Reads the state of a bed; none when no bed was started there.
    pub fn load(layout: &Layout) -> Result<Option<Self>, Error> {
        let path = layout.state_file();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read", &path)(error)),
        };
        let parsed = serde_json::from_str(&text);
        parsed.map(Some).map_err(|error| Error::Malformed {
            what: path.display().to_string(),
            reason: error.to_string(),
        })
    }

    /// Writes the state so that a crash leaves the old or the new one.
    pub(crate) fn save(&self, layout: &Layout) -> Result<(), Error> {
        let (path, fresh) = (layout.state_file(), layout.root().join("state.json.new"));
        let text = serde_json::to_string_pretty(self).map_err(|error| Error::Malformed {
            what: "the bed's state".into(),
            reason: error.to_string(),
        })?;
        fs::write(&fresh, text).map_err(Error::io("write", &fresh))?;
        fs::rename(&fresh, &path).map_err(Error::io("write", &path))
    }

    /// A component of a node, or of the machine.
    pub fn component(&self, name: &str, node: Option<&str>) -> Option<&ComponentState> {
        self.components
            .iter()
            .find(|component| component.name == name && component.node.as_deref() == node)
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs())
}

/// Held by whoever starts or stops a bed on this machine.
#[derive(Debug)]
pub(crate) struct MachineLock {
    file: File,
}

impl MachineLock {
    /// Takes the lock, or says who has it.
    pub(crate) fn take() -> Result<Self, Error> {
        let path = Path::new(MACHINE_LOCK);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).map_err(Error::io("open", path))?;
        let mut lock = Self { file };
        if flock(&lock.file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(Error::Owned { owner: lock.read()?.1 });
        }
        Ok(lock)
    }

    /// The state folder written by the last bed that came up.
    pub(crate) fn last_bed(&mut self) -> Result<Option<PathBuf>, Error> {
        let (state, _) = self.read()?;
        Ok((!state.is_empty()).then(|| PathBuf::from(state)))
    }

    /// Notes the bed that comes up now.
    pub(crate) fn note(&mut self, state: &Path) -> Result<(), Error> {
        let program = std::env::args().next().unwrap_or_default();
        let name = Path::new(&program)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let text = format!("{}\n{name}, process {}\n", state.display(), std::process::id());
        self.rewrite(text.as_bytes())
    }

    /// Forgets the bed that went down. The file stays: removing it would let two programs lock two files.
    pub(crate) fn forget(&mut self) -> Result<(), Error> {
        self.rewrite(b"")
    }

    fn rewrite(&mut self, text: &[u8]) -> Result<(), Error> {
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(text)
        };
        write(&mut self.file).map_err(Error::io("write", MACHINE_LOCK))
    }

    fn read(&mut self) -> Result<(String, String), Error> {
        let mut text = String::new();
        self.file.rewind().map_err(Error::io("read", MACHINE_LOCK))?;
        self.file
            .read_to_string(&mut text)
            .map_err(Error::io("read", MACHINE_LOCK))?;
        let mut lines = text.lines();
        Ok((
            lines.next().unwrap_or_default().into(),
            lines.next().unwrap_or("another program").into(),
        ))
    }
}
