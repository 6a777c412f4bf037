//! Measures what a registry can do, by doing it with small blobs in a repository of the caller's choice.

use bytes::Bytes;
use futures::StreamExt as _;
use serde::Serialize;

use crate::client::Client;
use crate::error::{Error, ErrorKind};
use crate::manifest::sha256_of;
use crate::profile::{Profile, UploadMode};
use crate::reference::Reference;
use crate::upload::{PushOptions, Pushed};

/// Parts of the probe blob: several, and small enough for every proxy.
const PROBE_PART: u64 = 256 << 10;
const PROBE_PARTS: usize = 3;

/// What was found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Host and port.
    pub registry: String,
    /// The probes in the order in which they ran.
    pub findings: Vec<Finding>,
    /// What is known now: the shipped profile, corrected by what was measured.
    pub profile: Profile,
}

/// One probe.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What was tried.
    pub probe: &'static str,
    /// How it went.
    pub outcome: Outcome,
    /// What was seen, for people.
    pub detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// How a probe went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// As it should.
    Good,
    /// The registry cannot do it; there is another way.
    Missing,
    /// It has to work, and does not.
    Bad,
}

impl Report {
    /// True when models can be pushed and pulled.
    pub fn healthy(&self) -> bool {
        self.findings.iter().all(|finding| finding.outcome != Outcome::Bad)
    }

    fn add(&mut self, probe: &'static str, outcome: Outcome, detail: impl Into<String>) {
        self.findings.push(Finding {
            probe,
            outcome,
            detail: detail.into(),
            hint: None,
        });
    }

    fn fail(&mut self, probe: &'static str, error: &Error) {
        let detail = format!("{error}: {}", error.kind());
        self.findings.push(Finding {
            probe,
            outcome: Outcome::Bad,
            detail,
            hint: error.hint(),
        });
    }
}

/// Runs all probes. What it writes are blobs that no manifest names, which the registry's garbage collection removes.
pub async fn examine(client: &Client, target: &Reference) -> Report {
    let host = target.registry().to_owned();
    let profile = Profile {
        hosts: vec![target.api_host().to_owned()],
        ..client.profile(target)
    };
    let mut report = Report {
        registry: host,
        findings: Vec::new(),
        profile,
    };
    if let Err(error) = client.ping(target).await {
        report.fail("answers", &error);
        return report;
    }
    report.add("answers", Outcome::Good, "the registry answers and accepts the login");
    let blob = probe_blob();
    let digest = sha256_of(&blob);
    if !push(client, target, &blob, &digest, &mut report).await {
        return report;
    }
    ranges(client, target, &blob, &digest, &mut report).await;
    mount(client, target, &digest, &mut report).await;
    referrers(client, target, &digest, &mut report).await;
    report
}

/// Different at each run, so that it is never there already.
fn probe_blob() -> Bytes {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let mut blob = format!("plimsoll doctor {} {}\n", now.as_nanos(), std::process::id()).into_bytes();
    blob.resize(usize::try_from(PROBE_PART).unwrap_or_default() * PROBE_PARTS, b'.');
    blob.into()
}

/// In parts; whether parts were taken shows in the requests that were needed.
async fn push(client: &Client, target: &Reference, blob: &Bytes, digest: &str, report: &mut Report) -> bool {
    const PROBE: &str = "upload in parts";
    let parts = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = parts.clone();
    let observer: crate::PushObserver = std::sync::Arc::new(move |event| {
        if let crate::PushEvent::Confirmed(offset) = event {
            heard
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .push(offset);
        }
    });
    let profile = Profile {
        upload: UploadMode::Parts,
        part_bytes: PROBE_PART,
        max_blob_bytes: None,
        ..report.profile.clone()
    };
    let options = PushOptions {
        profile: Some(profile),
        observer: Some(observer),
        ..PushOptions::default()
    };
    match client
        .push_blob(target, digest, blob.len() as u64, blob, &options)
        .await
    {
        Ok(Pushed::Uploaded(_)) => {}
        Ok(other) => {
            report.add(
                PROBE,
                Outcome::Bad,
                format!("a blob that never existed is reported as {other:?}"),
            );
            return false;
        }
        Err(error) => {
            report.fail(PROBE, &error);
            return false;
        }
    }
    let confirmed = parts.lock().unwrap_or_else(std::sync::PoisonError::into_inner).len();
    if confirmed > 1 {
        report.add(PROBE, Outcome::Good, format!("{confirmed} parts confirmed"));
        report.profile.upload = UploadMode::Parts;
    } else {
        report.add(
            PROBE,
            Outcome::Missing,
            "takes no parts: each blob is sent in one request, and a failure begins again",
        );
        report.profile.upload = UploadMode::OnePut;
    }
    true
}

async fn ranges(client: &Client, target: &Reference, blob: &Bytes, digest: &str, report: &mut Report) {
    const PROBE: &str = "ranges";
    let range = 1000..3000;
    let mut stream = match client.open_blob(target, digest, Some(range.clone())).await {
        Ok(stream) => stream,
        Err(error) => return report.fail(PROBE, &error),
    };
    report.profile.ranges = Some(stream.is_partial());
    if !stream.is_partial() {
        return report.add(
            PROBE,
            Outcome::Missing,
            "sends the whole blob: no resume, no repair of single pieces",
        );
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        match chunk {
            Ok(chunk) => bytes.extend_from_slice(&chunk),
            Err(error) => return report.fail(PROBE, &error),
        }
    }
    if blob.get(1000..3000) == Some(bytes.as_slice()) {
        report.add(PROBE, Outcome::Good, format!("honoured, from {}", stream.host()));
    } else {
        report.add(PROBE, Outcome::Bad, "other bytes than those of the range");
    }
}

async fn mount(client: &Client, target: &Reference, digest: &str, report: &mut Report) {
    const PROBE: &str = "mount between repositories";
    let Ok(sibling) = target.sibling(&format!("{}-doctor", target.repository())) else {
        return;
    };
    match client.mount_blob(&sibling, target.repository(), digest).await {
        Ok(true) => report.add(
            PROBE,
            Outcome::Good,
            "a blob of another repository is taken over without sending it",
        ),
        Ok(false) => report.add(
            PROBE,
            Outcome::Missing,
            "answers with an upload: bytes are sent again for each repository",
        ),
        Err(error) => report.add(PROBE, Outcome::Missing, format!("{}", error.kind())),
    }
}

async fn referrers(client: &Client, target: &Reference, digest: &str, report: &mut Report) {
    const PROBE: &str = "referrers";
    match client.keeps_referrers_list(target, digest).await {
        Ok(kept) => {
            report.profile.referrers = Some(kept);
            let (outcome, detail) = if kept {
                (Outcome::Good, "kept by the registry")
            } else {
                (
                    Outcome::Missing,
                    "not kept: piece maps and signatures go under the fallback tag",
                )
            };
            report.add(PROBE, outcome, detail);
        }
        Err(ErrorKind::Unauthorized { .. } | ErrorKind::Denied { .. }) => {
            report.add(PROBE, Outcome::Missing, "not shown to this login");
        }
        Err(other) => report.add(PROBE, Outcome::Missing, other.to_string()),
    }
}
