//! A provider that keeps sessions in memory and does what a cell's code tells it to, and a house around it.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plimsoll_core::*;
use plimsoll_grants::Profiles;
use plimsoll_record::SessionAnswer;
use plimsoll_sandbox::{
    AdmittedCall, BoxFuture, OpenContext, ProviderFault, Received, RunContext, Sandbox, Session, SessionCall, Sessions,
    Suspended,
};
use plimsoll_service::auth::Principal;
use plimsoll_service::corridor::Corridor;
use plimsoll_service::handler::{CallContext, Handler, SessionError};
use plimsoll_service::limiter::{Budget, Limiter, Limits};
use plimsoll_service::log::{Format, Log};
use plimsoll_service::metrics::{Metrics, SessionReadings};
use plimsoll_service::sessions::{Keeper, Settings};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub(crate) const SOFTWARE: &str = "oci-manifest:linux/amd64@sha256:aa";

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
    pub(crate) resume_fails: AtomicBool,
    pub(crate) suspend_fails: AtomicBool,
    pub(crate) sweep_hangs: AtomicBool,
    pub(crate) sweep_panics: AtomicBool,
    /// Fires when the sandboxes end by themselves.
    pub(crate) lost: CancellationToken,
    pub(crate) release: Notify,
    pub(crate) closing: Notify,
    /// The hints of the last open, and the time limit of the last call.
    pub(crate) languages: Mutex<Vec<String>>,
    pub(crate) limit: Mutex<Duration>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum OpenAct {
    Fail,
    Panic,
    Wait,
    OtherSoftware,
}

pub(crate) struct Scripted(pub(crate) Arc<Script>, Evidence);

struct Kept {
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

    fn run<'a>(&'a self, _: &'a AdmittedCall, _: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>> {
        Box::pin(async { Err(Refusal::unsupported("sessions only").into()) })
    }

    fn sessions(&self) -> Option<&dyn Sessions> {
        Some(self)
    }
}

impl Sessions for Scripted {
    fn open<'a>(&'a self, open: &'a AdmittedOpen, _: OpenContext) -> BoxFuture<'a, Result<Arc<dyn Session>, RunError>> {
        Box::pin(async move {
            let script = &self.0;
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
            Ok(Arc::new(Kept {
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

impl Session for Kept {
    fn evidence(&self) -> &SessionEvidence {
        &self.evidence
    }

    fn time_limit(&self, call: &SessionCall) -> Duration {
        call.call()
            .timeout(Duration::from_secs(5), Duration::from_secs(100_000))
    }

    fn run<'a>(&'a self, call: &'a SessionCall, context: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>> {
        Box::pin(async move {
            call.recheck(&self.evidence)?;
            *self.script.limit.lock().unwrap() = self.time_limit(call);
            self.script.runs.fetch_add(1, SeqCst);
            let Payload::Cell(cell) = call.call().payload() else {
                return Err(Refusal::unsupported("cells only").into());
            };
            match cell.code.as_str() {
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
                _ => {}
            }
            Ok(Outcome {
                result: RunResult::Cell(CellResult {
                    stdout: cell.code.clone().into_bytes(),
                    ..CellResult::default()
                }),
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
        })
    }

    fn suspend(&self) -> BoxFuture<'_, Result<Suspended, ProviderFault>> {
        self.script.suspends.fetch_add(1, SeqCst);
        let holds = self.script.holds_memory.load(SeqCst);
        Box::pin(async move {
            if self.script.suspend_fails.load(SeqCst) {
                return Err(fault("it would not rest"));
            }
            Ok(if holds {
                Suspended::HoldsMemory
            } else {
                Suspended::Holds(100 << 20)
            })
        })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        self.script.resumes.fetch_add(1, SeqCst);
        Box::pin(async {
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

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(crate) struct House {
    pub(crate) corridor: Corridor,
    pub(crate) keeper: Keeper,
    pub(crate) script: Arc<Script>,
    pub(crate) limiter: Limiter,
    pub(crate) metrics: Arc<Metrics>,
    log: Log,
    lines: Lines,
}

pub(crate) const LIMITS: Limits = Limits {
    max_concurrent: 8,
    per_key_concurrent: 0,
    rate_per_min: 0,
    rate_burst: 0,
    memory: None,
};

/// A memory budget of so many runs of 256 MiB.
pub(crate) fn budget(runs: u64) -> Option<Budget> {
    Some(Budget {
        bytes: runs * (256 << 20),
        per_run: 256 << 20,
    })
}

impl House {
    pub(crate) fn new(values: &[(&str, &str)]) -> Self {
        Self::with(values, LIMITS, &["javascript", "python"])
    }

    pub(crate) fn with(values: &[(&str, &str)], limits: Limits, languages: &[&str]) -> Self {
        let mut lookup: std::collections::BTreeMap<std::ffi::OsString, std::ffi::OsString> =
            values.iter().map(|(name, value)| (name.into(), value.into())).collect();
        lookup
            .entry("SANDBOX_MAX_SESSIONS".into())
            .or_insert_with(|| "8".into());
        let settings = Settings::read(&lookup).unwrap();
        let environment = PayloadEnvironment {
            identity: "docker-image:sha256:cc".into(),
            software_identity: SOFTWARE.into(),
            languages: languages.iter().map(|&one| one.to_owned()).collect(),
            ..PayloadEnvironment::default()
        };
        let evidence = Evidence {
            provider: "scripted",
            availability: Availability::Serving,
            isolation: Isolation::Proven(Tier::Kernel),
            sessions: Some(SessionSupport {
                environment,
                snippets: true,
                projects: true,
                ..SessionSupport::default()
            }),
            ..Evidence::disabled()
        };
        let script = Arc::new(Script::default());
        let sandbox: Arc<dyn Sandbox> = Arc::new(Scripted(Arc::clone(&script), evidence));
        let limiter = Limiter::new(limits);
        let metrics = Arc::new(Metrics::default());
        let lines = Lines::default();
        let log = Log::new(Format::Json, lines.clone()).unwrap();
        let keeper = Keeper::new(
            Arc::clone(&sandbox),
            settings,
            limiter.clone(),
            Arc::clone(&metrics),
            log.clone(),
        );
        let corridor = Corridor::with_sessions(
            sandbox,
            Profiles::default(),
            limiter.clone(),
            Arc::clone(&metrics),
            log.clone(),
            Some(keeper.clone()),
        );
        Self {
            corridor,
            keeper,
            script,
            limiter,
            metrics,
            log,
            lines,
        }
    }

    pub(crate) async fn open(&self, who: &str) -> Result<OpenedSession, RunError> {
        self.open_with(who, |_| {}).await
    }

    pub(crate) async fn open_with(
        &self,
        who: &str,
        change: impl FnOnce(&mut OpenRequest),
    ) -> Result<OpenedSession, RunError> {
        let mut request = OpenRequest {
            protocol: 4,
            ..OpenRequest::default()
        };
        change(&mut request);
        self.corridor.open_session(context(who), request).await
    }

    pub(crate) async fn open_for(&self, who: &str, owner: &str) -> Result<OpenedSession, RunError> {
        self.open_with(who, |request| request.owner = owner.to_owned()).await
    }

    pub(crate) async fn cell(&self, who: &str, id: &SessionId, code: &str) -> Result<SessionAnswer, SessionError> {
        self.corridor.session_run(context(who), cell(id, code)).await
    }

    pub(crate) async fn close(&self, who: &str, id: &SessionId) -> Result<ClosedSession, RunError> {
        self.corridor.close_session(context(who), closing(id)).await
    }

    pub(crate) fn readings(&self) -> SessionReadings {
        self.keeper.readings()
    }

    pub(crate) fn alive(&self) -> u32 {
        self.script.alive.load(SeqCst)
    }

    /// Everything logged so far.
    pub(crate) fn logged(&self) -> String {
        assert!(self.log.flush(Duration::from_secs(5)));
        String::from_utf8(self.lines.0.lock().unwrap().clone()).unwrap()
    }
}

pub(crate) fn principal(who: &str) -> Principal {
    match who {
        "" => Principal::anonymous(),
        name => Principal::verified(name.as_bytes(), vec!["code:run".to_owned()]).unwrap(),
    }
}

pub(crate) fn context(who: &str) -> CallContext {
    CallContext {
        principal: principal(who),
        received: Received::now(),
        deadline: None,
        cancelled: CancellationToken::new(),
    }
}

/// A context whose deadline is so many milliseconds away.
pub(crate) fn within(who: &str, ms: u64) -> CallContext {
    CallContext {
        deadline: Some(Instant::now() + Duration::from_millis(ms)),
        ..context(who)
    }
}

pub(crate) fn cell(id: &SessionId, code: &str) -> SessionRunRequest {
    SessionRunRequest {
        session_id: id.clone(),
        run: RunRequest::new(Payload::Cell(CellRun {
            language: "python".into(),
            code: code.into(),
            files: Vec::new(),
        })),
    }
}

pub(crate) fn closing(id: &SessionId) -> CloseRequest {
    CloseRequest {
        protocol: 4,
        session_id: id.clone(),
    }
}

pub(crate) fn approved(identities: &[&str]) -> Option<SoftwareRuleText> {
    Some(SoftwareRuleText {
        mode: "approved".into(),
        identities: identities.iter().map(|&one| one.to_owned()).collect(),
    })
}

/// The refusal in an error; fails the test where there is none.
#[track_caller]
pub(crate) fn refusal(error: RunError) -> Refusal {
    match error {
        RunError::NotDispatched(refusal) => refusal,
        RunError::MayHaveRun(fault) => panic!("unmarked: {fault}"),
    }
}

/// Code, reason and session end of a refused call.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(
    answer: Result<T, impl Into<RunErrorOf>>,
) -> (Code, Reason, Option<SessionEnd>) {
    let refusal = refusal(answer.unwrap_err().into().0);
    let end = refusal.session_end().map(|ended| ended.end);
    (refusal.code(), refusal.reason(), end)
}

/// The error of a call or of another session procedure.
pub(crate) struct RunErrorOf(RunError);

impl From<RunError> for RunErrorOf {
    fn from(error: RunError) -> Self {
        Self(error)
    }
}

impl From<SessionError> for RunErrorOf {
    fn from(error: SessionError) -> Self {
        assert_eq!(error.unanswered, None, "a refused call has no record");
        Self(error.error)
    }
}

/// Waits, in the runtime's time, until something holds.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what}: not within 5 s");
}
