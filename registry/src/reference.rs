//! Names of artifacts: `host[:port]/repository[:tag][@digest]`. A host is always spelled out: which registry bytes come
//! from is never a default.

use std::fmt;
use std::str::FromStr;

const NAME_LIMIT: usize = 255;
const TAG_LIMIT: usize = 128;

/// A well-formed reference.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// A text that is no reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("reference {text:?} is not understood: {problem}")]
pub struct ReferenceError {
    /// The text as given.
    pub text: String,
    /// What is wrong with it.
    pub problem: ReferenceProblem,
}

/// What can be wrong with a reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceProblem {
    /// `qwen/qwen3:v1`: the first part is no host.
    #[error("it names no registry")]
    HostMissing,
    /// The host is malformed.
    #[error("`{0}` is no host name with an optional port")]
    Host(String),
    /// `https://…`, `oci://…`.
    #[error("it starts with a scheme")]
    Scheme,
    /// Only a host.
    #[error("it names no repository")]
    RepositoryMissing,
    /// Not the grammar of the distribution specification.
    #[error("`{0}` is no repository name: lower-case letters, digits and single separators `.`, `_`, `-`, `/`")]
    Repository(String),
    /// Too long.
    #[error("the repository name has more than {NAME_LIMIT} characters")]
    TooLong,
    /// Not the grammar of a tag.
    #[error("`{0}` is no tag: letters, digits, `_`, `.`, `-`, at most {TAG_LIMIT}")]
    Tag(String),
    /// Not a sha256.
    #[error("`{0}` is no digest: `sha256:` and 64 lower-case hexadecimal digits")]
    Digest(String),
}

impl ReferenceError {
    /// How to spell it.
    pub fn hint(&self) -> Option<String> {
        let text = &self.text;
        match &self.problem {
            ReferenceProblem::HostMissing => Some(format!("spell the registry out: registry.example.com/{text}")),
            ReferenceProblem::Scheme => text
                .split_once("://")
                .map(|(_, rest)| format!("leave the scheme out: {rest}")),
            ReferenceProblem::Repository(name) if name.chars().any(char::is_uppercase) => {
                Some(format!("registries take lower case only: {}", name.to_lowercase()))
            }
            _ => None,
        }
    }
}

impl Reference {
    /// A reference to a repository, without tag or digest.
    pub fn new(registry: &str, repository: &str) -> Result<Self, ReferenceError> {
        format!("{registry}/{repository}").parse()
    }

    /// Host and port as written.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The repository in the registry.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// What a manifest is asked by: the digest, else the tag, else `latest`.
    pub fn identifier(&self) -> &str {
        self.digest.as_deref().or(self.tag.as_deref()).unwrap_or("latest")
    }

    /// The host that answers the API: Docker Hub's name and the host of its registry differ.
    pub fn api_host(&self) -> &str {
        match self.registry.as_str() {
            "docker.io" | "index.docker.io" => "registry-1.docker.io",
            other => other,
        }
    }

    /// The same repository with this tag and no digest.
    pub fn with_tag(&self, tag: &str) -> Result<Self, ReferenceError> {
        let problem = || self.refuse(ReferenceProblem::Tag(tag.to_owned()));
        is_tag(tag)
            .then(|| Self {
                tag: Some(tag.to_owned()),
                digest: None,
                ..self.clone()
            })
            .ok_or_else(problem)
    }

    /// The same repository pinned to this digest; the tag stays for people to read.
    pub fn with_digest(&self, digest: &str) -> Result<Self, ReferenceError> {
        let problem = || self.refuse(ReferenceProblem::Digest(digest.to_owned()));
        is_digest(digest)
            .then(|| Self {
                digest: Some(digest.to_owned()),
                ..self.clone()
            })
            .ok_or_else(problem)
    }

    /// Another repository of the same registry, without tag or digest.
    pub fn sibling(&self, repository: &str) -> Result<Self, ReferenceError> {
        Self::new(&self.registry, repository)
    }

    fn refuse(&self, problem: ReferenceProblem) -> ReferenceError {
        ReferenceError {
            text: self.to_string(),
            problem,
        }
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map_err(|problem| ReferenceError {
            text: text.to_owned(),
            problem,
        })
    }
}

fn parse(text: &str) -> Result<Reference, ReferenceProblem> {
    if text.contains("://") {
        return Err(ReferenceProblem::Scheme);
    }
    let (registry, rest) = split_host(text)?;
    let (rest, digest) = match rest.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (rest, None),
    };
    let (repository, tag) = match rest.rsplit_once(':') {
        Some((repository, tag)) => (repository, Some(tag)),
        None => (rest, None),
    };
    check_repository(repository)?;
    if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
        return Err(ReferenceProblem::Tag(tag.to_owned()));
    }
    if let Some(digest) = digest.filter(|digest| !is_digest(digest)) {
        return Err(ReferenceProblem::Digest(digest.to_owned()));
    }
    Ok(Reference {
        repository: official(registry, repository),
        registry: registry.to_owned(),
        tag: tag.map(str::to_owned),
        digest: digest.map(str::to_owned),
    })
}

/// Docker Hub keeps names without an owner under `library/`.
fn official(registry: &str, repository: &str) -> String {
    if registry == "docker.io" && !repository.contains('/') {
        return format!("library/{repository}");
    }
    repository.to_owned()
}

/// The first part is a host when it could be nothing else: it has a dot or a port, or is `localhost`.
fn split_host(text: &str) -> Result<(&str, &str), ReferenceProblem> {
    let Some((host, rest)) = text.split_once('/') else {
        let bare_host = is_host_like(text) && !text.contains('@');
        return Err(if bare_host && check_host(text).is_ok() && !looks_like_tag(text) {
            ReferenceProblem::RepositoryMissing
        } else {
            ReferenceProblem::HostMissing
        });
    };
    if !is_host_like(host) {
        return Err(ReferenceProblem::HostMissing);
    }
    check_host(host)?;
    if rest.is_empty() {
        return Err(ReferenceProblem::RepositoryMissing);
    }
    Ok((host, rest))
}

fn is_host_like(part: &str) -> bool {
    part == "localhost" || part.contains(['.', ':']) || part.starts_with('[')
}

/// `qwen3:v1` reads as a name with a tag, `registry:5000` as a host with a port.
fn looks_like_tag(text: &str) -> bool {
    text.rsplit_once(':')
        .is_some_and(|(_, end)| end.parse::<u16>().is_err())
}

fn check_host(host: &str) -> Result<(), ReferenceProblem> {
    let refuse = || ReferenceProblem::Host(host.to_owned());
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            address.parse::<std::net::Ipv6Addr>().map_err(|_| refuse())?;
            let port = if rest.is_empty() {
                None
            } else {
                Some(rest.strip_prefix(':').ok_or_else(refuse)?)
            };
            ("v6", port)
        }
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, None),
        },
    };
    let label = |label: &str| {
        let inner = label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        !label.is_empty() && inner && !label.starts_with('-') && !label.ends_with('-')
    };
    let port_is_good = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port != 0));
    if name.split('.').all(label) && port_is_good {
        Ok(())
    } else {
        Err(refuse())
    }
}

fn check_repository(name: &str) -> Result<(), ReferenceProblem> {
    if name.len() > NAME_LIMIT {
        return Err(ReferenceProblem::TooLong);
    }
    if !name.is_empty() && name.split('/').all(is_component) {
        return Ok(());
    }
    Err(ReferenceProblem::Repository(name.to_owned()))
}

/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`
fn is_component(component: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let separators = component.split(|character: char| character.is_ascii() && alphanumeric(character as u8));
    let ends = [component.bytes().next(), component.bytes().last()];
    let separator = |text: &str| matches!(text, "" | "." | "_" | "__") || text.bytes().all(|byte| byte == b'-');
    ends.into_iter().all(|end| end.is_some_and(alphanumeric)) && separators.into_iter().all(separator)
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let first = tag.bytes().next().is_some_and(word);
    first && tag.len() <= TAG_LIMIT && tag.bytes().all(|byte| word(byte) || byte == b'.' || byte == b'-')
}

pub(crate) fn is_digest(digest: &str) -> bool {
    let hex = digest.strip_prefix("sha256:").unwrap_or_default();
    hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(formatter, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(formatter, "@{digest}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn references_are_taken_apart_and_put_together_again() {
        let cases = [
            ("localhost/a", "localhost", "a", None, None),
            (
                "127.0.0.1:5000/models/smollm2:v1",
                "127.0.0.1:5000",
                "models/smollm2",
                Some("v1"),
                None,
            ),
            (
                "registry.local/a/b_c/d-e__f.g:v1.0_x-y",
                "registry.local",
                "a/b_c/d-e__f.g",
                Some("v1.0_x-y"),
                None,
            ),
            ("[::1]:5000/a:b", "[::1]:5000", "a", Some("b"), None),
            ("registry:5000/a", "registry:5000", "a", None, None),
        ];
        for (text, registry, repository, tag, digest) in cases {
            let reference: Reference = text.parse().unwrap();
            assert_eq!(reference.registry(), registry);
            assert_eq!(reference.repository(), repository);
            assert_eq!((reference.tag(), reference.digest()), (tag, digest));
            assert_eq!(reference.to_string(), text);
        }
        let pinned: Reference = format!("ghcr.io/a/b:v1@{DIGEST}").parse().unwrap();
        assert_eq!(
            (pinned.tag(), pinned.digest(), pinned.identifier()),
            (Some("v1"), Some(DIGEST), DIGEST)
        );
    }

    #[test]
    fn docker_hub_answers_under_another_host_and_keeps_official_names_in_library() {
        let reference: Reference = "docker.io/alpine:3".parse().unwrap();
        assert_eq!(
            (reference.api_host(), reference.repository()),
            ("registry-1.docker.io", "library/alpine")
        );
    }

    #[test]
    fn what_is_no_reference_is_refused_with_the_way_to_spell_it() {
        let cases = [
            (
                "qwen/qwen3:v1",
                "names no registry",
                "registry.example.com/qwen/qwen3:v1",
            ),
            ("qwen3:v1", "names no registry", "registry.example.com/qwen3:v1"),
            ("qwen3", "names no registry", "registry.example.com/qwen3"),
            ("https://registry.local/a", "scheme", "registry.local/a"),
            ("oci://registry.local/a", "scheme", "registry.local/a"),
            ("registry.local/Qwen/Qwen3-8B", "no repository name", "qwen/qwen3-8b"),
            ("registry:5000", "names no repository", ""),
            ("registry.local/", "names no repository", ""),
            ("registry.local/a//b", "no repository name", ""),
            ("registry.local/a/../b", "no repository name", ""),
            ("registry.local/-a", "no repository name", ""),
            ("registry.local/a:", "no tag", ""),
            ("registry.local/a:-v", "no tag", ""),
            ("registry.local/a@sha256:12", "no digest", ""),
            ("registry.local/a@md5:12", "no digest", ""),
            ("registry.local:0/a", "no host", ""),
            ("registry.local:99999/a", "no host", ""),
            ("user@registry.local/a", "no host", ""),
            ("", "names no registry", ""),
        ];
        for (text, problem, hint) in cases {
            let error = text.parse::<Reference>().unwrap_err();
            assert!(error.to_string().contains(problem), "{text}: {error}");
            assert!(
                error.hint().unwrap_or_default().contains(hint),
                "{text}: {:?}",
                error.hint()
            );
        }
    }
}
