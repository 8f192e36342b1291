//! From an admitted call to a settled answer: the last two rooms of the corridor.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::limits::DISPATCH_DEADLINE;
use plimsoll_core::{Admitted, Code, Evidence, Fault, FaultKind, Outcome, Reason, Refusal, RunError};
use plimsoll_record::{Answer, Stamp};

use crate::clock::Received;
use crate::provider::{RunContext, Sandbox};

/// A call the provider has ended, one way or the other. Still holds its capacity.
#[derive(Debug)]
pub struct Dispatched {
    call: Admitted,
    evidence: Arc<Evidence>,
    received: Received,
    ended_unix_ms: i64,
    elapsed: Duration,
    outcome: Result<Outcome, RunError>,
}

/// A call whose answer is final.
#[derive(Debug)]
pub struct Settled {
    /// The call, with the request as it was sent.
    pub call: Admitted,
    /// Provider id.
    pub provider: &'static str,
    /// The handler's own clock around the call.
    pub elapsed: Duration,
    /// The answer with its record, or how it failed.
    pub answer: Result<Answer, RunError>,
}

/// Hands the call to the provider and waits for its end: its own, its deadline's, or the caller's.
///
/// A panic of the provider is contained here and becomes an unmarked internal fault, because the call may have run.
/// A caller who has gone, or a deadline that has passed, before the provider is asked is refused: nothing ran.
pub async fn dispatch(
    sandbox: &dyn Sandbox,
    call: Admitted,
    mut context: RunContext,
    received: Received,
) -> Dispatched {
    let evidence = sandbox.evidence();
    context.deadline = context.deadline.min(Instant::now() + DISPATCH_DEADLINE);
    let outcome = match not_begun(&context) {
        Some(refusal) => Err(refusal.into()),
        None => contained(sandbox, &call, context).await,
    };
    let elapsed = received.elapsed();
    Dispatched {
        call,
        evidence,
        received,
        ended_unix_ms: received.ended_unix_ms(),
        elapsed,
        outcome,
    }
}

fn not_begun(context: &RunContext) -> Option<Refusal> {
    if context.cancelled.is_cancelled() {
        return Some(Refusal::new(
            Code::Canceled,
            Reason::Capacity,
            "the caller went away before the run began",
        ));
    }
    (context.deadline <= Instant::now()).then(|| {
        Refusal::new(
            Code::DeadlineExceeded,
            Reason::Capacity,
            "the call's deadline passed before the run began",
        )
    })
}

async fn contained(sandbox: &dyn Sandbox, call: &Admitted, context: RunContext) -> Result<Outcome, RunError> {
    let deadline = tokio::time::Instant::from_std(context.deadline);
    let cancelled = context.cancelled.clone();
    let run = CatchUnwind(sandbox.run(call, context));
    tokio::select! {
        biased;
        ended = run => ended.unwrap_or_else(|_| Err(Fault::internal("the provider panicked").into())),
        () = cancelled.cancelled() => Err(Fault::new(FaultKind::Canceled, "the caller went away during the run").into()),
        () = tokio::time::sleep_until(deadline) => {
            Err(Fault::new(FaultKind::DeadlineExceeded, "the call's deadline passed during the run").into())
        }
    }
}

/// Polls a future and turns its panic into a value.
struct CatchUnwind<'a, T>(crate::BoxFuture<'a, T>);

impl<T> Future for CatchUnwind<'_, T> {
    type Output = std::thread::Result<T>;

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<Self::Output> {
        let future = self.0.as_mut();
        match std::panic::catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => std::task::Poll::Ready(Err(panic)),
        }
    }
}

impl Dispatched {
    /// Stamps the record. From here on the answer does not change.
    pub fn settle(self) -> Settled {
        let Self {
            call,
            evidence,
            received,
            ended_unix_ms,
            elapsed,
            outcome,
        } = self;
        let provider = evidence.provider;
        let answer = outcome.map(|outcome| {
            let stamp = Stamp {
                provider,
                policy: &evidence.policy,
                started_unix_ms: received.unix_ms(),
                ended_unix_ms,
            };
            let record = stamp.answered(call.request(), call.rule(), &outcome);
            Answer::new(provider, outcome, record)
        });
        Settled {
            call,
            provider,
            elapsed,
            answer,
        }
    }
}
