//! A bed: rings of running components, their state on disk, and their end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::command::{run, run_with_input};
use crate::components::ComponentStore;
use crate::error::Error;
use crate::layout::Layout;
use crate::process::ProcessId;
use crate::report::Reporter;
use crate::ring::Ring;
use crate::rings::{self, Node, REGISTRY_ADDRESS};
use crate::state::{MachineLock, State};

/// How a bed is made.
#[derive(Clone)]
pub struct BedConfig {
    /// Where it keeps its things.
    pub layout: Layout,
    /// Where its components come from.
    pub store: ComponentStore,
    /// Who hears how far it is.
    pub reporter: Reporter,
    /// A program that waits for the end of the process whose id is appended to its arguments, and then takes the bed down:
    /// `xtask testbed guard`. It keeps the promise when this process is killed.
    pub guardian: Option<Vec<OsString>>,
}

impl BedConfig {
    /// The repository's own bed, with components as the environment says.
    pub fn from_environment(reporter: Reporter) -> Self {
        let store = ComponentStore::from_environment(reporter.clone());
        Self {
            layout: Layout::of_repository(),
            store,
            reporter,
            guardian: None,
        }
    }
}

/// A bed under this program's control. It goes down when dropped, unless it was told to [stay](Bed::stay) or is only
/// [attached](Bed::attach) to.
pub struct Bed {
    pub(crate) config: BedConfig,
    lock: Mutex<Option<MachineLock>>,
    state: Mutex<State>,
    stopping: AtomicBool,
    goes_down_when_dropped: AtomicBool,
}

/// What a shell needs to use a bed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment(pub BTreeMap<&'static str, String>);

impl fmt::Display for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|(name, value)| writeln!(formatter, "export {name}={value}"))
    }
}

impl Bed {
    /// Takes the machine for a new bed. What a killed program left behind is removed first.
    pub fn open(config: BedConfig) -> Result<Self, Error> {
        check_machine(&config.layout)?;
        let mut lock = MachineLock::take()?;
        let previous = lock.last_bed()?.map(Layout::new);
        for layout in previous.iter().chain([&config.layout]) {
            clear_leftovers(layout, &config.reporter)?;
        }
        crate::network::check_free()?;
        prepare_folders(&config.layout)?;
        lock.note(config.layout.root())?;
        let state = State {
            owner: ProcessId::current(),
            ..State::default()
        };
        state.save(&config.layout)?;
        let bed = Self::with(config, Some(lock), state, true);
        bed.start_guardian()?;
        Ok(bed)
    }

    /// Joins a bed that another program started and left up.
    pub fn attach(config: BedConfig) -> Result<Self, Error> {
        let state = State::load(&config.layout)?;
        let state = state.ok_or_else(|| Error::NotUp {
            state: config.layout.root().into(),
        })?;
        Ok(Self::with(config, None, state, false))
    }

    fn with(config: BedConfig, lock: Option<MachineLock>, state: State, drops: bool) -> Self {
        Self {
            config,
            lock: Mutex::new(lock),
            state: Mutex::new(state),
            stopping: AtomicBool::new(false),
            goes_down_when_dropped: AtomicBool::new(drops),
        }
    }

    /// Brings up every ring up to this one; rings that are up are left alone.
    pub fn up(&self, ring: Ring) -> Result<(), Error> {
        for next in Ring::ALL.into_iter().filter(|next| *next <= ring) {
            if self.state().ring >= Some(next) {
                continue;
            }
            self.prepare(next)?;
            rings::start(self, next)?;
            self.change(|state| state.ring = Some(next))?;
        }
        Ok(())
    }

    /// Gets the components that one ring adds. May run beside [`Bed::up`] of a smaller ring.
    pub fn prepare(&self, ring: Ring) -> Result<(), Error> {
        self.config.store.ensure_all(ring.components())
    }

    /// Leaves the bed up when this program ends.
    pub fn stay(&self) -> Result<(), Error> {
        self.goes_down_when_dropped.store(false, Ordering::SeqCst);
        self.change(|state| state.owner = None)
    }

    /// Takes everything down, whatever is up; may be called again, and from a signal's thread while `up` still runs.
    pub fn down(&self) -> Result<(), Error> {
        self.stopping.store(true, Ordering::SeqCst);
        self.goes_down_when_dropped.store(false, Ordering::SeqCst);
        let mut state = self.state();
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let held = match lock.take() {
            Some(held) => held,
            None => MachineLock::take()?,
        };
        let held = lock.insert(held);
        rings::stop(&self.config.layout, &state)?;
        *state = State::default();
        held.forget()?;
        *lock = None;
        Ok(())
    }

    /// Takes the bed down unless it stays or belongs to another program: what dropping it does.
    pub fn down_if_owned(&self) -> Result<(), Error> {
        if self.goes_down_when_dropped.load(Ordering::SeqCst) {
            self.down()
        } else {
            Ok(())
        }
    }

    /// The registry as `host:port`, the same from the machine, from the nodes and from pods.
    pub fn registry_address(&self) -> &'static str {
        REGISTRY_ADDRESS
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.config.layout.kubeconfig()
    }

    /// Where the bed keeps its things.
    pub fn layout(&self) -> &Layout {
        &self.config.layout
    }

    /// The program of a component, made first where needed (`helm`, `oras`, ...).
    pub fn program(&self, component: &str) -> Result<PathBuf, Error> {
        self.config.store.ensure(component)
    }

    /// `kubectl` as administrator, with these arguments.
    pub fn kubectl_command(&self, arguments: &[&str]) -> Result<Command, Error> {
        let mut command = Command::new(self.program("kubectl")?);
        command.arg("--kubeconfig").arg(self.kubeconfig()).args(arguments);
        Ok(command)
    }

    /// Runs `kubectl` as administrator and returns its standard output.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String, Error> {
        run("kubectl", &mut self.kubectl_command(arguments)?)
    }

    /// Applies a manifest.
    pub fn apply(&self, manifest: &str) -> Result<String, Error> {
        let mut command = self.kubectl_command(&["apply", "--server-side", "--filename", "-"])?;
        run_with_input("kubectl apply", &mut command, manifest)
    }

    /// A node that is up.
    pub fn node(&self, name: &str) -> Result<Node, Error> {
        rings::node(&self.state(), name)
    }

    /// All nodes that are up.
    pub fn nodes(&self) -> Vec<Node> {
        rings::nodes(&self.state())
    }

    /// What is running, in the order it was started.
    pub fn snapshot(&self) -> State {
        self.state().clone()
    }

    /// Variables for a shell that uses the bed.
    pub fn environment(&self) -> Environment {
        let mut variables = BTreeMap::from([("PLIMSOLL_REGISTRY", self.registry_address().to_owned())]);
        if self.kubeconfig().is_file() {
            variables.insert("KUBECONFIG", self.kubeconfig().display().to_string());
        }
        Environment(variables)
    }

    pub(crate) fn reporter(&self) -> &Reporter {
        &self.config.reporter
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and writes it, unless the bed is going down.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> Result<T, Error> {
        let mut state = self.state();
        if self.stopping.load(Ordering::SeqCst) {
            return Err(Error::Stopping);
        }
        let result = change(&mut state);
        state.save(&self.config.layout)?;
        Ok(result)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    fn start_guardian(&self) -> Result<(), Error> {
        use std::os::unix::process::CommandExt;
        let Some([program, arguments @ ..]) = self.config.guardian.as_deref() else {
            return Ok(());
        };
        let own = std::process::id().to_string();
        let mut command = Command::new(program);
        command.args(arguments).arg(own).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(Error::io("start", program))?;
        std::thread::spawn(move || child.wait());
        Ok(())
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if let Err(error) = self.down_if_owned() {
            self.config
                .reporter
                .line(format!("the test bed did not go down cleanly: {error}"));
        }
    }
}

/// Waits for the end of a process, and takes down the bed that it owned: the guardian of [`BedConfig::guardian`].
pub fn guard(config: &BedConfig, pid: i32) -> Result<(), Error> {
    let Some(owner) = ProcessId::of(pid) else { return Ok(()) };
    while !owner.wait_until_gone(std::time::Duration::from_hours(1)) {}
    match State::load(&config.layout)? {
        Some(state) if state.owner == Some(owner) => Bed::attach(config.clone())?.down(),
        _ => Ok(()),
    }
}

/// Images, weights and logs of a full demo.
const NEEDED_MIB: u64 = 3072;

fn check_machine(layout: &Layout) -> Result<(), Error> {
    let user = rustix::process::geteuid();
    if !user.is_root() {
        return Err(Error::NotRoot { user: user.as_raw() });
    }
    fs::create_dir_all(layout.root()).map_err(Error::io("make folder", layout.root()))?;
    let free_mib = free_mib(layout.root())?;
    if free_mib < NEEDED_MIB {
        return Err(Error::DiskFull {
            path: layout.root().into(),
            free_mib,
            needed_mib: NEEDED_MIB,
        });
    }
    Ok(())
}

fn free_mib(path: &Path) -> Result<u64, Error> {
    let room = rustix::fs::statvfs(path).map_err(|error| Error::io("look at the disk of", path)(error.into()))?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize) >> 20)
}

/// A bed whose owner is gone is removed; one that was told to stay is not ours to remove.
fn clear_leftovers(layout: &Layout, reporter: &Reporter) -> Result<(), Error> {
    let Some(state) = State::load(layout)? else {
        return Ok(());
    };
    let alive = state.components.iter().any(|component| component.process.is_alive());
    if alive && state.owner.is_none() {
        return Err(Error::AlreadyUp {
            state: layout.root().into(),
        });
    }
    reporter.line(format!(
        "removing a test bed that was left behind in {}",
        layout.root().display()
    ));
    rings::stop(layout, &state)
}

fn prepare_folders(layout: &Layout) -> Result<(), Error> {
    let logs = layout.logs();
    if logs.exists() {
        fs::remove_dir_all(&logs).map_err(Error::io("remove", &logs))?;
    }
    for folder in [logs, layout.secrets(), layout.programs()] {
        fs::create_dir_all(&folder).map_err(Error::io("make folder", &folder))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_reads_as_a_shell_script() {
        let environment = Environment(BTreeMap::from([("B", "2".into()), ("A", "1".into())]));
        assert_eq!(environment.to_string(), "export A=1\nexport B=2\n");
    }

    #[test]
    fn attaching_to_nothing_says_how_to_start_a_bed() {
        let mut config = BedConfig::from_environment(Reporter::silent());
        config.layout = Layout::new("/nonexistent/plimsoll");
        let error = Bed::attach(config).err().unwrap();
        assert_eq!(error.to_string(), "no test bed is up in /nonexistent/plimsoll");
        assert_eq!(error.hint().unwrap(), "start one: `cargo xtask testbed up`");
    }
}
