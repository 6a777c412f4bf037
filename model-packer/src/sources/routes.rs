//! Where the hub's redirects led. The parts of a file and the rest of a broken stream go there without asking the hub again,
//! which counts what it is asked and refuses more in five minutes than a large file has parts.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderMap;
use tokio::time::Instant;

/// Presigned addresses live for an hour.
const LIFETIME: Duration = Duration::from_mins(10);

/// An address away from the hub.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) url: Url,
    /// What the hub said when it redirected.
    pub(crate) first_headers: HeaderMap,
    until: Instant,
}

/// The routes that are known, by what the hub was asked for.
#[derive(Debug, Default)]
pub(crate) struct Routes(Mutex<HashMap<Url, Route>>);

impl Routes {
    pub(crate) fn find(&self, asked: &Url) -> Option<Route> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(asked).filter(|route| route.until > Instant::now()).cloned()
    }

    pub(crate) fn keep(&self, asked: Url, url: Url, first_headers: HeaderMap) {
        let route = Route {
            url,
            first_headers,
            until: Instant::now() + LIFETIME,
        };
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(asked, route);
    }

    /// The hub may know another one.
    pub(crate) fn forget(&self, asked: &Url) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(asked);
    }
}
