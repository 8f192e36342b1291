//! Sessions: sandboxes kept for many calls.
//!
//! ```text
//!  procedures ─► open · run · close ─┐                       ┌─► tasks: suspend, remove, wake, forget
//!                                    ├─► Table (pure rules) ─┤
//!  clock ─► ticker ──────────────────┘                       └─► the provider's sessions
//! ```
//!
//! `table` holds every rule and no clock; this module gives it time, carries out what it decides, and counts and tells.
//! All of it is in memory: a restart forgets every session.

mod close;
mod open;
mod run;
mod settings;
mod table;

pub use settings::{Settings, VARS};

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_core::{Permit, SessionEnd, SessionEnded, SessionEvidence, SessionTerms, SoftwareRule};
use plimsoll_grants::caps::RouteCaps;
use plimsoll_record::Fingerprint;
use plimsoll_sandbox::{ProviderFault, SESSION_BOUND, Sandbox, Session, Suspended};
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::corridor::Books;
use crate::limiter::{Limiter, SuspendedMemory};
use crate::log::Log;
use crate::metrics::{Metrics, SessionReadings};
use settings::millis;
use table::{Caps, Effect, Table, TearDown, Ticket, Turn, Use, Woken, ended};

/// First and longest pause between two attempts to remove a sandbox that would not go.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Two looks at what is due are at least this far apart.
const TICK: Duration = Duration::from_millis(20);

/// Two looks are at most this far apart.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Keeps the sessions of one daemon. Clones share them.
#[derive(Clone)]
pub struct Keeper(Arc<Inner>);

struct Inner {
    sandbox: Arc<dyn Sandbox>,
    settings: Settings,
    limiter: Limiter,
    books: Books,
    born: Instant,
    state: Mutex<State>,
    /// Something became due earlier than the ticker knows.
    sooner: Notify,
    /// A sandbox is gone, an open has ended, a turn has come back, or no session is opened any more.
    less: Notify,
    ticking: AtomicBool,
}

struct State {
    table: Table<Facts, Arc<Sandboxed>>,
    waiters: HashMap<Ticket, oneshot::Sender<Result<TurnGuard, SessionEnded>>>,
    /// When the ticker looks next.
    next_look: Duration,
}

impl State {
    /// Whether something is due before the ticker looks next, by more than it waits at least.
    fn due_sooner(&self) -> bool {
        let next = self.table.next_look();
        next.is_some_and(|due| due.saturating_add(TICK) < self.next_look)
    }
}

/// What is known of a session for as long as it is remembered.
#[derive(Debug)]
struct Facts {
    caller: Arc<str>,
    rule: SoftwareRule,
    evidence: SessionEvidence,
    /// How often its granted calls have called the routes their grants cap: one count for all of them.
    caps: Arc<RouteCaps>,
    /// Fires when the session has ended, whatever it is doing.
    cut: CancellationToken,
    removal: watch::Sender<Removal>,
}

/// How far a session's removal has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Removal {
    Pending,
    Failed(String),
    Gone,
}

/// What one attempt to remove a sandbox came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Removed {
    Gone,
    /// It lives, and so does its session.
    Reopened,
    /// It has ended and is not gone yet; that is tried again.
    StillGoing,
}

/// A kept sandbox with what it holds of the daemon.
struct Sandboxed {
    session: Arc<dyn Session>,
    held: Mutex<Held>,
}

/// A slot while it runs, or its measured memory while it is suspended without one.
enum Held {
    Slot(Permit),
    /// Charged for as long as this lives.
    Memory(SuspendedMemory),
}

/// A turn, given back when this is dropped: unused unless somebody says otherwise.
struct TurnGuard {
    keeper: Keeper,
    turn: Option<Turn>,
    used: Use,
}

impl Keeper {
    /// A keeper of no session yet. Its tasks run on the runtime its procedures are asked on.
    pub fn new(
        sandbox: Arc<dyn Sandbox>,
        settings: Settings,
        limiter: Limiter,
        metrics: Arc<Metrics>,
        log: Log,
    ) -> Self {
        let caps = Caps {
            total: settings.max,
            per_caller: settings.max_per_caller,
            per_owner: settings.max_per_owner,
        };
        Self(Arc::new(Inner {
            sandbox,
            settings,
            limiter,
            books: Books { metrics, log },
            born: Instant::now(),
            state: Mutex::new(State {
                table: Table::new(caps),
                waiters: HashMap::new(),
                next_look: Duration::ZERO,
            }),
            sooner: Notify::new(),
            less: Notify::new(),
            ticking: AtomicBool::new(false),
        }))
    }

    /// On which terms sessions are kept.
    pub fn terms(&self) -> SessionTerms {
        self.0.settings.terms()
    }

    /// How many sessions are in which state, for the metrics.
    pub fn readings(&self) -> SessionReadings {
        let census = self.0.state.lock().table.census();
        SessionReadings {
            opening: census.opening,
            running: census.running,
            suspended: census.suspended,
            ending: census.ending,
        }
    }

    /// Ends every session and waits until their sandboxes are gone; answers how many are not when the time is up.
    pub async fn drain(&self, budget: Duration) -> u64 {
        let effects = self.0.state.lock().table.drain();
        self.apply(effects);
        self.0.less.notify_waiters();
        let emptied = async {
            loop {
                let less = self.0.less.notified();
                if self.0.state.lock().table.is_empty() {
                    return;
                }
                less.await;
            }
        };
        match tokio::time::timeout(budget, emptied).await {
            Ok(()) => 0,
            Err(_) => {
                let census = self.0.state.lock().table.census();
                census.opening + census.running + census.suspended + census.ending
            }
        }
    }

    /// Keeps the sessions of these callers too: said before they can call.
    pub fn admit(&self, more: HashSet<Arc<str>>) {
        self.0.state.lock().table.admit(more);
    }

    /// Keeps the sessions of these callers and no others, from here on too; answers how many are closed by that. A call that
    /// runs in one of them goes on to its answer.
    pub fn retain(&self, callers: HashSet<Arc<str>>) -> usize {
        let (closed, effects) = self.0.state.lock().table.retain(callers);
        self.apply(effects);
        closed
    }

    /// Time since this keeper was made; never goes back.
    fn now(&self) -> Duration {
        self.0.born.elapsed()
    }

    fn guard(&self, turn: Turn) -> TurnGuard {
        TurnGuard {
            keeper: self.clone(),
            turn: Some(turn),
            used: Use::Nothing,
        }
    }

    /// Ends a session for a reason that does not wait for its turn.
    fn end(&self, session: &Fingerprint, end: SessionEnded) {
        let effects = self.0.state.lock().table.end(session, end);
        self.apply(effects);
    }

    /// Carries out what the table decided. Never called with the table locked.
    fn apply(&self, effects: Vec<Effect<Arc<Sandboxed>>>) {
        for effect in effects {
            match effect {
                Effect::Wake(Woken { ticket, news }) => {
                    let waiter = self.0.state.lock().waiters.remove(&ticket);
                    let news = news.map(|turn| self.guard(turn));
                    if let Some(waiter) = waiter {
                        // A waiter who has gone drops the turn, which gives it back.
                        drop(waiter.send(news));
                    }
                }
                Effect::TearDown(down) => {
                    tokio::spawn(self.clone().remove(down));
                }
                Effect::Cut(session) => {
                    if let Some(facts) = self.0.state.lock().table.facts(&session) {
                        facts.cut.cancel();
                    }
                }
                Effect::Suspend(turn) => {
                    tokio::spawn(self.clone().suspend(self.guard(turn)));
                }
                Effect::Unclaimed(turn) => {
                    tokio::spawn(self.clone().close_unclaimed(self.guard(turn)));
                }
            }
        }
    }

    /// Removes a sandbox, however often it takes, and reports it gone.
    async fn remove(self, down: TearDown<Arc<Sandboxed>>) {
        let closing = Closing::begin(&down.sandbox.session);
        self.see_removed(down, closing).await;
    }

    async fn see_removed(self, down: TearDown<Arc<Sandboxed>>, closing: Closing) {
        let failed = |not_gone: &NotGone| self.tell_removal(&down, Removal::Failed(not_gone.to_string()));
        closing.until_gone(&down.sandbox.session, failed).await;
        self.gone(down);
    }

    fn tell_removal(&self, down: &TearDown<Arc<Sandboxed>>, removal: Removal) {
        if let Removal::Failed(cause) = &removal {
            self.0
                .books
                .log
                .warn("session not removed yet")
                .text("session", down.session.as_str())
                .text("error", cause)
                .send();
        }
        if let Some(facts) = self.0.state.lock().table.facts(&down.session) {
            facts.removal.send_replace(removal);
        }
    }

    /// The sandbox is gone: its slot is free, and whoever waits for that is told.
    fn gone(&self, down: TearDown<Arc<Sandboxed>>) {
        let now = self.now();
        let (closed, facts) = {
            let mut state = self.0.state.lock();
            let facts = state.table.facts(&down.session);
            (state.table.gone(down, now), facts)
        };
        let (Some((summary, sandbox)), Some(facts)) = (closed, facts) else {
            return;
        };
        // Before anybody is told: the slot is what they may be waiting for.
        drop(sandbox);
        facts.cut.cancel();
        self.0
            .books
            .log
            .info("session closed")
            .text("caller", &facts.caller)
            .text("session", summary.session.as_str())
            .uint("calls", summary.calls)
            .text("end", summary.ended.end.as_str())
            .send();
        facts.removal.send_replace(Removal::Gone);
        self.0.less.notify_waiters();
    }

    /// Idle for long enough: the sandbox is stopped, and what it no longer holds is given back.
    async fn suspend(self, mut guard: TurnGuard) {
        let Some(sandbox) = guard.sandbox() else { return };
        let session = guard.session();
        let Some(facts) = self.0.state.lock().table.facts(&session) else {
            return;
        };
        let resting = Arc::clone(&sandbox.session);
        let resting = tokio::spawn(async move { resting.suspend().await });
        let suspended = tokio::time::timeout(SESSION_BOUND, resting).await;
        if let Some(end) = sandbox.session.ended() {
            return self.end(&session, end);
        }
        let now = self.now();
        let problem = match suspended {
            Ok(Ok(Ok(suspended))) => {
                let holds_memory = matches!(suspended, Suspended::HoldsMemory);
                if let Suspended::Holds(bytes) = suspended {
                    *sandbox.held.lock() = Held::Memory(self.0.limiter.suspended(&facts.caller, bytes));
                }
                let idle = guard.with(|table, turn| {
                    table.set_suspended(turn, true, now);
                    table.idle_for(turn, now)
                });
                self.0
                    .books
                    .log
                    .info("session suspended")
                    .text("session", session.as_str())
                    .uint("idle_ms", millis(idle.unwrap_or_default()))
                    .bool("holds_memory", holds_memory)
                    .send();
                return;
            }
            Ok(Ok(Err(fault))) => fault.to_string(),
            // It panicked, or is late.
            Ok(Err(_)) | Err(_) => {
                let detail = "it could not be shown to be suspended";
                return self.end(&session, ended(SessionEnd::BoundaryFailed, detail));
            }
        };
        guard.with(|table, turn| table.put_off(turn, now));
        self.0
            .books
            .log
            .warn("session not suspended")
            .text("session", session.as_str())
            .text("error", &problem)
            .send();
    }

    /// Nobody has named it since it was opened. Where it cannot be removed it can still be named.
    async fn close_unclaimed(self, mut guard: TurnGuard) {
        let Some(sandbox) = guard.sandbox() else { return };
        let end = sandbox
            .session
            .ended()
            .unwrap_or_else(|| ended(SessionEnd::Unclaimed, "nobody named it within its first idle period"));
        drop(sandbox);
        if let Some(down) = guard.close_unclaimed(end) {
            self.remove_or_reopen(down).await;
        }
    }

    /// One attempt to remove a sandbox; where its provider says that it could not, and it lives, the session's end is undone.
    async fn remove_or_reopen(&self, down: TearDown<Arc<Sandboxed>>) -> Removed {
        let mut closing = Closing::begin(&down.sandbox.session);
        let Err(not_gone) = closing.end().await else {
            self.gone(down);
            return Removed::Gone;
        };
        self.tell_removal(&down, Removal::Failed(not_gone.to_string()));
        let now = self.now();
        let refused = matches!(not_gone, NotGone::Refused(_));
        let reopened = if refused && down.sandbox.session.ended().is_none() {
            self.0.state.lock().table.reopen(down, now)
        } else {
            Err(down)
        };
        match reopened {
            Ok(effects) => {
                self.apply(effects);
                self.look_sooner();
                Removed::Reopened
            }
            Err(down) => {
                let keeper = self.clone();
                if matches!(not_gone, NotGone::Slow) {
                    tokio::spawn(keeper.see_removed(down, closing));
                } else {
                    tokio::spawn(keeper.remove(down));
                }
                Removed::StillGoing
            }
        }
    }

    /// Wakes the ticker where it would look too late.
    fn look_sooner(&self) {
        if self.0.state.lock().due_sooner() {
            self.0.sooner.notify_one();
        }
    }

    /// Starts looking for what is due, once; ends with the last handle of the keeper.
    fn tick(&self) {
        if self.0.ticking.swap(true, Ordering::AcqRel) {
            return self.look_sooner();
        }
        let keeper = Arc::downgrade(&self.0);
        tokio::spawn(ticker(keeper));
    }
}

async fn ticker(keeper: Weak<Inner>) {
    loop {
        let Some(inner) = keeper.upgrade() else { return };
        let keeper_now = Keeper(inner);
        let now = keeper_now.now();
        let (effects, pause) = {
            let mut state = keeper_now.0.state.lock();
            let effects = state.table.tick(now);
            let due = state.table.next_look();
            let pause = due
                .map_or(LONGEST_PAUSE, |due| due.saturating_sub(now))
                .clamp(TICK, LONGEST_PAUSE);
            state.next_look = now.saturating_add(pause);
            (effects, pause)
        };
        keeper_now.apply(effects);
        // Only the wait itself holds the keeper, so that the last handle elsewhere is noticed when it is over.
        let inner = Arc::clone(&keeper_now.0);
        drop(keeper_now);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = inner.sooner.notified() => {}
        }
    }
}

/// One attempt to remove a sandbox. It goes on when nobody waits for it.
struct Closing(JoinHandle<Result<(), ProviderFault>>);

/// Why a sandbox is not known to be gone.
#[derive(Debug, thiserror::Error)]
enum NotGone {
    /// The provider says that it could not remove it.
    #[error(transparent)]
    Refused(ProviderFault),
    /// Nobody knows.
    #[error("the provider panicked")]
    Panicked,
    /// It is being removed.
    #[error("not gone within {} s", SESSION_BOUND.as_secs())]
    Slow,
}

impl Closing {
    fn begin(session: &Arc<dyn Session>) -> Self {
        let session = Arc::clone(session);
        Self(tokio::spawn(async move { session.close().await }))
    }

    /// Attempt after attempt, until the sandbox is gone.
    async fn until_gone(mut self, session: &Arc<dyn Session>, failed: impl Fn(&NotGone)) {
        let mut pause = RETRY.0;
        while let Err(not_gone) = self.end().await {
            failed(&not_gone);
            // One close that takes its time is waited for: two at once are more than a provider has to bear.
            if !matches!(not_gone, NotGone::Slow) {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY.1);
                self = Self::begin(session);
            }
        }
    }

    /// Its end, waited for within a bound; after [`NotGone::Slow`] it can be waited for again.
    async fn end(&mut self) -> Result<(), NotGone> {
        match tokio::time::timeout(SESSION_BOUND, &mut self.0).await {
            Ok(Ok(closed)) => closed.map_err(NotGone::Refused),
            Ok(Err(_)) => Err(NotGone::Panicked),
            Err(_) => Err(NotGone::Slow),
        }
    }
}

impl TurnGuard {
    /// The sandbox, unless the session has ended.
    fn sandbox(&self) -> Option<Arc<Sandboxed>> {
        self.open().ok()
    }

    /// The sandbox, or how the session ended.
    fn open(&self) -> Result<Arc<Sandboxed>, SessionEnded> {
        let state = self.keeper.0.state.lock();
        match &self.turn {
            Some(turn) => state.table.sandbox(turn).cloned(),
            None => Err(ended(SessionEnd::NotFound, table::NO_SESSION)),
        }
    }

    fn session(&self) -> Fingerprint {
        self.turn
            .as_ref()
            .map_or_else(|| Fingerprint::of(""), |turn| turn.session().clone())
    }

    /// Something done to the table by whoever has the turn.
    fn with<T>(&mut self, act: impl FnOnce(&mut Table<Facts, Arc<Sandboxed>>, &Turn) -> T) -> Option<T> {
        let turn = self.turn.as_ref()?;
        Some(act(&mut self.keeper.0.state.lock().table, turn))
    }

    /// The call is about to have its answer. Said first, so that whoever has heard it is not taken for one call too many.
    fn answered(&mut self) {
        let (used, now) = (self.used, self.keeper.now());
        self.with(|table, turn| table.answered(turn, used, now));
    }

    /// Ends the session and gives its sandbox up for removal, unless it ended by itself first.
    fn close(&mut self, end: SessionEnded) -> Option<TearDown<Arc<Sandboxed>>> {
        let turn = self.turn.take()?;
        let (down, effects) = self.keeper.0.state.lock().table.close(turn, end);
        self.keeper.apply(effects);
        down
    }

    /// The same, unless somebody has named the session meanwhile.
    fn close_unclaimed(&mut self, end: SessionEnded) -> Option<TearDown<Arc<Sandboxed>>> {
        let turn = self.turn.take()?;
        let now = self.keeper.now();
        let (down, effects) = self.keeper.0.state.lock().table.close_unclaimed(turn, end, now);
        self.keeper.apply(effects);
        down
    }
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        if let Some(turn) = self.turn.take() {
            let now = self.keeper.now();
            let (effects, sooner) = {
                let mut state = self.keeper.0.state.lock();
                (state.table.release(turn, self.used, now), state.due_sooner())
            };
            self.keeper.apply(effects);
            self.keeper.0.less.notify_waiters();
            if sooner {
                self.keeper.0.sooner.notify_one();
            }
        }
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper")
            .field("settings", &self.0.settings)
            .finish_non_exhaustive()
    }
}
