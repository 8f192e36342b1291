//! Opening a session: a place, its capacity, what it replaces, its sandbox, its id.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plimsoll_core::limits::DISPATCH_DEADLINE;
use plimsoll_core::{
    AdmittedOpen, AuthorizedOpen, Code, Fault, OpenedSession, Permit, Reason, Refusal, RunError, SessionEnd, SessionId,
};
use plimsoll_record::Fingerprint;
use plimsoll_sandbox::{OpenContext, Received, SESSION_BOUND, Session};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::settings::millis;
use super::table::{Discarded, NewSession, NoPlace, Place, Replacing, TearDown, ended};
use super::{Closing, Facts, Held, Keeper, NotGone, Removal, Removed, Sandboxed};
use crate::corridor::{FAR, wanted};
use crate::handler::CallContext;
use crate::limiter::Shed;
use crate::random;

/// A place in the table, given up when this is dropped.
struct Reserved {
    keeper: Keeper,
    place: Option<Place>,
}

/// A sandbox that never became a session, with what it takes until it is gone.
struct Unwanted {
    keeper: Keeper,
    session: Arc<dyn Session>,
    place: Discarded,
    slot: Permit,
}

/// Ends a session nobody can name, because its caller went away before it had the id; unless that is told first.
struct Unheard {
    keeper: Keeper,
    session: Option<Fingerprint>,
}

impl Unheard {
    fn heard(mut self) {
        self.session = None;
    }
}

impl Drop for Unheard {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let end = ended(
                SessionEnd::Unclaimed,
                "its caller went away before it had the session's id",
            );
            self.keeper.end(&session, end);
        }
    }
}

/// The answer to an open on its way to the caller.
type Answered = Result<(OpenedSession, Unheard), RunError>;

impl Keeper {
    /// Opens a session for a caller whose request the evidence satisfies. Dropping the future gives the open up, also one
    /// that has just succeeded.
    pub(crate) async fn open(&self, context: CallContext, open: AuthorizedOpen) -> Result<OpenedSession, RunError> {
        let hung_up = context.cancelled.clone().drop_guard();
        let caller = Arc::clone(context.principal.key());
        let (tell, told) = oneshot::channel();
        tokio::spawn(self.clone().open_to_end(context, open, tell));
        let answer = told.await.unwrap_or_else(|_| {
            let panicked = RunError::from(Fault::internal("opening a session panicked"));
            self.tell_failed(&caller, &panicked);
            Err(panicked)
        });
        hung_up.disarm();
        answer.map(|(opened, unheard)| {
            unheard.heard();
            opened
        })
    }

    async fn open_to_end(self, context: CallContext, open: AuthorizedOpen, tell: oneshot::Sender<Answered>) {
        let answer = self.open_and_tell(context, open).await.map(|opened| {
            let unheard = Unheard {
                keeper: self.clone(),
                session: Some(Fingerprint::of(opened.session_id.reveal())),
            };
            (opened, unheard)
        });
        // A caller who has gone drops the answer, and the session with it.
        drop(tell.send(answer));
    }

    async fn open_and_tell(&self, context: CallContext, open: AuthorizedOpen) -> Result<OpenedSession, RunError> {
        wanted(&context)?;
        let caller = Arc::clone(context.principal.key());
        let reserved = self.reserve(&context, &open.request().owner).await?;
        let slot = self.admit_open(&caller, &reserved)?;
        let began = Instant::now();
        let opened = self.open_admitted(&context, open, slot, reserved).await;
        match &opened {
            Ok((opened, lifetime, languages)) => {
                let line = self
                    .0
                    .books
                    .log
                    .info("session opened")
                    .text("caller", &caller)
                    .text("session", &opened.session)
                    .text("sandbox", &opened.sandbox)
                    .text("isolation", &opened.isolation)
                    .uint("lifetime_ms", millis(*lifetime))
                    .uint("idle_timeout_ms", opened.idle_timeout_ms)
                    .count(
                        "duration_ms",
                        usize::try_from(began.elapsed().as_millis()).unwrap_or(usize::MAX),
                    );
                match languages {
                    Some(hinted) => line.text("languages", hinted).send(),
                    None => line.send(),
                }
            }
            Err(error) => self.tell_failed(&caller, error),
        }
        opened.map(|(opened, ..)| opened)
    }

    fn tell_failed(&self, caller: &str, error: &RunError) {
        self.0
            .books
            .log
            .warn("session open failed")
            .text("caller", caller)
            .text("error", &error.to_string())
            .send();
    }

    async fn open_admitted(
        &self,
        context: &CallContext,
        open: AuthorizedOpen,
        slot: Permit,
        mut reserved: Reserved,
    ) -> Result<(OpenedSession, Duration, Option<String>), RunError> {
        self.replace(&mut reserved).await?;
        let lifetime = self.0.settings.lifetime_of(open.request().lifetime_ms);
        let idle = self.0.settings.idle_of(open.request().idle_timeout_ms);
        let open = open.admit(lifetime, slot.clone());
        // What of the hint counts: the stated languages, each once.
        let hinted = (!open.request().languages.is_empty()).then(|| open.languages().join(","));
        let session = self.open_sandbox(context, &open).await?;
        if let Err(refusal) = wanted(context).and_then(|()| open.recheck(session.evidence())) {
            reserved.discard(session, slot).await;
            return Err(refusal.into());
        }
        let Some(id) = random::hex::<16>().map(SessionId::new) else {
            reserved.discard(session, slot).await;
            return Err(Fault::internal("no session id could be made: the system gives no random bytes").into());
        };
        let fingerprint = Fingerprint::of(id.reveal());
        let stated = session.evidence();
        let answer = OpenedSession {
            session: fingerprint.as_str().to_owned(),
            sandbox: stated.provider.to_owned(),
            isolation: stated.isolation.as_str().to_owned(),
            expires_unix_ms: Received::now().unix_ms().saturating_add(millis(lifetime).into()),
            idle_timeout_ms: millis(idle),
            software_identity: stated.support.environment.software_identity.clone(),
            session_id: id,
        };
        let cut = CancellationToken::new();
        let facts = Facts {
            caller: Arc::clone(context.principal.key()),
            rule: open.rule().clone(),
            evidence: stated.clone(),
            caps: Arc::default(),
            cut: cut.clone(),
            removal: watch::Sender::new(Removal::Pending),
        };
        let new = NewSession {
            session: fingerprint.clone(),
            facts: Arc::new(facts),
            sandbox: Arc::new(Sandboxed {
                session: Arc::clone(&session),
                held: Mutex::new(Held::Slot(slot.clone())),
            }),
            now: self.now(),
            lifetime,
            idle,
        };
        if reserved.register(new).is_err() {
            reserved.discard(session, slot).await;
            return Err(Refusal::capacity("the daemon is stopping; open the session on another one").into());
        }
        tokio::spawn(self.clone().watch(fingerprint, session, cut));
        self.tick();
        Ok((answer, lifetime, hinted))
    }

    async fn open_sandbox(&self, context: &CallContext, open: &AdmittedOpen) -> Result<Arc<dyn Session>, RunError> {
        let sandbox = &self.0.sandbox;
        let Some(sessions) = sandbox.sessions() else {
            return Err(Refusal::unsupported("the provider keeps no sessions").into());
        };
        let bound = Instant::now() + DISPATCH_DEADLINE;
        let deadline = context.deadline.map_or(bound, |own| own.min(bound));
        let surroundings = OpenContext {
            deadline,
            cancelled: context.cancelled.clone(),
            disk_bytes: self.0.settings.disk_bytes(&sandbox.evidence()),
        };
        tokio::select! {
            biased;
            opened = sessions.open(open, surroundings) => opened,
            () = context.cancelled.cancelled() => Err(given_up(Code::Canceled).into()),
            () = tokio::time::sleep_until(deadline.into()) => Err(given_up(Code::DeadlineExceeded).into()),
        }
    }

    /// A place. It is waited for only where the session that is to make it is being swept after an answered call.
    async fn reserve(&self, context: &CallContext, owner: &str) -> Result<Reserved, Refusal> {
        let deadline = context.deadline.unwrap_or_else(|| context.received.instant() + FAR);
        let patience = tokio::time::sleep(SESSION_BOUND);
        tokio::pin!(patience);
        loop {
            // Before the look, so that a turn that comes back after it is not missed.
            let less = self.0.less.notified();
            let place = self.0.state.lock().table.reserve(context.principal.key(), owner);
            match place {
                Ok(place) => {
                    return Ok(Reserved {
                        keeper: self.clone(),
                        place: Some(place),
                    });
                }
                Err(NoPlace::NotYet) => {}
                Err(none) => return Err(self.no_place(none)),
            }
            tokio::select! {
                biased;
                () = less => {}
                () = context.cancelled.cancelled() => return Err(given_up(Code::Canceled)),
                () = tokio::time::sleep_until(deadline.into()) => return Err(given_up(Code::DeadlineExceeded)),
                // It was used again each time that it could have made room.
                () = &mut patience => return Err(self.no_place(NoPlace::OwnerBusy)),
            }
        }
    }

    fn no_place(&self, none: NoPlace) -> Refusal {
        let settings = &self.0.settings;
        Refusal::capacity(match none {
            NoPlace::Total => "all sessions this daemon keeps are in use; retry later or use another daemon".to_owned(),
            NoPlace::PerCaller => format!(
                "this caller already has {} sessions, its limit; close one",
                settings.max_per_caller
            ),
            NoPlace::OwnerBusy | NoPlace::NotYet => format!(
                "this owner already has {} sessions, its limit, and all of them are busy; retry later or close one",
                settings.max_per_owner
            ),
            NoPlace::Draining => "the daemon is stopping; open the session on another one".to_owned(),
        })
    }

    /// A slot and a token, or a token and the slot of the first session that is replaced.
    fn admit_open(&self, caller: &Arc<str>, reserved: &Reserved) -> Result<Permit, Refusal> {
        let limiter = &self.0.limiter;
        let replaced = reserved.first_replaced();
        let admitted = match replaced.as_ref().map(|sandbox| sandbox.held.lock()).as_deref() {
            Some(Held::Slot(slot)) => limiter.charge(caller).map(|()| slot.clone()),
            Some(Held::Memory(memory)) => limiter.acquire_freeing(caller, memory.bytes()).map(Permit::new),
            None => limiter.acquire(caller).map(Permit::new),
        };
        admitted.map_err(|shed| self.shed(shed))
    }

    pub(super) fn shed(&self, shed: Shed) -> Refusal {
        self.0.books.metrics.shed(shed);
        self.0.limiter.refusal(shed)
    }

    /// Closes what the place replaces, and waits for those sandboxes to be gone.
    async fn replace(&self, reserved: &mut Reserved) -> Result<(), Refusal> {
        while let Some((facts, down)) = reserved.next_replaced() {
            let session = down.session.clone();
            if let Some(own) = down.sandbox.session.ended() {
                self.0.state.lock().table.ended_earlier(&down, own);
            }
            match self.remove_or_reopen(down).await {
                Removed::Gone => self
                    .0
                    .books
                    .log
                    .info("session replaced")
                    .text("caller", &facts.caller)
                    .text("session", session.as_str())
                    .send(),
                Removed::Reopened | Removed::StillGoing => {
                    return Err(Refusal::capacity(
                        "a session of this owner that should make room could not be closed; retry later",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Tells the table when the sandbox ends by itself.
    async fn watch(self, fingerprint: Fingerprint, session: Arc<dyn Session>, cut: CancellationToken) {
        tokio::select! {
            biased;
            () = cut.cancelled() => {}
            end = session.lost() => self.end(&fingerprint, end),
        }
    }
}

impl Reserved {
    fn first_replaced(&self) -> Option<Arc<Sandboxed>> {
        let state = self.keeper.0.state.lock();
        state.table.first_replaced(self.place.as_ref()?).cloned()
    }

    fn next_replaced(&mut self) -> Option<(Arc<Facts>, TearDown<Arc<Sandboxed>>)> {
        let next = self.keeper.0.state.lock().table.replace(self.place.as_mut()?);
        let Replacing { facts, down, effects } = next?;
        self.keeper.apply(effects);
        Some((facts, down))
    }

    /// Puts the session into the table, which uses the place up. A table that drains takes none.
    fn register(&mut self, new: NewSession<Facts, Arc<Sandboxed>>) -> Result<(), ()> {
        let place = self.place.take().ok_or(())?;
        let registered = self.keeper.0.state.lock().table.opened(place, new);
        match registered {
            Ok(effects) => {
                self.keeper.0.less.notify_waiters();
                self.keeper.apply(effects);
                Ok(())
            }
            Err((place, _)) => {
                self.place = Some(place);
                Err(())
            }
        }
    }

    /// Removes a sandbox that never became a session. It takes its place and its slot until it is gone; the caller waits for
    /// one attempt to remove it, and not for all.
    async fn discard(mut self, session: Arc<dyn Session>, slot: Permit) {
        let Some(place) = self.place.take() else { return };
        let keeper = self.keeper.clone();
        let (place, effects) = keeper.0.state.lock().table.discard(place);
        keeper.apply(effects);
        let unwanted = Unwanted {
            keeper,
            session,
            place,
            slot,
        };
        let mut closing = Closing::begin(&unwanted.session);
        match closing.end().await {
            Ok(()) => unwanted.gone(),
            Err(not_gone) => {
                unwanted.tell(&not_gone);
                if !matches!(not_gone, NotGone::Slow) {
                    closing = Closing::begin(&unwanted.session);
                }
                tokio::spawn(unwanted.see_removed(closing));
            }
        }
    }
}

impl Unwanted {
    async fn see_removed(self, closing: Closing) {
        closing.until_gone(&self.session, |not_gone| self.tell(not_gone)).await;
        self.gone();
    }

    fn tell(&self, not_gone: &NotGone) {
        self.keeper
            .0
            .books
            .log
            .warn("sandbox of a failed open not removed yet")
            .text("error", &not_gone.to_string())
            .send();
    }

    fn gone(self) {
        let Self {
            keeper, place, slot, ..
        } = self;
        // Before anybody is told: the slot is what they may be waiting for.
        drop(slot);
        keeper.0.state.lock().table.left(&place);
        keeper.0.less.notify_waiters();
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            let effects = self.keeper.0.state.lock().table.abandon(place);
            self.keeper.apply(effects);
            self.keeper.0.less.notify_waiters();
        }
    }
}

fn given_up(code: Code) -> Refusal {
    Refusal::new(
        code,
        Reason::Capacity,
        "the caller went away, or its deadline passed, before the session was open; nothing was kept",
    )
}

/// The refusal of whoever names a session that is not there, or not its own; the two cannot be told apart.
pub(super) fn not_found() -> Refusal {
    Refusal::new(Code::NotFound, Reason::Request, super::table::NO_SESSION)
        .with_session_end(ended(SessionEnd::NotFound, super::table::NO_SESSION))
}
