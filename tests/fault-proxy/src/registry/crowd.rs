//! How many requests are there at the same time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// By method: how many there are, and the most there ever were.
#[derive(Debug, Default)]
pub(super) struct Crowd(Mutex<HashMap<String, (usize, usize)>>);

/// A request that is there until this is dropped.
pub(super) struct Present<'a> {
    crowd: &'a Crowd,
    method: String,
}

impl Crowd {
    pub(super) fn enter(&self, method: &str) -> Present<'_> {
        let mut counts = self.counts();
        let (now, most) = counts.entry(method.to_owned()).or_default();
        *now += 1;
        *most = (*most).max(*now);
        Present {
            crowd: self,
            method: method.to_owned(),
        }
    }

    pub(super) fn busiest(&self, method: &str) -> usize {
        self.counts().get(method).map_or(0, |(_, most)| *most)
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<String, (usize, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        if let Some((now, _)) = self.crowd.counts().get_mut(&self.method) {
            *now -= 1;
        }
    }
}
