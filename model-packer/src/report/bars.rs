//! For terminals: a bar for each file that moves, and one for all of them with rate and time left.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::lines::line_of;
use super::{Event, Report};

/// Bars on stderr.
pub struct Bars {
    all: MultiProgress,
    total: Mutex<Option<ProgressBar>>,
    files: Mutex<HashMap<String, (ProgressBar, u64)>>,
    verbose: bool,
}

impl Bars {
    /// No bar is shown before the work is planned.
    pub fn new(verbose: bool) -> Self {
        Self {
            all: MultiProgress::new(),
            total: Mutex::new(None),
            files: Mutex::default(),
            verbose,
        }
    }

    fn advance_total(&self, bytes: u64) {
        if let Ok(total) = self.total.lock()
            && let Some(total) = total.as_ref()
        {
            total.inc(bytes);
        }
    }

    fn start(&self, path: &str, size: u64, offset: u64) {
        let bar = self.all.insert_from_back(
            1,
            ProgressBar::new(size).with_style(style("  {msg:36!} {bar:24} {bytes:>10}/{total_bytes:<10}")),
        );
        bar.set_message(shorten(path));
        bar.set_position(offset);
        self.advance_total(offset);
        if let Ok(mut files) = self.files.lock() {
            files.insert(path.to_owned(), (bar, offset));
        }
    }

    /// The bar's own share goes to the total once; a file without a bar counts whole.
    fn finish(&self, path: &str, size: u64) {
        let Ok(mut files) = self.files.lock() else { return };
        let counted = files.remove(path).map_or(0, |(bar, counted)| {
            bar.finish_and_clear();
            counted
        });
        self.advance_total(size.saturating_sub(counted));
    }

    fn progress(&self, path: &str, offset: u64) {
        let Ok(mut files) = self.files.lock() else { return };
        if let Some((bar, counted)) = files.get_mut(path) {
            bar.set_position(offset);
            let more = offset.saturating_sub(*counted);
            *counted += more;
            self.advance_total(more);
        }
    }

    fn plan(&self, bytes: u64) {
        let bar = self.all.add(ProgressBar::new(bytes).with_style(style(
            "  {msg:36!} {bar:24} {bytes:>10}/{total_bytes:<10} {binary_bytes_per_sec} {eta} left",
        )));
        bar.set_message("all");
        bar.enable_steady_tick(Duration::from_millis(250));
        if let Ok(mut total) = self.total.lock() {
            *total = Some(bar);
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

/// The end of a long path tells more than its start.
fn shorten(path: &str) -> String {
    let count = path.chars().count();
    if count <= 36 {
        path.to_owned()
    } else {
        format!("…{}", path.chars().skip(count - 35).collect::<String>())
    }
}

impl Report for Bars {
    fn tell(&self, event: &Event) {
        match event {
            Event::Planned { bytes, .. } => self.plan(*bytes),
            Event::Started { path, size, offset } => self.start(path, *size, *offset),
            Event::Progress { path, offset } => self.progress(path, *offset),
            Event::Finished { path, size, .. } => self.finish(path, *size),
            Event::Phase { .. } | Event::Warning { .. } | Event::Detail { .. } => {}
        }
        let shown = !matches!(
            event,
            Event::Planned { .. } | Event::Started { .. } | Event::Progress { .. }
        );
        if let Some(line) = line_of(event, self.verbose).filter(|_| shown) {
            // Talk that cannot be heard is no reason to stop.
            let _ = self.all.println(line);
        }
    }

    fn close(&self) {
        // The terminal is left as it was; what remains is the summary.
        let _ = self.all.clear();
    }
}
