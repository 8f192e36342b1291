//! Sessions: an interpreter kept for cells, fresh instances for snippets and the steps of projects, and a tree of files in memory
//! for all of them.
//!
//! A session is nothing more than that: no process, no socket. So it cannot be lost behind its provider's back,
//! a sweep finds nothing (what a cell started ended with it), and suspending it only lets go of what it shares anyway.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::{
    AdmittedOpen, CellResult, CellRun, GrantSupport, Isolation, Outcome, Payload, ProjectFile, Refusal, RunError,
    RunResult, SessionEnd, SessionEnded, SessionEvidence, SessionSupport, Tier,
};
use plimsoll_sandbox::{BoxFuture, OpenContext, ProviderFault, RunContext, Session, SessionCall, Sessions, Suspended};
use tokio::sync::Mutex;

use crate::engine::{Engine, Files, Interpreter, RunSpec};
use crate::guest::PAGE;
use crate::project::{Plan, Room};
use crate::provider::{
    DEFAULT_TIMEOUT, MAX_TIMEOUT, NoGrant, Wasm, diagnostics, failed, javascript, outcome, snippet_outcome,
};
use crate::smoke_session;

/// The least an idle session is charged, in bytes.
const LEAST_CHARGE: u64 = 1 << 20;

/// What sessions of this provider run.
pub(crate) fn support() -> SessionSupport {
    SessionSupport {
        environment: javascript(),
        snippets: true,
        projects: true,
        grants: GrantSupport::default(),
        disk_bound: false,
    }
}

impl Sessions for Wasm {
    fn open<'a>(
        &'a self,
        open: &'a AdmittedOpen,
        _context: OpenContext,
    ) -> BoxFuture<'a, Result<Arc<dyn Session>, RunError>> {
        Box::pin(async move {
            self.enforceable()?;
            let evidence = SessionEvidence {
                provider: self.evidence.provider,
                isolation: Isolation::Proven(Tier::Process),
                support: support(),
                instance: String::new(),
            };
            open.recheck(&evidence)?;
            // Made now, so that a host without room for it refuses the open and not a call.
            let interpreter = self.engine.interpreter().await.map_err(failed)?;
            let session: Arc<dyn Session> = Arc::new(Kept {
                engine: Arc::clone(&self.engine),
                evidence,
                files: Files::default(),
                state: Mutex::new(State {
                    interpreter: Some(interpreter),
                    closed: false,
                }),
            });
            Ok(session)
        })
    }

    fn smoke_test(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(async {
            smoke_session::prove(self).await.map_err(|cause| ProviderFault {
                phase: "smoke test",
                cause,
            })
        })
    }
}

/// One session.
struct Kept {
    engine: Arc<Engine>,
    evidence: SessionEvidence,
    /// What its calls wrote; shared by all of them.
    files: Files,
    /// Held for as long as a call runs: whoever has it knows that none does.
    state: Mutex<State>,
}

struct State {
    /// `None` once a cell ended it; the next cell starts another.
    interpreter: Option<Interpreter>,
    closed: bool,
}

impl Kept {
    async fn execute(&self, call: &SessionCall, context: RunContext) -> Result<Outcome, RunError> {
        let mut state = self.state.lock().await;
        if state.closed {
            return Err(Refusal::session_ended(SessionEnded {
                end: SessionEnd::Closed,
                detail: String::new(),
            })
            .into());
        }
        call.recheck(&self.evidence)?;
        if context.cancelled.is_cancelled() {
            return Err(
                Refusal::caller_gone("the caller went away before the code was handed over; nothing ran").into(),
            );
        }
        if context.deadline <= Instant::now() {
            return Err(Refusal::too_late("the time was over before the code was handed over; nothing ran").into());
        }
        // The call's own deadline is the keeper's: it ends the call, unanswered, where this ends the code, with an answer.
        let timeout = self.time_limit(call);
        match call.call().payload() {
            Payload::JavaScript(snippet) => {
                let mut spec = RunSpec::new(&snippet.code, timeout);
                spec.memory_pages = Some(self.pages_left(&state)?);
                spec.cancel = Some(context.cancelled);
                spec.host = Some(Arc::new(NoGrant));
                spec.files = Some(self.files.clone());
                self.engine.run(spec).await.map(snippet_outcome).map_err(failed)
            }
            Payload::Cell(cell) => self.cell(&mut state, cell, timeout, context).await,
            Payload::Project(project) => {
                let plan = Plan::new(project)?;
                let room = Room {
                    files: self.files.clone(),
                    memory_pages: self.pages_left(&state)?,
                };
                plan.run(&self.engine, &room, timeout, context.cancelled).await
            }
            Payload::Module(_) => Err(Refusal::unsupported("sessions of provider wasm run no module payloads").into()),
        }
    }

    /// What its interpreter leaves: interpreter, files and a snippet or step have the session's one limit between them.
    ///
    /// # Errors
    /// No instance can start beside interpreter and files.
    fn pages_left(&self, state: &State) -> Result<u32, Refusal> {
        let held = state.interpreter.as_ref().map_or(0, Interpreter::memory);
        let held = u32::try_from(held.div_ceil(PAGE)).unwrap_or(u32::MAX);
        let left = self.engine.config().memory_pages.saturating_sub(held);
        if self.engine.starts_beside(&self.files, left) {
            return Ok(left);
        }
        Err(Refusal::capacity(
            "the session's interpreter and files leave no memory for a snippet or a step; remove files in a cell, or end \
             the interpreter with `process.exit()` in one, because its memory does not shrink while it lives",
        ))
    }

    /// Writes a cell's files; those before one that cannot be written stay.
    fn place(&self, files: &[ProjectFile], memory: usize) -> Result<(), Refusal> {
        let limit = (self.engine.config().memory_pages as usize * PAGE).saturating_sub(memory);
        self.files.place(files, limit).map_err(|(number, error)| {
            Refusal::request(format!(
                "cell.files[{number}] cannot be written: {}; the code did not run",
                error.told()
            ))
        })
    }

    async fn cell(
        &self,
        state: &mut State,
        cell: &CellRun,
        timeout: Duration,
        context: RunContext,
    ) -> Result<Outcome, RunError> {
        let memory = state.interpreter.as_ref().map_or(0, Interpreter::memory);
        self.place(&cell.files, memory)?;
        // A call that is dropped here takes the interpreter with it: nobody knows how far it got.
        let interpreter = match state.interpreter.take() {
            Some(interpreter) => interpreter,
            None => self.engine.interpreter().await.map_err(failed)?,
        };
        let interpreter_started = interpreter.is_fresh();
        let ended = interpreter
            .cell(
                &cell.code,
                timeout,
                Some(context.cancelled),
                Some(Arc::new(NoGrant)),
                Some(self.files.clone()),
            )
            .await
            .map_err(failed)?;
        state.interpreter = ended.interpreter;
        let report = ended.report;
        let (diagnostics, duration) = (diagnostics(&report), report.duration);
        let result = RunResult::Cell(CellResult {
            exit_code: report.exit_code,
            timed_out: report.timed_out,
            stdout_truncated: report.stdout.truncated,
            stderr_truncated: report.stderr.truncated,
            stdout: report.stdout.bytes,
            stderr: report.stderr.bytes,
            interpreter_started,
            interpreter_ended: state.interpreter.is_none(),
        });
        Ok(outcome(result, diagnostics, duration))
    }
}

impl Session for Kept {
    fn evidence(&self) -> &SessionEvidence {
        &self.evidence
    }

    fn time_limit(&self, call: &SessionCall) -> Duration {
        call.call().timeout(DEFAULT_TIMEOUT, MAX_TIMEOUT)
    }

    fn run<'a>(&'a self, call: &'a SessionCall, context: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>> {
        Box::pin(self.execute(call, context))
    }

    fn sweep(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn suspend(&self) -> BoxFuture<'_, Result<Suspended, ProviderFault>> {
        Box::pin(async {
            let mut state = self.state.lock().await;
            let held = state.interpreter.as_mut().map_or(0, |interpreter| {
                interpreter.rest();
                interpreter.resident()
            });
            let held = held + self.files.bytes() as u64;
            Ok(Suspended::Holds(held.max(LEAST_CHARGE)))
        })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(async { Ok(()) })
    }

    fn ended(&self) -> Option<SessionEnded> {
        None
    }

    fn close(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(async {
            let mut state = self.state.lock().await;
            state.closed = true;
            state.interpreter = None;
            self.files.clear();
            Ok(())
        })
    }
}
