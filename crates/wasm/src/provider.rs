//! The engine as a provider: tier `process`, snippets only (spec 40 A1, A2).

use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{
    Admitted, Availability, Code, Diagnostics, Environments, Evidence, Fault, FaultKind, GrantSupport, Isolation,
    JavaScriptResult, Limit, Outcome, Payload, PayloadEnvironment, Reason, Refusal, Resources, RunError, RunResult,
    Tier, Trap,
};
use plimsoll_sandbox::{BoxFuture, ProviderFault, RunContext, Sandbox};

use crate::engine::{self, DEFAULT_MEMORY_PAGES, Engine, EngineConfig, MAX_MEMORY_PAGES, RunReport, RunSpec, TrapKind};

/// Timeout of a run that asks for none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest run.
const MAX_TIMEOUT: Duration = Duration::from_secs(30);

/// Pages of 64 KiB in one MiB.
const PAGES_PER_MB: u32 = 16;

/// The embedded JavaScript provider.
#[derive(Debug)]
pub struct Wasm {
    engine: Engine,
    evidence: Arc<Evidence>,
    unenforceable: bool,
}

impl Wasm {
    /// Loads the engine. `resources.memory_mb` 0 is 256 MiB; more than a 32-bit instance can address is clamped to that.
    ///
    /// # Errors
    /// Less memory than the engine image needs, or a host that cannot run it.
    pub fn new(resources: Resources, max_concurrent: u32) -> Result<Self, engine::BuildError> {
        let memory_pages = match resources.memory_mb {
            0 => DEFAULT_MEMORY_PAGES,
            mb => mb.saturating_mul(PAGES_PER_MB).min(MAX_MEMORY_PAGES),
        };
        let engine = Engine::new(EngineConfig {
            memory_pages,
            slots: max_concurrent,
            ..EngineConfig::default()
        })?;
        let javascript = PayloadEnvironment {
            identity: Engine::identity().to_owned(),
            max_timeout_ms: u32::try_from(MAX_TIMEOUT.as_millis()).unwrap_or(u32::MAX),
            software_identity: String::new(),
            languages: vec!["javascript".to_owned()],
        };
        let evidence = Evidence {
            provider: "wasm",
            availability: Availability::Serving,
            isolation: Isolation::Proven(Tier::Process),
            environments: Environments {
                javascript: Some(javascript),
                project: None,
                module: None,
            },
            grants: GrantSupport::default(),
            policy: String::new(),
            sessions: None,
            resources,
        };
        let unenforceable = resources.cpus > 0.0 || resources.pids > 0 || resources.disk_mb > 0;
        Ok(Self {
            engine,
            evidence: Arc::new(evidence),
            unenforceable,
        })
    }

    async fn execute(&self, call: &Admitted, context: RunContext) -> Result<Outcome, RunError> {
        call.recheck(&self.evidence)?;
        if self.unenforceable {
            return Err(Refusal::environment("this provider cannot bound processors, processes or disk").into());
        }
        let Payload::JavaScript(snippet) = call.payload() else {
            return Err(Refusal::unsupported("provider wasm runs javascript payloads only").into());
        };
        let mut spec = RunSpec::new(&snippet.code, call.timeout(DEFAULT_TIMEOUT, MAX_TIMEOUT));
        spec.cancel = Some(context.cancelled);
        let report = self.engine.run(spec).await.map_err(|error| match error {
            engine::RunError::Cancelled => {
                Fault::new(FaultKind::Canceled, "the caller went away during the run").into()
            }
            engine::RunError::Instance(_) => RunError::from(Refusal::new(
                Code::Internal,
                Reason::Environment,
                "no sandbox could be made for the run; try again",
            )),
            engine::RunError::Runtime(cause) => Fault::internal(cause).into(),
        })?;
        Ok(self.outcome(report))
    }

    fn outcome(&self, report: RunReport) -> Outcome {
        let limit_hit = if report.memory_refused {
            Some(Limit::Memory)
        } else if report.stdout.truncated || report.stderr.truncated {
            Some(Limit::Output)
        } else {
            None
        };
        Outcome {
            isolation: self.evidence.isolation,
            duration_ms: i64::try_from(report.duration.as_millis()).unwrap_or(i64::MAX),
            environment: Engine::identity().to_owned(),
            software_identity: String::new(),
            instance: String::new(),
            diagnostics: Diagnostics {
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
            },
            result: RunResult::JavaScript(JavaScriptResult {
                exit_code: report.exit_code,
                timed_out: report.timed_out,
                stdout_truncated: report.stdout.truncated,
                stderr_truncated: report.stderr.truncated,
                stdout: report.stdout.bytes,
                stderr: report.stderr.bytes,
                advice: Vec::new(),
            }),
        }
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

    fn run<'a>(&'a self, call: &'a Admitted, context: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>> {
        Box::pin(self.execute(call, context))
    }
}
