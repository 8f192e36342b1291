//! A whole answer to a run: the outcome with its evidence and its record (schema `RunResponse`).

use plimsoll_core::{Diagnostics, Outcome, RunResult, SessionEnded};

use crate::record::RunRecord;

/// What a caller gets back.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Provider that ran it.
    pub sandbox: String,
    /// Tier word this run executed behind, as stated.
    pub isolation: String,
    /// Milliseconds; never digested.
    pub duration_ms: i64,
    /// Present on every success.
    pub record: Option<RunRecord>,
    /// Software that ran.
    pub software_identity: String,
    /// Artifact that ran.
    pub environment: String,
    /// Typed sandbox reference, or empty.
    pub instance: String,
    /// Informational; never digested. Absent from daemons that do not send it.
    pub diagnostics: Option<Diagnostics>,
    /// The result, of the payload's kind.
    pub result: Option<RunResult>,
}

impl Answer {
    /// The answer of a settled run.
    pub fn new(provider: &str, outcome: Outcome, record: RunRecord) -> Self {
        Self {
            sandbox: provider.to_owned(),
            isolation: outcome.isolation.as_str().to_owned(),
            duration_ms: outcome.duration_ms,
            record: Some(record),
            software_identity: outcome.software_identity,
            environment: outcome.environment,
            instance: outcome.instance,
            diagnostics: Some(outcome.diagnostics),
            result: Some(outcome.result),
        }
    }
}

/// A whole answer to a session call (schema `SessionRunResponse`).
#[derive(Clone, Debug, PartialEq)]
pub struct SessionAnswer {
    /// The answer to the call.
    pub run: Answer,
    /// How the session has ended by this answer, if it has.
    pub ended: Option<SessionEnded>,
}
