//! Sessions without a daemon: one sandbox kept for many calls, with the same chain of records.
//!
//! What the daemon's session table does for its callers this does for the one program that holds the session: it gives
//! turns, chains records, sees to the sweep after each call, and ends the session when its lifetime is over or its sandbox
//! is lost. Nothing is suspended, because nobody else waits for the place.

mod call;
mod cell;
mod open;
mod unattended;

pub use call::SessionCall;
pub use cell::{Cell, CellRun};
pub use open::OpenSession;
use unattended::One;
pub(super) use unattended::Unattended;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_core::{Isolation, Permit, SessionEnd, SessionEnded, SessionEvidence, SoftwareRule, Tier};
use plimsoll_record::{Chain, Fingerprint, RunRecord};
use plimsoll_sandbox::{ProviderFault, SESSION_BOUND, Session as Sandboxed};
use tokio::sync::{Mutex as Turn, MutexGuard as TurnGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Sandbox;

/// One sandbox kept for many calls, in this process.
///
/// Calls go one after the other, in the order in which they were sent; a call is sent when its future is polled for the first
/// time. Dropping a call's future cancels the call: it takes its place in the chain as one without an answer, and the session
/// goes on.
///
/// A session that is dropped without [`Session::close`] is removed in the background, as well as that can be done.
pub struct Session {
    kept: Arc<Kept>,
    /// Whether dropping it still has to remove its sandbox.
    open: bool,
}

/// What a session is, shared with the task of its call.
struct Kept {
    sandbox: Sandbox,
    session: Arc<dyn Sandboxed>,
    fingerprint: Fingerprint,
    floor: Option<Tier>,
    rule: SoftwareRule,
    /// Held from the open until the sandbox is seen to be gone.
    slot: Mutex<Option<Permit>>,
    /// One call at a time; waiters are served in order.
    turn: Arc<Turn<()>>,
    /// Fires when the session has ended, whatever it is doing.
    cut: CancellationToken,
    state: Mutex<State>,
}

/// What changes from call to call.
struct State {
    chain: Chain,
    ledger: Vec<RunRecord>,
    ended: Option<SessionEnded>,
    /// From the end until the sandbox was asked to go and answered.
    leaving: Option<One>,
}

/// A session that is closed, and what its chain came to.
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

impl Session {
    /// The session's name in its records.
    pub fn fingerprint(&self) -> &str {
        self.kept.fingerprint.as_str()
    }

    /// What the session states about itself, measured when it was opened.
    pub fn evidence(&self) -> &SessionEvidence {
        self.kept.session.evidence()
    }

    /// The wall, as measured when the session was opened.
    pub fn isolation(&self) -> Isolation {
        self.evidence().isolation
    }

    /// Calls of the chain so far: answered ones, and ones that may have run and have no answer. A refused call is none.
    pub fn calls(&self) -> u64 {
        self.kept.state().chain.calls()
    }

    /// Digest of the last call's record; empty before the first.
    pub fn last_record_sha256(&self) -> String {
        self.kept.state().chain.last_sha256().to_owned()
    }

    /// Every record of the chain so far, in order: what [`crate::verify_chain`] takes. About a kilobyte a call.
    pub fn records(&self) -> Vec<RunRecord> {
        self.kept.state().ledger.clone()
    }

    /// How the session ended, if it did; further calls are refused.
    pub fn ended(&self) -> Option<SessionEnded> {
        self.kept.ended()
    }

    /// Closes the session: waits for a call that is under way, and until the sandbox is gone. Dropping the future leaves the
    /// removal to go on.
    ///
    /// # Errors
    /// The sandbox could not be shown to be gone; the provider looks for it again when another program of this kind starts.
    pub async fn close(mut self) -> Result<SessionSummary, ProviderFault> {
        self.open = false;
        let kept = Arc::clone(&self.kept);
        let closing = tokio::spawn(async move {
            let turn = kept.turn.lock().await;
            let end = kept.end(ended(SessionEnd::Closed, "its holder closed it"));
            kept.remove(&turn).await.map(|()| kept.summary(end.end))
        });
        closing.await.unwrap_or_else(|_| {
            Err(ProviderFault {
                phase: "close",
                cause: "closing the session came to no end".to_owned(),
            })
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        self.kept.end(ended(SessionEnd::Closed, "its holder dropped it"));
        // Without a runtime the provider's own destructor has it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(Arc::clone(&self.kept).remove_unwatched());
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Session")
            .field("fingerprint", &self.fingerprint())
            .field("isolation", &self.isolation())
            .field("calls", &self.calls())
            .finish_non_exhaustive()
    }
}

impl Kept {
    /// Whoever panicked while holding it left it whole: every change is one assignment or one link.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end, the sandbox's own included, which wins over one that is stated later.
    fn ended(&self) -> Option<SessionEnded> {
        let known = self.state().ended.clone();
        known.or_else(|| self.session.ended().map(|own| self.end(own)))
    }

    /// The session has ended, for this reason unless it had ended already; whatever it is doing is cut. Answers how.
    fn end(&self, end: SessionEnded) -> SessionEnded {
        let end = self.session.ended().unwrap_or(end);
        let end = {
            let mut state = self.state();
            if state.ended.is_none() {
                state.leaving = Some(self.sandbox.unattended.one());
            }
            state.ended.get_or_insert(end).clone()
        };
        self.cut.cancel();
        end
    }

    /// Ends the session when its lifetime is over or its sandbox is lost, and removes it whoever ended it.
    async fn watch(self: Arc<Self>, expires: Instant) {
        tokio::select! {
            biased;
            () = self.cut.cancelled() => {}
            end = self.session.lost() => drop(self.end(end)),
            () = tokio::time::sleep_until(expires) => drop(self.end(ended(SessionEnd::Expired, "its lifetime is over"))),
        }
        self.remove_unwatched().await;
    }

    /// Removes the sandbox where nobody waits for it. What is not gone now is tried again at the close.
    async fn remove_unwatched(self: Arc<Self>) {
        let turn = self.turn.lock().await;
        drop(self.remove(&turn).await);
    }

    /// Removes the sandbox, unless it is gone already, and gives its place back. With the session's turn: a call that was cut
    /// has been stopped by then, and nobody else is removing it.
    async fn remove(&self, _turn: &TurnGuard<'_, ()>) -> Result<(), ProviderFault> {
        let _leaving = self.state().leaving.take();
        if self.slot().is_none() {
            return Ok(());
        }
        tokio::time::timeout(SESSION_BOUND, self.session.close())
            .await
            .unwrap_or_else(|_| {
                Err(ProviderFault {
                    phase: "close",
                    cause: format!("the sandbox was not gone within {} s", SESSION_BOUND.as_secs()),
                })
            })?;
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }

    /// Another holder of the session's place; `None` once the sandbox is gone.
    fn slot(&self) -> Option<Permit> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn summary(&self, end: SessionEnd) -> SessionSummary {
        let state = self.state();
        SessionSummary {
            session: self.fingerprint.as_str().to_owned(),
            calls: state.chain.calls(),
            last_record_sha256: state.chain.last_sha256().to_owned(),
            end,
        }
    }
}

fn ended(end: SessionEnd, detail: &str) -> SessionEnded {
    SessionEnded {
        end,
        detail: detail.to_owned(),
    }
}
