//! Taking the bed down on Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use rustix::process::Signal;

use crate::bed::Bed;
use crate::error::Error;
use crate::process;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Never returns once a signal has come: the thread that takes the bed down ends the program. What fails meanwhile fails
/// because the bed goes away under it, and is not worth a message.
pub fn wait_if_interrupted() {
    while INTERRUPTED.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// Ends what this program waits for, such as a build: a terminal sends Ctrl-C to all of them, `kill` and `timeout` do not.
fn end_children() {
    for process in process::descendants(std::process::id().cast_signed()) {
        process.send(Signal::TERM);
    }
}

/// Takes `bed` down on the first SIGINT, SIGTERM or SIGHUP, whatever this program is doing, and then ends it with the status
/// that a shell gives to that signal. A bed that was told to stay is left up.
///
/// Programs call [`wait_if_interrupted`] before they report an error of their own. It works on a thread of its own, where locks may be taken and files written. Other work can be put before the end with
/// `before`, such as ending programs that use the bed.
pub fn down_on_interrupt(bed: &Arc<Bed>, before: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Error::io("listen for", "signals"))?;
    let bed = Arc::downgrade(bed);
    std::thread::spawn(move || {
        let Some(signal) = signals.forever().next() else { return };
        INTERRUPTED.store(true, Ordering::SeqCst);
        before();
        if let Some(bed) = bed.upgrade()
            && let Err(error) = bed.down_if_owned()
        {
            bed.reporter()
                .line(format!("the test bed did not go down cleanly: {error}"));
        }
        end_children();
        #[expect(
            clippy::exit,
            reason = "the program was asked to end, and its other threads are not asked"
        )]
        std::process::exit(128 + signal);
    });
    Ok(())
}
