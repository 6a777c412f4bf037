//! What can go wrong with the bed, and what to do about it.

use std::path::{Path, PathBuf};

use crate::failure::StartFailure;

/// An error of the test bed. Its [`hint`](Error::hint) says how to mend it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bed makes namespaces, bridges and cgroups.
    #[error("the test bed needs root: this process runs as user {user}")]
    NotRoot {
        /// The effective user id.
        user: u32,
    },
    /// Another program owns a running bed.
    #[error("a test bed is already up on this machine, held by {owner}")]
    Owned {
        /// Which program, with its process id.
        owner: String,
    },
    /// A bed was left running (on purpose or by a crash).
    #[error("a test bed is already up on this machine, with its state in {}", state.display())]
    AlreadyUp {
        /// The state folder of the other bed.
        state: PathBuf,
    },
    /// No bed is up where one was expected.
    #[error("no test bed is up in {}", state.display())]
    NotUp {
        /// The state folder looked at.
        state: PathBuf,
    },
    /// The bed was taken down while it was being started.
    #[error("the test bed is being taken down")]
    Stopping,
    /// A port that must be this one is in use.
    #[error("{address} for {component} is taken by {holder}")]
    PortTaken {
        /// The component that wanted it.
        component: String,
        /// The address and port.
        address: String,
        /// Who holds it.
        holder: String,
    },
    /// The machine already routes one of the bed's networks.
    #[error("the network {network} of the test bed collides with the existing route `{route}`")]
    NetworkTaken {
        /// The bed's network.
        network: String,
        /// The route in the way.
        route: String,
    },
    /// Too little room for images and logs.
    #[error("{} has {free_mib} MiB free, the test bed needs {needed_mib} MiB", path.display())]
    DiskFull {
        /// The folder looked at.
        path: PathBuf,
        /// What is free.
        free_mib: u64,
        /// What is needed.
        needed_mib: u64,
    },
    /// A cgroup controller is not there.
    #[error("cgroup controller {controller} is not available: {reason}")]
    Cgroup {
        /// The controller.
        controller: String,
        /// Why not.
        reason: String,
    },
    /// A component did not start.
    #[error(transparent)]
    Start(Box<StartFailure>),
    /// No component has this name.
    #[error("no component is called {name}")]
    UnknownComponent {
        /// The name asked for.
        name: String,
    },
    /// No node of this name is up.
    #[error("no node {name} is up (up: {})", if up.is_empty() { "none".into() } else { up.join(", ") })]
    UnknownNode {
        /// The name asked for.
        name: String,
        /// The nodes that are up.
        up: Vec<String>,
    },
    /// A component is not running on a node.
    #[error("no {component} was started on node {node}")]
    NotStarted {
        /// The component.
        component: String,
        /// The node.
        node: String,
    },
    /// A prebuilt component is not the pinned one.
    #[error("prebuilt {name} {version} in {} is not the pinned one: sha256 {found}, pinned {pinned}", folder.display())]
    PrebuiltMismatch {
        /// The component.
        name: String,
        /// Its version.
        version: String,
        /// The folder of prebuilt components.
        folder: PathBuf,
        /// The digest of what was found.
        found: String,
        /// The digest of the pin.
        pinned: String,
    },
    /// A program that a build needs is missing.
    #[error("building {component} from source needs {tool}, which is not installed")]
    MissingTool {
        /// The component.
        component: String,
        /// The program.
        tool: String,
    },
    /// Debian packages are missing and cannot be installed here.
    #[error("these packages are missing and could not be installed: {}", packages.join(" "))]
    MissingPackages {
        /// Names as in Debian.
        packages: Vec<String>,
        /// Why not.
        #[source]
        source: Option<Box<Error>>,
    },
    /// A program that was run failed.
    #[error("{step}: `{program}` failed ({status}){}", indented(output))]
    Command {
        /// What it was for.
        step: String,
        /// The program and its first arguments.
        program: String,
        /// Its exit status.
        status: String,
        /// The end of what it said.
        output: String,
    },
    /// A file or a program could not be used.
    #[error("{step} {}", path.display())]
    Io {
        /// What was tried, as a verb.
        step: String,
        /// On what.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A state file, answer or list could not be read.
    #[error("{what} is not readable: {reason}")]
    Malformed {
        /// What was read.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The registry or a component answered something else than expected.
    #[error("{step}: {url} answered {status}{}", indented(body))]
    Http {
        /// What it was for.
        step: String,
        /// The address asked.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The start of the answer.
        body: String,
    },
    /// Something did not become true in time.
    #[error("{what} did not happen within {seconds} s{}", indented(last))]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long.
        seconds: u64,
        /// The last observation.
        last: String,
    },
}

impl Error {
    /// An [`Error::Io`] maker for `map_err`.
    pub(crate) fn io(step: &str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let (step, path) = (step.to_owned(), path.as_ref().to_owned());
        move |source| Self::Io { step, path, source }
    }

    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotRoot { .. } => Some("run it as root, for example with `sudo -E`".into()),
            Self::Owned { .. } => Some("wait until that program ends, or stop it with Ctrl-C".into()),
            Self::AlreadyUp { state } => Some(format!(
                "take it down first: `cargo xtask testbed down --state {}`",
                state.display()
            )),
            Self::NotUp { .. } => Some("start one: `cargo xtask testbed up`".into()),
            Self::UnknownNode { .. } => Some("start the nodes: `cargo xtask testbed up nodes`".into()),
            Self::PortTaken { .. } => Some("stop that program and start again".into()),
            Self::NetworkTaken { .. } => {
                Some("remove that route, or the network it belongs to, while the test bed is in use".into())
            }
            Self::DiskFull { .. } => Some("free some space, or point PLIMSOLL_CACHE at a larger disk".into()),
            Self::Cgroup { .. } => {
                Some("mount the controller under /sys/fs/cgroup, or delegate it to this container".into())
            }
            Self::Start(failure) => failure.hint(),
            Self::PrebuiltMismatch { .. } => Some(
                "unset PLIMSOLL_PREBUILT to build from source, or get the folder that belongs to these pins".into(),
            ),
            Self::MissingTool { tool, .. } => Some(tool_hint(tool)),
            Self::MissingPackages { packages, .. } => Some(format!(
                "install them by hand: `apt-get install {}`, or the same programs on another distribution",
                packages.join(" ")
            )),
            Self::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                Some("the disk is full: free some space, or point PLIMSOLL_CACHE at a larger disk".into())
            }
            _ => None,
        }
    }
}

impl From<StartFailure> for Error {
    fn from(failure: StartFailure) -> Self {
        Self::Start(Box::new(failure))
    }
}

fn tool_hint(tool: &str) -> String {
    let install = match tool {
        "go" => "install Go 1.26 or later (https://go.dev/dl)",
        "cargo" | "rustc" | "rustup" => "install Rust with rustup (https://rustup.rs)",
        "python3" => "install Python 3 with pip",
        _ => "install it",
    };
    format!("{install}, or point PLIMSOLL_PREBUILT at a folder of prebuilt components")
}

fn indented(text: &str) -> String {
    let lines: Vec<_> = text.trim_end().lines().map(|line| format!("\n    {line}")).collect();
    if lines.is_empty() {
        String::new()
    } else {
        format!(":{}", lines.concat())
    }
}
