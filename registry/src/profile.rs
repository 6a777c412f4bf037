//! What is known about registries, as data. A registry that nobody described gets parts, the only mode that survives a crash,
//! and the upload changes to one PUT by itself when the registry does not take parts.

use serde::{Deserialize, Serialize};

/// How a blob is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum UploadMode {
    /// In parts of equal size, each confirmed: a crash costs one part.
    #[default]
    Parts,
    /// In one request: a failure costs the blob.
    OnePut,
}

/// What is known about a registry. What is not known is `None`, which is not the same as "no limit".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    /// Name for people.
    pub name: String,
    /// Hosts it holds for; `*` stands for anything but a dot at its ends.
    pub hosts: Vec<String>,
    /// How a blob is sent.
    #[serde(default)]
    pub upload: UploadMode,
    /// Size of a part; all but the last one are equal.
    #[serde(default = "default_part")]
    pub part_bytes: u64,
    /// Largest blob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_blob_bytes: Option<u64>,
    /// Most layers of a manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_layers: Option<u32>,
    /// Longest request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_request_seconds: Option<u64>,
    /// Whether it honours ranges of blobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranges: Option<bool>,
    /// Whether it keeps referrers itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub referrers: Option<bool>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Where it is known from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

/// 32 MiB: at most that is sent again after a crash, and a terabyte takes 32 thousand requests.
const PART_BYTES: u64 = 32 << 20;

fn default_part() -> u64 {
    PART_BYTES
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            name: "unknown".to_owned(),
            hosts: Vec::new(),
            upload: UploadMode::default(),
            part_bytes: PART_BYTES,
            max_blob_bytes: None,
            max_layers: None,
            max_request_seconds: None,
            ranges: None,
            referrers: None,
            note: None,
            evidence: None,
        }
    }
}

/// A list of profiles: the first whose host matches is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profiles(Vec<Profile>);

impl Default for Profiles {
    fn default() -> Self {
        Self::shipped()
    }
}

impl Profiles {
    /// Those that come with the program.
    pub fn shipped() -> Self {
        // The file is part of the program, and a test reads it.
        Self(serde_json::from_str(include_str!("profiles.json")).unwrap_or_default())
    }

    /// Puts a profile before the others: one that was measured, or set by hand.
    #[must_use]
    pub fn with(mut self, profile: Profile) -> Self {
        self.0.insert(0, profile);
        self
    }

    /// The profile of a host.
    pub fn of(&self, host: &str) -> Profile {
        let matches = |profile: &&Profile| profile.hosts.iter().any(|pattern| host_matches(pattern, host));
        self.0.iter().find(matches).cloned().unwrap_or_default()
    }

    /// All of them, in the order in which they are tried.
    pub fn list(&self) -> &[Profile] {
        &self.0
    }
}

fn host_matches(pattern: &str, host: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == host,
        Some((start, rest)) => host.strip_prefix(start).is_some_and(|tail| {
            tail.char_indices()
                .skip(1)
                .map(|(at, _)| at)
                .chain([tail.len()])
                .any(|at| host_matches(rest, &tail[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_profiles_are_read_and_found_by_host() {
        let profiles = Profiles::shipped();
        let cases = [
            (
                "123456789012.dkr.ecr.eu-west-1.amazonaws.com",
                "amazon-ecr",
                UploadMode::OnePut,
            ),
            ("ghcr.io", "github", UploadMode::OnePut),
            ("europe-docker.pkg.dev", "google", UploadMode::OnePut),
            ("team.azurecr.io", "azure", UploadMode::Parts),
            ("notghcr.io", "unknown", UploadMode::Parts),
            ("ghcr.io.evil.example", "unknown", UploadMode::Parts),
            (".azurecr.io", "unknown", UploadMode::Parts),
            ("127.0.0.1:5000", "unknown", UploadMode::Parts),
        ];
        for (host, name, upload) in cases {
            let profile = profiles.of(host);
            assert_eq!((profile.name.as_str(), profile.upload), (name, upload), "{host}");
        }
    }

    #[test]
    fn a_measured_profile_wins_over_a_shipped_one() {
        let measured = Profile {
            name: "measured".to_owned(),
            hosts: vec!["ghcr.io".to_owned()],
            ..Profile::default()
        };
        assert_eq!(Profiles::shipped().with(measured.clone()).of("ghcr.io"), measured);
    }
}
