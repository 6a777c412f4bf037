//! Processes of the bed: started detached, recognised again by id and start time.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Every process of a bed carries its state folder in this variable, so that none is lost after a crash.
pub(crate) const MARKER: &str = "PLIMSOLL_TESTBED_STATE";

/// A process id that cannot be confused with a later process of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// The number.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start_time: u64,
}

impl ProcessId {
    /// The process that has this number now.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = read_stat(pid)?;
        (!stat.is_dead()).then_some(Self {
            pid,
            start_time: stat.start_time,
        })
    }

    /// This program.
    pub fn current() -> Option<Self> {
        i32::try_from(std::process::id()).ok().and_then(Self::of)
    }

    /// Whether it still runs (a zombie does not).
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// The program's short name.
    pub fn name(self) -> String {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        name.trim_end().to_owned()
    }

    /// Sends a signal, if it is still the same process.
    pub(crate) fn send(self, signal: Signal) {
        if self.is_alive()
            && let Some(pid) = Pid::from_raw(self.pid)
        {
            // It may end between the check and the signal, which is what was wanted.
            let _ = kill_process(pid, signal);
        }
    }

    /// Asks it to end, and ends it after `patience`.
    pub(crate) fn stop(self, patience: Duration) {
        self.send(Signal::TERM);
        if !self.wait_until_gone(patience) {
            self.send(Signal::KILL);
            self.wait_until_gone(Duration::from_secs(5));
        }
    }

    /// Waits for its end; false when time ran out.
    pub fn wait_until_gone(self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while self.is_alive() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }

    /// Its only child, once there is one: what `nsenter` and `unshare` fork into a process namespace.
    pub(crate) fn child(self) -> Option<Self> {
        children(self.pid).into_iter().next().and_then(Self::of)
    }
}

/// The processes that this one has started, from whichever thread, and not yet waited for.
pub fn children(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let numbers =
        |list: String| -> Vec<i32> { list.split_whitespace().filter_map(|child| child.parse().ok()).collect() };
    lists.flat_map(numbers).collect()
}

/// Everything that a process has started and that still runs, parents before their children.
pub(crate) fn descendants(pid: i32) -> Vec<ProcessId> {
    let mut found = Vec::new();
    for child in children(pid) {
        found.extend(ProcessId::of(child));
        found.extend(descendants(child));
    }
    found
}

/// Starts a program in a process group of its own, with both outputs in one log file.
pub(crate) fn spawn(command: &mut Command, log: &Path, state: &Path) -> Result<ProcessId, Error> {
    use std::os::unix::process::CommandExt;
    let output = File::options()
        .create(true)
        .append(true)
        .open(log)
        .map_err(Error::io("open log", log))?;
    let errors = output.try_clone().map_err(Error::io("open log", log))?;
    command
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .process_group(0)
        .env(MARKER, state);
    let mut child = command.spawn().map_err(Error::io("start", command.get_program()))?;
    let pid = i32::try_from(child.id()).unwrap_or(i32::MAX);
    let process = ProcessId::of(pid);
    // Reaps it whenever it ends, so that no zombie is left while the caller lives on.
    std::thread::spawn(move || child.wait());
    process.ok_or_else(|| Error::Io {
        step: "start".into(),
        path: command.get_program().into(),
        source: std::io::Error::other("it ended at once"),
    })
}

/// Every living process that carries the marker of this bed.
pub(crate) fn marked(state: &Path) -> Vec<ProcessId> {
    let wanted = format!("{MARKER}={}", state.display());
    let own = std::process::id();
    all_pids()
        .filter(|pid| u32::try_from(*pid).is_ok_and(|pid| pid != own))
        .filter(|pid| carries(*pid, wanted.as_bytes()))
        .filter_map(ProcessId::of)
        .collect()
}

/// All process ids of this process namespace.
pub(crate) fn all_pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn carries(pid: i32, wanted: &[u8]) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|variable| variable == wanted))
}

struct Stat {
    state: char,
    start_time: u64,
}

impl Stat {
    fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

fn read_stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name in parentheses may itself hold spaces and parentheses, so fields are counted from the last one.
fn parse_stat(text: &str) -> Option<Stat> {
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let start_time = fields.nth(18)?.parse().ok()?;
    Some(Stat { state, start_time })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let text = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 100 200";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.state, stat.start_time), ('S', 4242));
    }

    #[test]
    fn what_a_child_started_is_found_too() {
        let mut shell = Command::new("sh").args(["-c", "sleep 61 & wait"]).spawn().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let pid = i32::try_from(shell.id()).unwrap();
        let below = || -> Vec<String> { descendants(pid).into_iter().map(ProcessId::name).collect() };
        let deadline = Instant::now() + Duration::from_secs(5);
        while below() != ["sleep"] && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(below(), ["sleep"]);
        let all = descendants(own);
        assert!(all.iter().any(|process| process.pid == pid) && all.len() > 1);
        for process in descendants(pid) {
            process.send(Signal::TERM);
        }
        shell.wait().unwrap();
    }

    #[test]
    fn a_process_is_recognised_until_it_ends() {
        let folder = std::env::temp_dir().join(format!("plimsoll-process-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let process = spawn(Command::new("sleep").arg("60"), &folder.join("log"), &folder).unwrap();
        assert!(process.is_alive());
        // The kernel lets the parent go on a moment before the child's new environment can be read.
        let deadline = Instant::now() + Duration::from_secs(5);
        while marked(&folder).is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(marked(&folder), vec![process]);
        let other = ProcessId {
            start_time: process.start_time + 1,
            ..process
        };
        assert!(!other.is_alive(), "same number, other start time");
        other.stop(Duration::ZERO);
        assert!(
            process.is_alive(),
            "a process that only shares the number is never signalled"
        );
        process.stop(Duration::from_secs(2));
        assert!(!process.is_alive());
        assert_eq!(marked(&folder), vec![]);
        fs::remove_dir_all(folder).unwrap();
    }
}
