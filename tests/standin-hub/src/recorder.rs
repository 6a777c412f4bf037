//! What was asked, for assertions: number of requests, ranges, bytes on the wire, credentials in the wrong place.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::fault::Side;

/// One request that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Which port it came to.
    pub side: Side,
    /// `GET`, `HEAD`, ...
    pub method: String,
    /// Path and query as sent.
    pub target: String,
    /// The Range header.
    pub range: Option<String>,
    /// Whether it carried `Authorization` or a cookie.
    pub credential: bool,
    /// The number that the caller gave it, `X-Request-ID`.
    pub number: Option<String>,
}

#[derive(Default)]
pub(crate) struct Recorder {
    requests: Mutex<Vec<Recorded>>,
    body_bytes: AtomicU64,
    present: AtomicUsize,
    most: AtomicUsize,
}

/// A request that is there until this is dropped.
pub(crate) struct Present<'a>(&'a Recorder);

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.present.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Recorder {
    /// Counts a request as long as it waits for its answer.
    pub(crate) fn enter(&self) -> Present<'_> {
        let now = self.present.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        Present(self)
    }

    pub(crate) fn busiest(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    pub(crate) fn record(&self, request: Recorded) {
        if let Ok(mut requests) = self.requests.lock() {
            requests.push(request);
        }
    }

    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.requests
            .lock()
            .map(|requests| requests.clone())
            .unwrap_or_default()
    }

    pub(crate) fn count_bytes(&self, bytes: usize) {
        self.body_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn body_bytes(&self) -> u64 {
        self.body_bytes.load(Ordering::Relaxed)
    }
}
