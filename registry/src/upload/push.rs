//! The upload of one blob, from the question whether it is there to the registry's word that it is.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::{CONTENT_RANGE, HeaderMap, HeaderValue};

use super::body::SessionRequest;
use super::recovery::Tries;
use super::session::{Opened, SavedSession, Session, confirmed_of};
use super::source::{BlobSource, Reader};
use crate::auth::Scope;
use crate::blob::{check_digest, repository_text};
use crate::client::{Client, Inner};
use crate::error::{Error, ErrorKind};
use crate::failure::Failure;
use crate::manifest::header_text;
use crate::profile::{Profile, UploadMode};
use crate::reference::Reference;

/// What happened to a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pushed {
    /// The repository had it.
    Existed,
    /// Taken over from this repository of the same registry.
    Mounted(String),
    /// Sent; the bytes that left this process, repeats included.
    Uploaded(u64),
}

/// What an upload tells while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushEvent {
    /// A session is open or has moved: keep it for a resume.
    Session(SavedSession),
    /// The registry confirms everything before this offset.
    Confirmed(u64),
    /// The upload begins again at zero.
    Restarted,
    /// Everything is sent, the registry is storing it.
    Committing,
}

/// Hears what an upload tells.
pub type PushObserver = Arc<dyn Fn(PushEvent) + Send + Sync>;

/// How to send a blob.
#[derive(Clone, Default)]
pub struct PushOptions {
    /// Repositories of the same registry that may have it.
    pub mount_from: Vec<String>,
    /// A session of an earlier run.
    pub resume: Option<SavedSession>,
    /// Instead of what is known about the registry.
    pub profile: Option<Profile>,
    /// True when the caller has just asked and knows that the blob is not there.
    pub known_absent: bool,
    /// Hears what happens.
    pub observer: Option<PushObserver>,
}

impl Client {
    /// Brings a blob of known digest and size into the repository of the target.
    pub async fn push_blob(
        &self,
        target: &Reference,
        digest: &str,
        size: u64,
        source: &dyn BlobSource,
        options: &PushOptions,
    ) -> Result<Pushed, Error> {
        let profile = options.profile.clone().unwrap_or_else(|| self.profile(target));
        let scope = Scope::push(target.repository());
        let part = profile.part_bytes.max(1);
        let mut upload = Upload {
            inner: &self.inner,
            target,
            scope,
            digest,
            size,
            source,
            options,
            profile,
            part,
            reader: None,
            sent: 0,
            restarts: 0,
            refusals: 0,
        };
        let done = upload.run().await;
        done.map_err(|kind| Error::new("push blob", format!("{digest} to {}", repository_text(target)), kind))
    }
}

pub(super) struct Upload<'a> {
    pub(super) inner: &'a Inner,
    pub(super) target: &'a Reference,
    pub(super) scope: Scope,
    pub(super) digest: &'a str,
    pub(super) size: u64,
    pub(super) source: &'a dyn BlobSource,
    pub(super) options: &'a PushOptions,
    pub(super) profile: Profile,
    pub(super) part: u64,
    pub(super) reader: Option<Arc<Reader>>,
    pub(super) sent: u64,
    pub(super) restarts: u32,
    /// Parts at the very start that the registry refused as such.
    pub(super) refusals: u32,
}

/// How a part ended.
enum Part {
    Confirmed(Session),
    /// The registry took the request for a whole blob: it does not take parts.
    Refused,
}

impl Upload<'_> {
    async fn run(&mut self) -> Result<Pushed, ErrorKind> {
        check_digest(self.digest)?;
        if let Some(limit) = self.profile.max_blob_bytes.filter(|limit| self.size > *limit) {
            let message = format!("{} bytes, {} takes blobs up to {limit}", self.size, self.profile.name);
            return Err(ErrorKind::TooLarge {
                host: self.target.registry().to_owned(),
                message,
            });
        }
        if !self.options.known_absent && self.is_there().await? {
            return Ok(Pushed::Existed);
        }
        let session = match self.resumed().await? {
            Some(session) => session,
            None => match self.mounted_or_opened().await? {
                Ok(from) => return Ok(Pushed::Mounted(from)),
                Err(session) => session,
            },
        };
        self.part = self.part.max(session.min_part.unwrap_or(0));
        let one = self.profile.upload == UploadMode::OnePut || (self.size <= self.part && session.offset == 0);
        if one {
            self.in_one(session).await?;
        } else {
            self.in_parts(session).await?;
        }
        Ok(Pushed::Uploaded(self.sent))
    }

    pub(super) async fn is_there(&self) -> Result<bool, ErrorKind> {
        let host = self.target.api_host();
        let url = self
            .inner
            .transport
            .url(host, &format!("{}/blobs/{}", self.target.repository(), self.digest))?;
        // Asked with the right to push, so that the token serves the upload too.
        match self
            .inner
            .call(&crate::client::Call::head(host, url, &self.scope))
            .await
        {
            Ok(response) => {
                let length = header_text(response.headers(), "content-length").and_then(|length| length.parse().ok());
                Ok(length.is_none_or(|length: u64| length == self.size))
            }
            Err(ErrorKind::NotFound { .. }) => Ok(false),
            Err(other) => Err(other),
        }
    }

    async fn resumed(&self) -> Result<Option<Session>, ErrorKind> {
        let saved = self
            .options
            .resume
            .as_ref()
            .filter(|_| self.profile.upload == UploadMode::Parts);
        let Some(url) = saved.and_then(|saved| self.inner.session_url(self.target, saved)) else {
            return Ok(None);
        };
        match self.inner.session_status(self.target, &url).await {
            Ok(session) if session.offset <= self.size => Ok(Some(session)),
            Err(error) if error.is_retryable() => Err(error),
            // Forgotten, expired or of another blob: there is nothing to resume.
            _ => Ok(None),
        }
    }

    /// `Ok(repository)` when a mount brought it, `Err(session)` when bytes are wanted.
    async fn mounted_or_opened(&self) -> Result<Result<String, Session>, ErrorKind> {
        for (at, from) in self.options.mount_from.iter().enumerate() {
            match self.inner.mount(self.target, from, self.digest).await {
                Ok(Opened::Mounted) if self.is_there().await? => return Ok(Ok(from.clone())),
                // A mount that reports success and leaves nothing behind is no mount.
                Ok(Opened::Mounted) => {}
                Ok(Opened::Session(session)) if at + 1 == self.options.mount_from.len() => return Ok(Err(session)),
                Ok(Opened::Session(session)) => self.inner.close_session(self.target, &session.url).await,
                Err(error) if error.is_retryable() => return Err(error),
                Err(error) => tracing::debug!(cause = %error, from, "no mount"),
            }
        }
        self.inner.open_session(self.target).await.map(Err)
    }

    pub(super) async fn in_parts(&mut self, mut session: Session) -> Result<(), ErrorKind> {
        let mut tries = Tries::new(self.inner);
        self.tell(PushEvent::Session(session.saved()));
        loop {
            let before = session.offset;
            if before >= self.size {
                match self.commit(&session, &mut tries).await? {
                    None => return Ok(()),
                    Some(next) => session = next,
                }
                continue;
            }
            match self.send_part(&session).await {
                Ok(Part::Confirmed(next)) => session = next,
                Ok(Part::Refused) if self.is_there().await? => return Ok(()),
                Ok(Part::Refused) => return self.in_one_instead().await,
                Err(failure) if self.takes_no_parts(&session, &failure) => {
                    self.inner.close_session(self.target, &session.url).await;
                    return self.in_one_instead().await;
                }
                Err(failure) => session = self.recover(session, failure, &mut tries).await?,
            }
            if session.offset > before {
                tries = Tries::new(self.inner);
                self.tell(PushEvent::Session(session.saved()));
                self.tell(PushEvent::Confirmed(session.offset));
            }
        }
    }

    async fn in_one_instead(&mut self) -> Result<(), ErrorKind> {
        let session = self.restart().await?;
        Box::pin(self.in_one(session)).await
    }

    async fn send_part(&mut self, session: &Session) -> Result<Part, Failure> {
        let start = session.offset;
        // Parts end at multiples of their size, also after a resume: some stores want them equal.
        let end = ((start / self.part + 1) * self.part).min(self.size);
        let reader = self.reader_at(start).await?;
        let mut headers = HeaderMap::new();
        let range = HeaderValue::from_str(&format!("{start}-{}", end - 1));
        headers.insert(
            CONTENT_RANGE,
            range.map_err(|error| ErrorKind::Input(error.to_string()))?,
        );
        let patience = self.inner.transport.limits.commit;
        let response = self
            .send(
                Method::PATCH,
                session.url.clone(),
                headers,
                Some(&reader),
                end - start,
                patience,
            )
            .await?;
        if response.status().as_u16() == 201 {
            return Ok(Part::Refused);
        }
        let confirmed = confirmed_of(response.headers())
            .filter(|confirmed| *confirmed > 0)
            .unwrap_or(end);
        if confirmed > end {
            let problem = format!("it confirms {confirmed} bytes of {end} sent");
            return Err(ErrorKind::Protocol {
                host: self.target.registry().to_owned(),
                problem,
            }
            .into());
        }
        if confirmed == end {
            self.reader = Some(reader);
        }
        Ok(Part::Confirmed(Session::from_answer(
            &session.url,
            response.headers(),
            confirmed,
        )?))
    }

    /// The source at this offset: the one that stands there already, else opened again.
    pub(super) async fn reader_at(&mut self, offset: u64) -> Result<Arc<Reader>, ErrorKind> {
        if let Some(reader) = self.reader.take()
            && reader.position().await == offset
        {
            return Ok(reader);
        }
        Reader::open(self.source, offset).await.map_err(ErrorKind::Source)
    }

    /// One request on the session with the present login; what leaves is counted, whatever comes of it.
    pub(super) async fn send(
        &mut self,
        method: Method,
        url: reqwest::Url,
        headers: HeaderMap,
        reader: Option<&Arc<Reader>>,
        length: u64,
        patience: Duration,
    ) -> Result<reqwest::Response, Failure> {
        let host = self.target.api_host();
        let granted = self
            .inner
            .tokens
            .current(&self.inner.transport, host, &self.scope)
            .await?;
        let before = reader.map_or(0, |reader| reader.progress.moved());
        let request = SessionRequest {
            method,
            host,
            url,
            headers,
            reader,
            length,
            patience,
        };
        let answer = self.inner.send_body(request, &granted).await;
        self.sent += reader.map_or(0, |reader| reader.progress.moved()) - before;
        if let Err(failure) = &answer
            && failure.login_expired
        {
            // The body is spent, so the refusal is reported and the caller goes on from the confirmed offset.
            self.inner
                .login_again(host, &self.scope, &granted, failure.challenge.clone())
                .await?;
        }
        answer
    }

    pub(super) fn tell(&self, event: PushEvent) {
        if let Some(observer) = &self.options.observer {
            observer(event);
        }
    }
}
