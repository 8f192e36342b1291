//! What a run came to.

use std::borrow::Cow;
use std::time::Duration;

use plimsoll_core::{
    AdviceFinding, Artifact, Diagnostics, Fault, Isolation, JavaScriptResult, ProjectOutcome, ProjectResult, RunError,
    RunResult, StepResult, Tier,
};
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
    pub fn stdout_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stdout)
    }

    /// Standard error as text; a byte that is not UTF-8 becomes U+FFFD.
    pub fn stderr_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stderr)
    }
}

/// A project that was handed to a sandbox, with a record that was recomputed. A step that fails is an entry of `steps`, not
/// an error; whether all went well is [`ProjectRun::succeeded`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProjectRun {
    /// One entry for each step that ran, in order; the first that failed is the last.
    pub steps: Vec<StepResult>,
    /// How the plan ended: [`ProjectOutcome::COMPLETED`] also when a step failed. Anything else says that the sandbox did not
    /// come to the end of its report.
    pub outcome: ProjectOutcome,
    /// Why, in plimsoll's own words and never the guest's; empty when completed.
    pub outcome_detail: String,
    /// The captured files, in the order asked for. A path where the steps left no regular file is left out.
    pub artifacts: Vec<Artifact>,
    /// Whether capture stopped at the size bound.
    pub artifacts_truncated: bool,
    /// The wall it ran behind.
    pub tier: Tier,
    /// The provider that ran it.
    pub provider: String,
    /// Content address of the image that ran it.
    pub environment: String,
    /// How long it took, its sandbox included.
    pub duration: Duration,
    /// The record, already checked against the request and everything above.
    pub record: RunRecord,
    /// The limit hit and the most memory held: informational, covered by no digest.
    pub diagnostics: Diagnostics,
    /// What it asked of its grant's API: route templates and numbers, in order of completion. `None` without a call.
    pub calls: Option<CallTrace>,
    /// What it could have asked more cheaply, if its profile tells the caller.
    pub advice: Vec<AdviceFinding>,
}

impl ProjectRun {
    /// Whether the plan was completed and its last step exited with 0. No step runs after one that failed.
    pub fn succeeded(&self) -> bool {
        self.outcome == ProjectOutcome::COMPLETED
            && self
                .steps
                .last()
                .is_some_and(|step| step.exit_code == 0 && !step.timed_out)
    }

    /// The captured file of this path, as it was asked for.
    pub fn artifact(&self, path: &str) -> Option<&[u8]> {
        self.artifacts
            .iter()
            .find(|artifact| artifact.path == path)
            .map(|artifact| artifact.content.as_slice())
    }
}

/// The kinds of result a run can have. Sealed: [`Run`], [`ProjectRun`], and in sessions [`CellRun`](super::CellRun).
pub trait RunKind: sealed::Sealed {}

impl RunKind for Run {}
impl RunKind for ProjectRun {}

/// The kinds of result of code that can call a grant's API: [`Run`] and [`ProjectRun`]. A cell cannot, because its interpreter
/// outlives the call and would hand the grant on to the next one.
#[diagnostic::on_unimplemented(
    message = "this call cannot use a grant",
    label = "a cell has none; use `run_javascript` or `run_project`"
)]
pub trait TakesGrant: RunKind {}

impl TakesGrant for Run {}
impl TakesGrant for ProjectRun {}

pub(super) mod sealed {
    use super::{Answer, CallTrace, RunError};

    /// How an answer is read as this kind.
    pub trait Sealed: Sized {
        fn read(answer: Answer, calls: Option<CallTrace>) -> Result<Self, RunError>;
    }
}

impl sealed::Sealed for Run {
    fn read(answer: Answer, calls: Option<CallTrace>) -> Result<Self, RunError> {
        let (ran, result) = Ran::of(answer)?;
        let RunResult::JavaScript(result) = result else {
            return Err(incomplete(
                "the answer to a JavaScript program is that of another kind".to_owned(),
            ));
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
            tier: ran.tier,
            provider: ran.provider,
            environment: ran.environment,
            duration: ran.duration,
            record: ran.record,
            diagnostics: ran.diagnostics,
            calls,
            advice,
        })
    }
}

impl sealed::Sealed for ProjectRun {
    fn read(answer: Answer, calls: Option<CallTrace>) -> Result<Self, RunError> {
        let (ran, result) = Ran::of(answer)?;
        let RunResult::Project(result) = result else {
            return Err(incomplete("the answer to a project is that of another kind".to_owned()));
        };
        let ProjectResult {
            steps,
            outcome,
            outcome_detail,
            artifacts,
            artifacts_truncated,
            advice,
        } = result;
        Ok(Self {
            steps,
            outcome,
            outcome_detail,
            artifacts,
            artifacts_truncated,
            tier: ran.tier,
            provider: ran.provider,
            environment: ran.environment,
            duration: ran.duration,
            record: ran.record,
            diagnostics: ran.diagnostics,
            calls,
            advice,
        })
    }
}

/// What every kind of answer has.
pub(super) struct Ran {
    pub(super) tier: Tier,
    pub(super) provider: String,
    pub(super) environment: String,
    pub(super) duration: Duration,
    pub(super) record: RunRecord,
    pub(super) diagnostics: Diagnostics,
}

impl Ran {
    pub(super) fn of(answer: Answer) -> Result<(Self, RunResult), RunError> {
        let Some(tier) = Isolation::from_wire(&answer.isolation).tier() else {
            return Err(incomplete(format!(
                "the run states tier {:?}, which is no proven one",
                answer.isolation
            )));
        };
        let (Some(result), Some(record)) = (answer.result, answer.record) else {
            return Err(incomplete("the run has no result with a record".to_owned()));
        };
        let ran = Self {
            tier,
            provider: answer.sandbox,
            environment: answer.environment,
            duration: Duration::from_millis(u64::try_from(answer.duration_ms).unwrap_or(0)),
            record,
            diagnostics: answer.diagnostics.unwrap_or_default(),
        };
        Ok((ran, result))
    }
}

/// The call ran, and what came back is not what a provider owes.
pub(super) fn incomplete(cause: String) -> RunError {
    RunError::MayHaveRun(Fault::internal(cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(exit_code: i32, timed_out: bool) -> StepResult {
        StepResult {
            exit_code,
            timed_out,
            ..StepResult::default()
        }
    }

    fn project(outcome: ProjectOutcome, steps: Vec<StepResult>) -> ProjectRun {
        let answer = Answer {
            sandbox: "any".to_owned(),
            isolation: "container".to_owned(),
            duration_ms: 7,
            record: Some(RunRecord::default()),
            software_identity: String::new(),
            environment: String::new(),
            instance: String::new(),
            diagnostics: None,
            result: Some(RunResult::Project(ProjectResult {
                steps,
                outcome,
                artifacts: vec![Artifact {
                    path: "a/b".to_owned(),
                    content: vec![0, 255],
                }],
                ..ProjectResult::default()
            })),
        };
        sealed::Sealed::read(answer, None).unwrap()
    }

    #[test]
    fn a_project_succeeds_only_when_it_was_completed_and_no_step_failed() {
        let completed = ProjectOutcome::COMPLETED;
        assert!(project(completed, vec![step(0, false), step(0, false)]).succeeded());
        for (outcome, steps) in [
            (completed, vec![]),
            (completed, vec![step(0, false), step(3, false)]),
            (completed, vec![step(0, true)]),
            (ProjectOutcome::PROTOCOL_ERROR, vec![step(0, false)]),
            (ProjectOutcome::UNSPECIFIED, vec![step(0, false)]),
        ] {
            assert!(!project(outcome, steps.clone()).succeeded(), "{outcome:?} {steps:?}");
        }
    }

    #[test]
    fn an_artifact_is_found_by_the_path_that_was_asked_for() {
        let run = project(ProjectOutcome::COMPLETED, vec![step(0, false)]);
        assert_eq!(run.artifact("a/b"), Some(&[0, 255][..]));
        assert_eq!(run.artifact("b"), None);
        assert_eq!((run.tier, run.duration), (Tier::Container, Duration::from_millis(7)));
    }

    #[test]
    fn an_answer_of_another_kind_is_no_result() {
        let answer = Answer {
            sandbox: "any".to_owned(),
            isolation: "process".to_owned(),
            duration_ms: 0,
            record: Some(RunRecord::default()),
            software_identity: String::new(),
            environment: String::new(),
            instance: String::new(),
            diagnostics: None,
            result: Some(RunResult::JavaScript(JavaScriptResult::default())),
        };
        let refused = <ProjectRun as sealed::Sealed>::read(answer, None).unwrap_err();
        assert!(matches!(refused, RunError::MayHaveRun(_)), "{refused}");
    }
}
