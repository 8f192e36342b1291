//! The engine as a provider: tier `process`, snippets and projects; its sessions are in [`crate::session`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use plimsoll_broker::{Broker, BrokerAnswer, snippet_client};
use plimsoll_core::{
    Availability, Code, Diagnostics, Environments, Evidence, Fault, FaultKind, GrantSupport, Isolation,
    JavaScriptResult, Limit, Outcome, Payload, PayloadEnvironment, Reason, Refusal, Resources, RunError, RunResult,
    Tier, Trap,
};
use plimsoll_sandbox::{AdmittedCall, BoxFuture, ProviderFault, RunContext, Sandbox, Sessions};

use crate::engine::{
    self, DEFAULT_MEMORY_PAGES, Engine, EngineConfig, Files, HostCalls, HostFuture, HostRequest, HostResponse,
    MAX_MEMORY_PAGES, RunReport, RunSpec, TrapKind,
};
use crate::project::{Plan, Room};
use crate::session;

/// Timeout of a run that asks for none.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest run.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(30);

/// Pages of 64 KiB in one MiB.
const PAGES_PER_MB: u32 = 16;

/// The embedded JavaScript provider.
#[derive(Debug)]
pub struct Wasm {
    pub(crate) engine: Arc<Engine>,
    pub(crate) evidence: Arc<Evidence>,
    pub(crate) unenforceable: bool,
}

impl Wasm {
    /// Loads the engine. `resources.memory_mb` 0 is 256 MiB; more than a 32-bit instance can address is clamped to that.
    ///
    /// # Errors
    /// Less memory than the engine image needs, or a host that cannot run it.
    pub fn new(resources: Resources, max_concurrent: u32) -> Result<Self, engine::BuildError> {
        Self::load(resources, max_concurrent, None)
    }

    /// As [`Wasm::new`], with the engine kept in a folder ([`Engine::kept_in`]): for processes that live for one run.
    ///
    /// # Errors
    /// As [`Wasm::new`].
    pub fn kept_in(resources: Resources, max_concurrent: u32, folder: &Path) -> Result<Self, engine::BuildError> {
        Self::load(resources, max_concurrent, Some(folder))
    }

    fn load(resources: Resources, max_concurrent: u32, folder: Option<&Path>) -> Result<Self, engine::BuildError> {
        let memory_pages = match resources.memory_mb {
            0 => DEFAULT_MEMORY_PAGES,
            mb => mb.saturating_mul(PAGES_PER_MB).min(MAX_MEMORY_PAGES),
        };
        let config = EngineConfig {
            memory_pages,
            slots: max_concurrent,
            ..EngineConfig::default()
        };
        let engine = match folder {
            Some(folder) => Engine::kept_in(config, folder)?,
            None => Engine::new(config)?,
        };
        let evidence = Evidence {
            provider: "wasm",
            availability: Availability::Serving,
            isolation: Isolation::Proven(Tier::Process),
            environments: Environments {
                javascript: Some(javascript()),
                project: Some(javascript()),
                module: None,
            },
            grants: GrantSupport {
                javascript: true,
                project: false,
            },
            policy: String::new(),
            sessions: Some(session::support()),
            resources,
        };
        let unenforceable = resources.cpus > 0.0 || resources.pids > 0 || resources.disk_mb > 0;
        Ok(Self {
            engine: Arc::new(engine),
            evidence: Arc::new(evidence),
            unenforceable,
        })
    }

    async fn execute(&self, call: &AdmittedCall, context: RunContext) -> Result<Outcome, RunError> {
        call.recheck(&self.evidence)?;
        self.enforceable()?;
        let snippet = match call.payload() {
            Payload::JavaScript(snippet) => snippet,
            Payload::Project(project) => {
                let plan = Plan::new(project)?;
                let room = Room {
                    files: Files::default(),
                    memory_pages: self.engine.config().memory_pages,
                };
                let outcome = plan
                    .run(&self.engine, &room, self.time_limit(call), context.cancelled)
                    .await;
                room.files.clear();
                return outcome;
            }
            _ => return Err(Refusal::unsupported("provider wasm runs javascript and project payloads only").into()),
        };
        let mut spec = RunSpec::new(&snippet.code, self.time_limit(call));
        spec.cancel = Some(context.cancelled);
        if let Some(broker) = context.broker {
            spec.client = snippet_client(broker.grant());
            broker.grant().preamble().clone_into(&mut spec.preamble);
            spec.host = Some(Arc::new(BrokerCalls(broker)));
        } else {
            spec.host = Some(Arc::new(NoGrant));
        }
        let report = self.engine.run(spec).await.map_err(failed)?;
        Ok(snippet_outcome(report))
    }

    /// # Errors
    /// The operator set a bound that this provider could only ignore.
    pub(crate) fn enforceable(&self) -> Result<(), Refusal> {
        if self.unenforceable {
            return Err(Refusal::environment(
                "this provider cannot bound processors, processes or disk",
            ));
        }
        Ok(())
    }
}

/// What snippets, projects and sessions run in.
pub(crate) fn javascript() -> PayloadEnvironment {
    PayloadEnvironment {
        identity: Engine::identity().to_owned(),
        max_timeout_ms: u32::try_from(MAX_TIMEOUT.as_millis()).unwrap_or(u32::MAX),
        software_identity: String::new(),
        languages: vec!["javascript".to_owned()],
    }
}

/// How a run without a report failed.
pub(crate) fn failed(error: engine::RunError) -> RunError {
    match error {
        engine::RunError::Cancelled => Fault::new(FaultKind::Canceled, "the caller went away during the run").into(),
        engine::RunError::Instance(_) => RunError::from(Refusal::new(
            Code::Internal,
            Reason::Environment,
            "no sandbox could be made for the run; try again",
        )),
        engine::RunError::Runtime(cause) => Fault::internal(cause).into(),
    }
}

/// The answer of a snippet.
pub(crate) fn snippet_outcome(report: RunReport) -> Outcome {
    let (diagnostics, duration) = (diagnostics(&report), report.duration);
    let result = RunResult::JavaScript(JavaScriptResult {
        exit_code: report.exit_code,
        timed_out: report.timed_out,
        stdout_truncated: report.stdout.truncated,
        stderr_truncated: report.stderr.truncated,
        stdout: report.stdout.bytes,
        stderr: report.stderr.bytes,
        advice: Vec::new(),
    });
    outcome(result, diagnostics, duration)
}

/// An answer, with what every answer of this provider states.
pub(crate) fn outcome(result: RunResult, diagnostics: Diagnostics, duration: Duration) -> Outcome {
    Outcome {
        isolation: Isolation::Proven(Tier::Process),
        duration_ms: i64::try_from(duration.as_millis()).unwrap_or(i64::MAX),
        environment: Engine::identity().to_owned(),
        software_identity: String::new(),
        instance: String::new(),
        diagnostics,
        result,
    }
}

pub(crate) fn diagnostics(report: &RunReport) -> Diagnostics {
    let limit_hit = if report.memory_refused {
        Some(Limit::Memory)
    } else if report.entry_refused {
        Some(Limit::Disk)
    } else if report.stdout.truncated || report.stderr.truncated {
        Some(Limit::Output)
    } else {
        None
    };
    Diagnostics {
        limit_hit,
        stdout_bytes: report.stdout.produced,
        stderr_bytes: report.stderr.produced,
        peak_memory_bytes: report.peak_memory,
        signal: 0,
        trap: report.trap.map(|trap| match trap {
            TrapKind::Stack => Trap::Stack,
            TrapKind::Memory => Trap::Memory,
            TrapKind::Unreachable => Trap::Unreachable,
            TrapKind::Other => Trap::Other,
        }),
    }
}

/// Answers the calls of a run without a grant.
#[derive(Debug)]
pub(crate) struct NoGrant;

impl HostCalls for NoGrant {
    fn call<'a>(&'a self, _request: HostRequest<'a>) -> HostFuture<'a> {
        let answer = BrokerAnswer::no_grant();
        Box::pin(std::future::ready(HostResponse {
            status: answer.status,
            body: answer.body,
        }))
    }
}

/// Hands a guest's calls to the run's broker, which decides about every one of them.
#[derive(Debug)]
struct BrokerCalls(Arc<Broker>);

impl HostCalls for BrokerCalls {
    fn call<'a>(&'a self, request: HostRequest<'a>) -> HostFuture<'a> {
        Box::pin(async move {
            let body = request
                .body
                .map_or_else(Bytes::new, |body| Bytes::copy_from_slice(body.get().as_bytes()));
            let answer = self
                .0
                .call(request.method.as_bytes(), request.path.as_bytes(), Full::new(body))
                .await;
            HostResponse {
                status: answer.status,
                body: answer.body,
            }
        })
    }
}

impl Sandbox for Wasm {
    fn evidence(&self) -> Arc<Evidence> {
        Arc::clone(&self.evidence)
    }

    fn preflight(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(async { Ok(()) })
    }

    fn smoke_test(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(async {
            let proof = self.engine.smoke_test().await;
            proof.map_err(|failure| ProviderFault {
                phase: "smoke test",
                cause: failure.to_string(),
            })
        })
    }

    fn time_limit(&self, call: &AdmittedCall) -> Duration {
        call.timeout(DEFAULT_TIMEOUT, MAX_TIMEOUT)
    }

    fn never_runs(&self, payload: &Payload) -> Option<Refusal> {
        let begins = match payload {
            Payload::Project(project) => Plan::new(project).map(drop),
            _ => Ok(()),
        };
        self.enforceable().and(begins).err()
    }

    fn run<'a>(&'a self, call: &'a AdmittedCall, context: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>> {
        Box::pin(self.execute(call, context))
    }

    fn sessions(&self) -> Option<&dyn Sessions> {
        Some(self)
    }
}
