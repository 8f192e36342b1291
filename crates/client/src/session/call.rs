//! Calls in a session: how one is described, its turn, its exchange.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use plimsoll_core::{Addressed, CellRun, Payload, ProjectFile, RunRequest, SessionRunRequest, SoftwareRule, Tier};
use plimsoll_record::SessionAnswer;
use plimsoll_wire::http::Procedure;
use plimsoll_wire::json::to_json;
use plimsoll_wire::pb;
use tokio::sync::MutexGuard;

use super::{Kept, Session};
use crate::answer;
use crate::call::{ProjectRequest, RunResultKind, TakesGrant, javascript, timeout_ms, traced, typed};
use crate::cancel::CancelToken;
use crate::error::{Error, ErrorKind};
use crate::placement::in_environment;
use crate::results::{CellResult, JavaScriptResult, ProjectResult, RunOutput};
use crate::stream::Sent;

/// One piece of a kept interpreter's conversation, and files that are written before it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellRequest {
    run: CellRun,
}

impl CellRequest {
    /// JavaScript, at most 262 144 bytes.
    pub fn javascript(code: impl Into<String>) -> Self {
        Self::in_language("javascript", code)
    }

    /// Python, at most 262 144 bytes.
    pub fn python(code: impl Into<String>) -> Self {
        Self::in_language("python", code)
    }

    /// Code in a language by its name: `javascript` or `python`; another one is refused before anything is sent.
    pub fn in_language(language: impl Into<String>, code: impl Into<String>) -> Self {
        Self {
            run: CellRun {
                language: language.into(),
                code: code.into(),
                files: Vec::new(),
            },
        }
    }

    /// Adds a text file, written before the code runs. At most 200 files and 4 194 304 bytes together; a path is relative, at
    /// most 1024 bytes, without `.`, `..` and empty segments.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, content: impl Into<String>) -> Self {
        self.run.files.push(ProjectFile {
            path: path.into(),
            content: content.into(),
        });
        self
    }

    pub(crate) fn into_payload(self) -> Payload {
        Payload::Cell(self.run)
    }
}

impl Session {
    /// Runs a cell in the session's interpreter of its language; variables of earlier cells are there.
    pub fn run_cell(&self, cell: CellRequest) -> SessionCall<'_, CellResult> {
        SessionCall::new(self, cell.into_payload())
    }

    /// Runs one JavaScript program beside the interpreters: it shares the session's files and none of their variables.
    pub fn run_javascript(&self, code: impl Into<String>) -> SessionCall<'_, JavaScriptResult> {
        SessionCall::new(self, javascript(code.into()))
    }

    /// Runs shell steps in the session's work directory. Files of earlier calls are there; the ones given here are written
    /// before the first step.
    pub fn run_project(&self, project: ProjectRequest) -> SessionCall<'_, ProjectResult> {
        SessionCall::new(self, project.into_payload())
    }
}

/// A call about to be sent into a session. `R` is its result, `S` the session it goes through. Its floor is the session's,
/// or a stronger one of its own.
#[must_use = "nothing is sent until send()"]
pub struct SessionCall<'s, R, S = Session> {
    session: &'s S,
    payload: Payload,
    floor: Option<Tier>,
    timeout_ms: i32,
    software: SoftwareRule,
    grant_profile: Option<String>,
    trace_id: Option<String>,
    cancel: Option<CancelToken>,
    result: PhantomData<fn() -> R>,
}

impl<'s, R, S> SessionCall<'s, R, S> {
    pub(crate) fn new(session: &'s S, payload: Payload) -> Self {
        Self {
            session,
            payload,
            floor: None,
            timeout_ms: 0,
            software: SoftwareRule::NONE,
            grant_profile: None,
            trace_id: None,
            cancel: None,
            result: PhantomData,
        }
    }

    /// Runs only behind a wall at least this strong. A floor below the session's own changes nothing.
    pub const fn floor(mut self, floor: Tier) -> Self {
        self.floor = Some(floor);
        self
    }

    /// The call's own time limit: zero asks for the daemon's default. Sent in whole milliseconds, at least 1, at most
    /// 2^31 - 1; the daemon clamps to its own ceiling.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout_ms = timeout_ms(timeout);
        self
    }

    /// Narrows the software rule the session was opened with. A rule that shares no identity with it is refused before
    /// anything is sent.
    pub fn software(mut self, rule: SoftwareRule) -> Self {
        self.software = rule;
        self
    }

    /// A trace id for the daemon's audit lines: `[A-Za-z0-9._:-]{1,64}`, or empty for none. Wins over
    /// [`crate::with_trace_id`].
    pub fn trace_id(mut self, id: impl Into<String>) -> Self {
        self.trace_id = Some(id.into());
        self
    }

    /// Lets a token cancel this call. While it waits for its turn nothing was sent, and the session is as it was. A call that
    /// is cut off after it was sent stops the session, because its answer is lost.
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }
}

impl<R: TakesGrant, S> SessionCall<'_, R, S> {
    /// The grant profile this call acts under; empty for none. Wins over the client's default for this kind. Sessions may use
    /// only profiles whose operator allows that.
    pub fn grant_profile(mut self, profile: impl Into<String>) -> Self {
        self.grant_profile = Some(profile.into());
        self
    }
}

impl<R: RunResultKind> SessionCall<'_, R> {
    /// Validates the call, waits for the calls before it, sends it, and checks the answer and its place in the chain.
    ///
    /// # Errors
    /// [`Error::not_dispatched`] says whether anything ran. [`Error::record`] is there when the call may have run and its
    /// record took its place in the chain; the session then goes on. A non-zero exit code is not an error.
    pub async fn send(self) -> Result<R, Error> {
        self.send_through(|session| session).await
    }
}

impl<R: RunResultKind, S> SessionCall<'_, R, S> {
    pub(crate) async fn send_through(mut self, session: impl FnOnce(&S) -> &Session) -> Result<R, Error> {
        let kept = &*session(self.session).kept;
        let profile = self
            .grant_profile
            .take()
            .unwrap_or_else(|| kept.client.default_grant(self.payload.kind()).to_owned());
        self.payload.set_grant_profile(profile);
        let request = RunRequest {
            minimum_isolation: kept.floor.max(self.floor).map_or("", Tier::as_str).to_owned(),
            trace_id: traced(self.trace_id)?,
            timeout_ms: self.timeout_ms,
            software_rule: kept.rule.merge(&self.software)?.to_text(),
            ..RunRequest::new(self.payload)
        };
        let (request, rule) = Addressed::new(request)?.validate(&kept.rule)?.into_request();
        let turn = kept.take_turn(self.cancel.as_ref()).await?;
        let output = kept.exchange(request, &rule, self.cancel.as_ref()).await;
        drop(turn);
        typed(output?)
    }
}

impl<R, S> fmt::Debug for SessionCall<'_, R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither code nor files: a call is easily logged by accident.
        f.debug_struct("SessionCall")
            .field("kind", &self.payload.kind())
            .field("floor", &self.floor)
            .field("timeout_ms", &self.timeout_ms)
            .finish_non_exhaustive()
    }
}

impl Kept {
    async fn take_turn(&self, cancel: Option<&CancelToken>) -> Result<MutexGuard<'_, ()>, Error> {
        let canceled = async {
            match cancel {
                Some(token) => token.canceled().await,
                None => std::future::pending().await,
            }
        };
        let turn = tokio::select! {
            biased;
            () = canceled => return Err(Error::canceled(false)),
            turn = self.turn.lock() => turn,
        };
        self.may_send()?;
        Ok(turn)
    }

    async fn exchange(
        &self,
        request: RunRequest,
        rule: &SoftwareRule,
        cancel: Option<&CancelToken>,
    ) -> Result<RunOutput, Error> {
        let message = pb::SessionRunRequest::from(SessionRunRequest {
            session_id: self.id.clone(),
            run: request,
        });
        let body = to_json(&message);
        let request = SessionRunRequest::from(message).run;
        let mut in_flight = InFlight {
            kept: self,
            sent: Sent::default(),
            settled: false,
        };
        let answered = self
            .client
            .transport()
            .post_watched(Procedure::SessionRun, body, cancel, &in_flight.sent)
            .await
            .and_then(|http| answer::read_session(&http));
        let outcome = match answered {
            Ok(answer) => read_run(answer, self)
                .and_then(|answer| self.believe(&request, rule, answer))
                .and_then(|output| in_environment(output, self.environment.as_deref())),
            Err(error) => Err(self.take_error(&request, rule, error)),
        };
        in_flight.settled = true;
        outcome
    }
}

/// An answer about a run has one.
fn read_run(answer: pb::SessionRunResponse, kept: &Kept) -> Result<SessionAnswer, Error> {
    let has_run = answer.run.is_set();
    let answer = SessionAnswer::from(answer);
    if has_run {
        return Ok(answer);
    }
    if let Some(ended) = &answer.ended {
        kept.set_ended(ended);
    }
    kept.stop("the answer of a call holds no run");
    Err(Error::new(ErrorKind::MalformedResponse, "the answer holds no run").with_status(200))
}

/// Stops the session when the call it stands for goes away before it has come to an end and something may have left.
struct InFlight<'k> {
    kept: &'k Kept,
    sent: Sent,
    settled: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.settled && self.sent.get() {
            self.kept
                .stop("a call was given up after it was sent, so its answer is lost");
        }
    }
}
