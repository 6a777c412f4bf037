//! Upload sessions: opened, asked for their offset, closed.

use std::fmt;

use http::Method;
use http::header::{HeaderMap, LOCATION, RANGE};
use reqwest::Url;
use serde::{Deserialize, Serialize};

use crate::auth::Scope;
use crate::blob::check_digest;
use crate::client::{Call, Client, Inner};
use crate::error::{Error, ErrorKind};
use crate::manifest::header_text;
use crate::reference::Reference;

/// The address of an open upload session, to be kept for a resume. Some registries put a signature into it: whoever has it may
/// write to the session, so it is not printed, and a journal that holds it belongs to its owner only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SavedSession(pub(crate) String);

impl fmt::Debug for SavedSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SavedSession(…)")
    }
}

/// An open session and how far the registry has confirmed it.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) url: Url,
    pub(crate) offset: u64,
    pub(crate) min_part: Option<u64>,
}

impl Session {
    pub(crate) fn saved(&self) -> SavedSession {
        SavedSession(self.url.to_string())
    }

    /// From the answer to a request on the session (or the one that opened it).
    pub(crate) fn from_answer(asked: &Url, headers: &HeaderMap, offset: u64) -> Result<Self, ErrorKind> {
        let url = match header_text(headers, LOCATION) {
            Some(location) => location_of(asked, location)?,
            None => asked.clone(),
        };
        let min_part = header_text(headers, "oci-chunk-min-length").and_then(|length| length.parse().ok());
        Ok(Self { url, offset, min_part })
    }
}

/// Where the session goes on. Registries behind a TLS proxy often name themselves with `http`: the same host stays on https.
fn location_of(asked: &Url, location: &str) -> Result<Url, ErrorKind> {
    let mut url = asked
        .join(location)
        .map_err(|_| ErrorKind::Redirect("the session's location is no address".to_owned()))?;
    if asked.scheme() == "https" && url.scheme() == "http" {
        if asked.host_str() != url.host_str() {
            let host = url.host_str().unwrap_or_default();
            return Err(ErrorKind::Redirect(format!("an upload from https to http at {host}")));
        }
        // Both schemes are known to be special, so this cannot fail.
        let _ = url.set_scheme("https");
        let _ = url.set_port(asked.port());
    }
    Ok(url)
}

/// `Range: 0-N` as an offset. `0-0` stands for nothing in the reference implementation, and one byte is not worth keeping.
pub(crate) fn confirmed_of(headers: &HeaderMap) -> Option<u64> {
    let last = header_text(headers, RANGE)?
        .trim()
        .trim_start_matches("bytes=")
        .split_once('-')?
        .1
        .parse::<u64>()
        .ok()?;
    if last == 0 { Some(0) } else { last.checked_add(1) }
}

/// A request to open a session: plain, or with a mount that may make it needless.
pub(crate) enum Opened {
    /// The blob is there now.
    Mounted,
    /// Bytes are wanted: use this session or close it.
    Session(Session),
}

impl Inner {
    pub(crate) async fn open_session(&self, target: &Reference) -> Result<Session, ErrorKind> {
        let scope = Scope::push(target.repository());
        match self.post_upload(target, &scope, &[]).await? {
            Opened::Session(session) => Ok(session),
            Opened::Mounted => Err(ErrorKind::Protocol {
                host: target.registry().to_owned(),
                problem: "it answers 201 to an upload that has not begun".to_owned(),
            }),
        }
    }

    pub(crate) async fn mount(&self, target: &Reference, from: &str, digest: &str) -> Result<Opened, ErrorKind> {
        check_digest(digest)?;
        let scope = Scope::mount(target.repository(), from);
        self.post_upload(target, &scope, &[("mount", digest), ("from", from)])
            .await
    }

    async fn post_upload(
        &self,
        target: &Reference,
        scope: &Scope,
        query: &[(&str, &str)],
    ) -> Result<Opened, ErrorKind> {
        let host = target.api_host();
        let mut url = self
            .transport
            .url(host, &format!("{}/blobs/uploads/", target.repository()))?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let call = Call::new(Method::POST, host, url.clone(), scope);
        let response = self.call(&call).await?;
        if response.status().as_u16() == 201 {
            return Ok(Opened::Mounted);
        }
        let mut session = Session::from_answer(&url, response.headers(), 0)?;
        if session.url == url {
            let problem = "it opens an upload without saying where".to_owned();
            return Err(ErrorKind::Protocol {
                host: host.to_owned(),
                problem,
            });
        }
        session.offset = 0;
        Ok(Opened::Session(session))
    }

    /// Where the registry stands; an error of kind `UploadUnknown` or `NotFound` when it has forgotten the session.
    pub(crate) async fn session_status(&self, target: &Reference, url: &Url) -> Result<Session, ErrorKind> {
        let scope = Scope::push(target.repository());
        let call = Call::get(target.api_host(), url.clone(), &scope);
        let response = self.call(&call).await?;
        // Without a range nothing is known to be kept.
        let offset = confirmed_of(response.headers()).unwrap_or(0);
        Session::from_answer(url, response.headers(), offset)
    }

    /// Tells the registry that the session will not be used. Its failure harms nothing: sessions expire.
    pub(crate) async fn close_session(&self, target: &Reference, url: &Url) {
        let scope = Scope::push(target.repository());
        let call = Call::new(Method::DELETE, target.api_host(), url.clone(), &scope);
        if let Err(failure) = self.call_once(&call).await {
            tracing::debug!(cause = %failure.kind, "an upload session could not be closed");
        }
    }

    pub(crate) fn session_url(&self, target: &Reference, saved: &SavedSession) -> Option<Url> {
        let url = Url::parse(&saved.0).ok()?;
        let home = self.transport.url(target.api_host(), "").ok()?;
        let downgraded = home.scheme() == "https" && url.scheme() != "https";
        (!downgraded).then_some(url)
    }
}

impl Client {
    /// Takes a blob over from another repository of the same registry. `false` when the registry would rather have the bytes;
    /// the session it opened for them is closed again.
    pub async fn mount_blob(&self, target: &Reference, from: &str, digest: &str) -> Result<bool, Error> {
        let fail = |kind| Error::new("mount blob", format!("{digest} from {from} into {target}"), kind);
        match self.inner.mount(target, from, digest).await.map_err(fail)? {
            Opened::Mounted => Ok(true),
            Opened::Session(session) => {
                self.inner.close_session(target, &session.url).await;
                Ok(false)
            }
        }
    }

    /// Withdraws an upload that will not be resumed.
    pub async fn cancel_upload(&self, target: &Reference, session: &SavedSession) {
        if let Some(url) = self.inner.session_url(target, session) {
            self.inner.close_session(target, &url).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(asked: &str, location: &str) -> Option<String> {
        location_of(&asked.parse().unwrap(), location)
            .ok()
            .map(|url| url.to_string())
    }

    #[test]
    fn a_session_goes_on_where_the_registry_says_but_never_down_to_http() {
        let asked = "https://registry.local:8443/v2/a/blobs/uploads/";
        let cases = [
            (
                "/v2/a/blobs/uploads/1?_state=x",
                Some("https://registry.local:8443/v2/a/blobs/uploads/1?_state=x"),
            ),
            ("https://storage.local/up?sig=1", Some("https://storage.local/up?sig=1")),
            (
                "http://registry.local/v2/a/blobs/uploads/1",
                Some("https://registry.local:8443/v2/a/blobs/uploads/1"),
            ),
            ("http://storage.local/up", None),
        ];
        for (text, expected) in cases {
            assert_eq!(location(asked, text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn ranges_of_sessions_are_read_as_offsets() {
        for (text, offset) in [
            ("0-99", Some(100)),
            ("bytes=0-99", Some(100)),
            ("0-0", Some(0)),
            ("x", None),
            ("0-", None),
        ] {
            let headers = HeaderMap::from_iter([(RANGE, text.parse().unwrap())]);
            assert_eq!(confirmed_of(&headers), offset, "{text}");
        }
    }

    #[test]
    fn a_saved_session_is_not_printed() {
        let saved = SavedSession("https://registry/up?_state=signature".to_owned());
        assert!(!format!("{saved:?}").contains("signature"));
    }
}
