//! What a run came to.

use std::time::Duration;

use plimsoll_core::{AdviceFinding, Diagnostics, Fault, Isolation, JavaScriptResult, RunError, RunResult, Tier};
use plimsoll_grants::CallTrace;
use plimsoll_record::{Answer, RunRecord};

/// A program that ran to its end, its own failure or its timeout included, with a record that was recomputed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Run {
    /// What it wrote to standard output, byte for byte, up to the output cap.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error, byte for byte, up to the output cap.
    pub stderr: Vec<u8>,
    /// Its exit code; 124 when its timeout ended it, 134 when the engine trapped.
    pub exit_code: i32,
    /// Whether its timeout ended it.
    pub timed_out: bool,
    /// Whether standard output went past the cap; what is kept is its beginning.
    pub stdout_truncated: bool,
    /// Whether standard error went past the cap; what is kept is its beginning.
    pub stderr_truncated: bool,
    /// The wall it ran behind.
    pub tier: Tier,
    /// The provider that ran it.
    pub provider: String,
    /// Content address of the engine or image that ran it.
    pub environment: String,
    /// How long it took, by the provider's measure.
    pub duration: Duration,
    /// The record, already checked against the request and everything above.
    pub record: RunRecord,
    /// Limits hit, byte counts and traps: informational, covered by no digest.
    pub diagnostics: Diagnostics,
    /// What it asked of its grant's API: route templates and numbers, in order of completion. `None` without a call.
    pub calls: Option<CallTrace>,
    /// What it could have asked more cheaply, if its profile tells the caller.
    pub advice: Vec<AdviceFinding>,
}

impl Run {
    /// Standard output as text; a byte that is not UTF-8 becomes U+FFFD.
    pub fn stdout_text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.stdout)
    }

    /// Standard error as text; a byte that is not UTF-8 becomes U+FFFD.
    pub fn stderr_text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.stderr)
    }

    pub(super) fn new(answer: Answer, calls: Option<CallTrace>) -> Result<Self, RunError> {
        let Some(tier) = Isolation::from_wire(&answer.isolation).tier() else {
            return Err(incomplete(format!(
                "the run states tier {:?}, which is no proven one",
                answer.isolation
            )));
        };
        let (Some(RunResult::JavaScript(result)), Some(record)) = (answer.result, answer.record) else {
            return Err(incomplete("the run has no JavaScript result with a record".to_owned()));
        };
        let JavaScriptResult {
            stdout,
            stderr,
            exit_code,
            timed_out,
            stdout_truncated,
            stderr_truncated,
            advice,
        } = result;
        Ok(Self {
            stdout,
            stderr,
            exit_code,
            timed_out,
            stdout_truncated,
            stderr_truncated,
            tier,
            provider: answer.sandbox,
            environment: answer.environment,
            duration: Duration::from_millis(u64::try_from(answer.duration_ms).unwrap_or(0)),
            record,
            diagnostics: answer.diagnostics.unwrap_or_default(),
            calls,
            advice,
        })
    }
}

/// The call ran, and what came back is not what a provider owes.
fn incomplete(cause: String) -> RunError {
    RunError::MayHaveRun(Fault::internal(cause))
}
