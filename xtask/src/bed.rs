//! `cargo xtask testbed`: the test bed by hand.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use testbed::{Bed, BedConfig, ComponentState, Layout, Reporter, Ring};

/// Arguments of `cargo xtask testbed`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Where the bed keeps its state and logs [default: .cache/testbed].
    #[arg(long, global = true)]
    state: Option<PathBuf>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start the bed up to a ring, and leave it up.
    Up {
        /// registry, control-plane, nodes or peer-to-peer.
        #[arg(default_value_t = Ring::Nodes)]
        ring: Ring,
    },
    /// Take the bed down; fine when none is up.
    Down,
    /// Show each component: since when, process, log.
    Status,
    /// Print what a shell needs to use the bed: `eval "$(cargo xtask testbed env)"`.
    Env,
    /// Get components into the cache without starting anything.
    Fetch {
        /// Names of components; all of a ring's when it names a ring.
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Take the bed down when the process that owns it ends.
    #[command(hide = true)]
    Guard {
        /// That process.
        pid: i32,
    },
}

/// Runs the task.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = configuration(arguments);
    let outcome = match &arguments.action {
        Action::Up { ring } => up(config, *ring),
        Action::Down => down(config),
        Action::Status => status(config),
        Action::Env => Bed::attach(config).map(|bed| print!("{}", bed.environment())),
        Action::Fetch { names } => fetch(&config, names),
        Action::Guard { pid } => testbed::guard(&config, *pid),
    };
    match outcome {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(explain(error)),
    }
}

/// The error with its hint on a line of its own.
pub(crate) fn explain(error: testbed::Error) -> anyhow::Error {
    match error.hint() {
        Some(hint) => {
            let text = format!("{:#}\n  fix: {hint}", anyhow::Error::new(error));
            anyhow::anyhow!(text)
        }
        None => anyhow::Error::new(error),
    }
}

/// A bed with its guardian: this program, waiting to clean up after the one that starts the bed.
pub(crate) fn guarded(mut config: BedConfig) -> BedConfig {
    if let Ok(program) = std::env::current_exe() {
        let state = config.layout.root().as_os_str().to_owned();
        let words = ["testbed", "--state"].map(Into::into);
        let guard = ["guard"].map(Into::into);
        config.guardian = Some(
            [program.into_os_string()]
                .into_iter()
                .chain(words)
                .chain([state])
                .chain(guard)
                .collect(),
        );
    }
    config
}

fn configuration(arguments: &Arguments) -> BedConfig {
    let mut config = BedConfig::from_environment(Reporter::stderr());
    if let Some(state) = &arguments.state {
        config.layout = Layout::new(std::path::absolute(state).unwrap_or_else(|_| state.clone()));
    }
    config
}

fn up(config: BedConfig, ring: Ring) -> Result<(), testbed::Error> {
    let started = Instant::now();
    let bed = Arc::new(Bed::open(guarded(config))?);
    testbed::down_on_interrupt(&bed, || {})?;
    bed.up(ring)?;
    bed.stay()?;
    eprintln!(
        "the test bed is up to ring {ring} after {:.1} s",
        started.elapsed().as_secs_f32()
    );
    print!("{}", bed.environment());
    Ok(())
}

fn down(config: BedConfig) -> Result<(), testbed::Error> {
    match Bed::attach(config) {
        Err(testbed::Error::NotUp { .. }) => {
            eprintln!("no test bed is up");
            Ok(())
        }
        Err(error) => Err(error),
        Ok(bed) => {
            bed.down()?;
            eprintln!(
                "the test bed is down; its logs are in {}",
                bed.layout().logs().display()
            );
            Ok(())
        }
    }
}

fn status(config: BedConfig) -> Result<(), testbed::Error> {
    let state = Bed::attach(config)?.snapshot();
    println!("{:<10} {:<26} {:>9} {:>8}  log", "node", "component", "process", "up");
    for component in &state.components {
        println!("{}", row(component));
    }
    Ok(())
}

fn row(component: &ComponentState) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs());
    let up = if component.process.is_alive() {
        duration(now.saturating_sub(component.started))
    } else {
        "ended".into()
    };
    let node = component.node.as_deref().unwrap_or("-");
    format!(
        "{node:<10} {:<26} {:>9} {up:>8}  {}",
        component.name,
        component.process.pid,
        component.log.display()
    )
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

fn fetch(config: &BedConfig, names: &[String]) -> Result<(), testbed::Error> {
    for name in names {
        match name.parse::<Ring>() {
            Ok(ring) => config.store.ensure_all(ring.components())?,
            Err(_) => println!("{}", config.store.ensure(name)?.display()),
        }
    }
    Ok(())
}
