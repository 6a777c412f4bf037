//! A component that did not start: what it said last, what that most likely means, and what to do.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::command::last_lines;
use crate::network::holder_of_port;

/// What a log line gives away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// A port is in use, by this process if it could be found.
    PortTaken {
        /// The port, where the line tells it.
        port: Option<u16>,
        /// Who holds it.
        holder: Option<String>,
    },
    /// No room is left.
    DiskFull,
    /// A permission or capability is missing.
    NotPermitted,
    /// A cgroup controller is missing or not delegated.
    CgroupMissing,
    /// A program that it starts is missing.
    ProgramMissing,
    /// The binary needs a newer C library, or is for another machine.
    WrongBinary,
    /// It ran out of memory.
    OutOfMemory,
    /// A kernel feature (a module or file system) is missing.
    KernelFeature,
    /// The component it depends on did not answer.
    PeerUnreachable,
    /// Nothing known.
    Unknown,
}

/// Text in a log, in lower case, and what it means; the first match from the end of the log wins.
const SIGNS: &[(&str, Cause)] = &[
    (
        "address already in use",
        Cause::PortTaken {
            port: None,
            holder: None,
        },
    ),
    ("no space left on device", Cause::DiskFull),
    ("can't get final child's pid from pipe", Cause::NotPermitted),
    ("operation not permitted", Cause::NotPermitted),
    ("permission denied", Cause::NotPermitted),
    ("cgroup mountpoint does not exist", Cause::CgroupMissing),
    ("cgroupv1 is deprecated", Cause::CgroupMissing),
    ("configured to not run on a host using cgroup v1", Cause::CgroupMissing),
    ("invalid kubelet configuration: cgroup", Cause::CgroupMissing),
    ("executable file not found", Cause::ProgramMissing),
    ("glibc_", Cause::WrongBinary),
    ("exec format error", Cause::WrongBinary),
    ("cannot allocate memory", Cause::OutOfMemory),
    ("out of memory", Cause::OutOfMemory),
    ("protocol not supported", Cause::KernelFeature),
    ("operation not supported", Cause::KernelFeature),
    ("connection refused", Cause::PeerUnreachable),
    ("context deadline exceeded", Cause::PeerUnreachable),
];

/// Why a component did not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFailure {
    /// The component, with its node where it has one.
    pub component: String,
    /// What was observed: it ended, or it did not get ready in time.
    pub observed: String,
    /// Its log file.
    pub log: PathBuf,
    /// The last lines of the log.
    pub last_lines: String,
    /// The likely cause.
    pub cause: Cause,
}

impl StartFailure {
    /// Reads the log of a component that failed.
    pub fn examine(component: &str, observed: &str, log: &Path) -> Self {
        let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
        let mut cause = find_cause(&text);
        if let Cause::PortTaken {
            port: Some(port),
            holder,
        } = &mut cause
        {
            *holder = holder_of_port(*port);
        }
        let last_lines = last_lines(&text, 12);
        Self {
            component: component.into(),
            observed: observed.into(),
            log: log.into(),
            last_lines,
            cause,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let text = match &self.cause {
            Cause::PortTaken { port, holder } => return Some(port_hint(*port, holder.as_deref())),
            Cause::DiskFull => "the disk is full: free some space, or point PLIMSOLL_CACHE at a larger disk",
            Cause::NotPermitted => "run as root; in a container, it has to be a privileged one",
            Cause::CgroupMissing => {
                "mount the cgroup controllers under /sys/fs/cgroup, or delegate them to this container"
            }
            Cause::ProgramMissing => "install the program that the line names",
            Cause::WrongBinary => "unset PLIMSOLL_PREBUILT, so that the component is built for this machine",
            Cause::OutOfMemory => "free some memory: three nodes with their control plane take about 1.5 GiB",
            Cause::KernelFeature => "load the kernel module that the line names (overlay, bridge, veth, nf_tables)",
            Cause::PeerUnreachable => "look at the logs of the components it depends on, in the same folder",
            Cause::Unknown => return None,
        };
        Some(text.into())
    }
}

impl fmt::Display for StartFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} did not start: {}; the end of {}:",
            self.component,
            self.observed,
            self.log.display()
        )?;
        if self.last_lines.is_empty() {
            return write!(formatter, "\n    (the log is empty)");
        }
        self.last_lines
            .lines()
            .try_for_each(|line| write!(formatter, "\n    {}", shorten(line)))
    }
}

impl std::error::Error for StartFailure {}

fn port_hint(port: Option<u16>, holder: Option<&str>) -> String {
    let port = port.map_or("a port".to_owned(), |port| format!("port {port}"));
    match holder {
        Some(holder) => format!("{port} is taken by {holder}: stop it and start again"),
        None => format!("{port} is taken by another program: find it with `ss -ltnp`, stop it and start again"),
    }
}

/// The sign nearest to the end of the log is the likely cause: earlier lines are mostly retries.
fn find_cause(log: &str) -> Cause {
    for line in log.lines().rev().take(60) {
        let lower = line.to_lowercase();
        if let Some((_, cause)) = SIGNS.iter().find(|(sign, _)| lower.contains(sign)) {
            return match cause {
                Cause::PortTaken { .. } => Cause::PortTaken {
                    port: find_port(&lower),
                    holder: None,
                },
                cause => cause.clone(),
            };
        }
    }
    Cause::Unknown
}

/// The number between a colon and `: bind` or the end of a word, as in `listen tcp 127.0.0.1:2379: bind: address ...`.
fn find_port(line: &str) -> Option<u16> {
    let before = line.split("bind").next()?;
    before.rsplit(':').find_map(|part| {
        part.trim()
            .split(|character: char| !character.is_ascii_digit())
            .next()?
            .parse()
            .ok()
    })
}

fn shorten(line: &str) -> String {
    match line.char_indices().nth(300) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likely_cause_is_read_from_real_log_lines() {
        let port = |port| Cause::PortTaken {
            port: Some(port),
            holder: None,
        };
        let cases = [
            (
                r#"{"level":"fatal","msg":"discovery failed","error":"listen tcp 127.0.0.1:2379: bind: address already in use"}"#,
                port(2379),
            ),
            (
                r#"E1130 run.go:72] "command failed" err="failed to create listener: failed to listen on 10.213.0.1:6443: listen tcp 10.213.0.1:6443: bind: address already in use""#,
                port(6443),
            ),
            (
                "level=fatal msg=\"listen tcp 10.213.0.1:5000: bind: address already in use\"",
                port(5000),
            ),
            ("write /x/member/snap/db: no space left on device", Cause::DiskFull),
            (
                "runc create failed: unable to start container process: can't get final child's PID from pipe: EOF",
                Cause::NotPermitted,
            ),
            ("mkdir /var/lib/x: permission denied\nretrying", Cause::NotPermitted),
            (
                "err=\"kubelet is configured to not run on a host using cgroup v1\"",
                Cause::CgroupMissing,
            ),
            (
                "exec: \"nft\": executable file not found in $PATH",
                Cause::ProgramMissing,
            ),
            (
                "./dfdaemon: /lib/libc.so.6: version `GLIBC_2.36' not found",
                Cause::WrongBinary,
            ),
            (
                "dial tcp 127.0.0.1:2379: connect: connection refused",
                Cause::PeerUnreachable,
            ),
            ("all is well", Cause::Unknown),
            ("", Cause::Unknown),
        ];
        for (log, expected) in cases {
            assert_eq!(find_cause(log), expected, "{log}");
        }
    }

    #[test]
    fn the_message_shows_the_last_lines_and_the_hint_names_the_port() {
        let folder = std::env::temp_dir().join(format!("plimsoll-failure-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let log = folder.join("etcd.log");
        fs::write(
            &log,
            "starting\n\nlisten tcp 127.0.0.1:1: bind: address already in use\n",
        )
        .unwrap();
        let failure = StartFailure::examine("etcd", "it ended after 0.1 s", &log);
        let expected = format!(
            "etcd did not start: it ended after 0.1 s; the end of {}:\n    starting\n    listen tcp 127.0.0.1:1: bind: address already in use",
            log.display()
        );
        assert_eq!(failure.to_string(), expected);
        let hint = "port 1 is taken by another program: find it with `ss -ltnp`, stop it and start again";
        assert_eq!(failure.hint().unwrap(), hint);
        fs::remove_dir_all(folder).unwrap();
    }
}
