//! From a failed request to a session that can go on.

use std::time::Duration;

use super::push::{PushEvent, Upload};
use super::session::Session;
use crate::client::Inner;
use crate::error::ErrorKind;
use crate::failure::Failure;

/// Below this a part is not cut in half any more when a proxy refuses it.
pub(super) const SMALLEST_PART: u64 = 1 << 20;
/// Times that an upload begins again at zero because the registry forgot or spoiled it.
pub(super) const RESTARTS: u32 = 3;

/// Tries without progress.
pub(super) struct Tries {
    delays: Box<dyn Iterator<Item = Duration> + Send>,
    /// Whether the login was renewed since the last progress.
    pub(super) renewed: bool,
}

impl Tries {
    pub(super) fn new(inner: &Inner) -> Self {
        Self {
            delays: Box::new(inner.retry.delays()),
            renewed: false,
        }
    }

    pub(super) async fn wait(&mut self, inner: &Inner, error: ErrorKind) -> Result<(), ErrorKind> {
        match self.delays.next().and_then(|own| inner.wait_for(&error, own)) {
            None => Err(error),
            Some(delay) => {
                inner.wait(&error, delay).await;
                Ok(())
            }
        }
    }
}

/// The first part is offered so often: a single refusal may be a proxy's.
const OFFERS: u32 = 2;

impl Upload<'_> {
    /// Whether the registry refuses parts as such, and not this one: it never took any, and says so again.
    pub(super) fn takes_no_parts(&mut self, session: &Session, failure: &Failure) -> bool {
        let refusal = matches!(
            failure.kind,
            ErrorKind::RangeNotSatisfiable(_) | ErrorKind::Status { status: 405 | 501, .. }
        );
        self.refusals += u32::from(refusal && session.offset == 0);
        refusal && session.offset == 0 && self.refusals >= OFFERS
    }

    /// From a failed part to a session that can go on.
    pub(super) async fn recover(
        &mut self,
        session: Session,
        failure: Failure,
        tries: &mut Tries,
    ) -> Result<Session, ErrorKind> {
        self.reader = None;
        match failure.kind {
            ErrorKind::Source(error) => {
                if error.kind() == std::io::ErrorKind::InvalidData {
                    self.inner.close_session(self.target, &session.url).await;
                }
                return Err(ErrorKind::Source(error));
            }
            ErrorKind::Unauthorized { .. } if failure.login_expired && !tries.renewed => tries.renewed = true,
            ErrorKind::TooLarge { .. } if self.part > SMALLEST_PART => self.part = (self.part / 2).max(SMALLEST_PART),
            ErrorKind::UploadUnknown | ErrorKind::NotFound { .. } => return self.restart().await,
            error @ (ErrorKind::RangeNotSatisfiable(_) | ErrorKind::Status { status: 405 | 501, .. }) => {
                tries.wait(self.inner, error).await?;
            }
            error if error.is_retryable() => tries.wait(self.inner, error).await?,
            error => return Err(error),
        }
        self.where_it_stands(&session).await
    }

    pub(super) async fn where_it_stands(&mut self, session: &Session) -> Result<Session, ErrorKind> {
        match self.inner.session_status(self.target, &session.url).await {
            Ok(status) if status.offset <= self.size => Ok(status),
            Ok(_)
            | Err(
                ErrorKind::UploadUnknown | ErrorKind::NotFound { .. } | ErrorKind::Status { status: 400..=499, .. },
            ) => self.restart().await,
            Err(error) => Err(error),
        }
    }

    pub(super) async fn restart(&mut self) -> Result<Session, ErrorKind> {
        self.restarts += 1;
        self.reader = None;
        if self.restarts > RESTARTS {
            return Err(ErrorKind::UploadUnknown);
        }
        self.tell(PushEvent::Restarted);
        self.inner.open_session(self.target).await
    }
}
