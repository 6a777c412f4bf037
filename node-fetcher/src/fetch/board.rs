//! What of a blob is written: shared by those who write, the one who hashes and the one who saves.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::extent::{Extent, ExtentSet};

#[derive(Debug, Default)]
struct State {
    written: ExtentSet,
    /// Written, or somebody is about to.
    claimed: ExtentSet,
    /// Writes that were handed to a thread and have not come back.
    pending: usize,
    closed: bool,
}

/// The board of one blob.
#[derive(Debug)]
pub(crate) struct Board {
    size: u64,
    state: Mutex<State>,
    grown: Condvar,
    settled: Notify,
}

impl Board {
    pub(crate) fn new(size: u64, written: ExtentSet) -> Self {
        let state = State {
            claimed: written.clone(),
            written,
            ..State::default()
        };
        Self {
            size,
            state: Mutex::new(state),
            grown: Condvar::new(),
            settled: Notify::new(),
        }
    }

    /// A write is handed to a thread.
    pub(crate) fn begin_write(&self) {
        self.lock().pending += 1;
    }

    /// The write is done, with these bytes in the file, or failed with none.
    pub(crate) fn end_write(&self, extent: Option<Extent>) {
        let mut state = self.lock();
        state.pending -= 1;
        if let Some(extent) = extent {
            state.written.insert(extent);
            state.claimed.insert(extent);
            self.grown.notify_all();
        }
        if state.pending == 0 {
            self.settled.notify_waiters();
        }
    }

    /// Waits until no write is under way, so that no late one can overwrite what another source brings, and forgets
    /// claims that nobody fulfilled.
    pub(crate) async fn settle(&self) {
        loop {
            let settled = self.settled.notified();
            {
                let mut state = self.lock();
                if state.pending == 0 {
                    state.claimed = state.written.clone();
                    return;
                }
            }
            settled.await;
        }
    }

    /// The next missing bytes that nobody has claimed, at most `limit` of them.
    pub(crate) fn claim(&self, limit: u64) -> Option<Extent> {
        let mut state = self.lock();
        let extent = state.claimed.first_hole(0, self.size)?.limited_to(limit);
        state.claimed.insert(extent);
        Some(extent)
    }

    /// The first byte that is not there.
    pub(crate) fn first_missing(&self) -> u64 {
        self.lock().written.prefix()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.lock().written.bytes()
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.lock().written.covers(self.size)
    }

    /// Nothing more will be written: whoever waits shall stop.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.grown.notify_all();
    }

    /// Blocks until the prefix reaches beyond `from`; `None` when it never will.
    pub(crate) fn wait_beyond(&self, from: u64) -> Option<u64> {
        let mut state = self.lock();
        loop {
            let prefix = state.written.prefix();
            if prefix > from {
                return Some(prefix);
            }
            if state.closed {
                return None;
            }
            state = self.grown.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes the board however the fetch ends: a thread that waits for bytes must not outlive it.
#[derive(Debug)]
pub(crate) struct CloseOnDrop<'a>(pub(crate) &'a Board);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_never_overlap_and_skip_what_is_there() {
        let board = Board::new(100, [Extent::new(10, 20)].into_iter().collect());
        assert_eq!(board.claim(64), Some(Extent::new(0, 10)));
        assert_eq!(board.claim(64), Some(Extent::new(20, 84)));
        assert_eq!(board.claim(64), Some(Extent::new(84, 100)));
        assert_eq!(board.claim(64), None);
    }

    #[tokio::test]
    async fn unfulfilled_claims_come_back_after_settling() {
        let board = Board::new(100, ExtentSet::default());
        assert_eq!(board.claim(50), Some(Extent::new(0, 50)));
        board.begin_write();
        board.end_write(Some(Extent::new(0, 20)));
        board.settle().await;
        assert_eq!(board.claim(100), Some(Extent::new(20, 100)));
        assert_eq!(board.first_missing(), 20);
    }

    #[tokio::test]
    async fn settling_waits_for_writes_under_way() {
        let board = std::sync::Arc::new(Board::new(10, ExtentSet::default()));
        board.begin_write();
        let waiting = tokio::spawn({
            let board = std::sync::Arc::clone(&board);
            async move { board.settle().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        board.end_write(None);
        waiting.await.unwrap();
    }
}
