//! The end of an upload: the request that closes a session, and the upload that is a single request.

use http::Method;
use http::header::HeaderMap;

use super::push::{PushEvent, Upload};
use super::recovery::{RESTARTS, SMALLEST_PART, Tries};
use super::session::Session;
use crate::error::ErrorKind;
use crate::failure::Failure;
use crate::manifest::header_text;
use crate::reference::is_digest;

impl Upload<'_> {
    /// Closes the session. `Some` when the upload has to go on.
    pub(super) async fn commit(&mut self, session: &Session, tries: &mut Tries) -> Result<Option<Session>, ErrorKind> {
        self.prove_end(session).await?;
        self.tell(PushEvent::Committing);
        let mut url = session.url.clone();
        url.query_pairs_mut().append_pair("digest", self.digest);
        let patience = self.inner.transport.limits.commit;
        let failure = match self.send(Method::PUT, url, HeaderMap::new(), None, 0, patience).await {
            Ok(response) => return self.check_stored(response.headers()).map(|()| None),
            Err(failure) => failure,
        };
        match failure.kind {
            // The answer may have been lost while the work was done.
            error if error.is_retryable() || matches!(error, ErrorKind::UploadUnknown | ErrorKind::NotFound { .. }) => {
                self.after_lost_answer(session, error, tries).await
            }
            ErrorKind::Unauthorized { .. } if failure.login_expired && !tries.renewed => {
                tries.renewed = true;
                Ok(Some(session.clone()))
            }
            // Bytes were spoiled on the way, or by a registry that lost some: once more from the start.
            error @ (ErrorKind::DigestInvalid { .. } | ErrorKind::RangeNotSatisfiable(_)) => {
                if self.restarts > 0 {
                    Err(error)
                } else {
                    self.restart().await.map(Some)
                }
            }
            error => Err(error),
        }
    }

    /// A source that checks its hash at the end says so before the registry is told that the blob is complete.
    pub(super) async fn prove_end(&mut self, session: &Session) -> Result<(), ErrorKind> {
        let Some(reader) = self.reader.take() else {
            return Ok(());
        };
        let proof = reader.expect_end().await;
        if proof.is_err() {
            self.inner.close_session(self.target, &session.url).await;
        }
        proof.map_err(ErrorKind::Source)
    }

    pub(super) async fn after_lost_answer(
        &mut self,
        session: &Session,
        error: ErrorKind,
        tries: &mut Tries,
    ) -> Result<Option<Session>, ErrorKind> {
        if self.is_there().await? {
            return Ok(None);
        }
        if !error.is_retryable() {
            return self.restart().await.map(Some);
        }
        tries.wait(self.inner, error).await?;
        if self.is_there().await? {
            return Ok(None);
        }
        self.where_it_stands(session).await.map(Some)
    }

    pub(super) fn check_stored(&self, headers: &HeaderMap) -> Result<(), ErrorKind> {
        match header_text(headers, "docker-content-digest") {
            Some(stored) if is_digest(stored) && stored != self.digest => Err(ErrorKind::DigestMismatch {
                expected: self.digest.to_owned(),
                found: stored.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// The whole blob in one request. A failure begins again: there is nothing to resume.
    pub(super) async fn in_one(&mut self, mut session: Session) -> Result<(), ErrorKind> {
        let mut tries = Tries::new(self.inner);
        loop {
            self.tell(PushEvent::Session(session.saved()));
            let failure = match self.put_whole(&session).await {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            match failure.kind {
                ErrorKind::Source(error) => {
                    self.inner.close_session(self.target, &session.url).await;
                    return Err(ErrorKind::Source(error));
                }
                ErrorKind::Unauthorized { .. } if failure.login_expired && !tries.renewed => tries.renewed = true,
                ErrorKind::TooLarge { .. } if self.size > SMALLEST_PART => {
                    self.part = (self.part.min(self.size) / 2).max(SMALLEST_PART);
                    let session = self.restart().await?;
                    return Box::pin(self.in_parts(session)).await;
                }
                error @ ErrorKind::DigestInvalid { .. } if self.restarts > 0 => return Err(error),
                ErrorKind::DigestInvalid { .. } | ErrorKind::UploadUnknown | ErrorKind::NotFound { .. } => {}
                error if error.is_retryable() => {
                    tries.wait(self.inner, error).await?;
                    if self.is_there().await? {
                        return Ok(());
                    }
                }
                error => return Err(error),
            }
            session = self.again().await?;
        }
    }

    /// Another session for another try; tries are counted elsewhere, except where nobody else does.
    pub(super) async fn again(&mut self) -> Result<Session, ErrorKind> {
        self.reader = None;
        self.restarts += 1;
        if self.restarts > RESTARTS + u32::try_from(self.inner.retry.times).unwrap_or(u32::MAX - RESTARTS) {
            return Err(ErrorKind::UploadUnknown);
        }
        self.tell(PushEvent::Restarted);
        self.inner.open_session(self.target).await
    }

    pub(super) async fn put_whole(&mut self, session: &Session) -> Result<(), Failure> {
        let mut url = session.url.clone();
        url.query_pairs_mut().append_pair("digest", self.digest);
        let reader = self.reader_at(0).await?;
        let patience = self.inner.transport.limits.commit;
        let response = self
            .send(Method::PUT, url, HeaderMap::new(), Some(&reader), self.size, patience)
            .await?;
        self.check_stored(response.headers())?;
        self.tell(PushEvent::Confirmed(self.size));
        Ok(())
    }
}
