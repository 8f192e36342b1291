//! What a run came to, with the evidence that was checked.
//!
//! Guest output is bytes, exactly as the guest wrote them; the `*_text` helpers read them as UTF-8 with replacement. A
//! non-zero exit code is a result and never an error.

use std::borrow::Cow;

use plimsoll_core::{
    AdviceFinding, Artifact, Diagnostics, Isolation, ModuleRowResult, PayloadKind, ProjectOutcome, RunResult,
    StepResult, Tier,
};
use plimsoll_record::{Answer, RunRecord};

/// Where a run executed. On a returned result every field but `duration_ms` and `diagnostics` is covered by the record,
/// and the record was recomputed from the request and the answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Evidence {
    /// Provider id.
    pub provider: String,
    /// Tier word the run executed behind.
    pub isolation: String,
    /// Content address of the artifact that ran, or empty.
    pub environment: String,
    /// Software that ran, or empty.
    pub software_identity: String,
    /// Typed reference of the one sandbox, or empty.
    pub instance: String,
    /// The provider's measure in milliseconds; not covered by the record.
    pub duration_ms: i64,
    /// The checked record. Absent only on a result attached to an error whose record check failed.
    pub record: Option<RunRecord>,
    /// What the daemon says beyond the answer; not covered by the record, absent from daemons that do not send it.
    pub diagnostics: Option<Diagnostics>,
}

impl Evidence {
    /// The tier, when the word is one that meets any floor.
    pub fn tier(&self) -> Option<Tier> {
        Isolation::from_wire(&self.isolation).tier()
    }
}

/// Whether a stated tier word is at least a floor word: `none < process < container < kernel < vm`.
///
/// An empty floor is none and is met by everything. An unknown or empty tier meets no floor, and a floor of `none` or of
/// an unknown word is met by nothing.
pub fn meets(actual: &str, floor: &str) -> bool {
    floor.is_empty()
        || floor
            .parse()
            .is_ok_and(|floor: Tier| Isolation::from_wire(actual).meets(Some(floor)))
}

/// Output and end of a snippet.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct JavaScriptResult {
    /// Where it ran.
    pub evidence: Evidence,
    /// The kept prefix of standard output.
    pub stdout: Vec<u8>,
    /// The kept prefix of standard error.
    pub stderr: Vec<u8>,
    /// The guest's exit code; 124 after its deadline.
    pub exit_code: i32,
    /// Whether the deadline ended it.
    pub timed_out: bool,
    /// Whether at least one byte of standard output was dropped.
    pub stdout_truncated: bool,
    /// Whether at least one byte of standard error was dropped.
    pub stderr_truncated: bool,
    /// Hints on its host calls; never covered by the record.
    pub advice: Vec<AdviceFinding>,
}

/// What a project came to. Its [`StepResult`]s keep their own streams.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProjectResult {
    /// Where it ran.
    pub evidence: Evidence,
    /// How the plan ended; [`ProjectOutcome::COMPLETED`] also when a step failed.
    pub outcome: ProjectOutcome,
    /// Plimsoll's own words; empty when completed.
    pub detail: String,
    /// One entry per step that ran.
    pub steps: Vec<StepResult>,
    /// Captured files, in request order.
    pub artifacts: Vec<Artifact>,
    /// Whether capture stopped at the size bound.
    pub artifacts_truncated: bool,
    /// Hints on its host calls; never covered by the record.
    pub advice: Vec<AdviceFinding>,
}

/// What a module run came to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModuleResult {
    /// Where it ran.
    pub evidence: Evidence,
    /// One per request row when completed.
    pub runs: Vec<ModuleRowResult>,
    /// Values per step.
    pub width: i32,
    /// How it ended.
    pub outcome: ProjectOutcome,
    /// Plimsoll's own words; empty when completed.
    pub detail: String,
    /// The kept prefix of standard output.
    pub stdout: Vec<u8>,
    /// The kept prefix of standard error.
    pub stderr: Vec<u8>,
}

/// What a cell came to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CellResult {
    /// Where it ran.
    pub evidence: Evidence,
    /// The kept prefix of standard output.
    pub stdout: Vec<u8>,
    /// The kept prefix of standard error.
    pub stderr: Vec<u8>,
    /// 0 ran, 1 raised, 124 deadline.
    pub exit_code: i32,
    /// Whether its deadline ended it.
    pub timed_out: bool,
    /// Whether at least one byte of standard output was dropped.
    pub stdout_truncated: bool,
    /// Whether at least one byte of standard error was dropped.
    pub stderr_truncated: bool,
    /// Nothing earlier exists in this interpreter.
    pub interpreter_started: bool,
    /// The next cell starts a fresh one.
    pub interpreter_ended: bool,
}

macro_rules! stream_texts {
    ($($result:ident),*) => { $(
        impl $result {
            /// Standard output as text; bytes that are not UTF-8 read as U+FFFD.
            pub fn stdout_text(&self) -> Cow<'_, str> {
                String::from_utf8_lossy(&self.stdout)
            }

            /// Standard error as text; bytes that are not UTF-8 read as U+FFFD.
            pub fn stderr_text(&self) -> Cow<'_, str> {
                String::from_utf8_lossy(&self.stderr)
            }
        }
    )* };
}

stream_texts!(JavaScriptResult, ModuleResult, CellResult);

/// A result of any kind, as [`crate::Error::result`] and [`crate::Client::exchange`] hand it over.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RunOutput {
    /// Of a snippet.
    JavaScript(JavaScriptResult),
    /// Of a project.
    Project(ProjectResult),
    /// Of a module.
    Module(ModuleResult),
    /// Of a cell.
    Cell(CellResult),
}

impl RunOutput {
    /// Where it ran.
    pub const fn evidence(&self) -> &Evidence {
        match self {
            Self::JavaScript(result) => &result.evidence,
            Self::Project(result) => &result.evidence,
            Self::Module(result) => &result.evidence,
            Self::Cell(result) => &result.evidence,
        }
    }

    /// Which kind this is.
    pub const fn kind(&self) -> PayloadKind {
        match self {
            Self::JavaScript(_) => PayloadKind::JavaScript,
            Self::Project(_) => PayloadKind::Project,
            Self::Module(_) => PayloadKind::Module,
            Self::Cell(_) => PayloadKind::Cell,
        }
    }

    /// The typed result of an answer; nothing when it holds none. `trusted` is whether its record checked.
    pub(crate) fn from_answer(answer: Answer, trusted: bool) -> Option<Self> {
        let evidence = Evidence {
            provider: answer.sandbox,
            isolation: answer.isolation,
            environment: answer.environment,
            software_identity: answer.software_identity,
            instance: answer.instance,
            duration_ms: answer.duration_ms,
            record: answer.record.filter(|_| trusted),
            diagnostics: answer.diagnostics,
        };
        Some(match answer.result? {
            RunResult::JavaScript(result) => Self::JavaScript(JavaScriptResult {
                evidence,
                stdout: result.stdout,
                stderr: result.stderr,
                exit_code: result.exit_code,
                timed_out: result.timed_out,
                stdout_truncated: result.stdout_truncated,
                stderr_truncated: result.stderr_truncated,
                advice: result.advice,
            }),
            RunResult::Project(result) => Self::Project(ProjectResult {
                evidence,
                outcome: result.outcome,
                detail: result.outcome_detail,
                steps: result.steps,
                artifacts: result.artifacts,
                artifacts_truncated: result.artifacts_truncated,
                advice: result.advice,
            }),
            RunResult::Module(result) => Self::Module(ModuleResult {
                evidence,
                runs: result.runs,
                width: result.width,
                outcome: result.outcome,
                detail: result.outcome_detail,
                stdout: result.stdout,
                stderr: result.stderr,
            }),
            RunResult::Cell(result) => Self::Cell(CellResult {
                evidence,
                stdout: result.stdout,
                stderr: result.stderr,
                exit_code: result.exit_code,
                timed_out: result.timed_out,
                stdout_truncated: result.stdout_truncated,
                stderr_truncated: result.stderr_truncated,
                interpreter_started: result.interpreter_started,
                interpreter_ended: result.interpreter_ended,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_word_is_met_by_itself_and_stronger_words_only() {
        for (actual, floor, expected) in [
            ("vm", "kernel", true),
            ("kernel", "kernel", true),
            ("container", "kernel", false),
            ("none", "process", false),
            ("", "process", false),
            ("Vm", "process", false),
            ("vm", "none", false),
            ("none", "none", false),
            ("unknown", "", true),
        ] {
            assert_eq!(meets(actual, floor), expected, "{actual:?} against {floor:?}");
        }
    }
}
