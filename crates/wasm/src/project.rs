//! Projects: files in memory, steps one after another in instances of their own, artifacts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{
    Artifact, Diagnostics, Limit, Outcome, ProjectOutcome, ProjectResult, ProjectRun, Refusal, RunError, RunResult,
    StepResult,
};
use tokio_util::sync::CancellationToken;

use crate::command::{self, Command, Unrunnable};
use crate::engine::{self, Engine, Files, Program, RunReport, RunSpec};
use crate::files::WORK;
use crate::guest::PAGE;
use crate::provider::{NoGrant, diagnostics, failed, outcome};

/// Output kept of each stream of one step. A step that writes more is ended.
const STEP_STREAM_CAP: usize = 1 << 20;

/// Output kept across all steps of a project, both streams together.
const PROJECT_OUTPUT_CAP: usize = 3 << 20;

/// Content of all artifacts of a project together.
const ARTIFACTS_CAP: usize = 8 << 20;

/// Exit code of a step that cannot be run here, as of a program that is not there.
const EXIT_UNRUNNABLE: i32 = 127;

/// A project this provider can begin.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    project: &'a ProjectRun,
    steps: Vec<Result<Command, Unrunnable>>,
}

/// What a project has: its files, and the memory for them and for an instance.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) files: Files,
    pub(crate) memory_pages: u32,
}

impl<'a> Plan<'a> {
    /// # Errors
    /// Its first step is not one that runs here; nothing has run.
    pub(crate) fn new(project: &'a ProjectRun) -> Result<Self, Refusal> {
        let steps: Vec<_> = project.steps.iter().map(|step| command::parse(step)).collect();
        if let Some(Err(cause)) = steps.first() {
            return Err(Refusal::unsupported(format!(
                "project.steps[0] cannot run on provider wasm: {cause}; wasm runs steps of the form `node FILE [arguments]` only"
            )));
        }
        Ok(Self { project, steps })
    }

    /// Writes the files, runs the steps, captures the artifacts.
    ///
    /// # Errors
    /// As a run's, as long as no step has run; afterwards only that the caller went away or the runtime failed.
    pub(crate) async fn run(
        &self,
        engine: &Engine,
        room: &Room,
        timeout: Duration,
        cancelled: CancellationToken,
    ) -> Result<Outcome, RunError> {
        let began = Instant::now();
        let mut told = Told::default();
        match self.place(engine, room) {
            Ok(()) => {
                self.steps(engine, room, began, timeout, cancelled, &mut told).await?;
                self.artifacts(room, &mut told.result);
            }
            Err(error) => told.end(ProjectOutcome::SETUP_FAILED, error),
        }
        Ok(outcome(
            RunResult::Project(told.result),
            told.diagnostics,
            began.elapsed(),
        ))
    }

    /// The error is what the caller reads.
    fn place(&self, engine: &Engine, room: &Room) -> Result<(), String> {
        let files = &self.project.files;
        room.files
            .place(files, room.memory_pages as usize * PAGE)
            .map_err(|(number, error)| {
                let path = files.get(number).map(|file| file.path.as_str()).unwrap_or_default();
                format!("file {path:?} cannot be written: {}", error.told())
            })?;
        if !engine.starts_beside(&room.files, room.memory_pages) {
            return Err("the files leave no memory for a step; send less, or raise the memory limit".to_owned());
        }
        Ok(())
    }

    async fn steps(
        &self,
        engine: &Engine,
        room: &Room,
        began: Instant,
        timeout: Duration,
        cancelled: CancellationToken,
        told: &mut Told,
    ) -> Result<(), RunError> {
        told.result.outcome = ProjectOutcome::COMPLETED;
        for (number, (text, step)) in self.project.steps.iter().zip(&self.steps).enumerate() {
            let result = match step {
                Err(cause) => unrunnable(text, cause),
                Ok(_) if !engine.starts_beside(&room.files, room.memory_pages) => {
                    let error = format!("step {} could not start: the files leave no memory for it", number + 1);
                    told.diagnostics.limit_hit = Some(Limit::Memory);
                    told.end(ProjectOutcome::RUNNER_FAILED, error);
                    return Ok(());
                }
                Ok(command) => {
                    let left = timeout.saturating_sub(began.elapsed());
                    let report = step_report(engine, room, command, left, cancelled.clone()).await;
                    match report {
                        Ok(report) => told.step(text, report),
                        // The steps before it have run, so this is no refusal.
                        Err(engine::RunError::Instance(_)) if number > 0 => {
                            let error = format!("step {} could not start: no sandbox could be made for it", number + 1);
                            told.end(ProjectOutcome::RUNNER_FAILED, error);
                            return Ok(());
                        }
                        Err(error) => return Err(failed(error)),
                    }
                }
            };
            let (timed_out, exit_code) = (result.timed_out, result.exit_code);
            told.result.steps.push(result);
            if timed_out {
                let detail = format!("step {} was ended by the run's time limit", number + 1);
                told.end(ProjectOutcome::TIMED_OUT, detail);
            }
            if exit_code != 0 {
                break;
            }
        }
        Ok(())
    }

    fn artifacts(&self, room: &Room, result: &mut ProjectResult) {
        let mut left = ARTIFACTS_CAP;
        for path in &self.project.artifacts {
            // What is not a file there is left out.
            let Ok(content) = room.files.lock().read(&format!("{WORK}/{path}")) else {
                continue;
            };
            if content.len() > left {
                result.artifacts_truncated = true;
                break;
            }
            left -= content.len();
            result.artifacts.push(Artifact {
                path: path.clone(),
                content: Arc::unwrap_or_clone(content),
            });
        }
    }
}

async fn step_report(
    engine: &Engine,
    room: &Room,
    command: &Command,
    timeout: Duration,
    cancelled: CancellationToken,
) -> Result<RunReport, engine::RunError> {
    let program = serde_json::to_string(command).map_err(|error| engine::RunError::Runtime(error.to_string()))?;
    let mut spec = RunSpec::new(&program, timeout);
    spec.program = Program::Step;
    spec.output_cap = Some(STEP_STREAM_CAP);
    spec.memory_pages = Some(room.memory_pages);
    spec.cancel = Some(cancelled);
    spec.host = Some(Arc::new(NoGrant));
    spec.files = Some(room.files.clone());
    engine.run(spec).await
}

/// The entry of a step that is none of ours. Those before it ran, so it fails as a program that is not there would.
fn unrunnable(text: &str, cause: &Unrunnable) -> StepResult {
    let sentence = format!(
        "plimsoll: this step did not run: {cause}; provider wasm runs steps of the form `node FILE [arguments]` only\n"
    );
    StepResult {
        command: text.to_owned(),
        diagnostics: Diagnostics {
            stderr_bytes: sentence.len() as u64,
            ..Diagnostics::default()
        },
        stderr: sentence.into_bytes(),
        exit_code: EXIT_UNRUNNABLE,
        ..StepResult::default()
    }
}

/// What there is to tell so far.
#[derive(Debug)]
struct Told {
    result: ProjectResult,
    diagnostics: Diagnostics,
    /// Bytes of output that can still be kept.
    room: usize,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            result: ProjectResult::default(),
            diagnostics: Diagnostics::default(),
            room: PROJECT_OUTPUT_CAP,
        }
    }
}

impl Told {
    fn end(&mut self, outcome: ProjectOutcome, detail: String) {
        self.result.outcome = outcome;
        self.result.outcome_detail = detail;
    }

    /// The entry of a step that ran.
    fn step(&mut self, text: &str, mut report: RunReport) -> StepResult {
        for stream in [&mut report.stdout, &mut report.stderr] {
            stream.truncated |= stream.bytes.len() > self.room;
            stream.bytes.truncate(self.room);
            self.room -= stream.bytes.len();
        }
        let told = diagnostics(&report);
        let all = &mut self.diagnostics;
        all.limit_hit = all.limit_hit.or(told.limit_hit);
        all.stdout_bytes += told.stdout_bytes;
        all.stderr_bytes += told.stderr_bytes;
        all.peak_memory_bytes = all.peak_memory_bytes.max(told.peak_memory_bytes);
        all.trap = all.trap.or(told.trap);
        StepResult {
            command: text.to_owned(),
            exit_code: report.exit_code,
            timed_out: report.timed_out,
            duration_ms: i64::try_from(report.duration.as_millis()).unwrap_or(i64::MAX),
            stdout_truncated: report.stdout.truncated,
            stderr_truncated: report.stderr.truncated,
            stdout: report.stdout.bytes,
            stderr: report.stderr.bytes,
            diagnostics: told,
        }
    }
}
