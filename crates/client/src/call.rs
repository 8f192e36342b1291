//! Runs: how one is described, and why it cannot be sent without a word about the floor.
//!
//! [`RunCall`] carries its state in its type. `send` exists only on [`FloorStated`], and the two ways there are `floor` and
//! `any_tier`; a call that forgot the question does not compile.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::time::Duration;

use plimsoll_core::{
    JavaScriptRun, ModuleRun, Payload, PayloadKind, ProjectFile, ProjectRun, RunRequest, SoftwareRule, Tier, TraceId,
    Validated,
};

use crate::cancel::CancelToken;
use crate::client::Client;
use crate::error::{Error, ErrorKind};
use crate::results::{CellResult, JavaScriptResult, ModuleResult, ProjectResult, RunOutput};

tokio::task_local! {
    static TRACE_ID: String;
}

/// Runs a future in which every call that sets no trace id of its own carries this one. An empty id is none. Tasks that
/// the future spawns do not inherit it.
pub async fn with_trace_id<F: Future>(id: impl Into<String>, future: F) -> F::Output {
    TRACE_ID.scope(id.into(), future).await
}

/// The state of a call whose floor was not spoken of yet.
#[derive(Debug)]
pub struct FloorMissing(());

/// The state of a call that has a floor, or was told in so many words to run anywhere.
#[derive(Debug)]
pub struct FloorStated(());

/// A run about to be sent. `R` is its result, `F` whether its floor was stated, `C` the client it goes through.
#[must_use = "nothing is sent until send()"]
pub struct RunCall<'c, R, F = FloorMissing, C = Client> {
    client: &'c C,
    payload: Payload,
    floor: Option<Tier>,
    timeout_ms: i32,
    software: SoftwareRule,
    grant_profile: Option<String>,
    trace_id: Option<String>,
    cancel: Option<CancelToken>,
    state: PhantomData<fn() -> (R, F)>,
}

impl<'c, R, C> RunCall<'c, R, FloorMissing, C> {
    pub(crate) fn new(client: &'c C, payload: Payload) -> Self {
        Self {
            client,
            payload,
            floor: None,
            timeout_ms: 0,
            software: SoftwareRule::NONE,
            grant_profile: None,
            trace_id: None,
            cancel: None,
            state: PhantomData,
        }
    }

    /// Runs only behind a wall at least this strong. The daemon refuses otherwise, and the answer's record is checked
    /// against it.
    pub fn floor(mut self, floor: Tier) -> RunCall<'c, R, FloorStated, C> {
        self.floor = Some(floor);
        self.stated()
    }

    /// Runs behind whatever wall the daemon has. For code the caller wrote and trusts.
    pub fn any_tier(self) -> RunCall<'c, R, FloorStated, C> {
        self.stated()
    }

    fn stated(self) -> RunCall<'c, R, FloorStated, C> {
        RunCall {
            client: self.client,
            payload: self.payload,
            floor: self.floor,
            timeout_ms: self.timeout_ms,
            software: self.software,
            grant_profile: self.grant_profile,
            trace_id: self.trace_id,
            cancel: self.cancel,
            state: PhantomData,
        }
    }
}

impl<R, F, C> RunCall<'_, R, F, C> {
    /// The run's own time limit: zero asks for the daemon's default. Sent in whole milliseconds, at least 1, at most
    /// 2^31 - 1; the daemon clamps to its own ceiling.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout_ms = timeout_ms(timeout);
        self
    }

    /// Runs only on software the rule lists; the answer's record is checked against it.
    pub fn software(mut self, rule: SoftwareRule) -> Self {
        self.software = rule;
        self
    }

    /// A trace id for the daemon's audit lines: `[A-Za-z0-9._:-]{1,64}`, or empty for none. Wins over
    /// [`with_trace_id`].
    pub fn trace_id(mut self, id: impl Into<String>) -> Self {
        self.trace_id = Some(id.into());
        self
    }

    /// Lets a token cancel this call.
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }
}

impl<R: TakesGrant, F, C> RunCall<'_, R, F, C> {
    /// The grant profile this run acts under; empty for none. Wins over the client's default for this kind.
    pub fn grant_profile(mut self, profile: impl Into<String>) -> Self {
        self.grant_profile = Some(profile.into());
        self
    }
}

impl<R: RunResultKind> RunCall<'_, R, FloorStated> {
    /// Validates the request, sends it, and checks the answer.
    ///
    /// # Errors
    /// [`Error::not_dispatched`] says whether anything ran. A non-zero exit code is not an error.
    pub async fn send(self) -> Result<R, Error> {
        self.send_through(|client| client).await
    }
}

impl<R: RunResultKind, C> RunCall<'_, R, FloorStated, C> {
    pub(crate) async fn send_through(self, client: impl FnOnce(&C) -> &Client) -> Result<R, Error> {
        let client = client(self.client);
        let cancel = self.cancel.clone();
        let (request, rule) = self.validated(client)?;
        typed(client.run(request, Some(&rule), cancel.as_ref()).await?)
    }

    /// The request as it is sent to this client's daemon, with the rule it names.
    fn validated(mut self, client: &Client) -> Result<(RunRequest, SoftwareRule), Error> {
        let profile = self
            .grant_profile
            .take()
            .unwrap_or_else(|| client.default_grant(self.payload.kind()).to_owned());
        self.payload.set_grant_profile(profile);
        let request = RunRequest {
            minimum_isolation: self.floor.map_or("", Tier::as_str).to_owned(),
            trace_id: traced(self.trace_id)?,
            timeout_ms: self.timeout_ms,
            software_rule: self.software.to_text(),
            ..RunRequest::new(self.payload)
        };
        Ok(Validated::new(request)?.into_request())
    }
}

/// What a pool needs of a call it may send more than once.
impl<'c, R: RunResultKind, C> RunCall<'c, R, FloorStated, C> {
    pub(crate) const fn target(&self) -> &'c C {
        self.client
    }

    pub(crate) fn kind(&self) -> PayloadKind {
        self.payload.kind()
    }

    pub(crate) const fn own_floor(&self) -> Option<Tier> {
        self.floor
    }

    pub(crate) const fn own_software(&self) -> &SoftwareRule {
        &self.software
    }

    pub(crate) fn own_grant(&self) -> Option<&str> {
        self.grant_profile.as_deref()
    }

    pub(crate) const fn cancel_token(&self) -> Option<&CancelToken> {
        self.cancel.as_ref()
    }

    /// The same call to one client, under a floor and a rule that include the call's own.
    pub(crate) fn to<'a>(
        &self,
        client: &'a Client,
        floor: Option<Tier>,
        rule: &SoftwareRule,
    ) -> RunCall<'a, R, FloorStated> {
        RunCall {
            client,
            payload: self.payload.clone(),
            floor: Tier::stronger(self.floor, floor),
            timeout_ms: self.timeout_ms,
            software: rule.clone(),
            grant_profile: self.grant_profile.clone(),
            trace_id: self.trace_id.clone(),
            cancel: self.cancel.clone(),
            state: PhantomData,
        }
    }
}

impl<R: RunResultKind> RunCall<'_, R, FloorStated> {
    /// Whether it breaks a rule that every daemon has; nothing is sent.
    pub(crate) fn check(self) -> Result<(), Error> {
        let client = self.client;
        self.validated(client).map(drop)
    }

    /// As [`RunCall::send`], with the result not yet taken for what was asked.
    pub(crate) async fn send_for_output(self) -> Result<RunOutput, Error> {
        let (client, cancel) = (self.client, self.cancel.clone());
        let (request, rule) = self.validated(client)?;
        client.run(request, Some(&rule), cancel.as_ref()).await
    }
}

impl<R, F, C> fmt::Debug for RunCall<'_, R, F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither code nor files: a call is easily logged by accident.
        f.debug_struct("RunCall")
            .field("kind", &self.payload.kind())
            .field("floor", &self.floor)
            .field("timeout_ms", &self.timeout_ms)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Runs one JavaScript program, at most 262 144 bytes.
    pub fn run_javascript(&self, code: impl Into<String>) -> RunCall<'_, JavaScriptResult> {
        RunCall::new(self, javascript(code.into()))
    }

    /// Writes files, runs shell steps in order and captures artifacts.
    pub fn run_project(&self, project: ProjectRequest) -> RunCall<'_, ProjectResult> {
        RunCall::new(self, project.into_payload())
    }

    /// Runs a compiled model over rows of parameters. Modules take no grant, so there is nowhere to name one:
    ///
    /// ```compile_fail,E0599
    /// # use plimsoll_client::{Client, ModuleRequest, Tier};
    /// # fn example(client: &Client, module: ModuleRequest) {
    /// client.run_module(module).floor(Tier::Vm).grant_profile("profile");
    /// # }
    /// ```
    pub fn run_module(&self, module: ModuleRequest) -> RunCall<'_, ModuleResult> {
        RunCall::new(self, module.into_payload())
    }
}

pub(crate) fn javascript(code: String) -> Payload {
    Payload::JavaScript(JavaScriptRun {
        code,
        grant_profile: String::new(),
    })
}

/// Files, then shell steps, then artifacts; every list in the order given, which is the order of the record's digest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectRequest {
    files: Vec<ProjectFile>,
    steps: Vec<String>,
    artifacts: Vec<String>,
}

impl ProjectRequest {
    /// A project with nothing in it; it needs at least one step.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text file, written before the first step. At most 200 files and 4 194 304 bytes together; a path is
    /// relative, at most 1024 bytes, without `.`, `..` and empty segments.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, content: impl Into<String>) -> Self {
        self.files.push(ProjectFile {
            path: path.into(),
            content: content.into(),
        });
        self
    }

    /// Adds a shell command. 1 to 20 steps of at most 16 384 bytes; the first that fails is the last that runs.
    #[must_use]
    pub fn step(mut self, command: impl Into<String>) -> Self {
        self.steps.push(command.into());
        self
    }

    /// Adds a path to capture after the steps, at most 100.
    #[must_use]
    pub fn artifact(mut self, path: impl Into<String>) -> Self {
        self.artifacts.push(path.into());
        self
    }

    pub(crate) fn into_payload(self) -> Payload {
        Payload::Project(ProjectRun {
            files: self.files,
            steps: self.steps,
            artifacts: self.artifacts,
            grant_profile: String::new(),
        })
    }
}

/// A parameter sweep over a compiled model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModuleRequest {
    /// Model name inside the module image: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`.
    pub model: String,
    /// 1 to 100 000 rows of 1 to 64 finite values, all equally wide; one run each.
    pub rows: Vec<Vec<f64>>,
    /// Simulated seconds, above 0.
    pub end_time: f64,
    /// Simulated seconds per step, above 0.
    pub step: f64,
}

impl ModuleRequest {
    pub(crate) fn into_payload(self) -> Payload {
        Payload::Module(ModuleRun {
            model: self.model,
            rows: self.rows,
            end_time: self.end_time,
            step: self.step,
        })
    }
}

mod sealed {
    pub trait Sealed {}
}

/// The results a [`RunCall`] or a [`crate::SessionCall`] can have. Closed: the protocol has these kinds.
pub trait RunResultKind: sealed::Sealed + Sized {
    /// The kind of payload whose result this is.
    const KIND: PayloadKind;

    #[doc(hidden)]
    fn from_output(output: RunOutput) -> Option<Self>;
}

/// The results of runs that can act under a grant profile.
pub trait TakesGrant: RunResultKind {}

macro_rules! result_kinds {
    ($($result:ident = $kind:ident),*) => { $(
        impl sealed::Sealed for $result {}

        impl RunResultKind for $result {
            const KIND: PayloadKind = PayloadKind::$kind;

            fn from_output(output: RunOutput) -> Option<Self> {
                if let RunOutput::$kind(result) = output { Some(result) } else { None }
            }
        }
    )* };
}

result_kinds!(
    JavaScriptResult = JavaScript,
    ProjectResult = Project,
    ModuleResult = Module,
    CellResult = Cell
);

impl TakesGrant for JavaScriptResult {}
impl TakesGrant for ProjectResult {}

/// The result as the kind its call was made for.
pub(crate) fn typed<R: RunResultKind>(output: RunOutput) -> Result<R, Error> {
    R::from_output(output).ok_or_else(|| {
        // The kind was compared with the request's, so this call would have to have been built as another kind.
        Error::new(
            ErrorKind::ResultKindMismatch,
            "the answer holds another kind of result than was asked for",
        )
    })
}

/// The trace id of a call: its own, else the one of [`with_trace_id`], else none.
pub(crate) fn traced(own: Option<String>) -> Result<String, Error> {
    let trace_id = own.or_else(|| TRACE_ID.try_with(Clone::clone).ok()).unwrap_or_default();
    if !trace_id.is_empty() {
        TraceId::parse(&trace_id).map_err(|fault| plimsoll_core::Refusal::request(fault.to_string()))?;
    }
    Ok(trace_id)
}

/// Whole milliseconds as they travel: rounded at the microsecond, then down; a positive value becomes at least 1, and the
/// largest is 2^31 - 1.
pub(crate) fn timeout_ms(timeout: Duration) -> i32 {
    let micros = (timeout.as_nanos() + 500) / 1000;
    let ms = i32::try_from(micros / 1000).unwrap_or(i32::MAX);
    if timeout.is_zero() { 0 } else { ms.max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_travel_in_whole_milliseconds_within_32_bits() {
        for (timeout, ms) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_micros(100), 1),
            (Duration::from_nanos(1_999_600), 2),
            (Duration::from_micros(1_999), 1),
            (Duration::from_secs_f64(4.35), 4350),
            (Duration::from_secs(1_000_000_000_000), i32::MAX),
            (Duration::MAX, i32::MAX),
        ] {
            assert_eq!(timeout_ms(timeout), ms, "{timeout:?}");
        }
    }
}
