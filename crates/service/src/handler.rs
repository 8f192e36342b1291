//! The seam between what carries bytes and what runs calls.
//!
//! The edge and the RPC layer know this trait and nothing of providers, limits or records; the corridor implements it
//! and knows nothing of HTTP.

use std::sync::Arc;
use std::time::Instant;

use plimsoll_core::{
    CloseRequest, ClosedSession, Evidence, Fault, OpenRequest, OpenedSession, Payload, Refusal, RunError, RunRequest,
    SessionRunRequest, SessionTerms, check_protocol,
};
use plimsoll_record::{Answer, RunRecord, SessionAnswer};
use plimsoll_sandbox::{BoxFuture, Received};
use tokio_util::sync::CancellationToken;

use crate::auth::Principal;

/// Who calls, since when, and until when the answer matters.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// The authenticated caller.
    pub principal: Principal,
    /// When the handler was reached.
    pub received: Received,
    /// The caller's own deadline, from `Connect-Timeout-Ms` or `grpc-timeout`.
    pub deadline: Option<Instant>,
    /// Fires when the caller has gone.
    pub cancelled: CancellationToken,
}

/// How a session call failed.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionError {
    /// The failure itself.
    pub error: RunError,
    /// The record of a call that may have run; a refusal has none.
    pub unanswered: Option<Box<RunRecord>>,
}

impl From<RunError> for SessionError {
    fn from(error: RunError) -> Self {
        Self {
            error,
            unanswered: None,
        }
    }
}

/// The refusal of every session procedure where no sessions are kept.
pub(crate) fn no_sessions() -> Refusal {
    Refusal::unsupported("this daemon keeps no sessions; use Run, or a daemon whose Describe states sessions")
}

/// What a call is called in the log: its payload's kind, or its procedure where it carries none.
pub(crate) fn op_of(payload: Option<&Payload>, procedure: &'static str) -> &'static str {
    payload.map_or(procedure, |payload| payload.kind().as_str())
}

/// What stands behind the procedures.
pub trait Handler: Send + Sync + 'static {
    /// Current evidence; Describe is made of it alone.
    fn describe(&self) -> Arc<Evidence>;

    /// Runs one decoded request to its final answer.
    ///
    /// The call runs in a task of its own: dropping the returned future cancels the run but not its settlement.
    fn run(&self, context: CallContext, request: RunRequest) -> BoxFuture<'static, Result<Answer, RunError>>;

    /// On which terms sessions are kept; `None` = they are not.
    fn session_terms(&self) -> Option<SessionTerms> {
        None
    }

    /// Opens a session.
    ///
    /// It is opened in a task of its own: dropping the returned future gives the open up, and nothing stays behind.
    fn open_session(
        &self,
        context: CallContext,
        request: OpenRequest,
    ) -> BoxFuture<'static, Result<OpenedSession, RunError>> {
        let refusal = check_protocol(request.protocol).err().unwrap_or_else(no_sessions);
        self.refused(context.principal.key(), "open", &refusal);
        Box::pin(std::future::ready(Err(refusal.into())))
    }

    /// Runs one decoded request in its session, to its final answer. As [`Handler::run`] otherwise.
    fn session_run(
        &self,
        context: CallContext,
        request: SessionRunRequest,
    ) -> BoxFuture<'static, Result<SessionAnswer, SessionError>> {
        let refusal = check_protocol(request.run.protocol).err().unwrap_or_else(no_sessions);
        self.refused(context.principal.key(), "session", &refusal);
        Box::pin(std::future::ready(Err(RunError::from(refusal).into())))
    }

    /// Closes a session and waits until its sandbox is gone. Dropping the returned future does not stop the close.
    fn close_session(
        &self,
        context: CallContext,
        request: CloseRequest,
    ) -> BoxFuture<'static, Result<ClosedSession, RunError>> {
        let refusal = check_protocol(request.protocol).err().unwrap_or_else(no_sessions);
        self.refused(context.principal.key(), "close", &refusal);
        Box::pin(std::future::ready(Err(refusal.into())))
    }

    /// Told of every refusal of a known caller's call that was made before the call reached its procedure, for the metrics and the
    /// log. `op` is the payload's kind, or the procedure.
    fn refused(&self, caller: &str, op: &'static str, refusal: &Refusal);

    /// Writes an internal fault to the log and gives the id the caller is shown instead of its text.
    fn log_fault(&self, fault: &Fault) -> String;
}
