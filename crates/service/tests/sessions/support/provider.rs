//! A provider that keeps sessions in memory and does what a call's code tells it to.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use plimsoll_core::*;
use plimsoll_sandbox::{
    AdmittedCall, BoxFuture, OpenContext, ProviderFault, RunContext, Sandbox, Session, SessionCall, Sessions, Suspended,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// What a suspended session holds where the script sets nothing else: 100 MiB.
const HELD: u64 = 100 << 20;

/// What the scripted provider is told, and what it tells.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) opens: AtomicU32,
    pub(crate) alive: AtomicU32,
    pub(crate) runs: AtomicU32,
    pub(crate) suspends: AtomicU32,
    pub(crate) resumes: AtomicU32,
    pub(crate) sweeps: AtomicU32,
    /// What the next opens do, in order; without an entry they succeed.
    pub(crate) next_opens: Mutex<VecDeque<OpenAct>>,
    pub(crate) close_fails: AtomicBool,
    /// Removals begun.
    pub(crate) closes: AtomicU32,
    pub(crate) close_waits: AtomicBool,
    pub(crate) holds_memory: AtomicBool,
    /// What a suspended session holds that gives its slot back, in bytes; 0 = [`HELD`].
    pub(crate) held_bytes: AtomicU64,
    pub(crate) suspend_waits: AtomicBool,
    pub(crate) resume_waits: AtomicBool,
    pub(crate) resume_fails: AtomicBool,
    pub(crate) suspend_fails: AtomicBool,
    pub(crate) suspend_panics: AtomicBool,
    pub(crate) sweep_hangs: AtomicBool,
    pub(crate) sweep_waits: AtomicBool,
    pub(crate) sweep_panics: AtomicBool,
    /// Fires when the sandboxes end by themselves.
    pub(crate) lost: CancellationToken,
    pub(crate) release: Notify,
    pub(crate) closing: Notify,
    pub(crate) suspending: Notify,
    pub(crate) sweeping: Notify,
    pub(crate) resuming: Notify,
    /// The hints of the last open, and the time limit of the last call.
    pub(crate) languages: Mutex<Vec<String>>,
    pub(crate) limit: Mutex<Duration>,
    /// The disk bound of the last open.
    pub(crate) disk_bytes: Mutex<Option<u64>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum OpenAct {
    Fail,
    Panic,
    Wait,
    OtherSoftware,
}

pub(crate) struct Scripted(pub(crate) Arc<Script>, pub(crate) Evidence);

struct ScriptedSession {
    script: Arc<Script>,
    evidence: SessionEvidence,
    ended: Mutex<Option<SessionEnded>>,
    gone: AtomicBool,
}

impl Sandbox for Scripted {
    fn evidence(&self) -> Arc<Evidence> {
        Arc::new(self.1.clone())
    }

    fn preflight(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(async { Ok(()) })
    }

    fn smoke_test(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(async { Ok(()) })
    }

    fn time_limit(&self, _: &AdmittedCall) -> Duration {
        Duration::from_secs(5)
    }

    fn never_runs(&self, payload: &Payload) -> Option<Refusal> {
        let never = matches!(payload, Payload::Cell(cell) if cell.code == "never");
        never.then(|| Refusal::unsupported("no such cell runs here"))
    }

    fn run<'a>(&'a self, _: &'a AdmittedCall, _: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>> {
        Box::pin(async { Err(Refusal::unsupported("sessions only").into()) })
    }

    fn sessions(&self) -> Option<&dyn Sessions> {
        Some(self)
    }
}

impl Sessions for Scripted {
    fn open<'a>(
        &'a self,
        open: &'a AdmittedOpen,
        context: OpenContext,
    ) -> BoxFuture<'a, Result<Arc<dyn Session>, RunError>> {
        Box::pin(async move {
            let script = &self.0;
            *script.disk_bytes.lock().unwrap() = Some(context.disk_bytes);
            script.opens.fetch_add(1, SeqCst);
            *script.languages.lock().unwrap() = open.languages().to_vec();
            let act = script.next_opens.lock().unwrap().pop_front();
            let mut support = self.1.sessions.clone().unwrap();
            match act {
                Some(OpenAct::Fail) => {
                    return Err(Refusal::new(Code::Internal, Reason::Environment, "no sandbox").into());
                }
                Some(OpenAct::Panic) => panic!("provider bug"),
                Some(OpenAct::Wait) => script.release.notified().await,
                Some(OpenAct::OtherSoftware) => support.environment.software_identity = "oci-manifest:other".into(),
                None => {}
            }
            script.alive.fetch_add(1, SeqCst);
            Ok(Arc::new(ScriptedSession {
                script: Arc::clone(script),
                evidence: SessionEvidence {
                    provider: "scripted",
                    isolation: Isolation::Proven(Tier::Kernel),
                    support,
                    instance: String::new(),
                },
                ended: Mutex::default(),
                gone: AtomicBool::new(false),
            }) as Arc<dyn Session>)
        })
    }

    fn smoke_test(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(async { Ok(()) })
    }
}

impl Session for ScriptedSession {
    fn evidence(&self) -> &SessionEvidence {
        &self.evidence
    }

    fn time_limit(&self, call: &SessionCall) -> Duration {
        call.call()
            .timeout(Duration::from_secs(5), Duration::from_secs(100_000))
    }

    fn run<'a>(&'a self, call: &'a SessionCall, context: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>> {
        let at_once = matches!(call.call().payload(), Payload::Cell(cell) if cell.code == "panic at once");
        assert!(!at_once, "provider bug");
        Box::pin(async move {
            call.recheck(&self.evidence)?;
            *self.script.limit.lock().unwrap() = self.time_limit(call);
            self.script.runs.fetch_add(1, SeqCst);
            let payload = call.call().payload();
            let code = match payload {
                Payload::Cell(cell) => &cell.code,
                Payload::JavaScript(run) => &run.code,
                Payload::Project(run) => &run.steps[0],
                Payload::Module(_) => return Err(Refusal::unsupported("no modules").into()),
            };
            let mut said = code.clone();
            match code.as_str() {
                "hold" => self.script.release.notified().await,
                "hang" => {
                    context.cancelled.cancelled().await;
                    return Err(Fault::new(FaultKind::Canceled, "stopped").into());
                }
                "break" => return Err(Fault::internal("/var/lib/secret is gone").into()),
                "panic" => panic!("provider bug"),
                "stuck" => std::future::pending().await,
                "refuse" => return Err(Refusal::environment("cannot look").into()),
                "disk" => {
                    *self.ended.lock().unwrap() = Some(SessionEnded {
                        end: SessionEnd::DiskExceeded,
                        detail: "it wrote too much".into(),
                    });
                }
                "api" => said = ask_api(&context).await,
                _ => {}
            }
            Ok(Outcome {
                result: result(payload, said.into_bytes()),
                isolation: Isolation::Proven(Tier::Kernel),
                duration_ms: 1,
                environment: String::new(),
                software_identity: String::new(),
                instance: String::new(),
                diagnostics: Diagnostics::default(),
            })
        })
    }

    fn sweep(&self) -> BoxFuture<'_, ()> {
        self.script.sweeps.fetch_add(1, SeqCst);
        Box::pin(async {
            assert!(!self.script.sweep_panics.load(SeqCst), "provider bug");
            if self.script.sweep_hangs.load(SeqCst) {
                std::future::pending::<()>().await;
            }
            if self.script.sweep_waits.load(SeqCst) {
                self.script.sweeping.notified().await;
            }
        })
    }

    fn suspend(&self) -> BoxFuture<'_, Result<Suspended, ProviderFault>> {
        self.script.suspends.fetch_add(1, SeqCst);
        let holds = self.script.holds_memory.load(SeqCst);
        Box::pin(async move {
            assert!(!self.script.suspend_panics.load(SeqCst), "provider bug");
            if self.script.suspend_waits.load(SeqCst) {
                self.script.suspending.notified().await;
            }
            if self.script.suspend_fails.load(SeqCst) {
                return Err(fault("it would not rest"));
            }
            Ok(if holds {
                Suspended::HoldsMemory
            } else {
                Suspended::Holds(match self.script.held_bytes.load(SeqCst) {
                    0 => HELD,
                    bytes => bytes,
                })
            })
        })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        self.script.resumes.fetch_add(1, SeqCst);
        Box::pin(async {
            if self.script.resume_waits.load(SeqCst) {
                self.script.resuming.notified().await;
            }
            match self.script.resume_fails.load(SeqCst) {
                true => Err(fault("it would not wake")),
                false => Ok(()),
            }
        })
    }

    fn lost(&self) -> BoxFuture<'_, SessionEnded> {
        Box::pin(async {
            self.script.lost.cancelled().await;
            SessionEnded {
                end: SessionEnd::MainProcessEnded,
                detail: "its main process ended".into(),
            }
        })
    }

    fn ended(&self) -> Option<SessionEnded> {
        self.ended.lock().unwrap().clone()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(async move {
            self.script.closes.fetch_add(1, SeqCst);
            if self.script.close_waits.load(SeqCst) {
                self.script.closing.notified().await;
            }
            if self.script.close_fails.load(SeqCst) {
                return Err(fault("it would not go"));
            }
            if !self.gone.swap(true, SeqCst) {
                self.script.alive.fetch_sub(1, SeqCst);
            }
            Ok(())
        })
    }
}

fn fault(cause: &str) -> ProviderFault {
    ProviderFault {
        phase: "session",
        cause: cause.to_owned(),
    }
}

/// One call to the grant's API, and what became of it.
async fn ask_api(context: &RunContext) -> String {
    match &context.broker {
        Some(broker) => broker
            .call(b"GET", b"/rows", Empty::<Bytes>::new())
            .await
            .status
            .to_string(),
        None => "no grant".to_owned(),
    }
}

fn result(payload: &Payload, stdout: Vec<u8>) -> RunResult {
    match payload {
        Payload::Project(_) => RunResult::Project(ProjectResult {
            steps: vec![StepResult {
                stdout,
                ..StepResult::default()
            }],
            outcome: ProjectOutcome::COMPLETED,
            ..ProjectResult::default()
        }),
        Payload::JavaScript(_) => RunResult::JavaScript(JavaScriptResult {
            stdout,
            ..JavaScriptResult::default()
        }),
        Payload::Cell(_) | Payload::Module(_) => RunResult::Cell(CellResult {
            stdout,
            ..CellResult::default()
        }),
    }
}
