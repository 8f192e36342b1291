//! One call in an open session, from its turn to its answer.

use std::pin::pin;
use std::time::{Duration, Instant};

use plimsoll_advisor::Finding;
use plimsoll_core::limits::DISPATCH_DEADLINE;
use plimsoll_core::{Fault, FaultKind, Outcome, Refusal, RunError, SessionEnded};
use plimsoll_grants::trace::CallTrace;
use plimsoll_record::{Answer, Chain, RunRecord, Stamp};
use tokio_util::sync::CancellationToken;

use crate::clock::Received;
use crate::dispatch::{answered, caught};
use crate::egress::{self, DispatchContext};
use crate::provider::RunContext;
use crate::session::{Session, SessionCall};

/// How long a provider may take to stop a guest whose answer has been given.
const STOP_BOUND: Duration = Duration::from_secs(30);

/// A session call that has ended, before its record.
#[derive(Debug)]
pub struct TurnEnded {
    outcome: Result<Outcome, RunError>,
    received: Received,
    ended_unix_ms: i64,
    elapsed: Duration,
    trace: Option<CallTrace>,
}

/// A session call whose answer is final.
#[derive(Debug)]
pub struct TurnSettled {
    /// The handler's own clock around the call.
    pub elapsed: Duration,
    /// The answer, or how it failed.
    pub answer: Result<Answer, RunError>,
    /// The record by which the chain moves on; `None` when nothing of the call ran.
    pub record: Option<RunRecord>,
    /// What the guest asked of its grant's API.
    pub trace: Option<CallTrace>,
    /// What the advisor found in it.
    pub findings: Vec<Finding>,
}

/// The provider did not stop a guest within its bound: nothing is known of the sandbox any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck;

/// Runs the call and hands its end to `settle` as soon as there is one: its own, its deadline's, its caller's, or its
/// session's (`cut`). The provider's future is then still polled until it is ready, for a bounded time.
///
/// # Errors
/// [`Stuck`] when that time was not enough.
pub async fn run_in_turn(
    session: &dyn Session,
    call: &SessionCall,
    mut context: DispatchContext,
    cut: &CancellationToken,
    received: Received,
    settle: impl FnOnce(TurnEnded),
) -> Result<(), Stuck> {
    context.deadline = context.deadline.min(Instant::now() + DISPATCH_DEADLINE);
    let end = |outcome, trace| TurnEnded {
        outcome,
        received,
        ended_unix_ms: received.ended_unix_ms(),
        elapsed: received.elapsed(),
        trace,
    };
    let opened = match context.over() {
        Some(refusal) => Err(refusal),
        None => egress::open(call.call(), || session.time_limit(call), &context).await,
    };
    let broker = match opened {
        Ok(broker) => broker,
        Err(refusal) => {
            settle(end(Err(refusal.into()), None));
            return Ok(());
        }
    };
    let run = RunContext {
        deadline: context.deadline,
        cancelled: context.cancelled.child_token(),
        broker: broker.clone(),
    };
    let stop = run.cancelled.clone();
    let deadline = tokio::time::Instant::from_std(context.deadline);
    let mut running = pin!(caught(|| session.run(call, run)));
    let finished = tokio::select! {
        biased;
        ended = &mut running => Ok(ended.unwrap_or_else(|_| Err(Fault::internal("the provider panicked").into()))),
        () = cut.cancelled() => Err(Fault::new(FaultKind::SessionEnded, "the session ended during the call")),
        () = context.cancelled.cancelled() => Err(Fault::new(FaultKind::Canceled, "the caller went away during the run")),
        () = tokio::time::sleep_until(deadline) => {
            Err(Fault::new(FaultKind::DeadlineExceeded, "the call's deadline passed during the run"))
        }
    };
    if finished.is_err() {
        // The guest stops while its broker ends.
        stop.cancel();
    }
    let trace = match broker {
        Some(broker) => broker.end().await,
        None => None,
    };
    match finished {
        Ok(outcome) => {
            settle(end(outcome, trace));
            Ok(())
        }
        Err(fault) => {
            settle(end(Err(fault.into()), trace));
            tokio::time::timeout(STOP_BOUND, running)
                .await
                .map(drop)
                .map_err(|_| Stuck)
        }
    }
}

impl TurnEnded {
    /// Stamps the record as the next one of the session's chain, then adds the advice, which no record covers. A call that
    /// was refused has no record; one that failed after it may have run has one without a result.
    pub fn settle(self, session: &dyn Session, call: &SessionCall, chain: &Chain, policy: &str) -> TurnSettled {
        let stated = session.evidence();
        let call = call.call();
        let stamp = Stamp {
            provider: stated.provider,
            policy,
            started_unix_ms: self.received.unix_ms(),
            ended_unix_ms: self.ended_unix_ms,
        };
        let trace = self.trace;
        let (answer, record, findings) = match self.outcome {
            Ok(mut outcome) => {
                let environment = &stated.support.environment;
                fall_back(&mut outcome.environment, &environment.identity);
                fall_back(&mut outcome.software_identity, &environment.software_identity);
                let stamped = |outcome: &Outcome| stamp.answered_in(chain, call.request(), call.rule(), outcome);
                let (answer, findings) = answered(call, stated.provider, outcome, trace.as_ref(), stamped);
                let record = answer.record.clone();
                (Ok(answer), record, findings)
            }
            Err(RunError::MayHaveRun(fault)) => {
                let record = stamp.unanswered_in(chain, call.request(), call.rule(), stated, fault.code());
                (Err(fault.into()), Some(record), Vec::new())
            }
            Err(refused) => (Err(refused), None, Vec::new()),
        };
        TurnSettled {
            elapsed: self.elapsed,
            answer,
            record,
            trace,
            findings,
        }
    }
}

impl TurnSettled {
    /// A call that was refused under its turn and not handed over: nothing of it ran.
    pub fn refused(refusal: Refusal, received: Received) -> Self {
        Self {
            elapsed: received.elapsed(),
            answer: Err(refusal.into()),
            record: None,
            trace: None,
            findings: Vec::new(),
        }
    }

    /// Tells a call that got no answer because its session has ended how it did, by the same words as the next call.
    pub fn tell_end(&mut self, ended: &SessionEnded) {
        match &self.answer {
            Err(RunError::NotDispatched(refusal)) if refusal.session_end().is_none() => {
                self.answer = Err(Refusal::session_ended(ended.clone()).into());
            }
            Err(RunError::MayHaveRun(fault)) if fault.kind() == FaultKind::SessionEnded => {
                self.answer = Err(Fault::session_ended(ended).into());
            }
            _ => {}
        }
    }
}

/// What a session call does not report is what the session stated when it was opened.
fn fall_back(reported: &mut String, stated: &str) {
    if reported.is_empty() {
        stated.clone_into(reported);
    }
}
