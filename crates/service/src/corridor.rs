//! Drives one decoded request through the corridor, in its order.
//!
//! ```text
//! Validated ── grant ── authorize ── acquire ── admit ──► dispatch ── settle ── count ── audit ──► answer
//! └─────────── in the caller's task: refusals cost nothing ──────┘  └── in a task of its own: settlement survives ──┘
//! ```

use std::sync::Arc;
use std::time::Instant;

use plimsoll_broker::BrokerOptions;
use plimsoll_core::{
    Authorized, AuthorizedOpen, CloseRequest, ClosedSession, Evidence, Fault, Isolation, OpenRequest, OpenedSession,
    Permit, Refusal, RunError, RunRequest, SessionRunRequest, SessionTerms, Validated, check_protocol,
};
use plimsoll_grants::caps::RouteCaps;
use plimsoll_grants::{Profiles, SelectedGrant};
use plimsoll_record::{Answer, SessionAnswer};
use plimsoll_sandbox::{AdmittedCall, BoxFuture, DispatchContext, Sandbox, Settled, dispatch};

use crate::audit::{self, Audited};
use crate::handler::{CallContext, Handler, SessionError, no_sessions, op_of};
use crate::limiter::Limiter;
use crate::log::Log;
use crate::metrics::{Metrics, ProfileCalls};
use crate::random;
use crate::sessions::Keeper;

/// Everything one call passes. Clones share it.
#[derive(Clone, Debug)]
pub struct Corridor(Arc<Rooms>);

struct Rooms {
    sandbox: Arc<dyn Sandbox>,
    profiles: Profiles,
    limiter: Limiter,
    books: Books,
    sessions: Option<Keeper>,
}

impl Corridor {
    /// A corridor to one provider, with the grant profiles its callers may name. Calls run on the runtime they are asked
    /// on.
    pub fn new(
        sandbox: Arc<dyn Sandbox>,
        profiles: Profiles,
        limiter: Limiter,
        metrics: Arc<Metrics>,
        log: Log,
    ) -> Self {
        Self::with_sessions(sandbox, profiles, limiter, metrics, log, None)
    }

    /// The same, and sessions are kept by `sessions`; `None` keeps none.
    pub fn with_sessions(
        sandbox: Arc<dyn Sandbox>,
        profiles: Profiles,
        limiter: Limiter,
        metrics: Arc<Metrics>,
        log: Log,
        sessions: Option<Keeper>,
    ) -> Self {
        Self(Arc::new(Rooms {
            sandbox,
            profiles,
            limiter,
            books: Books { metrics, log },
            sessions,
        }))
    }

    async fn drive(self, context: CallContext, request: RunRequest) -> Result<Answer, RunError> {
        let op = op_of(request.payload.as_ref(), "run");
        let admitted = self.0.authorize(&context, request).and_then(|call| {
            still_wanted(&context)?;
            let permit = self.0.acquire(&context)?;
            Ok(call.admit(permit))
        });
        let call = admitted.inspect_err(|refusal| self.refused(context.principal.key(), op, refusal))?;

        // Dropping this future (the caller hung up) fires the token; the task goes on until the call is settled.
        let hung_up = context.cancelled.clone().drop_guard();
        let task = tokio::spawn(async move {
            let run = DispatchContext {
                deadline: context.deadline.unwrap_or_else(|| context.received.instant() + FAR),
                cancelled: context.cancelled,
                broker: self.0.books.egress(&call, None),
            };
            let settled = dispatch(&*self.0.sandbox, call, run, context.received).await.settle();
            self.0.close(context.principal.key(), settled)
        });
        let answer = task.await;
        hung_up.disarm();
        answer.unwrap_or_else(|_| Err(Fault::internal("the call's task ended without an answer").into()))
    }
}

impl Corridor {
    fn count_refusal<T>(&self, caller: &str, op: &'static str, answer: Result<T, RunError>) -> Result<T, RunError> {
        if let Err(RunError::NotDispatched(refusal)) = &answer {
            self.refused(caller, op, refusal);
        }
        answer
    }
}

/// Beyond any deadline; the provider's own and the dispatch deadline always come first.
pub(crate) const FAR: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

/// A call whose deadline has passed by now is refused before it takes a slot or a token: it is not admitted, so it has no
/// audit line either.
fn still_wanted(context: &CallContext) -> Result<(), Refusal> {
    match context.deadline {
        Some(deadline) if deadline <= Instant::now() => {
            Err(Refusal::too_late("the call's deadline passed before the run began"))
        }
        _ => Ok(()),
    }
}

/// The same for a session procedure, which may have waited: its caller may have gone too.
pub(crate) fn wanted(context: &CallContext) -> Result<(), Refusal> {
    if context.cancelled.is_cancelled() {
        return Err(Refusal::caller_gone("the caller went away before anything ran"));
    }
    still_wanted(context)
}

impl Rooms {
    fn authorize(
        &self,
        context: &CallContext,
        request: RunRequest,
    ) -> Result<Authorized<Option<SelectedGrant>>, Refusal> {
        let call = Validated::new(request)?
            .grant(|name| name.map(|name| self.look_up(context, name)).transpose())?
            .authorize(&self.sandbox.evidence())?;
        match self.sandbox.never_runs(call.payload()) {
            Some(refusal) => Err(refusal),
            None => Ok(call),
        }
    }

    fn look_up(&self, context: &CallContext, name: &str) -> Result<SelectedGrant, Refusal> {
        let caller = context.principal.identity();
        let profile = self.profiles.look_up(name, caller)?;
        SelectedGrant::new(profile, caller.map(str::to_owned))
    }

    /// The keeper of sessions, once the protocol is known to be ours.
    fn keeper(&self, protocol: u32) -> Result<&Keeper, Refusal> {
        check_protocol(protocol)?;
        self.sessions.as_ref().ok_or_else(no_sessions)
    }

    fn acquire(&self, context: &CallContext) -> Result<Permit, Refusal> {
        self.limiter
            .acquire(context.principal.key())
            .map(Permit::new)
            .map_err(|shed| {
                self.books.metrics.shed(shed);
                self.limiter.refusal(shed)
            })
    }

    /// Counts and audits a settled call. The call's capacity is given back when `settled` goes, after its line is
    /// written.
    fn close(&self, caller: &str, settled: Settled) -> Result<Answer, RunError> {
        self.books
            .enter(caller, &(&settled).into(), self.sandbox.evidence().isolation);
        settled.answer
    }
}

/// Where calls are counted and audited.
#[derive(Clone, Debug)]
pub(crate) struct Books {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) log: Log,
}

impl Books {
    /// Counts a settled call and writes its line.
    pub(crate) fn enter(&self, caller: &str, settled: &Audited<'_>, isolation: Isolation) {
        let ran = |infrastructure| {
            self.metrics
                .ran(settled.call.payload().kind(), settled.elapsed, infrastructure);
        };
        match settled.answer {
            Err(RunError::NotDispatched(refusal)) => self.metrics.refused(Some(refusal.reason()), refusal.code()),
            Err(RunError::MayHaveRun(fault)) => ran(fault.is_infrastructure()),
            Ok(_) => ran(false),
        }
        if let (Some(selected), Some(trace)) = (settled.call.grant(), settled.trace) {
            self.metrics.granted(selected.profile(), trace, settled.findings);
        }
        audit::write(&self.log, caller, settled, isolation);
    }

    /// A call that was refused and not admitted: it is counted, and told where that was asked for.
    pub(crate) fn refused(&self, caller: &str, op: &'static str, refusal: &Refusal) {
        self.metrics.refused(Some(refusal.reason()), refusal.code());
        self.log.refused(caller, op, refusal);
    }

    /// How a granted run reaches its API: as every process does, with its calls counted. `caps` are the route counts it
    /// shares with the other calls of its session.
    pub(crate) fn egress(&self, call: &AdmittedCall, caps: Option<Arc<RouteCaps>>) -> BrokerOptions {
        let mut options = BrokerOptions {
            caps,
            ..BrokerOptions::default()
        };
        if let Some(selected) = call.grant() {
            let calls = ProfileCalls::new(Arc::clone(&self.metrics), Arc::clone(selected.profile()));
            options.observer = Some(Arc::new(calls));
        }
        options
    }
}

impl Handler for Corridor {
    fn describe(&self) -> Arc<Evidence> {
        self.0.sandbox.evidence()
    }

    fn run(&self, context: CallContext, request: RunRequest) -> BoxFuture<'static, Result<Answer, RunError>> {
        Box::pin(self.clone().drive(context, request))
    }

    fn session_terms(&self) -> Option<SessionTerms> {
        self.0.sessions.as_ref().map(Keeper::terms)
    }

    fn open_session(
        &self,
        context: CallContext,
        request: OpenRequest,
    ) -> BoxFuture<'static, Result<OpenedSession, RunError>> {
        let open = self.0.keeper(request.protocol).and_then(|keeper| {
            let open = AuthorizedOpen::new(request, &self.0.sandbox.evidence())?;
            Ok((keeper.clone(), open))
        });
        let corridor = self.clone();
        let caller = Arc::clone(context.principal.key());
        Box::pin(async move {
            let opened = match open {
                Ok((keeper, open)) => keeper.open(context, open).await,
                Err(refusal) => Err(refusal.into()),
            };
            corridor.count_refusal(&caller, "open", opened)
        })
    }

    fn session_run(
        &self,
        context: CallContext,
        request: SessionRunRequest,
    ) -> BoxFuture<'static, Result<SessionAnswer, SessionError>> {
        let rooms = &self.0;
        let op = op_of(request.run.payload.as_ref(), "session");
        let grant = |name: Option<&str>| {
            name.map(|name| {
                let selected = rooms.look_up(&context, name)?;
                selected.check_session()?;
                Ok(selected)
            })
            .transpose()
        };
        let call = rooms
            .keeper(request.run.protocol)
            .and_then(|keeper| Ok((keeper.clone(), keeper.address(&context, request, grant)?)));
        match call {
            Ok((keeper, call)) => keeper.run(context, call),
            Err(refusal) => {
                self.refused(context.principal.key(), op, &refusal);
                Box::pin(std::future::ready(Err(RunError::from(refusal).into())))
            }
        }
    }

    fn close_session(
        &self,
        context: CallContext,
        request: CloseRequest,
    ) -> BoxFuture<'static, Result<ClosedSession, RunError>> {
        let keeper = self.0.keeper(request.protocol).cloned();
        let corridor = self.clone();
        let caller = Arc::clone(context.principal.key());
        Box::pin(async move {
            let closed = match keeper {
                Ok(keeper) => keeper.close(context, &request.session_id).await,
                Err(refusal) => Err(refusal.into()),
            };
            corridor.count_refusal(&caller, "close", closed)
        })
    }

    fn refused(&self, caller: &str, op: &'static str, refusal: &Refusal) {
        self.0.books.refused(caller, op, refusal);
    }

    fn log_fault(&self, fault: &Fault) -> String {
        // An id, not a secret: where the system's randomness fails the answer must still go out.
        let id = random::hex::<8>().unwrap_or_else(|| "0".repeat(16));
        self.0.books.log.fault(&id, fault.message());
        id
    }
}

impl std::fmt::Debug for Rooms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rooms")
            .field("limiter", &self.limiter)
            .finish_non_exhaustive()
    }
}
