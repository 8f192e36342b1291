//! Drives one decoded request through the corridor, in the order of spec 10 §3.3 and 20 §7.
//!
//! ```text
//! Validated ── grant ── authorize ── acquire ── admit ──► dispatch ── settle ── count ── audit ──► answer
//! └─────────── in the caller's task: refusals cost nothing ──────┘  └── in a task of its own: settlement survives ──┘
//! ```

use std::sync::Arc;

use plimsoll_core::{Authorized, Evidence, Fault, Permit, Refusal, RunError, RunRequest, Validated};
use plimsoll_record::Answer;
use plimsoll_sandbox::{BoxFuture, RunContext, Sandbox, Settled, dispatch};
use tokio::runtime::Handle;

use crate::audit;
use crate::handler::{CallContext, Handler};
use crate::limiter::Limiter;
use crate::log::Log;
use crate::metrics::Metrics;

/// Everything one call passes. Clones share it.
#[derive(Clone, Debug)]
pub struct Corridor(Arc<Rooms>);

struct Rooms {
    sandbox: Arc<dyn Sandbox>,
    limiter: Limiter,
    metrics: Arc<Metrics>,
    log: Log,
    runs: Handle,
}

impl Corridor {
    /// A corridor to one provider. `runs` is the runtime that calls run on; it must look at its listeners each time a guest
    /// gives its thread back (`event_interval`), or one that computes keeps others from being heard.
    pub fn new(sandbox: Arc<dyn Sandbox>, limiter: Limiter, metrics: Arc<Metrics>, log: Log, runs: Handle) -> Self {
        Self(Arc::new(Rooms {
            sandbox,
            limiter,
            metrics,
            log,
            runs,
        }))
    }

    async fn drive(self, context: CallContext, request: RunRequest) -> Result<Answer, RunError> {
        let admitted = self.0.authorize(request).and_then(|call| {
            let permit = self.0.acquire(&context)?;
            Ok(call.admit(permit))
        });
        let call = admitted.inspect_err(|refusal| self.refused(refusal))?;

        // Dropping this future (the caller hung up) fires the token; the task goes on until the call is settled.
        let hung_up = context.cancelled.clone().drop_guard();
        let runs = self.0.runs.clone();
        let task = runs.spawn(async move {
            let run = RunContext {
                deadline: context.deadline.unwrap_or_else(|| context.received.instant() + FAR),
                cancelled: context.cancelled,
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

impl Rooms {
    fn authorize(&self, request: RunRequest) -> Result<Authorized, Refusal> {
        Validated::new(request)?
            .without_grants()?
            .authorize(&self.sandbox.evidence())
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
