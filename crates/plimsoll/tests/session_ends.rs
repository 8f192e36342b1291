//! Sessions whose provider panics, is late, or loses its sandbox: what is removed, and what gives its place back.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plimsoll::{Capacity, Cell, Reason, RunError, Sandbox, SessionEnd};
use plimsoll_core::{
    AdmittedOpen, Availability, CellResult, Diagnostics, Evidence, Isolation, Outcome, Refusal, RunResult,
    SessionEnded, SessionEvidence, SessionSupport, Tier,
};
use plimsoll_sandbox::{
    AdmittedCall, BoxFuture, OpenContext, ProviderFault, RunContext, Sandbox as Provider, Session, SessionCall,
    Sessions, Suspended,
};
use tokio_util::sync::CancellationToken;

/// What the provider is told, and what it tells.
#[derive(Default)]
struct Script {
    /// Sandboxes opened and not gone.
    alive: AtomicU32,
    closes: AtomicU32,
    running: AtomicU32,
    open_panics: AtomicBool,
    open_waits: AtomicBool,
    opening: AtomicBool,
    /// The sandbox is behind less than the provider states.
    weaker: AtomicBool,
    close_fails: AtomicBool,
    close_is_slow: AtomicBool,
    /// Opens that were dropped before they were ready.
    opens_dropped: AtomicU32,
    /// A sandbox was asked to go while a call was in it.
    closed_in_use: AtomicBool,
    lifetime: Mutex<Duration>,
    /// Fires when the sandboxes end by themselves.
    lost: CancellationToken,
}

struct Scripted(Arc<Script>);

struct ScriptedSession {
    script: Arc<Script>,
    evidence: SessionEvidence,
    ended: Mutex<Option<SessionEnded>>,
    gone: AtomicBool,
}

fn support() -> SessionSupport {
    let mut support = SessionSupport::default();
    support.environment.identity = "scripted:1".to_owned();
    support.environment.languages = vec!["javascript".to_owned()];
    support
}

impl Provider for Scripted {
    fn evidence(&self) -> Arc<Evidence> {
        Arc::new(Evidence {
            provider: "scripted",
            availability: Availability::Serving,
            isolation: Isolation::Proven(Tier::Kernel),
            sessions: Some(support()),
            ..Evidence::disabled()
        })
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

/// Counts when it goes.
struct Dropped<'a>(&'a AtomicU32);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Sessions for Scripted {
    fn open<'a>(&'a self, open: &'a AdmittedOpen, _: OpenContext) -> BoxFuture<'a, Result<Arc<dyn Session>, RunError>> {
        Box::pin(async move {
            let script = &self.0;
            *script.lifetime.lock().unwrap() = open.lifetime();
            assert!(!script.open_panics.load(SeqCst), "a provider's mistake");
            script.opening.store(true, SeqCst);
            if script.open_waits.load(SeqCst) {
                let _dropped = Dropped(&script.opens_dropped);
                std::future::pending::<()>().await;
            }
            script.alive.fetch_add(1, SeqCst);
            let tier = if script.weaker.load(SeqCst) {
                Tier::Process
            } else {
                Tier::Kernel
            };
            Ok(Arc::new(ScriptedSession {
                script: Arc::clone(script),
                evidence: SessionEvidence {
                    provider: "scripted",
                    isolation: Isolation::Proven(tier),
                    support: support(),
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

    fn time_limit(&self, _: &SessionCall) -> Duration {
        Duration::from_secs(5)
    }

    fn run<'a>(&'a self, call: &'a SessionCall, context: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>> {
        Box::pin(async move {
            let plimsoll_core::Payload::Cell(cell) = call.call().payload() else {
                return Err(Refusal::unsupported("cells only").into());
            };
            self.script.running.fetch_add(1, SeqCst);
            match cell.code.as_str() {
                "end" => {
                    *self.ended.lock().unwrap() = Some(SessionEnded {
                        end: SessionEnd::DiskExceeded,
                        detail: "it wrote too much".to_owned(),
                    });
                }
                "hold" => {
                    context.cancelled.cancelled().await;
                    // A guest takes its time to stop.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                _ => {}
            }
            self.script.running.fetch_sub(1, SeqCst);
            Ok(Outcome {
                result: RunResult::Cell(CellResult::default()),
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
        Box::pin(async {})
    }

    fn suspend(&self) -> BoxFuture<'_, Result<Suspended, ProviderFault>> {
        unreachable!("nobody else waits for the place")
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        unreachable!("nothing is suspended")
    }

    fn ended(&self) -> Option<SessionEnded> {
        self.ended.lock().unwrap().clone()
    }

    fn lost(&self) -> BoxFuture<'_, SessionEnded> {
        Box::pin(async {
            self.script.lost.cancelled().await;
            SessionEnded {
                end: SessionEnd::MainProcessEnded,
                detail: "its main process ended".to_owned(),
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(async {
            let script = &self.script;
            script.closes.fetch_add(1, SeqCst);
            if script.running.load(SeqCst) > 0 {
                script.closed_in_use.store(true, SeqCst);
            }
            if script.close_is_slow.load(SeqCst) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            if script.close_fails.load(SeqCst) {
                return Err(ProviderFault {
                    phase: "close",
                    cause: "it would not go".to_owned(),
                });
            }
            if !self.gone.swap(true, SeqCst) {
                script.alive.fetch_sub(1, SeqCst);
            }
            Ok(())
        })
    }
}

/// A sandbox with room for one session.
async fn scripted() -> (Arc<Script>, Sandbox) {
    let script = Arc::<Script>::default();
    let sandbox = Sandbox::with_provider(Arc::new(Scripted(Arc::clone(&script))))
        .await
        .unwrap();
    let one = Capacity::new().max_concurrent(1);
    (script, sandbox.with_capacity(one).unwrap())
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(5), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The place is free: another session can be opened in it.
async fn has_room(sandbox: &Sandbox) {
    let begun = Instant::now();
    loop {
        match sandbox.open_session().any_tier().send().await {
            Ok(session) => return drop(session.close().await.unwrap()),
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(5), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn refused(error: &RunError) -> Reason {
    match error {
        RunError::NotDispatched(refusal) => refusal.reason(),
        RunError::MayHaveRun(fault) => panic!("nothing may have run: {fault}"),
    }
}

#[tokio::test]
async fn a_sandbox_that_ends_in_a_call_is_removed_and_gives_its_place_back_while_its_holder_looks_on() {
    let (script, sandbox) = scripted().await;
    let session = sandbox.open_session().any_tier().send().await.unwrap();
    session.run_cell(Cell::javascript("end")).send().await.unwrap();
    until("the sandbox is removed", || script.alive.load(SeqCst) == 0).await;
    has_room(&sandbox).await;
    assert_eq!(session.ended().unwrap().end, SessionEnd::DiskExceeded);
    let late = session.run_cell(Cell::javascript("1")).send().await.unwrap_err();
    assert_eq!(refused(&late), Reason::Request);
    let summary = session.close().await.unwrap();
    assert_eq!((summary.calls, summary.end), (1, SessionEnd::DiskExceeded));
    // Its own removal and that of the session that took its place; what is gone is not removed again.
    assert_eq!(script.closes.load(SeqCst), 2);
}

#[tokio::test]
async fn a_sandbox_that_is_lost_between_calls_is_removed_and_gives_its_place_back() {
    let (script, sandbox) = scripted().await;
    let session = sandbox.open_session().any_tier().send().await.unwrap();
    script.lost.cancel();
    until("the sandbox is removed", || script.alive.load(SeqCst) == 0).await;
    has_room(&sandbox).await;
    assert_eq!(session.ended().unwrap().end, SessionEnd::MainProcessEnded);
}

#[tokio::test]
async fn a_lifetime_that_is_over_stops_the_call_first_and_removes_the_sandbox_then() {
    let (script, sandbox) = scripted().await;
    let open = sandbox.open_session().lifetime(Duration::from_millis(200));
    let session = open.any_tier().send().await.unwrap();
    let cut = session.run_cell(Cell::javascript("hold")).send().await;
    assert!(matches!(cut.unwrap_err(), RunError::MayHaveRun(_)));
    until("the sandbox is removed", || script.alive.load(SeqCst) == 0).await;
    assert!(!script.closed_in_use.load(SeqCst), "the call was still in it");
    has_room(&sandbox).await;
    assert_eq!(session.ended().unwrap().end, SessionEnd::Expired);
}

#[tokio::test]
async fn a_sandbox_that_does_not_go_keeps_its_place_until_it_does() {
    let (script, sandbox) = scripted().await;
    script.close_fails.store(true, SeqCst);
    let session = sandbox.open_session().any_tier().send().await.unwrap();
    session.run_cell(Cell::javascript("end")).send().await.unwrap();
    until("it was asked to go", || script.closes.load(SeqCst) == 1).await;
    let full = sandbox.open_session().any_tier().send().await.unwrap_err();
    assert_eq!(refused(&full), Reason::Capacity);
    script.close_fails.store(false, SeqCst);
    session.close().await.unwrap();
    has_room(&sandbox).await;
}

#[tokio::test]
async fn an_open_that_panics_is_a_fault_and_keeps_no_place() {
    let (script, sandbox) = scripted().await;
    script.open_panics.store(true, SeqCst);
    let fault = sandbox.open_session().any_tier().send().await.unwrap_err();
    assert!(matches!(fault, RunError::MayHaveRun(_)), "{fault}");
    script.open_panics.store(false, SeqCst);
    has_room(&sandbox).await;
}

#[tokio::test]
async fn an_open_that_is_given_up_or_does_not_fit_leaves_nothing() {
    let (script, sandbox) = scripted().await;
    script.open_waits.store(true, SeqCst);
    tokio::select! {
        _ = sandbox.open_session().any_tier().send() => panic!("it is never open"),
        () = until("the open arrives", || script.opening.load(SeqCst)) => {}
    }
    script.open_waits.store(false, SeqCst);
    has_room(&sandbox).await;
    script.weaker.store(true, SeqCst);
    let weaker = sandbox.open_session().floor(Tier::Kernel).send().await.unwrap_err();
    assert_eq!(refused(&weaker), Reason::Isolation);
    assert_eq!(script.alive.load(SeqCst), 0);
}

#[tokio::test]
async fn a_drain_waits_for_what_nobody_else_waits_for() {
    let (script, sandbox) = scripted().await;
    script.close_is_slow.store(true, SeqCst);
    drop(sandbox.open_session().any_tier().send().await.unwrap());
    sandbox.drain().await.unwrap();
    assert_eq!(script.alive.load(SeqCst), 0);
    script.opening.store(false, SeqCst);
    script.open_waits.store(true, SeqCst);
    tokio::select! {
        _ = sandbox.open_session().any_tier().send() => panic!("it is never open"),
        () = until("the open arrives", || script.opening.load(SeqCst)) => {}
    }
    sandbox.drain().await.unwrap();
    assert_eq!(script.opens_dropped.load(SeqCst), 1);
    // A session that somebody holds is not waited for, and one that does not go holds up nobody.
    script.open_waits.store(false, SeqCst);
    let held = sandbox.open_session().any_tier().send().await.unwrap();
    sandbox.drain().await.unwrap();
    script.close_fails.store(true, SeqCst);
    held.run_cell(Cell::javascript("end")).send().await.unwrap();
    sandbox.drain().await.unwrap();
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn an_open_that_comes_to_no_end_is_refused_at_its_deadline() {
    let (script, sandbox) = scripted().await;
    script.open_waits.store(true, SeqCst);
    let late = sandbox.open_session().any_tier().send().await.unwrap_err();
    assert_eq!(refused(&late), Reason::Capacity);
    assert!(late.to_string().contains("300 s"), "{late}");
}

#[tokio::test]
async fn the_provider_is_told_the_lifetime_that_holds() {
    let (script, sandbox) = scripted().await;
    let open = sandbox.open_session().lifetime(Duration::MAX);
    drop(open.any_tier().send().await.unwrap());
    assert_eq!(
        *script.lifetime.lock().unwrap(),
        Duration::from_secs(365 * 24 * 60 * 60)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_of_one_task_keep_their_order_on_many_threads() {
    let sandbox = Sandbox::wasm().memory_mb(64).build().await.unwrap();
    let session = sandbox.open_session().any_tier().send().await.unwrap();
    session.run_cell(Cell::javascript("let last = 0")).send().await.unwrap();
    for round in 0..20 {
        let call = |n: u32| {
            let n = round * 6 + n;
            session.run_cell(Cell::javascript(format!(
                "last === {n} ? last = {} : `${{last}}`",
                n + 1
            )))
        };
        let (a, b, c, d, e, f) = tokio::join!(
            call(0).send(),
            call(1).send(),
            call(2).send(),
            call(3).send(),
            call(4).send(),
            call(5).send()
        );
        for (n, ran) in (1..).zip([a, b, c, d, e, f]) {
            assert_eq!(ran.unwrap().stdout_text(), format!("{}\n", round * 6 + n));
        }
    }
}
