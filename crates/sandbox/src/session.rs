//! What a provider offers that keeps sandboxes for many calls.
//!
//! Who does what: whoever keeps a session (the daemon's session table, an embedder) counts time and calls, gives turns,
//! chains records and decides when a session ends; the provider keeps the sandbox, runs one call at a time in it, and says
//! when the sandbox is no longer what it was. A provider therefore has no timers, no queue and no books of its own.
//!
//! ```text
//!            open                 run ─► sweep            suspend / resume                close
//!   Sessions ────► Arc<dyn Session> ──────────────(any number of times)─────────────────────────► gone, and seen to be
//! ```
//!
//! `run`, `sweep`, `suspend` and `resume` of one session are never asked for at the same time. `close` is asked for while
//! one of them is under way only after the call's `cancelled` token has fired.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{AdmittedOpen, InTurn, Outcome, RunError, SessionEnd, SessionEnded, SessionEvidence};
use plimsoll_grants::SelectedGrant;
use tokio_util::sync::CancellationToken;

use crate::provider::{BoxFuture, ProviderFault, RunContext};

/// A session call that passed the corridor, with the grant it selected if it selected one.
pub type SessionCall = InTurn<Option<SelectedGrant>>;

/// Longest wait for a provider's promise about one session: that nothing a call left is alive, that a sandbox is suspended,
/// resumed, or gone.
pub const SESSION_BOUND: Duration = Duration::from_secs(90);

/// How long a provider may take to show that nothing of a call is left.
const SWEEP_BOUND: Duration = Duration::from_secs(25);

/// What surrounds an open.
#[derive(Clone, Debug)]
pub struct OpenContext {
    /// The latest moment the open may take to.
    pub deadline: Instant,
    /// Fires when the caller has gone or the daemon is stopping.
    pub cancelled: CancellationToken,
    /// What the session may write, in bytes; 0 = no bound. Never set for a provider that cannot enforce one
    /// ([`plimsoll_core::SessionSupport::disk_bound`]).
    pub disk_bytes: u64,
}

/// What a suspended session still holds of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspended {
    /// All its memory, as a frozen container does: its slot stays taken.
    HoldsMemory,
    /// This many bytes, measured: its slot is given back.
    Holds(u64),
}

/// The half of a provider that opens sessions ([`crate::Sandbox::sessions`]).
pub trait Sessions: Send + Sync + 'static {
    /// Opens one sandbox to be kept.
    ///
    /// The provider compares floor and rule once more with what it opened ([`AdmittedOpen::recheck`]); nothing of the caller's
    /// has run, so every failure it can name is a [`plimsoll_core::Refusal`]. When the returned future is dropped before it
    /// is ready, nothing may stay behind.
    fn open<'a>(
        &'a self,
        open: &'a AdmittedOpen,
        context: OpenContext,
    ) -> BoxFuture<'a, Result<Arc<dyn Session>, RunError>>;

    /// Behavioural proof with throwaway sessions, at start-up and only where sessions are on: every promise of [`Session`] in
    /// every stated language.
    fn smoke_test(&self) -> BoxFuture<'_, Result<(), ProviderFault>>;

    /// Whether a suspended session keeps its memory, and with it its slot ([`Suspended::HoldsMemory`]). An operator who
    /// lets sessions take every slot is warned.
    fn suspended_keeps_slot(&self) -> bool {
        false
    }

    /// The half that keeps sandboxes ready for sessions to come; `None` where each is made when it is asked for.
    fn pool(&self) -> Option<&dyn SessionPool> {
        None
    }
}

/// Sandboxes no session has used yet ([`Sessions::pool`]). What is in it goes with [`crate::Sandbox::drain`].
pub trait SessionPool: Send + Sync + 'static {
    /// Makes the first member, then keeps `size` of them (at least 1), each good for a session of `lifetime`. Asked for once,
    /// after the provider is ready and before [`Sessions::smoke_test`].
    ///
    /// # Errors
    /// The first member cannot be made.
    fn start(&self, size: u32, lifetime: Duration) -> BoxFuture<'_, Result<(), ProviderFault>>;
}

/// One kept sandbox.
///
/// Dropping the last handle without [`Session::close`] removes the sandbox too, as well as a destructor can.
pub trait Session: Send + Sync + 'static {
    /// What the session states about itself, measured when it was opened. Floors, rules and kinds of its calls are compared
    /// with it, and unanswered calls are recorded with it.
    fn evidence(&self) -> &SessionEvidence;

    /// The longest the guest of this call may run: what was asked for, within the provider's own bounds
    /// ([`plimsoll_core::Admitted::timeout`]). A credential is minted for this long.
    fn time_limit(&self, call: &SessionCall) -> Duration;

    /// Runs one call.
    ///
    /// Compares floor, rule and support once more ([`InTurn::recheck`]). Answers a [`plimsoll_core::Refusal`] only while it
    /// is certain that nothing of the call ran, and a [`plimsoll_core::Fault`] from the moment something may have. A guest
    /// that raises, exits or outlives [`Session::time_limit`] is a result and not an error.
    ///
    /// The future is polled to its end and not dropped: once `context.cancelled` has fired or `context.deadline` has passed
    /// it stops the guest and becomes ready within seconds, with whatever it has. The answer of such a call has been given
    /// by then.
    ///
    /// The outcome states what the session states ([`Session::evidence`]). A cell's result carries whether its interpreter
    /// is fresh (`interpreter_started`) and whether it is gone after the call (`interpreter_ended`). Losing an interpreter
    /// is not the end of a session; losing the sandbox is, and [`Session::ended`] says so from then on.
    fn run<'a>(&'a self, call: &'a SessionCall, context: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>>;

    /// After the call's answer and before the next call: nothing the call left running is alive any more, except kept
    /// interpreters, and what the session wrote is within its bound. Where that cannot be shown, the session has ended when
    /// this is ready.
    fn sweep(&self) -> BoxFuture<'_, ()>;

    /// Stops the sandbox until [`Session::resume`]. Idempotent; always asked for after [`Session::sweep`].
    ///
    /// # Errors
    /// The session runs on, unless [`Session::ended`] says otherwise.
    fn suspend(&self) -> BoxFuture<'_, Result<Suspended, ProviderFault>>;

    /// Undoes [`Session::suspend`], before the next call. Nothing of that call has run.
    ///
    /// # Errors
    /// The session cannot be resumed; whoever keeps it ends it.
    fn resume(&self) -> BoxFuture<'_, Result<(), ProviderFault>>;

    /// How the sandbox ended by itself, if it did; the first end wins and never changes. Asked before and after every call.
    fn ended(&self) -> Option<SessionEnded>;

    /// Ready when the sandbox has ended by itself. A provider that only finds out at a call never is.
    fn lost(&self) -> BoxFuture<'_, SessionEnded> {
        Box::pin(std::future::pending())
    }

    /// Removes the sandbox and whatever belongs to it; ready with `Ok` only when it is gone and seen to be gone. Idempotent:
    /// asked again after a failure, and answered `Ok` after a success. Whoever waits may stop waiting; the removal goes on.
    ///
    /// # Errors
    /// What could not be removed. A later [`crate::Sandbox::reconcile`] finds it.
    fn close(&self) -> BoxFuture<'_, Result<(), ProviderFault>>;
}

/// Sees to it that nothing of the last call is alive any more, for whoever keeps the session and gives its turns. Answers how
/// the session ended, if it has: by itself, or because the provider panicked or was late, so that nothing is shown.
///
/// The sweep has a task of its own: one that is late goes on, and a panic of the provider stays there.
pub async fn sweep(session: &Arc<dyn Session>) -> Option<SessionEnded> {
    let swept = Arc::clone(session);
    let sweeping = tokio::spawn(async move { swept.sweep().await });
    let shown = matches!(tokio::time::timeout(SWEEP_BOUND, sweeping).await, Ok(Ok(())));
    session.ended().or_else(|| {
        (!shown).then(|| SessionEnded {
            end: SessionEnd::BoundaryFailed,
            detail: "it could not be shown that nothing of a call is left".to_owned(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session of which only the sweep counts.
    struct Swept {
        panics: bool,
        ended: Option<SessionEnded>,
    }

    impl Session for Swept {
        fn evidence(&self) -> &SessionEvidence {
            unreachable!("a sweep looks at no evidence")
        }

        fn time_limit(&self, _: &SessionCall) -> Duration {
            unreachable!("a sweep runs no call")
        }

        fn run<'a>(&'a self, _: &'a SessionCall, _: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>> {
            unreachable!("a sweep runs no call")
        }

        fn sweep(&self) -> BoxFuture<'_, ()> {
            Box::pin(async {
                assert!(!self.panics, "a provider's mistake");
            })
        }

        fn suspend(&self) -> BoxFuture<'_, Result<Suspended, ProviderFault>> {
            unreachable!("a sweep suspends nothing")
        }

        fn resume(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
            unreachable!("a sweep resumes nothing")
        }

        fn ended(&self) -> Option<SessionEnded> {
            self.ended.clone()
        }

        fn close(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
            unreachable!("a sweep closes nothing")
        }
    }

    async fn swept(panics: bool, ended: Option<SessionEnded>) -> Option<SessionEnd> {
        let session: Arc<dyn Session> = Arc::new(Swept { panics, ended });
        sweep(&session).await.map(|ended| ended.end)
    }

    #[tokio::test]
    async fn a_sweep_that_shows_nothing_ends_the_session_unless_it_had_ended() {
        let over = SessionEnded {
            end: SessionEnd::DiskExceeded,
            detail: String::new(),
        };
        assert_eq!(swept(false, None).await, None);
        assert_eq!(swept(true, None).await, Some(SessionEnd::BoundaryFailed));
        assert_eq!(swept(false, Some(over.clone())).await, Some(SessionEnd::DiskExceeded));
        assert_eq!(swept(true, Some(over)).await, Some(SessionEnd::DiskExceeded));
    }
}
