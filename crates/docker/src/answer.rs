//! From the end of a talk to the call's answer: every row of the outcome tables, and nothing that asks an engine.

use std::time::Duration;

use plimsoll_core::{
    Artifact, Diagnostics, Fault, FaultKind, JavaScriptResult, Limit, ProjectOutcome, ProjectResult, Refusal, RunError,
    StepResult,
};
use plimsoll_guest_link::Verdict;
use plimsoll_guest_link::messages::{Report, SnippetEnd, StepReport};

use crate::limits_hit::Reading;
use crate::talk::{Ending, Talked};

/// The exit code of a run that its time limit ended.
const TIMED_OUT: i32 = 124;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// No byte of the call was sent, so another container may be tried, or the call refused. In words for the log.
    NotSent(String),
    /// The caller learns this.
    Final(RunError),
}

impl From<Fault> for NoAnswer {
    fn from(fault: Fault) -> Self {
        Self::Final(fault.into())
    }
}

/// The answer of a snippet.
///
/// # Errors
/// [`NoAnswer`]: what is not the guest's own end is never told as one.
pub(crate) fn snippet(
    talked: Talked,
    reading: Reading,
    beside: &str,
) -> Result<(JavaScriptResult, Diagnostics), NoAnswer> {
    match settled(talked, beside)? {
        Settled::Told(Ending::Snippet(end)) => Ok(ended(*end, reading)),
        Settled::Expired => Ok((
            JavaScriptResult {
                exit_code: TIMED_OUT,
                timed_out: true,
                ..JavaScriptResult::default()
            },
            Diagnostics::default(),
        )),
        Settled::Silent(verdict) => Err(Fault::internal(format!(
            "PID 1 ended without the end of the snippet ({verdict:?}): {beside}"
        ))
        .into()),
        Settled::Told(_) => Err(Fault::internal("PID 1 answered a snippet with the end of something else").into()),
    }
}

pub(crate) fn ended(end: SnippetEnd, reading: Reading) -> (JavaScriptResult, Diagnostics) {
    let (stdout_truncated, stderr_truncated) = (end.stdout.truncated(), end.stderr.truncated());
    let truncated = stdout_truncated || stderr_truncated;
    let signal = if end.timed_out { 0 } else { end.end.signal() };
    let diagnostics = reading.diagnostics(&end.limits, &end.stdout, &end.stderr, truncated, signal);
    let result = JavaScriptResult {
        stdout: end.stdout.bytes,
        stderr: end.stderr.bytes,
        exit_code: if end.timed_out { TIMED_OUT } else { end.end.shell_code() },
        timed_out: end.timed_out,
        stdout_truncated,
        stderr_truncated,
        advice: Vec::new(),
    };
    (result, diagnostics)
}

/// How a container ended whose PID 1 told nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exited {
    /// Its exit code, where the engine told one.
    pub(crate) code: Option<i64>,
    /// Engine or kernel counted a process that was taken for want of memory.
    pub(crate) out_of_memory: bool,
}

/// The answer of a project.
///
/// # Errors
/// As [`snippet`].
pub(crate) fn project(
    talked: Talked,
    reading: Reading,
    exited: Exited,
    beside: &str,
) -> Result<(ProjectResult, Diagnostics), NoAnswer> {
    match settled(talked, beside)? {
        Settled::Told(Ending::Report(report)) => Ok(reported(*report, reading)),
        Settled::Told(_) => Err(Fault::internal("PID 1 answered a project with the end of something else").into()),
        Settled::Expired => Ok(without_steps(
            ProjectOutcome::TIMED_OUT,
            "the run's time was up and its sandbox did not report; nothing of its steps is known",
        )),
        Settled::Silent(verdict) => {
            let (result, mut diagnostics) =
                without_steps(ProjectOutcome::PROTOCOL_ERROR, &silence(verdict, exited.code));
            diagnostics.limit_hit = exited.out_of_memory.then_some(Limit::Memory);
            Ok((result, diagnostics))
        }
    }
}

/// Fixed words: any process of the run may have written what else there is to quote.
fn silence(verdict: Verdict, exit: Option<i64>) -> String {
    match verdict {
        Verdict::Undecodable => "the sandbox's report cannot be read; rebuild the image with this version".to_owned(),
        Verdict::Unauthenticated => "the sandbox's output holds reports, and none of them is its own".to_owned(),
        Verdict::Found | Verdict::NotFound => match exit {
            Some(137) => {
                "the sandbox ended without a report, exit code 137: it was killed, for example out of memory".to_owned()
            }
            Some(code) => format!("the sandbox ended without a report, exit code {code}"),
            None => "the sandbox ended without a report".to_owned(),
        },
    }
}

fn without_steps(outcome: ProjectOutcome, detail: &str) -> (ProjectResult, Diagnostics) {
    let result = ProjectResult {
        outcome,
        outcome_detail: detail.to_owned(),
        ..ProjectResult::default()
    };
    (result, Diagnostics::default())
}

pub(crate) fn reported(report: Report, reading: Reading) -> (ProjectResult, Diagnostics) {
    let timed_out = report.steps.iter().position(|step| step.timed_out);
    let (outcome, detail) = if !report.error.is_empty() {
        let outcome = if report.steps_begun == 0 {
            ProjectOutcome::SETUP_FAILED
        } else {
            ProjectOutcome::RUNNER_FAILED
        };
        (outcome, report.error)
    } else if let Some(step) = timed_out {
        (
            ProjectOutcome::TIMED_OUT,
            format!("step {} was ended by the run's time limit", step + 1),
        )
    } else {
        (ProjectOutcome::COMPLETED, String::new())
    };
    let steps: Vec<StepResult> = report.steps.into_iter().map(|step| self::step(step, reading)).collect();
    let truncated = steps.iter().any(|step| step.stdout_truncated || step.stderr_truncated);
    let sum = |of: fn(&Diagnostics) -> u64| steps.iter().map(|step| of(&step.diagnostics)).sum();
    let mut diagnostics = reading.diagnostics(&report.limits, &Default::default(), &Default::default(), truncated, 0);
    diagnostics.stdout_bytes = sum(|of| of.stdout_bytes);
    diagnostics.stderr_bytes = sum(|of| of.stderr_bytes);
    diagnostics.signal = steps.last().map_or(0, |step| step.diagnostics.signal);
    let result = ProjectResult {
        steps,
        outcome,
        outcome_detail: detail,
        artifacts: report
            .artifacts
            .into_iter()
            .map(|artifact| Artifact {
                path: artifact.path,
                content: artifact.content,
            })
            .collect(),
        artifacts_truncated: report.artifacts_truncated,
        advice: Vec::new(),
    };
    (result, diagnostics)
}

fn step(step: StepReport, reading: Reading) -> StepResult {
    let (stdout_truncated, stderr_truncated) = (step.stdout.truncated(), step.stderr.truncated());
    let truncated = stdout_truncated || stderr_truncated;
    let signal = if step.timed_out { 0 } else { step.signal };
    let diagnostics = reading.diagnostics(&step.limits, &step.stdout, &step.stderr, truncated, signal);
    StepResult {
        command: step.command,
        stdout: step.stdout.bytes,
        stderr: step.stderr.bytes,
        exit_code: step.exit_code,
        timed_out: step.timed_out,
        duration_ms: i64::try_from(step.duration_ms).unwrap_or(i64::MAX),
        stdout_truncated,
        stderr_truncated,
        diagnostics,
    }
}

/// What is left once the rows that both kinds share are answered.
enum Settled {
    /// PID 1 told an end.
    Told(Ending),
    /// Started, and no end by the time limit and the grace.
    Expired,
    /// Started, and the output ended without an end.
    Silent(Verdict),
}

fn settled(talked: Talked, beside: &str) -> Result<Settled, NoAnswer> {
    let Talked {
        dispatched,
        started,
        ending,
    } = talked;
    if !dispatched {
        return Err(match ending {
            Ending::Cancelled => NoAnswer::Final(gone().into()),
            other => NoAnswer::NotSent(format!("{}: {beside}", words(&other))),
        });
    }
    match ending {
        Ending::Cancelled => Err(Fault::new(FaultKind::Canceled, "the caller went away during the run").into()),
        Ending::Lost(cause) => Err(Fault::internal(format!("the sandbox was lost: {cause}: {beside}")).into()),
        Ending::Fault(cause) => Err(Fault::internal(format!("PID 1 gave up: {cause}")).into()),
        Ending::Expired if started => Ok(Settled::Expired),
        Ending::Closed(verdict) if started => Ok(Settled::Silent(verdict)),
        other @ (Ending::Snippet(_)
        | Ending::Report(_)
        | Ending::Facts(_)
        | Ending::Cell(_)
        | Ending::NotRun(_)
        | Ending::Warm(_)
        | Ending::Swept(_)) => Ok(Settled::Told(other)),
        other => Err(Fault::internal(format!(
            "the call was sent and nothing shows that it was started: {}: {beside}",
            words(&other)
        ))
        .into()),
    }
}

/// An ending in a few words, for a log.
pub(crate) fn words(ending: &Ending) -> String {
    match ending {
        Ending::Lost(cause) | Ending::Fault(cause) => cause.clone(),
        Ending::Closed(verdict) => format!("the container ended ({verdict:?})"),
        Ending::Expired => "no end within the time limit".to_owned(),
        Ending::Cancelled => "the caller went away".to_owned(),
        Ending::Snippet(_)
        | Ending::Report(_)
        | Ending::Facts(_)
        | Ending::Cell(_)
        | Ending::NotRun(_)
        | Ending::Warm(_)
        | Ending::Swept(_) => "an end".to_owned(),
    }
}

/// The caller left before a byte of the call was sent.
pub(crate) fn gone() -> Refusal {
    Refusal::caller_gone("the caller went away before the run began")
}

/// The time limit the guest's code is given, in the milliseconds of a plan; never nothing.
pub(crate) fn limit_ms(limit: Duration) -> u64 {
    u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests;
