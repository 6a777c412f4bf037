//! A program under a stopwatch: wall, processor time and peak memory, of itself and of its children.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

/// Clock ticks per second of /proc; fixed on Linux.
const TICKS: f64 = 100.0;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What a run took.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    pub(super) wall: f64,
    pub(super) processor: f64,
    pub(super) peak_kib: u64,
    pub(super) output: String,
}

/// Runs to the end.
pub(super) fn run(command: &mut Command) -> anyhow::Result<Taken> {
    let taken = run_until(command, |_| false)?;
    taken.context("the program was not to be stopped")
}

/// Runs until it ends, or until it has printed a line at which it is killed; `None` when it was killed.
pub(super) fn run_until(command: &mut Command, stop_at: impl Fn(&str) -> bool) -> anyhow::Result<Option<Taken>> {
    let name = format!("{command:?}");
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {name}"))?;
    let (lines, printed) = std::sync::mpsc::channel();
    let stdout = child.stdout.take().context("no stdout")?;
    let reader = std::thread::spawn(move || {
        std::io::BufRead::lines(std::io::BufReader::new(stdout))
            .map_while(Result::ok)
            .try_for_each(|line| lines.send(line))
    });
    let stderr = child.stderr.take().context("no stderr")?;
    let complaints = std::thread::spawn(move || std::io::read_to_string(stderr).unwrap_or_default());
    let (mut output, mut processor, mut peak_kib) = (String::new(), 0.0_f64, 0);
    let status = loop {
        let (ticks, memory) = look(child.id().cast_signed());
        processor = processor.max(ticks);
        peak_kib = peak_kib.max(memory);
        for line in printed.try_iter() {
            if stop_at(&line) {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            output.push_str(&line);
            output.push('\n');
        }
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    let wall = started.elapsed().as_secs_f64();
    // The reader ends with the pipe; a line that nobody takes is no failure.
    let _ = reader.join();
    output.extend(printed.try_iter().map(|line| line + "\n"));
    let complaints = complaints.join().unwrap_or_default();
    ensure!(status.success(), "{name} failed: {}", complaints.trim());
    Ok(Some(Taken {
        wall,
        processor,
        peak_kib,
        output,
    }))
}

/// Seconds of processor time and peak memory of a process and those below it.
fn look(root: i32) -> (f64, u64) {
    let (mut seconds, mut memory) = (0.0, 0);
    for id in family(root) {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
        let ticks = |at: usize| {
            fields
                .get(at)
                .and_then(|text| text.parse::<u32>().ok())
                .map_or(0.0, f64::from)
        };
        // utime, stime, and the same of children that have ended.
        seconds += (11..=14).map(ticks).sum::<f64>() / TICKS;
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let peak = status.lines().find_map(|line| {
            line.strip_prefix("VmHWM:")?
                .trim()
                .strip_suffix(" kB")?
                .trim()
                .parse::<u64>()
                .ok()
        });
        memory += peak.unwrap_or(0);
    }
    (seconds, memory)
}

/// The process and everything below it.
fn family(root: i32) -> Vec<i32> {
    let mut found = vec![root];
    found.extend(testbed::children(root).into_iter().flat_map(family));
    found
}
