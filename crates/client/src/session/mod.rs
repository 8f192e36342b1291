//! Sessions: one sandbox kept for many calls, and a chain of records that this client follows link by link.
//!
//! ```text
//!  open_session().floor(…) ──send──► Session ──run_cell · run_javascript · run_project──► (any number of times)
//!                                       │
//!                                     close(self) ──► Closed: the daemon's count compared with the one seen here
//! ```
//!
//! A session that was closed is gone as a value, so nothing can be run in it by mistake. What can only be known while the
//! program runs is in [`Session::ended`] (the daemon said how the session ended) and [`Session::stopped`] (an answer was
//! lost or could not be believed, so this client sends nothing more into it).

mod call;
mod check;
mod close;
mod open;

pub use call::{CellRequest, SessionCall};
pub use close::{Closed, NotClosed, SessionSummary};
#[cfg(feature = "blocking")]
pub(crate) use open::Canceled;
pub use open::OpenSession;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_core::{Isolation, SessionEnded, SessionId, SoftwareRule, Tier};
use plimsoll_record::{Chain, ChainBreak, RunRecord};
use tokio::sync::Mutex as Turn;

use crate::client::Client;
use crate::error::{Error, ErrorKind, Refusal};

/// One sandbox kept for many calls, on a daemon.
///
/// Calls go one after the other, in the order in which they were sent: share a reference between tasks, or an
/// [`std::sync::Arc`], and take the session out of it ([`Arc::into_inner`]) to close it. Reading what is known of the
/// session never waits for a call.
///
/// A session that is dropped without [`Session::close`] is closed in the background, as well as that can be done: only in
/// a tokio runtime that lives on, and for 2 seconds at most. Nobody compares the daemon's count then.
pub struct Session {
    kept: Arc<Kept>,
    /// Whether dropping it still has to close it.
    open: bool,
}

/// What a session is on this side.
struct Kept {
    client: Client,
    /// The secret. In no error, no `Debug` output, and nothing that is handed out.
    id: SessionId,
    stated: Stated,
    floor: Option<Tier>,
    rule: SoftwareRule,
    /// What every call must have run in: the requirement of the pool that placed the session.
    environment: Option<String>,
    /// One call at a time; waiters are served in order.
    turn: Turn<()>,
    state: Mutex<State>,
}

/// What the daemon stated when the session was opened.
#[derive(Clone, Debug)]
struct Stated {
    fingerprint: String,
    provider: String,
    isolation: String,
    software_identity: String,
    expires_unix_ms: i64,
    idle_timeout_ms: u32,
}

/// What changes from call to call.
struct State {
    chain: Chain,
    ledger: Vec<RunRecord>,
    ended: Option<SessionEnded>,
    stopped: Option<String>,
    /// A close was sent whose answer never came.
    close_lost: bool,
}

impl Session {
    /// The session's public name: SHA-256 of its id, in hex. Records and the daemon's log lines carry it.
    pub fn fingerprint(&self) -> &str {
        &self.kept.stated.fingerprint
    }

    /// Provider id.
    pub fn provider(&self) -> &str {
        &self.kept.stated.provider
    }

    /// Tier word, as measured when the session was opened.
    pub fn isolation(&self) -> &str {
        &self.kept.stated.isolation
    }

    /// The tier, when the word is one that meets any floor.
    pub fn tier(&self) -> Option<Tier> {
        Isolation::from_wire(&self.kept.stated.isolation).tier()
    }

    /// Software the session runs, or empty.
    pub fn software_identity(&self) -> &str {
        &self.kept.stated.software_identity
    }

    /// When its lifetime ends, in Unix milliseconds of the daemon's clock.
    pub fn expires_unix_ms(&self) -> i64 {
        self.kept.stated.expires_unix_ms
    }

    /// Idle milliseconds before the daemon suspends it; 0 = never.
    pub fn idle_timeout_ms(&self) -> u32 {
        self.kept.stated.idle_timeout_ms
    }

    /// Calls of the chain seen so far: answered ones, and ones that may have run and have no answer. A refused call is none.
    pub fn calls(&self) -> u64 {
        self.kept.state().chain.calls()
    }

    /// Digest of the last call's record; empty before the first.
    pub fn last_record_sha256(&self) -> String {
        self.kept.state().chain.last_sha256().to_owned()
    }

    /// Every record of the chain so far, in order, each one checked: what [`plimsoll_record::verify_chain`] takes. About a
    /// kilobyte a call.
    pub fn records(&self) -> Vec<RunRecord> {
        self.kept.state().ledger.clone()
    }

    /// The same session in another value, which is now the one that has to close it.
    #[cfg(feature = "blocking")]
    pub(crate) fn take(&mut self) -> Self {
        Self {
            kept: Arc::clone(&self.kept),
            open: std::mem::take(&mut self.open),
        }
    }

    /// How the session ended, once the daemon has said so. Further calls are still sent, and refused by the daemon.
    pub fn ended(&self) -> Option<SessionEnded> {
        self.kept.state().ended.clone()
    }

    /// Why this client sends nothing more into the session; `None` while it does. Such a session can still be closed.
    pub fn stopped(&self) -> Option<String> {
        self.kept.state().stopped.clone()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if std::mem::take(&mut self.open) {
            close::in_background(Arc::clone(&self.kept));
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("fingerprint", &self.kept.stated.fingerprint)
            .field("isolation", &self.kept.stated.isolation)
            .field("calls", &self.calls())
            .finish_non_exhaustive()
    }
}

impl Kept {
    /// Whoever panicked while holding it left it whole: every change is one assignment or one link.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on nothing is sent. The first reason stays.
    fn stop(&self, reason: impl Into<String>) {
        let mut state = self.state();
        if state.stopped.is_none() {
            state.stopped = Some(reason.into());
        }
    }

    fn set_ended(&self, ended: &SessionEnded) {
        let mut state = self.state();
        if state.ended.is_none() {
            state.ended = Some(ended.clone());
        }
    }

    /// Refuses a call that must not be sent any more.
    fn may_send(&self) -> Result<(), Error> {
        let Some(reason) = self.state().stopped.clone() else {
            return Ok(());
        };
        let message = format!("nothing more is sent into this session: {reason}; close it and open a new one");
        Err(Error::new(ErrorKind::SessionStopped, message).marked(Refusal::Request))
    }

    /// Moves the chain on by a record whose own digest was checked.
    fn follow(&self, record: &RunRecord) -> Result<(), ChainBreak> {
        let mut state = self.state();
        state.chain.follow(record)?;
        state.ledger.push(record.clone());
        Ok(())
    }
}
