//! What goes wrong at a source. Addresses in messages have no query: presigned ones are credentials.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use super::address::suggestion;
use crate::text::with_causes;

/// A source that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// No connection, or it broke.
    #[error("cannot reach {host}{}", numbered(.number.as_ref()))]
    Connection {
        /// Host that was asked.
        host: String,
        /// The number of the request, where it has one.
        number: Option<String>,
        /// Cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Bytes stopped coming, or came too slowly.
    #[error("{host} sent fewer than {minimum} bytes per second for {} s", .window.as_secs())]
    TooSlow {
        /// Host that was asked.
        host: String,
        /// The rate that is expected.
        minimum: u64,
        /// Over this time.
        window: Duration,
    },
    /// The hub answered with an error.
    #[error("{what}: the hub answered {status}{}", detail(.message.as_ref()))]
    Status {
        /// What was asked for.
        what: String,
        /// HTTP status.
        status: u16,
        /// What the hub says about it.
        message: Option<String>,
        /// Wait that the hub asks for.
        wait: Option<Duration>,
    },
    /// No such repository, or none that this caller may see.
    #[error("{id}: no such repository at {endpoint}, or this caller may not see it{}", detail(.message.as_ref()))]
    RepositoryNotFound {
        /// Repository.
        id: String,
        /// Hub.
        endpoint: String,
        /// What the hub says.
        message: Option<String>,
        /// Where the token came from, if there was one.
        token_from: Option<String>,
    },
    /// No such branch, tag or commit.
    #[error("{id} has no revision `{revision}`")]
    RevisionNotFound {
        /// Repository.
        id: String,
        /// Revision.
        revision: String,
    },
    /// The commit that was resolved a moment ago is no longer there.
    #[error("{id}: commit {commit} is gone: its branch was rewritten while it was read")]
    CommitGone {
        /// Repository.
        id: String,
        /// The commit.
        commit: String,
    },
    /// The listing names a file that cannot be fetched.
    #[error("{id} has no file `{path}` at this commit")]
    FileNotFound {
        /// Repository.
        id: String,
        /// Path.
        path: String,
    },
    /// Terms have to be accepted first, or the token may not read it.
    #[error("{id} is gated{}", detail(.message.as_ref()))]
    Gated {
        /// Repository.
        id: String,
        /// What the hub says.
        message: Option<String>,
        /// Where the token came from, if there was one.
        token_from: Option<String>,
    },
    /// The hub has closed it.
    #[error("{id} is disabled by the hub{}", detail(.message.as_ref()))]
    Disabled {
        /// Repository.
        id: String,
        /// What the hub says.
        message: Option<String>,
    },
    /// The token is wrong or expired.
    #[error("the hub refuses the token{}", detail(.message.as_ref()))]
    TokenRefused {
        /// What the hub says.
        message: Option<String>,
        /// Where the token came from.
        token_from: Option<String>,
    },
    /// The answer is not what the contract says.
    #[error("{what}: the hub's answer cannot be used: {problem}")]
    Answer {
        /// What was asked for.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A part of a file did not come as asked.
    #[error("{path}: {problem}")]
    Part {
        /// Path of the file.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// The content is not what the listing promised.
    #[error("{path}: the content has {found}, the hub lists {expected}")]
    Mismatch {
        /// Path of the file.
        path: String,
        /// What the listing says.
        expected: String,
        /// What came.
        found: String,
    },
    /// A redirect that is not followed.
    #[error("{what}: redirect refused: {problem}")]
    Redirect {
        /// What was asked for.
        what: String,
        /// Why.
        problem: &'static str,
    },
    /// The path that was named is not there.
    #[error("there is no file or folder {}", path.display())]
    Missing {
        /// Path.
        path: PathBuf,
    },
    /// Certificates that were named cannot be trusted.
    #[error("the certificates in {}, from {origin}, cannot be used: {problem}", path.display())]
    Certificates {
        /// Path.
        path: PathBuf,
        /// Flag or variable.
        origin: &'static str,
        /// Why.
        problem: String,
    },
    /// Local files cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// Path.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// A local file that is not packed.
    #[error("{}: {problem}", path.display())]
    Unfit {
        /// Path.
        path: PathBuf,
        /// Why.
        problem: &'static str,
    },
    /// The network is switched off by the user.
    #[error("{variable} is set, so {hub} is not asked{}", and(.missing.as_ref()))]
    Offline {
        /// The variable.
        variable: String,
        /// The hub.
        hub: &'static str,
        /// What the cache lacks, where it was searched.
        missing: Option<String>,
    },
    /// A cache that does not say which snapshot is meant.
    #[error("the cache {} names no snapshot: {problem}", path.display())]
    Cache {
        /// Folder of the repository.
        path: PathBuf,
        /// What is missing.
        problem: String,
    },
    /// The client cannot be set up.
    #[error("the HTTP client cannot be set up: {0}")]
    Setup(String),
}

fn detail(message: Option<&String>) -> String {
    message.map(|message| format!(": {message}")).unwrap_or_default()
}

fn numbered(number: Option<&String>) -> String {
    number.map(|number| format!(" (request {number})")).unwrap_or_default()
}

fn and(missing: Option<&String>) -> String {
    missing.map(|missing| format!(", and {missing}")).unwrap_or_default()
}

impl SourceError {
    /// Whether the same request may succeed a little later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connection { .. } | Self::TooSlow { .. } | Self::Part { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504),
            _ => false,
        }
    }

    /// The wait that the hub asks for.
    pub fn wait(&self) -> Option<Duration> {
        if let Self::Status { wait, .. } = self {
            *wait
        } else {
            None
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Connection { host, source, .. } if with_causes(source.as_ref()).contains("certificate") => format!(
                "if the certificate of {host} is the right one, name that of its issuer with --ca-file or SSL_CERT_FILE; a proxy that opens TLS needs this too"
            ),
            Self::Connection { host, .. } => format!(
                "check the network, the proxy variables and the name {host}; a mirror is set with HF_ENDPOINT (Hugging Face) or MODELSCOPE_ENDPOINT"
            ),
            Self::RepositoryNotFound { token_from: None, .. } => {
                "check the spelling; for a private repository set HF_TOKEN (Hugging Face) or MODELSCOPE_API_TOKEN".into()
            }
            Self::RepositoryNotFound { token_from: Some(origin), .. } => format!("check the spelling, and that the token from {origin} may read it"),
            Self::RevisionNotFound { .. } => "look at the branches and tags of the repository; a commit is written in full, 40 digits".into(),
            Self::Gated { id, token_from: None, .. } => format!("accept the terms on the page of {id}, then set HF_TOKEN"),
            Self::Gated { id, token_from: Some(origin), .. } => {
                format!("accept the terms on the page of {id} with the account of the token from {origin}; a fine-grained token also needs the scope for gated repositories")
            }
            Self::Disabled { .. } => "choose another repository; the hub does not serve this one any more".into(),
            Self::TokenRefused { token_from, .. } => format!(
                "make a new token and set it{}",
                token_from.as_ref().map(|origin| format!(" in place of the one from {origin}")).unwrap_or_default()
            ),
            Self::CommitGone { .. } => "run the command again; if it stays, the hub itself serves an old commit for this branch: name another revision".into(),
            Self::FileNotFound { .. } => "the revision moved while it was read: run the command again, or pin a commit".into(),
            Self::Mismatch { .. } => {
                "a proxy or a captive page changes what is downloaded, or the repository was changed: look at the file in a browser from this network".into()
            }
            Self::Status { status: 429, .. } => "the hub limits this address or token: wait five minutes, or set a token with a higher limit".into(),
            Self::Status { status: 400, .. } => "files above 50 GB are refused without ranges, and above 400 GB at all".into(),
            Self::Status { status: 200..=299, .. } => {
                "the hub holds it back: look at the page of the repository, or ask the hub with the number of the request".into()
            }
            Self::Status { status: 403, .. } => {
                "access is refused to this network or to the token: look for a proxy, a block of this address, or a scope that the token lacks".into()
            }
            Self::Offline { variable, .. } => format!(
                "unset {variable}, fetch the revision into the cache while there is a network, or name another cache with HF_HUB_CACHE"
            ),
            Self::Cache { path, .. } => format!("name one: {}/snapshots/COMMIT", path.display()),
            Self::Missing { path } => match path.to_str().and_then(suggestion) {
                Some(address) => format!("for a repository of a hub write {address}"),
                None => "check the spelling of the path".into(),
            },
            Self::Certificates { origin, .. } => {
                format!("{origin} must name a file of PEM certificates, or a folder of such files; unset, only the system's are trusted")
            }
            Self::File { source, .. } if source.kind() == ErrorKind::PermissionDenied => "let this user read it, or --exclude it".into(),
            Self::Unfit { .. } => "only regular files, and links that stay inside the folder, are packed; --exclude leaves others out".into(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_fails_for_a_certificate_is_not_a_matter_of_the_network() {
        for (cause, hint) in [
            ("invalid peer certificate: UnknownIssuer", "--ca-file or SSL_CERT_FILE"),
            ("Connection refused", "MODELSCOPE_ENDPOINT"),
        ] {
            let error = SourceError::Connection {
                host: "www.modelscope.cn".into(),
                number: None,
                source: Box::new(std::io::Error::other(cause)),
            };
            assert!(error.hint().unwrap().contains(hint), "{cause}");
        }
    }
}
