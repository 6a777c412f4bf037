//! The client against an in-process registry that fails on purpose.
#![expect(clippy::unwrap_used, reason = "helpers of tests: what fails here fails the test")]
mod downloads;
mod faults;
mod logins;
mod manifests;
#[cfg(feature = "real-registry")]
mod real_registry;
mod uploads;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fault_proxy::registry::FakeRegistry;
use futures::StreamExt as _;
use registry::{
    Client, ClientConfig, Credentials, Error, Limits, Profile, PushEvent, PushObserver, PushOptions, Reference, Retry,
    Secret, UploadMode,
};

/// A client that is as patient as a test may be.
fn config(host: &str) -> ClientConfig {
    ClientConfig {
        plain_http: vec![host.to_owned()],
        user_agent: "plimsoll-test".to_owned(),
        limits: Limits {
            idle: Duration::from_millis(300),
            answer: Duration::from_secs(2),
            commit: Duration::from_secs(2),
            ..Limits::default()
        },
        retry: Retry {
            times: 3,
            min_delay: Duration::from_millis(1),
            max_delay: Duration::from_millis(5),
            ..Retry::default()
        },
        ..ClientConfig::default()
    }
}

fn client(registry: &FakeRegistry) -> Client {
    Client::new(config(&registry.host())).unwrap()
}

fn client_with_login(registry: &FakeRegistry) -> Client {
    let credentials = Credentials::Basic {
        username: "user".to_owned(),
        password: Secret::new("pass"),
    };
    Client::new(ClientConfig {
        credentials,
        ..config(&registry.host())
    })
    .unwrap()
}

fn reference(registry: &FakeRegistry, rest: &str) -> Reference {
    format!("{}/{rest}", registry.host()).parse().unwrap()
}

/// Bytes in which no two places look alike.
fn bytes(length: usize) -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..length).map(next).collect()
}

/// Small parts, so that a small blob has several.
fn parts(bytes: u64) -> PushOptions {
    let profile = Profile {
        part_bytes: bytes,
        ..Profile::default()
    };
    PushOptions {
        profile: Some(profile),
        ..PushOptions::default()
    }
}

fn one_put() -> PushOptions {
    let profile = Profile {
        upload: UploadMode::OnePut,
        ..Profile::default()
    };
    PushOptions {
        profile: Some(profile),
        ..PushOptions::default()
    }
}

/// What an upload told.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<PushEvent>>>);

impl Heard {
    fn observer(&self) -> PushObserver {
        let heard = self.0.clone();
        Arc::new(move |event| heard.lock().unwrap().push(event))
    }

    fn confirmed(&self) -> Vec<u64> {
        let heard = self.0.lock().unwrap();
        heard
            .iter()
            .filter_map(|event| {
                if let PushEvent::Confirmed(offset) = event {
                    Some(*offset)
                } else {
                    None
                }
            })
            .collect()
    }

    fn last_session(&self) -> Option<registry::SavedSession> {
        let heard = self.0.lock().unwrap();
        heard.iter().rev().find_map(|event| {
            if let PushEvent::Session(session) = event {
                Some(session.clone())
            } else {
                None
            }
        })
    }
}

async fn read(
    client: &Client,
    reference: &Reference,
    digest: &str,
    range: Option<std::ops::Range<u64>>,
) -> Result<Vec<u8>, Error> {
    let mut stream = client.open_blob(reference, digest, range).await?;
    let mut all = Vec::new();
    while let Some(chunk) = stream.next().await {
        all.extend_from_slice(&chunk?);
    }
    Ok(all)
}

/// The whole chain of an error, as a person reads it.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
