//! `plimsoll run`: one program or project in, its own output, exit code and one line about it out.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use plimsoll::{Reason, RunError};
use plimsoll_core::limits::EXIT_TIMED_OUT;
use plimsoll_core::vars::Lookup;
use plimsoll_core::{Code, JavaScriptResult, ProjectOutcome, ProjectResult, RunRequest, RunResult};
use plimsoll_record::Answer;
use plimsoll_wire::{json, pb};

use crate::args::RunArgs;
use crate::failure::{Failure, MAY_HAVE_RUN, NOTHING_RAN};
use crate::line::{self, Lowered};
use crate::progress::{Progress, Signals};
use crate::request::{self, Prepared};
use crate::streams::Written;
use crate::{advice, artifacts, grants, hint, local, remote, runtime, streams};

/// Exit code of a run that succeeded and of which something could not be written here.
pub(crate) const UNWRITTEN: u8 = 1;

/// Runs the program and reports it; the exit code of the process.
pub(crate) fn run(args: &RunArgs, lookup: &dyn Lookup) -> u8 {
    let delivered = attempt(args, lookup).and_then(|ran| deliver(args, ran, lookup));
    delivered.unwrap_or_else(|failure| report(args, &failure))
}

/// An answer, and what became of the timeout that was asked for.
struct Ran {
    answer: Answer,
    lowered: Option<Lowered>,
    /// Lines of our own that explain the program's output.
    notes: Vec<String>,
}

fn attempt(args: &RunArgs, lookup: &dyn Lookup) -> Result<Ran, Failure> {
    let Prepared { request, mut notes } = request::prepare(args)?;
    let mut ran = match &args.target.daemon {
        Some(url) => runtime(true)?.block_on(run_there(url, args, request, lookup)),
        None => {
            let network = args.grant.profile.is_some() || !local::in_process(args.target.provider.as_deref(), lookup);
            runtime(network)?.block_on(run_here(args, request, lookup))
        }
    }?;
    notes.append(&mut ran.notes);
    Ok(Ran { notes, ..ran })
}

async fn run_here(args: &RunArgs, request: RunRequest, lookup: &dyn Lookup) -> Result<Ran, Failure> {
    let named = args.target.provider.as_deref();
    let profiles = grants::profiles(&args.grant, args.quiet || args.json, lookup)?;
    if !(args.quiet || args.json) {
        let warnings = local::warnings(named, lookup);
        warnings
            .into_iter()
            .for_each(|warning| streams::say(&format!("plimsoll: {warning}")));
    }
    let progress = Progress::new(args.quiet, lookup);
    // A sandbox outside this process does not go with it.
    let mut signals = Signals::watched(!local::in_process(named, lookup))?;
    let preparing = progress.during("preparing the sandbox", local::sandbox(named, lookup));
    let (Some(prepared), stopped) = signals.see_through(preparing).await else {
        return Err(nothing_ran_yet());
    };
    let mut sandbox = prepared?;
    let causes = Arc::new(grants::Causes::default());
    if let Some((profiles, caller)) = profiles {
        sandbox = sandbox
            .with_grants(profiles, caller)
            .with_cause_observer(Arc::clone(&causes) as _);
    }
    let evidence = sandbox.evidence();
    let environment = request
        .payload
        .as_ref()
        .and_then(|payload| evidence.environments.of(payload.kind()));
    let lowered = Lowered::of(request.timeout_ms, environment.map_or(0, |one| one.max_timeout_ms));
    let doing = doing(args);
    let answered = if stopped {
        Err(nothing_ran_yet())
    } else {
        tokio::select! {
            biased;
            answered = progress.during(&doing, sandbox.exchange(request)) => answered.map_err(|error| explained(error, args)),
            _ = signals.next() => Err(Failure::may_have_run(Code::Canceled, "interrupted; what was running has been ended")),
        }
    };
    let mut notes = causes.lines();
    tokio::select! {
        biased;
        drained = progress.during("clearing away the sandbox", sandbox.drain()) => {
            notes.extend(drained.err().map(|fault| format!("plimsoll: not everything could be cleared away: {fault}")));
        }
        _ = signals.next() => notes.push("plimsoll: interrupted before everything was cleared away".to_owned()),
    }
    let answer = answered?;
    if local::in_process(named, lookup) {
        // The process ends with this run, and the kernel takes everything back at once; taking it apart first takes time
        // that the whole command has little of. What a provider has in the file system, the kernel leaves there.
        let _left_to_the_kernel = ManuallyDrop::new(sandbox);
    }
    Ok(Ran { answer, lowered, notes })
}

async fn run_there(url: &str, args: &RunArgs, request: RunRequest, lookup: &dyn Lookup) -> Result<Ran, Failure> {
    let timeout_ms = request.timeout_ms;
    let kind = request.payload.as_ref().map(plimsoll_core::Payload::kind);
    let answer = Progress::new(args.quiet, lookup)
        .during(&doing(args), remote::run(url, &args.target, request, lookup))
        .await?;
    let lowered = if timeout_ms > 0 && !args.quiet {
        Lowered::of(
            timeout_ms,
            remote::max_timeout_ms(url, &args.target, kind, lookup).await,
        )
    } else {
        None
    };
    let notes = Vec::new();
    Ok(Ran { answer, lowered, notes })
}

fn doing(args: &RunArgs) -> String {
    let place = if args.target.daemon.is_some() {
        " on the daemon"
    } else {
        ""
    };
    match args.project.steps.len() {
        0 => format!("running the program{place}"),
        1 => format!("running one step{place}"),
        steps => format!("running {steps} steps{place}"),
    }
}

fn nothing_ran_yet() -> Failure {
    Failure::not_ready(&"interrupted before anything ran")
}

/// What somebody who typed the command can do about it.
fn explained(error: RunError, args: &RunArgs) -> Failure {
    let no_projects = !args.project.steps.is_empty()
        && matches!(&error, RunError::NotDispatched(refusal) if refusal.reason() == Reason::Unsupported);
    let failure = Failure::from(error);
    if no_projects {
        failure.with_advice("for shell steps use --provider docker, or --daemon with a daemon that has a shell")
    } else {
        failure
    }
}

fn deliver(args: &RunArgs, ran: Ran, lookup: &dyn Lookup) -> Result<u8, Failure> {
    let Ran {
        answer,
        lowered,
        mut notes,
    } = ran;
    let is_project = !args.project.steps.is_empty();
    match answer.result.clone() {
        Some(RunResult::JavaScript(result)) if !is_project => {
            if let Some(hint) = hint::hint(&result, args.grant.profile.is_some()) {
                notes.push(format!("plimsoll: hint: {hint}"));
            }
            notes.extend(advice::lines(&result.advice));
            notes.push(line::about(&answer, &result, lowered));
            let written = write(
                args,
                answer,
                &[(result.stdout.as_slice(), result.stderr.as_slice())],
                &notes,
                lookup,
            );
            Ok(with_losses(exit_code(&result), written.err()))
        }
        Some(RunResult::Project(mut result)) if is_project => {
            artifacts::only_asked(&result.artifacts, &args.project.artifacts)?;
            let missing = artifacts::missing(&result.artifacts, &args.project.artifacts);
            notes.extend(line::about_steps(&result, args.project.steps.len()));
            notes.extend(missing.into_iter().map(line::about_missing));
            let unwritten = request::out(args).map_or_else(Vec::new, |out| out.write(&mut result.artifacts));
            notes.extend(advice::lines(&result.advice));
            notes.push(line::about_project(&answer, &result, &args.project, lowered));
            let steps: Vec<Written<'_>> = result
                .steps
                .iter()
                .map(|step| (step.stdout.as_slice(), step.stderr.as_slice()))
                .collect();
            let written = write(args, answer, &steps, &notes, lookup);
            let exit_code = exit_code_of_project(&result, args.project.steps.len());
            Ok(with_losses(exit_code, written.err().into_iter().chain(unwritten)))
        }
        _ => Err(Failure::may_have_run(
            Code::DataLoss,
            "the answer holds no result of what was asked to run",
        )),
    }
}

/// Tells what of an answered run was lost here, and what the process then ends with. `--quiet` silences the line about a run,
/// and this is not that line.
fn with_losses(exit_code: u8, lost: impl IntoIterator<Item = String>) -> u8 {
    let mut exit_code = exit_code;
    for lost in lost {
        streams::say(&format!("plimsoll: {lost}"));
        if exit_code == 0 {
            exit_code = UNWRITTEN;
        }
    }
    exit_code
}

/// What the guest wrote, or the whole answer in its place, and then our own lines.
///
/// # Errors
/// The guest's output could not be written, in words.
fn write(
    args: &RunArgs,
    answer: Answer,
    guest: &[Written<'_>],
    notes: &[String],
    lookup: &dyn Lookup,
) -> Result<(), String> {
    let written = if args.json {
        let mut text = json::to_json(&pb::RunResponse::from(answer));
        text.push(b'\n');
        streams::stdout(&text).map(drop)
    } else {
        guest.iter().try_for_each(|(stdout, stderr)| {
            streams::stdout(stdout)?;
            streams::stderr(stderr).map(drop)
        })
    };
    if !args.quiet {
        let guest = if args.json { &[][..] } else { guest };
        streams::say_after(notes, guest, streams::may_dim(crate::no_color(lookup)));
    }
    written.map_err(|error| format!("the output could not be written: {error}"))
}

fn exit_code(result: &JavaScriptResult) -> u8 {
    eight_bits(result.exit_code)
}

/// That of the step that failed; without one, 0 only if the plan was completed and no step is missing.
fn exit_code_of_project(result: &ProjectResult, asked: usize) -> u8 {
    let failed = line::failed(result).map(|(_, step)| eight_bits(step.exit_code));
    match result.outcome {
        ProjectOutcome::COMPLETED if failed.is_none() && result.steps.len() == asked => 0,
        ProjectOutcome::COMPLETED => failed.unwrap_or(MAY_HAVE_RUN),
        ProjectOutcome::TIMED_OUT => failed.unwrap_or(eight_bits(EXIT_TIMED_OUT)),
        ProjectOutcome::SETUP_FAILED => NOTHING_RAN,
        _ => MAY_HAVE_RUN,
    }
}

/// An exit code in the eight bits a process has; a failure never becomes a success on the way.
pub(crate) fn eight_bits(exit_code: i32) -> u8 {
    let [low, ..] = exit_code.to_le_bytes();
    if low == 0 && exit_code != 0 { 1 } else { low }
}

fn report(args: &RunArgs, failure: &Failure) -> u8 {
    if args.json {
        let mut text = failure.to_json();
        text.push(b'\n');
        if let Err(error) = streams::stdout(&text) {
            streams::say(&format!("plimsoll: the error object could not be written: {error}"));
        }
    }
    // `--quiet` silences the line about a run; why there was none is not that line.
    if !(args.json && args.quiet) {
        streams::say(&failure.line());
    }
    failure.exit_code()
}

#[cfg(test)]
mod tests {
    use plimsoll_core::StepResult;

    use super::*;

    #[test]
    fn no_exit_code_but_zero_becomes_a_success() {
        for (guest, process) in [(0, 0), (3, 3), (255, 255), (-1, 255), (256, 1), (i32::MIN, 1), (259, 3)] {
            let result = JavaScriptResult {
                exit_code: guest,
                ..JavaScriptResult::default()
            };
            assert_eq!(exit_code(&result), process, "{guest}");
        }
    }

    #[test]
    fn a_project_ends_with_zero_only_when_every_step_succeeded() {
        let ended = |outcome, exit_codes: &[i32]| {
            let steps = exit_codes.iter().map(|exit_code| StepResult {
                exit_code: *exit_code,
                timed_out: *exit_code == 124,
                ..StepResult::default()
            });
            let result = ProjectResult {
                outcome,
                steps: steps.collect(),
                ..ProjectResult::default()
            };
            exit_code_of_project(&result, 2)
        };
        for (outcome, exit_codes, process) in [
            (ProjectOutcome::COMPLETED, &[0, 0][..], 0),
            (ProjectOutcome::COMPLETED, &[0, 3], 3),
            (ProjectOutcome::COMPLETED, &[7], 7),
            (ProjectOutcome::COMPLETED, &[256], 1),
            (ProjectOutcome::COMPLETED, &[0], 123),
            (ProjectOutcome::COMPLETED, &[], 123),
            (ProjectOutcome::TIMED_OUT, &[0, 124], 124),
            (ProjectOutcome::TIMED_OUT, &[], 124),
            (ProjectOutcome::SETUP_FAILED, &[], 125),
            (ProjectOutcome::PROTOCOL_ERROR, &[], 123),
            (ProjectOutcome::RUNNER_FAILED, &[0, 0], 123),
            (ProjectOutcome::UNSPECIFIED, &[0, 0], 123),
            (ProjectOutcome(9), &[0, 0], 123),
        ] {
            assert_eq!(ended(outcome, exit_codes), process, "{outcome:?} {exit_codes:?}");
        }
    }
}
