//! The session table: every rule about places, turns, idleness and ends, as a state machine without clock, task or wall.
//!
//! ```text
//!  reserve ─► Place ── opened ─► Open ──────── end / close / replace ────────► Ending ── gone ─► Ended ── 10 min ─► forgotten
//!     │         │                 │  ▲                                           │
//!     │      abandon        ask ──┘  └── release                            reopen (a victim that would not close)
//!  refused  discard ─► Discarded ── left ─► free again
//! ```
//!
//! Whoever has a session's turn is a call until it has its answer, then the removal of what that call left running; or nobody's
//! call at all, while the session is suspended or is to make room.
//!
//! The sandbox of a session (`S`) is reachable only through an open session's turn, and leaves the table for good when its
//! teardown begins, which happens once and never while a call holds the turn. A closed session therefore has nothing left
//! to run in. Time is a duration since whatever moment the caller counts from; it must not go back.

mod ends;
mod places;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{SessionEnd, SessionEnded};
use plimsoll_record::{Chain, ChainBreak, Fingerprint, RunRecord};

/// How long the end of a session is remembered for whoever closes it.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(600);

/// How many ended sessions of one caller are remembered; the oldest is forgotten first. Each takes about 1 KiB.
const REMEMBERED_OF_ONE_CALLER: usize = 1024;

/// How many calls one session takes at once: one runs and one waits.
const CALLS_AT_ONCE: usize = 2;

/// How long a session nobody has named yet is kept when it would never be suspended.
pub(crate) const UNCLAIMED: Duration = Duration::from_secs(300);

/// How many sessions may be kept; 0 in the last two sets no cap of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caps {
    pub(crate) total: u32,
    pub(crate) per_caller: u32,
    pub(crate) per_owner: u32,
}

/// Why no place was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum NoPlace {
    Total,
    PerCaller,
    /// Every session of the owner that could make room is busy.
    OwnerBusy,
    /// The session of the owner that is to make room is being swept: it does when its turn is back.
    NotYet,
    Draining,
}

/// A place kept for an open that is under way, with the turns of the sessions it will replace.
#[derive(Debug)]
pub(crate) struct Place {
    number: u64,
    victims: Vec<Turn>,
}

/// The place of an open that came to nothing and left a sandbox: taken until that is gone.
#[derive(Debug)]
pub(crate) struct Discarded(u64);

/// A session's turn. There is at most one, and whoever has it gives it back to the table.
#[derive(Debug)]
pub(crate) struct Turn {
    session: Fingerprint,
    number: u64,
}

/// Somebody's place in front of a session whose turn is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// What asking for a turn came to.
#[derive(Debug)]
pub(crate) enum Asked {
    Now(Turn),
    /// One that may wait. It is told by [`Woken`].
    Wait(Ticket),
    /// One runs and one waits, or two wait for a turn in which none runs.
    Busy,
    /// There is no turn any more.
    Ended(SessionEnded),
}

/// A waiter's news: its turn, or that there will be none.
#[derive(Debug)]
pub(crate) struct Woken {
    pub(crate) ticket: Ticket,
    pub(crate) news: Result<Turn, SessionEnded>,
}

/// How a turn was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// A call that may have run.
    Ran,
    /// A marked refusal, or nothing at all: no use of the session.
    Nothing,
}

/// A sandbox on its way out. It was taken out of the table and is to be closed, then reported with [`Table::gone`].
#[derive(Debug)]
pub(crate) struct TearDown<S> {
    pub(crate) session: Fingerprint,
    pub(crate) sandbox: S,
    /// Lets this teardown and no other report, or take back, the end of the session.
    number: u64,
}

/// What follows from an operation, for whoever drives the table.
#[derive(Debug)]
pub(crate) enum Effect<S> {
    Wake(Woken),
    TearDown(TearDown<S>),
    /// The call that holds the turn is to be cut short.
    Cut(Fingerprint),
    /// Suspend, then [`Table::suspended`] and release.
    Suspend(Turn),
    /// Nobody ever named it: close it, or [`Table::reopen`].
    Unclaimed(Turn),
}

/// What a caller who closes a session is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) session: Fingerprint,
    pub(crate) calls: u64,
    pub(crate) last_sha256: String,
    pub(crate) ended: SessionEnded,
}

/// A session that makes room: what is known of it, its sandbox, and what else follows.
#[derive(Debug)]
pub(crate) struct Replacing<F, S> {
    pub(crate) facts: Arc<F>,
    pub(crate) down: TearDown<S>,
    pub(crate) effects: Vec<Effect<S>>,
}

/// What is registered when a session has been opened.
#[derive(Debug)]
pub(crate) struct NewSession<F, S> {
    pub(crate) session: Fingerprint,
    pub(crate) facts: Arc<F>,
    pub(crate) sandbox: S,
    pub(crate) now: Duration,
    pub(crate) lifetime: Duration,
    /// Zero never suspends.
    pub(crate) idle: Duration,
}

/// How many sessions are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) opening: u64,
    pub(crate) running: u64,
    pub(crate) suspended: u64,
    pub(crate) ending: u64,
}

/// Every session of one daemon.
#[derive(Debug)]
pub(crate) struct Table<F, S> {
    caps: Caps,
    next: u64,
    draining: bool,
    /// Whose sessions are kept; `None` = everybody's.
    callers: Option<HashSet<Arc<str>>>,
    opening: HashMap<u64, Whose>,
    /// Of opens that came to nothing, until their sandboxes are gone.
    discarded: HashMap<u64, Whose>,
    sessions: HashMap<Fingerprint, Entry<F, S>>,
    /// When which session is looked at next: never later than it is due, and earlier where that was put off since. A call
    /// therefore changes nothing here.
    agenda: BTreeMap<Look, Fingerprint>,
    /// The ended sessions of each caller, oldest first.
    remembered: HashMap<Arc<str>, VecDeque<Fingerprint>>,
}

/// A moment, and a number that tells two of one moment apart.
type Look = (Duration, u64);

/// Who opened a session, and for which of its end users.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Whose {
    caller: Arc<str>,
    owner: Arc<str>,
}

#[derive(Debug)]
struct Entry<F, S> {
    whose: Whose,
    facts: Arc<F>,
    stage: Stage<S>,
    holder: Option<Holder>,
    /// Who waits for the turn, the next one first.
    waiting: VecDeque<Ticket>,
    /// The place it is to make room for. It has given its own to that open for as long as the open is under way.
    makes_room_for: Option<u64>,
    claimed: bool,
    suspended: bool,
    chain: Chain,
    used: Duration,
    idle: Duration,
    /// Its end, for when the call that runs in it has its answer and nothing of it is left.
    retired: Option<SessionEnded>,
    /// When it is next looked at for idleness; never while suspended.
    idle_at: Option<Duration>,
    expires: Duration,
    /// Where it stands on the agenda.
    look: Option<Look>,
}

/// The turn that is out.
#[derive(Clone, Copy, Debug)]
struct Holder {
    number: u64,
    at: At,
}

/// What is done under a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// A call that has no answer yet.
    Call,
    /// A call that has its answer, and of which nothing may be left when the turn is given back.
    Sweep,
    /// No call: the session is being suspended, or is to be closed.
    Rest,
}

#[derive(Debug)]
enum Stage<S> {
    Open(S),
    /// Ended; the sandbox waits for the turn to come back.
    Cut(S, SessionEnded),
    /// The sandbox is being removed under this number.
    Ending(u64, SessionEnded),
    Ended {
        ended: SessionEnded,
        since: Duration,
        /// Its caller has been told, so it is unknown to calls.
        collected: bool,
    },
}

impl<S> Stage<S> {
    /// Whether the session is open, or may be again because its end can still be undone.
    fn may_live(&self) -> bool {
        match self {
            Self::Open(_) => true,
            Self::Ending(_, end) => end.end == SessionEnd::Unclaimed,
            Self::Cut(..) | Self::Ended { .. } => false,
        }
    }

    fn ended(&self) -> Option<&SessionEnded> {
        match self {
            Self::Open(_) => None,
            Self::Cut(_, ended) | Self::Ending(_, ended) | Self::Ended { ended, .. } => Some(ended),
        }
    }
}

impl<F, S> Table<F, S> {
    pub(crate) fn new(caps: Caps) -> Self {
        Self {
            caps,
            next: 0,
            draining: false,
            callers: None,
            opening: HashMap::new(),
            discarded: HashMap::new(),
            sessions: HashMap::new(),
            agenda: BTreeMap::new(),
            remembered: HashMap::new(),
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// What is known of a session whoever may name it: its caller. Naming it claims it. `None` for everybody else, and for
    /// whoever would run in a session that has been closed.
    pub(crate) fn find(&mut self, session: &Fingerprint, caller: &str, to_close: bool) -> Option<Arc<F>> {
        let entry = self.sessions.get_mut(session)?;
        if *entry.whose.caller != *caller {
            return None;
        }
        if !to_close && matches!(entry.stage, Stage::Ended { collected: true, .. }) {
            return None;
        }
        entry.claimed = true;
        Some(Arc::clone(&entry.facts))
    }

    /// Asks for the turn. One call may run in it and one may wait; a call that has its answer is neither.
    pub(crate) fn ask(&mut self, session: &Fingerprint) -> Option<Asked> {
        let entry = self.sessions.get(session)?;
        if let Some(ended) = entry.ended() {
            return Some(Asked::Ended(ended.clone()));
        }
        let Some(holder) = entry.holder else {
            return self.hold(session, At::Call).map(Asked::Now);
        };
        if entry.waiting.len() + usize::from(holder.at == At::Call) >= CALLS_AT_ONCE {
            return Some(Asked::Busy);
        }
        let ticket = Ticket(self.number());
        self.sessions.get_mut(session)?.waiting.push_back(ticket);
        Some(Asked::Wait(ticket))
    }

    /// The waiter has gone. A turn it was given meanwhile comes back by [`Table::release`].
    pub(crate) fn leave(&mut self, session: &Fingerprint, ticket: Ticket) {
        if let Some(entry) = self.sessions.get_mut(session) {
            entry.waiting.retain(|one| *one != ticket);
        }
    }

    fn hold(&mut self, session: &Fingerprint, at: At) -> Option<Turn> {
        let number = self.number();
        let entry = self.sessions.get_mut(session)?;
        entry.holder = Some(Holder { number, at });
        Some(Turn {
            session: session.clone(),
            number,
        })
    }

    fn held(&self, turn: &Turn) -> Option<&Entry<F, S>> {
        let entry = self.sessions.get(&turn.session)?;
        (entry.holder?.number == turn.number).then_some(entry)
    }

    fn held_mut(&mut self, turn: &Turn) -> Option<&mut Entry<F, S>> {
        let entry = self.sessions.get_mut(&turn.session)?;
        (entry.holder?.number == turn.number).then_some(entry)
    }

    /// The sandbox, for whoever has the turn of a session that has not ended.
    pub(crate) fn sandbox(&self, turn: &Turn) -> Result<&S, SessionEnded> {
        let gone = || ended(SessionEnd::NotFound, NO_SESSION);
        match &self.held(turn).ok_or_else(gone)?.stage {
            Stage::Open(sandbox) => Ok(sandbox),
            other => Err(other.ended().cloned().unwrap_or_else(gone)),
        }
    }

    /// Whether the session is suspended, and must be resumed before anything runs.
    pub(crate) fn is_suspended(&self, turn: &Turn) -> bool {
        self.held(turn).is_some_and(|entry| entry.suspended)
    }

    /// Whoever has the turn has suspended the session, or resumed it.
    pub(crate) fn set_suspended(&mut self, turn: &Turn, suspended: bool, now: Duration) {
        if let Some(entry) = self.held_mut(turn) {
            entry.suspended = suspended;
            entry.idle_at = if suspended { None } else { entry.idle_from(now) };
        }
        self.schedule(&turn.session);
    }

    /// How long ago the session was last used.
    pub(crate) fn idle_for(&self, turn: &Turn, now: Duration) -> Duration {
        self.held(turn)
            .map_or(Duration::ZERO, |entry| now.saturating_sub(entry.used))
    }

    /// Suspending failed and the session lives: it is looked at again after another idle period.
    pub(crate) fn put_off(&mut self, turn: &Turn, now: Duration) {
        if let Some(entry) = self.held_mut(turn)
            && !entry.suspended
        {
            entry.idle_at = Some(now.saturating_add(entry.window()));
        }
        self.schedule(&turn.session);
    }

    /// Where the chain stands, for the record of the call that has the turn.
    pub(crate) fn chain(&self, turn: &Turn) -> Option<&Chain> {
        self.held(turn).map(|entry| &entry.chain)
    }

    /// The chain moves on by this call's record.
    pub(crate) fn count(&mut self, turn: &Turn, record: &RunRecord) -> Result<(), ChainBreak> {
        match self.held_mut(turn) {
            Some(entry) => entry.chain.follow(record),
            None => Err(ChainBreak::Session),
        }
    }

    /// The call that has the turn is about to have its answer. From here on it is ahead of nobody, and its session is as idle as
    /// one whose turn is free, though nothing happens to it before the turn is back.
    pub(crate) fn answered(&mut self, turn: &Turn, used: Use, now: Duration) {
        let Some(entry) = self.held_mut(turn) else { return };
        if let Some(holder) = &mut entry.holder {
            holder.at = At::Sweep;
        }
        if used == Use::Ran {
            entry.used = entry.used.max(now);
        }
    }

    /// Gives the turn back: to the first who waits, or to the teardown of a session that has ended meanwhile.
    pub(crate) fn release(&mut self, turn: Turn, used: Use, now: Duration) -> Vec<Effect<S>> {
        let number = self.number();
        let Some(entry) = self.held_mut(&turn) else {
            return Vec::new();
        };
        entry.holder = None;
        if used == Use::Ran {
            entry.used = entry.used.max(now);
            if !entry.suspended {
                entry.idle_at = entry.idle_from(entry.used);
            }
        }
        if entry.stage.ended().is_none()
            && let Some(end) = entry.retired.take()
        {
            return self.end(&turn.session, end);
        }
        if entry.stage.ended().is_some() {
            return self
                .tear_down(&turn.session)
                .map(Effect::TearDown)
                .into_iter()
                .collect();
        }
        let next = entry.waiting.pop_front();
        entry.holder = next.map(|_| Holder { number, at: At::Call });
        self.schedule(&turn.session);
        let next = next.map(|ticket| {
            let turn = Turn {
                session: turn.session,
                number,
            };
            Effect::Wake(Woken { ticket, news: Ok(turn) })
        });
        next.into_iter().collect()
    }
}

impl<F, S> Entry<F, S> {
    /// How it ended, or is going to.
    fn ended(&self) -> Option<&SessionEnded> {
        self.stage.ended().or(self.retired.as_ref())
    }

    /// How long after it was last looked at the session is looked at again.
    fn window(&self) -> Duration {
        if self.idle.is_zero() { UNCLAIMED } else { self.idle }
    }

    fn idle_from(&self, now: Duration) -> Option<Duration> {
        match (self.idle.is_zero(), self.claimed) {
            (true, true) => None,
            (true, false) => Some(now.saturating_add(UNCLAIMED)),
            (false, _) => Some(now.saturating_add(self.idle)),
        }
    }

    fn due(&self) -> Option<Duration> {
        match &self.stage {
            Stage::Open(_) => Some(self.idle_at.map_or(self.expires, |idle| idle.min(self.expires))),
            Stage::Ended { since, .. } => Some(since.saturating_add(REMEMBERED)),
            Stage::Cut(..) | Stage::Ending(..) => None,
        }
    }

    /// Whoever waits is told of the end instead.
    fn turn_away<T>(&mut self, end: &SessionEnded) -> Vec<Effect<T>> {
        let told = |ticket| {
            Effect::Wake(Woken {
                ticket,
                news: Err(end.clone()),
            })
        };
        self.waiting.drain(..).map(told).collect()
    }

    /// Whether no call runs in it, nor waits to.
    fn is_idle(&self) -> bool {
        let runs = matches!(
            self.holder,
            Some(Holder {
                at: At::Call | At::Rest,
                ..
            })
        );
        self.ended().is_none() && !runs && self.waiting.is_empty()
    }
}

impl Turn {
    /// Whose turn it is.
    pub(crate) const fn session(&self) -> &Fingerprint {
        &self.session
    }
}

fn revoked() -> SessionEnded {
    ended(SessionEnd::Closed, "its caller was revoked")
}

fn shutdown() -> SessionEnded {
    ended(SessionEnd::Shutdown, "the daemon stopped")
}

/// The one text for a session that is not there, or not this caller's.
pub(crate) const NO_SESSION: &str = "no such session for this caller";

/// An end in our own words.
pub(crate) fn ended(end: SessionEnd, detail: &str) -> SessionEnded {
    SessionEnded {
        end,
        detail: detail.to_owned(),
    }
}

#[cfg(test)]
mod tests;
