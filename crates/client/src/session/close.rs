//! Closing a session, and comparing what the daemon says of it with what was seen here.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::limits::PROTOCOL;
use plimsoll_core::{CloseRequest, ClosedSession, SessionEnd};
use plimsoll_wire::http::Procedure;
use plimsoll_wire::json::to_json;
use plimsoll_wire::pb;

use super::{Kept, Session};
use crate::answer;
use crate::error::{Error, ErrorKind};

/// How long a close that nobody waits for may take.
const BACKGROUND: Duration = Duration::from_secs(2);

/// A session that is closed: its fingerprint, how many calls its chain has, the last one's record, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSummary {
    /// The session's fingerprint.
    pub session: String,
    /// Calls of its chain, those without an answer included.
    pub calls: u64,
    /// Digest of the last one's record; empty without calls.
    pub last_record_sha256: String,
    /// How it ended: closed by this, or earlier and by itself.
    pub end: SessionEnd,
}

/// What closing a session came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closed {
    /// The daemon's count and last record are those of the chain seen here.
    Confirmed(SessionSummary),
    /// An earlier close was sent and its answer lost, and the daemon does not know the session any more: it is closed, and
    /// its count can no longer be compared. This is what was seen here.
    Unconfirmed(SessionSummary),
}

impl Closed {
    /// The summary, whoever states it.
    pub const fn summary(&self) -> &SessionSummary {
        match self {
            Self::Confirmed(summary) | Self::Unconfirmed(summary) => summary,
        }
    }

    /// Whether the daemon's count was compared with the chain seen here.
    pub const fn is_confirmed(&self) -> bool {
        matches!(self, Self::Confirmed(_))
    }
}

/// A close that did not come to a good end. It turns into its [`Error`] with `?`.
#[derive(Debug)]
pub struct NotClosed {
    error: Error,
    session: Option<Session>,
}

impl NotClosed {
    /// Why. [`ErrorKind::Chain`] means that the daemon closed the session and its count or last record is not what was seen
    /// here; [`Error::summary`] has what it says.
    pub const fn error(&self) -> &Error {
        &self.error
    }

    /// The session, to close it again; `None` when it is closed and only its summary is not believed. After a refusal it is as
    /// it was. After a close whose answer was lost it is stopped: it takes no call and can only be closed, and a daemon that
    /// knows it no longer makes that close [`Closed::Unconfirmed`].
    pub fn into_session(self) -> Option<Session> {
        self.session
    }
}

impl fmt::Display for NotClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the session was not closed as it should: {}", self.error)
    }
}

impl std::error::Error for NotClosed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<NotClosed> for Error {
    fn from(failed: NotClosed) -> Self {
        failed.error
    }
}

impl Session {
    /// Closes the session, waits until its sandbox is gone, and compares the daemon's count and last record with the chain
    /// seen here. It is never cut: dropping the future leaves the close to go on.
    ///
    /// # Errors
    /// [`NotClosed`], which has the session where it can be closed again.
    pub async fn close(mut self) -> Result<Closed, NotClosed> {
        self.open = false;
        let kept = Arc::clone(&self.kept);
        let again = || Self {
            kept: Arc::clone(&self.kept),
            open: true,
        };
        let closing = tokio::spawn(async move { kept.close().await });
        match closing.await {
            Ok(Ok(closed)) => Ok(closed),
            Ok(Err(error)) => {
                let closed = error.kind() == ErrorKind::Chain;
                Err(NotClosed {
                    session: (!closed).then(again),
                    error,
                })
            }
            Err(_) => {
                self.kept.lose_close();
                Err(NotClosed {
                    session: Some(again()),
                    error: Error::new(ErrorKind::Transport, "closing the session came to no end"),
                })
            }
        }
    }

    /// A close that could not even begin.
    #[cfg(feature = "blocking")]
    pub(crate) const fn not_closed(self, error: Error) -> NotClosed {
        NotClosed {
            error,
            session: Some(self),
        }
    }

    /// For a caller without a task that could close it later: the session is closed now, as well as that can be done.
    #[cfg(feature = "blocking")]
    pub(crate) fn closing_now(&mut self) -> Option<impl Future<Output = ()> + use<>> {
        let kept = Arc::clone(&self.kept);
        std::mem::take(&mut self.open).then(|| best_effort(kept))
    }
}

impl Kept {
    /// Sends the close. What was lost of it, and not what was refused, is remembered.
    pub(super) async fn send_close(&self) -> Result<ClosedSession, Error> {
        let request = CloseRequest {
            protocol: PROTOCOL,
            session_id: self.id.clone(),
        };
        let body = to_json(&pb::CloseSessionRequest::from(request));
        let answered = self
            .client
            .transport()
            .post(Procedure::CloseSession, body, None)
            .await
            .and_then(|http| answer::read_session::<pb::CloseSessionResponse>(&http));
        answered.map(ClosedSession::from)
    }

    async fn close(&self) -> Result<Closed, Error> {
        let lost_before = self.state().close_lost;
        let closed = match self.send_close().await {
            Ok(closed) => closed,
            Err(error) => {
                let unknown = error.session_end().is_some_and(|end| end.end == SessionEnd::NotFound);
                if lost_before && unknown {
                    return Ok(Closed::Unconfirmed(self.seen(SessionEnd::NotFound)));
                }
                if error.not_dispatched().is_none() {
                    self.lose_close();
                }
                return Err(error);
            }
        };
        let summary = SessionSummary {
            session: closed.session,
            calls: closed.calls,
            last_record_sha256: closed.last_record_sha256,
            end: closed.ended,
        };
        let seen = self.seen(summary.end);
        if summary == seen {
            return Ok(Closed::Confirmed(summary));
        }
        let message = if summary.session != seen.session {
            "the daemon closed another session than this one".to_owned()
        } else if summary.calls != seen.calls {
            format!(
                "the daemon counts {} calls of this session, and {} were seen here",
                summary.calls, seen.calls
            )
        } else {
            "the daemon's last record of this session is not the last one seen here".to_owned()
        };
        Err(Error::new(ErrorKind::Chain, message)
            .with_status(200)
            .with_summary(summary))
    }

    fn seen(&self, end: SessionEnd) -> SessionSummary {
        let state = self.state();
        SessionSummary {
            session: self.stated.fingerprint.clone(),
            calls: state.chain.calls(),
            last_record_sha256: state.chain.last_sha256().to_owned(),
            end,
        }
    }

    fn lose_close(&self) {
        self.state().close_lost = true;
        self.stop("a close was sent and its answer lost");
    }
}

/// Closes a session nobody holds any more, where a task can.
pub(super) fn in_background(kept: Arc<Kept>) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(best_effort(kept));
    }
}

async fn best_effort(kept: Arc<Kept>) {
    // Nobody is left to tell; the daemon's idle timeout is the second line.
    drop(tokio::time::timeout(BACKGROUND, kept.send_close()).await);
}
