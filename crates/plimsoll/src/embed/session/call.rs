//! One call in a session of this process: the same corridor as in the daemon, and its settlement.

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use plimsoll_broker::BrokerOptions;
use plimsoll_core::limits::DISPATCH_DEADLINE;
use plimsoll_core::{
    Addressed, Fault, JavaScriptRun, Payload, Refusal, RunError, RunRequest, SessionEnd, SoftwareRule, Tier, Turn,
    Waiting,
};
use plimsoll_grants::{CallTrace, Profile, SelectedGrant};
use plimsoll_record::Answer;
use plimsoll_sandbox::{DispatchContext, Received, TurnEnded, run_in_turn, sweep};
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use tokio::task::coop::unconstrained;
use tokio_util::sync::CancellationToken;

use super::{Cell, CellRun, Kept, Session, ended};
use crate::embed::call::whole_milliseconds;
use crate::embed::run::{RunKind, TakesGrant};
use crate::embed::{Project, ProjectRun, Run, stands_in};

/// A call about to run in a session. `R` is what it comes to. Its floor is the session's, or a stronger one of its own.
#[must_use = "nothing runs until it is sent"]
pub struct SessionCall<'s, R> {
    session: &'s Session,
    payload: Payload,
    floor: Option<Tier>,
    timeout_ms: i32,
    software: SoftwareRule,
    grant: Option<SelectedGrant>,
    result: PhantomData<fn() -> R>,
}

impl Session {
    /// A cell for the session's interpreter of its language; variables of earlier cells are there.
    pub fn run_cell(&self, cell: Cell) -> SessionCall<'_, CellRun> {
        SessionCall::new(self, cell.into_payload())
    }

    /// A JavaScript program beside the interpreters: it shares the session's files and none of their variables.
    pub fn run_javascript(&self, code: impl Into<String>) -> SessionCall<'_, Run> {
        SessionCall::new(
            self,
            Payload::JavaScript(JavaScriptRun {
                code: code.into(),
                grant_profile: String::new(),
            }),
        )
    }

    /// Shell steps in the session's work directory, for a provider with a shell. Files of earlier calls are there.
    pub fn run_project(&self, project: Project) -> SessionCall<'_, ProjectRun> {
        SessionCall::new(self, project.into_payload())
    }
}

impl<'s, R> SessionCall<'s, R> {
    fn new(session: &'s Session, payload: Payload) -> Self {
        Self {
            session,
            payload,
            floor: None,
            timeout_ms: 0,
            software: SoftwareRule::NONE,
            grant: None,
            result: PhantomData,
        }
    }

    /// Refuses to run behind anything weaker. A floor below the session's own changes nothing.
    pub const fn floor(mut self, floor: Tier) -> Self {
        self.floor = Some(floor);
        self
    }

    /// How long it may run, in whole milliseconds: below one becomes one, zero asks for the provider's default, and what is
    /// above the provider's ceiling is lowered to it.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout_ms = whole_milliseconds(timeout);
        self
    }

    /// Narrows the software rule the session was opened with.
    pub fn software(mut self, rule: SoftwareRule) -> Self {
        self.software = rule;
        self
    }
}

impl<R: TakesGrant> SessionCall<'_, R> {
    /// Lets a program or a project call the grant's routes, as [`crate::RunCall::grant`] does. The grant must allow sessions.
    ///
    /// # Errors
    /// The grant's token names somebody, and `subject` is empty.
    pub fn grant(mut self, profile: Profile, subject: impl Into<String>) -> Result<Self, Refusal> {
        let name = profile.name().to_owned();
        self.grant = Some(SelectedGrant::new(Arc::new(profile), Some(subject.into()))?);
        Ok(self.grant_profile(name))
    }

    /// Lets a program or a project use the profile of this name, if [`crate::Sandbox::with_grants`] has one for its caller.
    pub fn grant_profile(mut self, name: impl Into<String>) -> Self {
        self.payload.set_grant_profile(name);
        self
    }
}

impl<R: RunKind> SessionCall<'_, R> {
    /// Waits for the calls before it, runs it, and checks its record and its place in the chain. Dropping the future cancels
    /// the call.
    ///
    /// # Errors
    /// [`RunError::NotDispatched`] when nothing ran, with the reason; [`RunError::MayHaveRun`] otherwise: the call's record
    /// is then the newest of [`Session::records`]. Code that fails, or that its timeout ends, is a result, not an error.
    pub async fn send(self) -> Result<R, RunError> {
        self.send_until(std::future::pending()).await
    }

    /// As [`SessionCall::send`]; when `stop` is ready first the call is cancelled, and what it came to is waited for: the guest
    /// is stopped within seconds.
    ///
    /// # Errors
    /// As [`SessionCall::send`].
    pub async fn send_until(self, stop: impl Future<Output = ()>) -> Result<R, RunError> {
        let kept = Arc::clone(&self.session.kept);
        let request = RunRequest {
            minimum_isolation: kept.floor.max(self.floor).map_or("", Tier::as_str).to_owned(),
            timeout_ms: self.timeout_ms,
            software_rule: kept.rule.merge(&self.software)?.to_text(),
            ..RunRequest::new(self.payload)
        };
        let call = kept.address(request, self.grant)?;
        let cancelled = CancellationToken::new();
        let _cancel_on_drop = cancelled.clone().drop_guard();
        let stopping = cancelled.clone();
        let (tell, mut told) = oneshot::channel();
        let queued = Queued::behind_earlier_calls(&kept.turn).await;
        // A call is polled to its end even when nobody waits for it any more: only then is it known that nothing of it is left.
        tokio::spawn(kept.run_to_end(call, queued, cancelled, tell));
        let told = tokio::select! {
            biased;
            told = &mut told => told,
            () = stop => {
                stopping.cancel();
                told.await
            }
        };
        let (answer, calls) =
            told.unwrap_or_else(|_| Err(Fault::internal("the call's task ended without an answer").into()))?;
        R::read(answer, calls)
    }
}

impl<R> fmt::Debug for SessionCall<'_, R> {
    /// Without the code: a call is easily logged by accident.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SessionCall")
            .field("kind", &self.payload.kind())
            .field("floor", &self.floor)
            .field("timeout_ms", &self.timeout_ms)
            .finish_non_exhaustive()
    }
}

/// A place in the queue for a session's turn.
struct Queued(Pin<Box<dyn Future<Output = OwnedMutexGuard<()>> + Send>>);

impl Queued {
    /// Takes the place. The caller's own task does it, in the order of its calls: tasks of their own would queue in the order in
    /// which threads come to them. Only the waiting is theirs, so that a caller who is not polled holds up nobody.
    ///
    /// Unconstrained, because a task that has used its budget up is told to come again instead of being queued.
    async fn behind_earlier_calls(turn: &Arc<Mutex<()>>) -> Self {
        let mut waiting = Box::pin(unconstrained(Arc::clone(turn).lock_owned()));
        match poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context))).await {
            Poll::Ready(turn) => Self(Box::pin(std::future::ready(turn))),
            Poll::Pending => Self(waiting),
        }
    }

    async fn turn(self) -> OwnedMutexGuard<()> {
        self.0.await
    }
}

type Answered = Result<(Answer, Option<CallTrace>), RunError>;

impl Kept {
    /// The steps before the turn.
    fn address(
        &self,
        request: RunRequest,
        held: Option<SelectedGrant>,
    ) -> Result<Waiting<Option<SelectedGrant>>, Refusal> {
        Addressed::new(request)?
            .validate(&self.rule)?
            .grant(|name| {
                let selected = match (name, held) {
                    (None, _) => return Ok(None),
                    (Some(_), Some(held)) => held,
                    (Some(name), None) => self.sandbox.look_up(name)?,
                };
                selected.check_session()?;
                Ok(Some(selected))
            })?
            .authorize(self.session.evidence())
    }

    async fn run_to_end(
        self: Arc<Self>,
        call: Waiting<Option<SelectedGrant>>,
        queued: Queued,
        cancelled: CancellationToken,
        tell: oneshot::Sender<Answered>,
    ) {
        let received = Received::now();
        let turn = tokio::select! {
            biased;
            () = cancelled.cancelled() => {
                let gone = Refusal::caller_gone("the call was cancelled while another one had the session's turn; nothing ran");
                // A caller who has gone is told nothing.
                drop(tell.send(Err(gone.into())));
                return;
            }
            turn = queued.turn() => turn,
        };
        let slot = match (self.ended(), self.slot()) {
            (None, Some(slot)) => slot,
            (end, _) => {
                let end = end.unwrap_or_else(|| ended(SessionEnd::Closed, "its sandbox is gone"));
                drop(tell.send(Err(Refusal::session_ended(end).into())));
                return;
            }
        };
        let call = call.take(Turn::new(turn)).admit(slot);
        let context = DispatchContext {
            deadline: received.instant().max(std::time::Instant::now()) + DISPATCH_DEADLINE,
            cancelled,
            broker: BrokerOptions {
                causes: self.sandbox.causes.clone(),
                ..BrokerOptions::default()
            },
        };
        let settle = |end: TurnEnded| {
            let answer = self.settle(&call, end);
            // A caller who has gone is told nothing; its call is in the chain all the same.
            drop(tell.send(answer));
        };
        let ran = run_in_turn(&*self.session, &call, context, &self.cut, received, settle).await;
        match ran {
            Ok(()) if self.cut.is_cancelled() => {}
            Ok(()) => {
                if let Some(end) = sweep(&self.session).await {
                    self.end(end);
                }
            }
            Err(_) => {
                self.end(ended(SessionEnd::BoundaryFailed, "a call could not be stopped"));
            }
        }
        // The turn goes back with the call.
        drop(call);
    }

    /// Stamps the call's record, checks it as a client would, and moves the chain on. Under the session's turn.
    fn settle(&self, call: &plimsoll_sandbox::SessionCall, end: TurnEnded) -> Answered {
        let evidence = self.sandbox.evidence();
        let chain = self.state().chain.clone();
        let mut settled = end.settle(&*self.session, call, &chain, &evidence.policy);
        if let Some(ended) = self.ended() {
            settled.tell_end(&ended);
        }
        if let Some(record) = &settled.record {
            let mut state = self.state();
            state.chain.follow(record).map_err(|broken| {
                Fault::internal(format!("the call's record does not continue its chain: {broken}"))
            })?;
            state.ledger.push(record.clone());
        }
        let answer = settled.answer?;
        let call = call.call();
        stands_in(&answer, call.request(), call.rule())
            .map_err(|broken| Fault::internal(format!("the record of this call does not stand: {broken}")))?;
        Ok((answer, settled.trace))
    }
}
