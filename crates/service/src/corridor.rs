//! Drives one decoded request through the corridor, in its order.
//!
//! ```text
//! Validated ── grant ── authorize ── acquire ── admit ──► dispatch ── settle ── count ── audit ──► answer
//! └─────────── in the caller's task: refusals cost nothing ──────┘  └── in a task of its own: settlement survives ──┘
//! ```

use std::sync::Arc;
use std::time::Instant;

use plimsoll_broker::BrokerOptions;
use plimsoll_core::{Authorized, Code, Evidence, Fault, Permit, Reason, Refusal, RunError, RunRequest, Validated};
use plimsoll_grants::{Profiles, SelectedGrant};
use plimsoll_record::Answer;
use plimsoll_sandbox::{AdmittedCall, BoxFuture, DispatchContext, Sandbox, Settled, dispatch};

use crate::audit;
use crate::handler::{CallContext, Handler};
use crate::limiter::Limiter;
use crate::log::Log;
use crate::metrics::{Metrics, ProfileCalls};

/// Everything one call passes. Clones share it.
#[derive(Clone, Debug)]
pub struct Corridor(Arc<Rooms>);

struct Rooms {
    sandbox: Arc<dyn Sandbox>,
    profiles: Profiles,
    limiter: Limiter,
    metrics: Arc<Metrics>,
    log: Log,
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
        Self(Arc::new(Rooms {
            sandbox,
            profiles,
            limiter,
            metrics,
            log,
        }))
    }

    async fn drive(self, context: CallContext, request: RunRequest) -> Result<Answer, RunError> {
        let admitted = self.0.authorize(&context, request).and_then(|call| {
            still_wanted(&context)?;
            let permit = self.0.acquire(&context)?;
            Ok(call.admit(permit))
        });
        let call = admitted.inspect_err(|refusal| self.refused(refusal))?;

        // Dropping this future (the caller hung up) fires the token; the task goes on until the call is settled.
        let hung_up = context.cancelled.clone().drop_guard();
        let task = tokio::spawn(async move {
            let run = DispatchContext {
                deadline: context.deadline.unwrap_or_else(|| context.received.instant() + FAR),
                cancelled: context.cancelled,
                broker: self.0.egress(&call),
            };
            let settled = dispatch(&*self.0.sandbox, call, run, context.received).await.settle();
            self.0.close(context.principal.key(), settled)
        });
        let answer = task.await;
        hung_up.disarm();
        answer.unwrap_or_else(|_| Err(Fault::internal("the call's task ended without an answer").into()))
    }
}

/// Beyond any deadline; the provider's own and the dispatch deadline always come first.
const FAR: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

/// A call whose deadline has passed by now is refused before it takes a slot or a token: it is not admitted, so it has no
/// audit line either.
fn still_wanted(context: &CallContext) -> Result<(), Refusal> {
    match context.deadline {
        Some(deadline) if deadline <= Instant::now() => Err(Refusal::new(
            Code::DeadlineExceeded,
            Reason::Capacity,
            "the call's deadline passed before the run began",
        )),
        _ => Ok(()),
    }
}

impl Rooms {
    fn authorize(
        &self,
        context: &CallContext,
        request: RunRequest,
    ) -> Result<Authorized<Option<SelectedGrant>>, Refusal> {
        let look_up = |name: &str| {
            let caller = context.principal.identity();
            let profile = self.profiles.look_up(name, caller)?;
            SelectedGrant::new(profile, caller.map(str::to_owned))
        };
        Validated::new(request)?
            .grant(|name| name.map(look_up).transpose())?
            .authorize(&self.sandbox.evidence())
    }

    /// How a granted run reaches its API: as every process does, with its calls counted.
    fn egress(&self, call: &AdmittedCall) -> BrokerOptions {
        let mut options = BrokerOptions::default();
        if let Some(selected) = call.grant() {
            let calls = ProfileCalls::new(Arc::clone(&self.metrics), Arc::clone(selected.profile()));
            options.observer = Some(Arc::new(calls));
        }
        options
    }

    fn acquire(&self, context: &CallContext) -> Result<Permit, Refusal> {
        self.limiter
            .acquire(context.principal.key())
            .map(Permit::new)
            .map_err(|shed| {
                self.metrics.shed(shed);
                self.limiter.refusal(shed)
            })
    }

    /// Counts and audits a settled call. The call's capacity is given back when `settled` goes, after its line is
    /// written.
    fn close(&self, caller: &str, settled: Settled) -> Result<Answer, RunError> {
        match &settled.answer {
            Err(RunError::NotDispatched(refusal)) => self.metrics.refused(Some(refusal.reason()), refusal.code()),
            Err(RunError::MayHaveRun(fault)) => self.ran(&settled, fault.is_infrastructure()),
            Ok(_) => self.ran(&settled, false),
        }
        if let (Some(selected), Some(trace)) = (settled.call.grant(), &settled.trace) {
            self.metrics.granted(selected.profile(), trace, &settled.findings);
        }
        audit::write(&self.log, caller, &settled, self.sandbox.evidence().isolation);
        settled.answer
    }

    fn ran(&self, settled: &Settled, infrastructure: bool) {
        self.metrics
            .ran(settled.call.payload().kind(), settled.elapsed, infrastructure);
    }
}

impl Handler for Corridor {
    fn describe(&self) -> Arc<Evidence> {
        self.0.sandbox.evidence()
    }

    fn run(&self, context: CallContext, request: RunRequest) -> BoxFuture<'static, Result<Answer, RunError>> {
        Box::pin(self.clone().drive(context, request))
    }

    fn refused(&self, refusal: &Refusal) {
        self.0.metrics.refused(Some(refusal.reason()), refusal.code());
    }

    fn log_fault(&self, fault: &Fault) -> String {
        let id = random_id();
        self.0.log.fault(&id, fault.message());
        id
    }
}

/// 16 hex digits that tie a caller's answer to a log line. An id, not a secret: where the system's randomness fails
/// the answer must still go out, so it falls back to a fixed text.
fn random_id() -> String {
    let mut bytes = [0u8; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => format!("{:016x}", u64::from_be_bytes(bytes)),
        Err(_) => "0".repeat(16),
    }
}

impl std::fmt::Debug for Rooms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rooms")
            .field("limiter", &self.limiter)
            .finish_non_exhaustive()
    }
}
