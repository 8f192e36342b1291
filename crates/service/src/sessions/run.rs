//! One call in a session: its turn, its capacity, its run, its place in the chain, and the sweep after it.

use std::sync::Arc;

use parking_lot::Mutex;
use plimsoll_core::{
    Addressed, Code, Fault, Permit, Reason, Refusal, RunError, SessionEnd, SessionEnded, SessionRunRequest, Waiting,
};
use plimsoll_grants::SelectedGrant;
use plimsoll_record::{Fingerprint, SessionAnswer};
use plimsoll_sandbox::{BoxFuture, DispatchContext, SESSION_BOUND, SessionCall, TurnEnded, TurnSettled, run_in_turn};
use tokio::sync::oneshot;

use super::open::not_found;
use super::table::{Asked, Use, ended};
use super::{Facts, Held, Keeper, Sandboxed, TurnGuard};
use crate::audit::Audited;
use crate::corridor::{FAR, wanted};
use crate::handler::{CallContext, SessionError};

/// A call whose session was found and whose evidence it satisfies; it may wait for the turn.
pub(crate) struct SessionCallAddressed {
    session: Fingerprint,
    facts: Arc<Facts>,
    call: Waiting<Option<SelectedGrant>>,
}

/// What asking for the turn came to.
pub(super) enum Turned {
    Taken(TurnGuard),
    Ended(SessionEnded),
}

/// A call that has its turn and its capacity. Its sandbox may still be suspended.
struct Ready {
    session: Fingerprint,
    facts: Arc<Facts>,
    call: SessionCall,
    sandbox: Arc<Sandboxed>,
    turn: Arc<Mutex<TurnGuard>>,
}

type Answered = Result<SessionAnswer, SessionError>;

impl Keeper {
    /// The steps before the turn: protocol, floor and rule as text, the session of this caller, then the request against it,
    /// and at last whether the provider can run such a payload at all.
    ///
    /// # Errors
    /// The first that fails. Naming the session claims it all the same.
    pub(crate) fn address(
        &self,
        context: &CallContext,
        request: SessionRunRequest,
        grant: impl FnOnce(Option<&str>) -> Result<Option<SelectedGrant>, Refusal>,
    ) -> Result<SessionCallAddressed, Refusal> {
        let addressed = Addressed::new(request.run)?;
        let session = Fingerprint::of(request.session_id.reveal());
        let facts = self.0.state.lock().table.find(&session, context.principal.key(), false);
        let facts = facts.ok_or_else(not_found)?;
        let call = addressed
            .validate(&facts.rule)?
            .grant(grant)?
            .authorize(&facts.evidence)?;
        match self.0.sandbox.never_runs(call.payload()) {
            Some(refusal) => Err(refusal),
            None => Ok(SessionCallAddressed { session, facts, call }),
        }
    }

    /// Runs the call. Dropping the future cancels the run, but not its settlement.
    pub(crate) fn run(&self, context: CallContext, call: SessionCallAddressed) -> BoxFuture<'static, Answered> {
        let keeper = self.clone();
        Box::pin(async move {
            let hung_up = context.cancelled.clone().drop_guard();
            let (tell, told) = oneshot::channel();
            tokio::spawn(keeper.run_to_end(context, call, tell));
            let answer = told.await;
            hung_up.disarm();
            answer.unwrap_or_else(|_| {
                Err(RunError::from(Fault::internal("the call's task ended without an answer")).into())
            })
        })
    }

    async fn run_to_end(self, context: CallContext, call: SessionCallAddressed, tell: oneshot::Sender<Answered>) {
        let op = call.call.payload().kind().as_str();
        let ready = match self.prepare(&context, call).await {
            Ok(ready) => ready,
            Err(refusal) => {
                self.0.books.refused(context.principal.key(), op, &refusal);
                drop(tell.send(Err(RunError::from(refusal).into())));
                return;
            }
        };
        if let Err(refusal) = self.wake(&ready).await {
            let settled = TurnSettled::refused(refusal.clone(), context.received);
            self.tell(&ready.session, &ready.facts, &ready.call, &settled);
            ready.turn.lock().answered();
            drop(tell.send(Err(RunError::from(refusal).into())));
            return;
        }
        let Ready {
            session,
            facts,
            call,
            sandbox,
            turn,
        } = ready;
        let surroundings = DispatchContext {
            deadline: context.deadline.unwrap_or_else(|| context.received.instant() + FAR),
            cancelled: context.cancelled.clone(),
            broker: self.0.books.egress(call.call(), Some(Arc::clone(&facts.caps))),
        };
        let settle = |end: TurnEnded| {
            let answer = self.settle(&session, &facts, &call, &sandbox, &turn, end);
            turn.lock().answered();
            // A caller who has gone is told nothing; its call is in the chain all the same.
            drop(tell.send(answer));
        };
        let ran = run_in_turn(
            &*sandbox.session,
            &call,
            surroundings,
            &facts.cut,
            context.received,
            settle,
        )
        .await;
        match ran {
            Ok(()) if !facts.cut.is_cancelled() => self.sweep(&session, &sandbox).await,
            Ok(()) => {}
            Err(_) => self.end(
                &session,
                ended(SessionEnd::BoundaryFailed, "a call could not be stopped"),
            ),
        }
        drop(sandbox);
        // The turn goes back when both holders have let go of it.
        drop(call);
        drop(turn);
    }

    /// Nothing of the call is alive when the turn is given back, or the session has ended.
    async fn sweep(&self, session: &Fingerprint, sandbox: &Sandboxed) {
        if let Some(end) = plimsoll_sandbox::sweep(&sandbox.session).await {
            self.end(session, end);
        }
    }

    async fn prepare(&self, context: &CallContext, call: SessionCallAddressed) -> Result<Ready, Refusal> {
        let SessionCallAddressed { session, facts, call } = call;
        let guard = match self.take_turn(context, &session).await? {
            Turned::Taken(guard) => guard,
            Turned::Ended(end) => return Err(Refusal::session_ended(end)),
        };
        let sandbox = guard.open().map_err(Refusal::session_ended)?;
        if let Some(end) = sandbox.session.ended() {
            self.end(&session, end.clone());
            return Err(Refusal::session_ended(end));
        }
        let turn = Arc::new(Mutex::new(guard));
        let permit = self.admit_call(&facts, &sandbox)?;
        let call = call.take(plimsoll_core::Turn::new(Arc::clone(&turn))).admit(permit);
        Ok(Ready {
            session,
            facts,
            call,
            sandbox,
            turn,
        })
    }

    /// A slot if the session holds none, then a token. A failure leaves everything as it was.
    fn admit_call(&self, facts: &Facts, sandbox: &Sandboxed) -> Result<Permit, Refusal> {
        let limiter = &self.0.limiter;
        let mut held = sandbox.held.lock();
        let permit = match &*held {
            Held::Slot(permit) => permit.clone(),
            Held::Memory(memory) => {
                let slot = limiter.hold(&facts.caller, memory.bytes());
                Permit::new(slot.map_err(|shed| self.shed(shed))?)
            }
        };
        limiter.charge(&facts.caller).map_err(|shed| self.shed(shed))?;
        *held = Held::Slot(permit.clone());
        Ok(permit)
    }

    /// The sandbox of an admitted call runs, and its session has not ended: the last look before the call is handed over.
    async fn wake(&self, ready: &Ready) -> Result<(), Refusal> {
        let Ready {
            session, sandbox, turn, ..
        } = ready;
        if turn.lock().with(|table, turn| table.is_suspended(turn)) == Some(true) {
            self.resume(session, sandbox, turn).await?;
        }
        turn.lock().open().map(drop).map_err(Refusal::session_ended)
    }

    async fn resume(
        &self,
        session: &Fingerprint,
        sandbox: &Arc<Sandboxed>,
        turn: &Mutex<TurnGuard>,
    ) -> Result<(), Refusal> {
        let resumed = Arc::clone(&sandbox.session);
        let resuming = tokio::spawn(async move { resumed.resume().await });
        if let Ok(Ok(Ok(()))) = tokio::time::timeout(SESSION_BOUND, resuming).await {
            let now = self.now();
            turn.lock().with(|table, turn| table.set_suspended(turn, false, now));
            return Ok(());
        }
        let end = sandbox
            .session
            .ended()
            .unwrap_or_else(|| ended(SessionEnd::BoundaryFailed, "it could not be resumed"));
        self.end(session, end.clone());
        // It may have ended before, by something else.
        let first = self.0.state.lock().table.ended(session);
        Err(Refusal::session_ended(first.unwrap_or(end)))
    }

    /// The turn, at once or after whoever has it and whoever waits.
    ///
    /// # Errors
    /// Marked `capacity`: two calls are ahead, or the caller has gone. Marked `request`: the session is forgotten.
    pub(super) async fn take_turn(&self, context: &CallContext, session: &Fingerprint) -> Result<Turned, Refusal> {
        wanted(context)?;
        let (ticket, news) = {
            let mut state = self.0.state.lock();
            match state.table.ask(session).ok_or_else(not_found)? {
                Asked::Now(turn) => return Ok(Turned::Taken(self.guard(turn))),
                Asked::Ended(end) => return Ok(Turned::Ended(end)),
                Asked::Busy => {
                    return Err(Refusal::capacity(
                        "two calls are ahead in this session, where one runs and one more may wait; send calls one after the other",
                    ));
                }
                Asked::Wait(ticket) => {
                    let (waiter, news) = oneshot::channel();
                    state.waiters.insert(ticket, waiter);
                    (ticket, news)
                }
            }
        };
        let leave = OnDrop(|| {
            let mut state = self.0.state.lock();
            state.waiters.remove(&ticket);
            state.table.leave(session, ticket);
        });
        let deadline = context.deadline.unwrap_or_else(|| context.received.instant() + FAR);
        let turned = tokio::select! {
            biased;
            news = news => news,
            () = context.cancelled.cancelled() => return Err(gave_up_waiting(Code::Canceled)),
            () = tokio::time::sleep_until(deadline.into()) => return Err(gave_up_waiting(Code::DeadlineExceeded)),
        };
        drop(leave);
        let turned = match turned {
            Ok(Ok(guard)) => Turned::Taken(guard),
            Ok(Err(end)) => Turned::Ended(end),
            Err(_) => return Err(not_found()),
        };
        // A caller that has gone takes no turn; the guard gives it on.
        wanted(context)?;
        Ok(turned)
    }

    /// Counts the call into the chain, audits it, and makes its answer. Under the session's turn.
    fn settle(
        &self,
        session: &Fingerprint,
        facts: &Facts,
        call: &SessionCall,
        sandbox: &Sandboxed,
        turn: &Mutex<TurnGuard>,
        end: TurnEnded,
    ) -> Answered {
        let evidence = self.0.sandbox.evidence();
        let chain = turn.lock().with(|table, turn| table.chain(turn).cloned()).flatten();
        let Some(chain) = chain else {
            return Err(RunError::from(Fault::internal("a session call ended without its turn")).into());
        };
        let mut settled = end.settle(&*sandbox.session, call, &chain, &evidence.policy);
        if let Some(own) = sandbox.session.ended() {
            self.end(session, own);
        }
        if let Some(record) = &settled.record {
            let mut turn = turn.lock();
            turn.used = Use::Ran;
            if let Some(Err(broken)) = turn.with(|table, turn| table.count(turn, record)) {
                let fault = Fault::internal(format!("the call's record does not continue its chain: {broken}"));
                settled.answer = Err(fault.into());
                settled.record = None;
            }
        }
        let ended = self.0.state.lock().table.ended(session);
        if let Some(ended) = &ended {
            settled.tell_end(ended);
        }
        self.tell(session, facts, call, &settled);
        let TurnSettled { answer, record, .. } = settled;
        match answer {
            Ok(run) => Ok(SessionAnswer { run, ended }),
            Err(error) => Err(SessionError {
                unanswered: record.map(Box::new),
                error,
            }),
        }
    }

    fn tell(&self, session: &Fingerprint, facts: &Facts, call: &SessionCall, settled: &TurnSettled) {
        let sequence = settled.record.as_ref().map(|record| record.sequence);
        let audited = Audited {
            call: call.call(),
            provider: facts.evidence.provider,
            elapsed: settled.elapsed,
            answer: &settled.answer,
            trace: settled.trace.as_ref(),
            findings: &settled.findings,
            session: Some((session.as_str(), sequence)),
        };
        self.0.books.enter(&facts.caller, &audited, facts.evidence.isolation);
        if let (Err(_), Some(record)) = (&settled.answer, &settled.record) {
            self.0
                .books
                .log
                .warn("session call unanswered")
                .text("caller", &facts.caller)
                .text("session", session.as_str())
                .uint("session_call", record.sequence)
                .text("session_call_unanswered", &record.unanswered)
                .send();
        }
    }
}

fn gave_up_waiting(code: Code) -> Refusal {
    Refusal::new(
        code,
        Reason::Capacity,
        "the caller went away, or its deadline passed, while another call had the session's turn",
    )
}

/// Does something when it goes out of scope.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
