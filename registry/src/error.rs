//! What goes wrong with a registry, by whose move it is. No secret, no query string and no header of a request is in it.

use std::fmt;
use std::time::Duration;

use http::HeaderMap;

/// A step that failed on an object.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step} {object}")]
pub struct Error {
    step: &'static str,
    object: String,
    #[source]
    kind: Box<ErrorKind>,
}

/// Why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The registry wants to know who asks, or does not know them.
    #[error("{host} refuses the login: {}", login(*.had_credentials))]
    Unauthorized {
        /// The registry.
        host: String,
        /// Whether credentials were sent.
        had_credentials: bool,
    },
    /// Known, and not allowed.
    #[error("{host} denies access: {message}")]
    Denied {
        /// The registry.
        host: String,
        /// What it says.
        message: String,
        /// Whether credentials were sent.
        had_credentials: bool,
    },
    /// Not there (or not shown to this user).
    #[error("{host} has no such object: {message}")]
    NotFound {
        /// The registry.
        host: String,
        /// What it says.
        message: String,
    },
    /// A manifest names a blob that the repository does not have.
    #[error("the manifest names a blob that the repository does not have: {message}")]
    BlobUnknown {
        /// What the registry says.
        message: String,
    },
    /// The upload session is gone.
    #[error("the registry no longer knows the upload session")]
    UploadUnknown,
    /// The registry found another digest in what it received.
    #[error("the registry finds another digest in what it received: {message}")]
    DigestInvalid {
        /// What the registry says.
        message: String,
    },
    /// The bytes received are not what was asked for.
    #[error("the bytes have digest {found}, asked was {expected}")]
    DigestMismatch {
        /// What was asked for.
        expected: String,
        /// What came.
        found: String,
    },
    /// Asked to slow down for longer than this client waits by itself.
    #[error("{host} limits the rate{}", after(.retry_after.as_ref()))]
    RateLimited {
        /// The registry.
        host: String,
        /// How long to wait, when it says so.
        retry_after: Option<Duration>,
    },
    /// The body is larger than the registry, or a proxy before it, takes.
    #[error("{host} does not take a body of that size: {message}")]
    TooLarge {
        /// The registry.
        host: String,
        /// What it says.
        message: String,
    },
    /// No answer from there.
    #[error("{address} cannot be reached: {cause}")]
    Unreachable {
        /// Scheme, host and port.
        address: String,
        /// The innermost cause.
        cause: String,
    },
    /// Bytes stopped coming.
    #[error("{host} sent nothing for {} s", .idle.as_secs())]
    Stalled {
        /// The registry.
        host: String,
        /// For how long.
        idle: Duration,
    },
    /// Bytes come too slowly to go on.
    #[error("{host} sends {rate} bytes per second, fewer than {floor}")]
    TooSlow {
        /// The registry.
        host: String,
        /// Measured over the window.
        rate: u64,
        /// The limit.
        floor: u64,
    },
    /// The connection ended before the body did.
    #[error("the connection ended after {received} of {expected} bytes")]
    Truncated {
        /// Announced.
        expected: u64,
        /// Received.
        received: u64,
    },
    /// More bytes than announced.
    #[error("more than the announced {0} bytes came")]
    Overlong(u64),
    /// Another part than the one asked for.
    #[error("the answer is another range than the one asked for: {0}")]
    WrongRange(String),
    /// The range starts behind the end.
    #[error("the range starts behind the end of the blob ({} bytes)", .0.map_or("unknown".to_owned(), |size| size.to_string()))]
    RangeNotSatisfiable(Option<u64>),
    /// The body is encoded although that was declined.
    #[error("the body is encoded as `{0}` although `identity` was asked for")]
    Encoded(String),
    /// A redirect that is not followed.
    #[error("a redirect is not followed: {0}")]
    Redirect(String),
    /// A server error, or an answer that makes no sense here.
    #[error("{host} answers {status}: {message}{}", after(.retry_after.as_ref()))]
    Status {
        /// The registry.
        host: String,
        /// The status code.
        status: u16,
        /// What it says.
        message: String,
        /// How long to wait, when it says so.
        retry_after: Option<Duration>,
    },
    /// Plain http where https is spoken.
    #[error("{host} speaks https, and was asked by plain http")]
    TlsPort {
        /// The registry.
        host: String,
    },
    /// An answer that the specification does not allow.
    #[error("{host} breaks the protocol: {problem}")]
    Protocol {
        /// The registry.
        host: String,
        /// How.
        problem: String,
    },
    /// The tag for lists of referrers holds something else, which would be lost.
    #[error("the tag {tag} is kept as it is, because it holds no list of referrers: {problem}")]
    ReferrersTag {
        /// The tag.
        tag: String,
        /// What it holds.
        problem: String,
    },
    /// The source of an upload failed.
    #[error("the source of the upload fails")]
    Source(#[source] std::io::Error),
    /// Credentials could not be read.
    #[error("the credentials for {host} cannot be read: {problem}")]
    Credentials {
        /// The registry.
        host: String,
        /// What is wrong.
        problem: String,
    },
    /// The token service fails.
    #[error("no token from {realm}")]
    Token {
        /// Address of the token service.
        realm: String,
        /// Why.
        #[source]
        source: Box<ErrorKind>,
    },
    /// The caller asked for something impossible.
    #[error("{0}")]
    Input(String),
    /// From a server that adds its own headers to failures (a mirror, a peer-to-peer daemon).
    #[error("{failure}")]
    Mirror {
        /// The failure.
        failure: Box<ErrorKind>,
        /// Headers of the answer.
        headers: Box<HeaderMap>,
    },
}

fn login(had_credentials: bool) -> &'static str {
    if had_credentials {
        "it does not accept the credentials given"
    } else {
        "no credentials were given"
    }
}

fn after(wait: Option<&Duration>) -> String {
    wait.map(|wait| format!(", asks to wait {} s", wait.as_secs()))
        .unwrap_or_default()
}

impl ErrorKind {
    /// Whether the same request may work a moment later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Status { status, .. } => matches!(status, 408 | 425 | 500 | 502 | 503 | 504 | 507 | 520..=529),
            // Who is not trusted now is not trusted a moment later.
            Self::Unreachable { cause, .. } => !cause.to_lowercase().contains("certificate"),
            Self::RateLimited { .. }
            | Self::Stalled { .. }
            | Self::TooSlow { .. }
            | Self::Truncated { .. }
            | Self::Overlong(_)
            | Self::WrongRange(_) => true,
            Self::Token { source: failure, .. } | Self::Mirror { failure, .. } => failure.is_retryable(),
            _ => false,
        }
    }

    /// How long the server asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Status { retry_after, .. } => *retry_after,
            Self::Token { source: failure, .. } | Self::Mirror { failure, .. } => failure.retry_after(),
            _ => None,
        }
    }

    /// The failure itself, without the wrapping of a mirror.
    pub fn root(&self) -> &Self {
        match self {
            Self::Mirror { failure, .. } => failure.root(),
            other => other,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unauthorized {
                host,
                had_credentials: false,
            } => Some(format!(
                "log in (`docker login {host}` or `podman login {host}`), or name a docker config that holds a login for {host}"
            )),
            Self::Unauthorized { host, .. } => {
                Some(format!("log in again: `docker login {host}` or `podman login {host}`"))
            }
            Self::Denied {
                host,
                had_credentials: false,
                ..
            } => Some(format!(
                "no credentials were given: log in (`docker login {host}` or `podman login {host}`), or name a docker config that holds a login for {host}"
            )),
            Self::Denied { .. } => Some("ask the registry's owner for the right on this repository".to_owned()),
            Self::NotFound { .. } => {
                Some("check the spelling; private repositories look absent without a login".to_owned())
            }
            Self::BlobUnknown { .. } => Some("run the push again: it sends what is missing".to_owned()),
            Self::RateLimited { .. } => Some("log in, which raises most limits, or try again later".to_owned()),
            Self::TooLarge { .. } => Some(
                "a proxy before the registry may limit bodies; `model-packer doctor` measures what it takes".to_owned(),
            ),
            Self::Unreachable { address, cause } => Some(unreachable_hint(address, cause)),
            Self::DigestMismatch { .. } => {
                Some("fetch again; if it stays, the registry's storage is damaged".to_owned())
            }
            Self::Token { source: failure, .. } | Self::Mirror { failure, .. } => failure.hint(),
            Self::TlsPort { .. } => Some(NOT_PLAIN.to_owned()),
            Self::ReferrersTag { tag, .. } => Some(format!(
                "tags of that form are for lists of referrers: give what is under {tag} another tag, delete this one, and run the command again"
            )),
            Self::Redirect(_) => Some("the registry, or a proxy before it, is set up with a wrong address".to_owned()),
            _ => None,
        }
    }
}

const NOT_PLAIN: &str = "leave --plain-http out";

fn unreachable_hint(address: &str, cause: &str) -> String {
    let lower = cause.to_lowercase();
    let tls = [
        "certificate",
        "invalidcontenttype",
        "corrupt message",
        "handshake",
        "unknownissuer",
        "tls",
    ];
    if address.starts_with("https:") && tls.iter().any(|word| lower.contains(word)) {
        return "if the registry speaks plain http, say so with --plain-http; if its certificate is private, name its CA with --ca-file".to_owned();
    }
    // What a TLS alert is to a reader of HTTP.
    if address.starts_with("http:") && lower.contains("invalid http version") {
        return format!("if the registry speaks https, {NOT_PLAIN}");
    }
    if lower.contains("dns") || lower.contains("lookup") || lower.contains("resolve") {
        return "the host name is not known here: check its spelling and the DNS".to_owned();
    }
    format!("check that the registry runs, that {address} is its address, and that no firewall or proxy is between")
}

impl Error {
    pub(crate) fn new(step: &'static str, object: impl fmt::Display, kind: ErrorKind) -> Self {
        Self {
            step,
            object: object.to_string(),
            kind: Box::new(kind),
        }
    }

    /// Why it failed.
    pub fn kind(&self) -> &ErrorKind {
        self.kind.root()
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let writes = ["push blob", "mount blob", "store manifest"].contains(&self.step);
        match self.kind.as_ref() {
            // Who asks for a blob has the digest from a manifest.
            ErrorKind::NotFound { .. } if self.step == "read blob" => Some(
                "a manifest names this blob, and the registry has it no more: push the model again, which sends what is missing"
                    .to_owned(),
            ),
            ErrorKind::Status { status: 405, .. } if writes => {
                Some("the registry, or a mirror in its place, only reads: push to one that takes models".to_owned())
            }
            ErrorKind::Status { status: 405, .. } if self.step == "delete" => {
                Some("the registry only reads, or its owner has to allow deletes".to_owned())
            }
            kind => kind.hint(),
        }
    }

    /// Whether the same step may work a moment later.
    pub fn is_retryable(&self) -> bool {
        self.kind.is_retryable()
    }

    /// True when the object does not exist, or is not shown.
    pub fn is_not_found(&self) -> bool {
        matches!(self.kind(), ErrorKind::NotFound { .. })
    }

    /// True when it is a matter of who asks.
    pub fn is_unauthorized(&self) -> bool {
        matches!(self.kind(), ErrorKind::Unauthorized { .. } | ErrorKind::Denied { .. })
    }

    /// A header that a mirror added to its failure, such as `x-dragonfly-error-type`.
    pub fn mirror_header(&self, name: &str) -> Option<&str> {
        match self.kind.as_ref() {
            ErrorKind::Mirror { headers, .. } => headers.get(name)?.to_str().ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_that_is_not_trusted_is_not_asked_again_and_one_that_is_away_is() {
        for (cause, again) in [
            ("invalid peer certificate: UnknownIssuer", false),
            ("Connection refused (os error 111)", true),
        ] {
            let kind = ErrorKind::Unreachable {
                address: "https://r.local".to_owned(),
                cause: cause.to_owned(),
            };
            assert_eq!(kind.is_retryable(), again, "{cause}");
            assert_eq!(kind.hint().unwrap().contains("--ca-file"), !again, "{cause}");
        }
    }
}
