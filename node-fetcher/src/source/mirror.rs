//! Sources before the registry: a Dragonfly daemon on the node, and mirrors.

use ::registry::{Endpoint, Error, Url};
use crds::node_weights::{FetchReason, SourceKind};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::registry::{RegistrySettings, reason_of, source_error};
use super::{BlobRequest, Body, Source, SourceError};

/// A Dragonfly daemon, asked as a registry mirror.
#[derive(Debug)]
pub struct Dragonfly {
    base: Url,
    settings: RegistrySettings,
}

impl Dragonfly {
    /// The daemon at this address. Registry credentials go there only when it is on this node.
    pub fn new(base: Url, settings: RegistrySettings) -> Self {
        Self { base, settings }
    }

    /// No tag, application or piece length is ever set: they would split the nodes into swarms of their own.
    fn endpoint(&self, request: &BlobRequest<'_>) -> Endpoint {
        let host = request.reference.api_host();
        let scheme = if self.settings.is_plain(host) { "http" } else { "https" };
        let whole = request.extent.start == 0;
        let mut endpoint = Endpoint::new(self.base.clone())
            .with_header("x-dragonfly-registry", &format!("{scheme}://{host}"))
            .with_header("x-dragonfly-use-p2p", "true")
            .with_header("x-dragonfly-enable-task-id-based-blob-digest", "true");
        if !whole {
            // The rest is asked for because another source gave up in the middle, not to fetch the beginning again.
            endpoint = endpoint.with_header("x-dragonfly-prefetch", "false");
        }
        endpoint.namespace = false;
        endpoint.credentials = is_loopback(&self.base);
        endpoint
    }
}

impl Source for Dragonfly {
    fn kind(&self) -> SourceKind {
        SourceKind::Dragonfly
    }

    fn open<'a>(&'a self, request: &'a BlobRequest<'a>) -> BoxFuture<'a, Result<Body, SourceError>> {
        async {
            let endpoint = self.endpoint(request);
            request
                .access
                .open(Some(&endpoint), request)
                .await
                .map_err(|error| source_error(error, dragonfly_reason))
        }
        .boxed()
    }
}

/// Whose failure it is: the daemon passes the registry's on, and marks its own.
fn dragonfly_reason(error: &Error) -> FetchReason {
    match error.mirror_header("x-dragonfly-error-type") {
        Some("proxy" | "dfdaemon") => FetchReason::EngineDown,
        _ => reason_of(error),
    }
}

/// A mirror of one registry, or of every registry.
#[derive(Debug)]
pub struct Mirror {
    registry: Option<String>,
    base: Url,
}

impl Mirror {
    /// A mirror for one registry host, or for all of them. It never sees a registry's credentials.
    pub fn new(registry: Option<String>, base: Url) -> Self {
        Self { registry, base }
    }
}

impl Source for Mirror {
    fn kind(&self) -> SourceKind {
        SourceKind::Mirror
    }

    fn open<'a>(&'a self, request: &'a BlobRequest<'a>) -> BoxFuture<'a, Result<Body, SourceError>> {
        async {
            if self
                .registry
                .as_deref()
                .is_some_and(|registry| registry != request.reference.registry())
            {
                let detail = format!("{} mirrors another registry", self.base);
                return Err(SourceError::new(FetchReason::NotFound, detail));
            }
            let endpoint = Endpoint::new(self.base.clone());
            request
                .access
                .open(Some(&endpoint), request)
                .await
                .map_err(|error| source_error(error, reason_of))
        }
        .boxed()
    }
}

fn is_loopback(base: &Url) -> bool {
    match base.host_str() {
        Some("localhost") => true,
        Some(host) => {
            let address = host
                .trim_start_matches('[')
                .trim_end_matches(']')
                .parse::<std::net::IpAddr>();
            address.is_ok_and(|address| address.is_loopback())
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_stay_on_the_node() {
        let cases = [
            ("http://127.0.0.1:4001", true),
            ("http://[::1]:4001", true),
            ("http://localhost:4001", true),
            ("http://10.0.0.1:4001", false),
            ("http://127.0.0.1.evil.example:4001", false),
        ];
        for (base, expected) in cases {
            assert_eq!(is_loopback(&Url::parse(base).unwrap()), expected, "{base}");
        }
    }
}
