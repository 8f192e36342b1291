//! From an admitted call to a settled answer: the last two rooms of the corridor.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use plimsoll_advisor::{Finding, advise, for_caller};
use plimsoll_broker::Broker;
use plimsoll_core::limits::DISPATCH_DEADLINE;
use plimsoll_core::{Evidence, Fault, FaultKind, Limit, Outcome, Refusal, RunError, RunResult};
use plimsoll_grants::SelectedGrant;
use plimsoll_grants::trace::CallTrace;
use plimsoll_record::{Answer, RunRecord, Stamp};

use crate::clock::Received;
use crate::egress::{self, DispatchContext};
use crate::provider::{AdmittedCall, RunContext, Sandbox};

/// A call the provider has ended, one way or the other. Still holds its capacity.
#[derive(Debug)]
pub struct Dispatched {
    call: AdmittedCall,
    evidence: Arc<Evidence>,
    received: Received,
    ended_unix_ms: i64,
    elapsed: Duration,
    outcome: Result<Outcome, RunError>,
    trace: Option<CallTrace>,
}

/// A call whose answer is final.
#[derive(Debug)]
pub struct Settled {
    /// The call, with the request as it was sent.
    pub call: AdmittedCall,
    /// Provider id.
    pub provider: &'static str,
    /// The handler's own clock around the call.
    pub elapsed: Duration,
    /// The answer with its record, or how it failed.
    pub answer: Result<Answer, RunError>,
    /// What the guest asked of its grant's API, in templates and numbers; `None` when it asked nothing.
    pub trace: Option<CallTrace>,
    /// What the advisor found in the trace of a run that was answered; empty unless the profile asks for advice.
    pub findings: Vec<Finding>,
}

/// Hands the call to the provider and waits for its end: its own, its deadline's, or the caller's.
///
/// A panic of the provider is contained here and becomes an unmarked internal fault, because the call may have run.
/// A caller who has gone, or a deadline that has passed, before the provider is asked is refused: nothing ran. A granted
/// call gets its broker just before, and its authority is over, and its calls are in the trace, before anything is settled.
pub async fn dispatch(
    sandbox: &dyn Sandbox,
    call: AdmittedCall,
    mut context: DispatchContext,
    received: Received,
) -> Dispatched {
    let evidence = sandbox.evidence();
    context.deadline = context.deadline.min(Instant::now() + DISPATCH_DEADLINE);
    let mut trace = None;
    let mut ended_unix_ms = None;
    let outcome = match begin(sandbox, &call, &context).await {
        Err(refusal) => Err(refusal.into()),
        Ok(broker) => {
            let outcome = contained(sandbox, &call, &context, broker.clone()).await;
            ended_unix_ms = Some(received.ended_unix_ms());
            if let Some(broker) = broker {
                trace = broker.end().await;
            }
            outcome
        }
    };
    Dispatched {
        call,
        evidence,
        received,
        ended_unix_ms: ended_unix_ms.unwrap_or_else(|| received.ended_unix_ms()),
        elapsed: received.elapsed(),
        outcome,
        trace,
    }
}

async fn begin(
    sandbox: &dyn Sandbox,
    call: &AdmittedCall,
    context: &DispatchContext,
) -> Result<Option<Arc<Broker>>, Refusal> {
    match context.over() {
        Some(refusal) => Err(refusal),
        None => egress::open(call, || sandbox.time_limit(call), context).await,
    }
}

async fn contained(
    sandbox: &dyn Sandbox,
    call: &AdmittedCall,
    context: &DispatchContext,
    broker: Option<Arc<Broker>>,
) -> Result<Outcome, RunError> {
    let deadline = tokio::time::Instant::from_std(context.deadline);
    let run = RunContext {
        deadline: context.deadline,
        cancelled: context.cancelled.clone(),
        broker,
    };
    tokio::select! {
        biased;
        ended = caught(|| sandbox.run(call, run)) => {
            ended.unwrap_or_else(|_| Err(Fault::internal("the provider panicked").into()))
        }
        () = context.cancelled.cancelled() => {
            Err(Fault::new(FaultKind::Canceled, "the caller went away during the run").into())
        }
        () = tokio::time::sleep_until(deadline) => {
            Err(Fault::new(FaultKind::DeadlineExceeded, "the call's deadline passed during the run").into())
        }
    }
}

/// Polls a future and turns its panic into a value.
pub(crate) struct CatchUnwind<F>(Pin<Box<F>>);

/// Whoever makes a future may panic before there is one, so it is made at the first poll.
pub(crate) fn caught<F: Future>(make: impl FnOnce() -> F) -> CatchUnwind<impl Future<Output = F::Output>> {
    CatchUnwind(Box::pin(async move { make().await }))
}

impl<F: Future> Future for CatchUnwind<F> {
    type Output = std::thread::Result<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.0.as_mut();
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| future.poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

impl Dispatched {
    /// Stamps the record, then adds the advice, which no record covers. From here on the answer does not change.
    pub fn settle(self) -> Settled {
        let Self {
            call,
            evidence,
            received,
            ended_unix_ms,
            elapsed,
            outcome,
            trace,
        } = self;
        let provider = evidence.provider;
        let stamp = Stamp {
            provider,
            policy: &evidence.policy,
            started_unix_ms: received.unix_ms(),
            ended_unix_ms,
        };
        let (answer, findings) = match outcome {
            Ok(outcome) => {
                let stamped = |outcome: &Outcome| stamp.answered(call.request(), call.rule(), outcome);
                let (answer, findings) = answered(&call, provider, outcome, trace.as_ref(), stamped);
                (Ok(answer), findings)
            }
            Err(error) => (Err(error), Vec::new()),
        };
        Settled {
            call,
            provider,
            elapsed,
            answer,
            trace,
            findings,
        }
    }
}

/// The answer to a call that has an outcome: the limit its grant hit, then its record, then the advice.
pub(crate) fn answered(
    call: &AdmittedCall,
    provider: &str,
    mut outcome: Outcome,
    trace: Option<&CallTrace>,
    stamped: impl FnOnce(&Outcome) -> RunRecord,
) -> (Answer, Vec<Finding>) {
    if trace.is_some_and(|trace| trace.budget_refused) {
        // A limit that ended the run, or that it ran into, comes first; dropped output comes last.
        let limit = &mut outcome.diagnostics.limit_hit;
        if matches!(limit, None | Some(Limit::Output)) {
            *limit = Some(Limit::HostCalls);
        }
    }
    let record = stamped(&outcome);
    let mut answer = Answer::new(provider, outcome, record);
    let findings = match (trace, call.grant()) {
        (Some(trace), Some(selected)) => advised(trace, selected, &mut answer),
        _ => Vec::new(),
    };
    (answer, findings)
}

/// What the advisor finds, with the part that is the caller's put into its result.
fn advised(trace: &CallTrace, selected: &SelectedGrant, answer: &mut Answer) -> Vec<Finding> {
    let profile = selected.profile();
    let findings = advise(trace, profile);
    let told = for_caller(&findings, profile.advice());
    match &mut answer.result {
        Some(RunResult::JavaScript(result)) => result.advice = told,
        Some(RunResult::Project(result)) => result.advice = told,
        Some(RunResult::Module(_) | RunResult::Cell(_)) | None => {}
    }
    findings
}
