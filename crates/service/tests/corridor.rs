//! The corridor with a scripted provider: what is spent, what is counted, what is audited, and what is never said.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{Logged, context};
use plimsoll_core::*;
use plimsoll_grants::Profiles;
use plimsoll_record::Answer;
use plimsoll_sandbox::{AdmittedCall, BoxFuture, ProviderFault, RunContext, Sandbox};
use plimsoll_service::corridor::Corridor;
use plimsoll_service::handler::{CallContext, Handler};
use plimsoll_service::limiter::{Limiter, Limits};
use plimsoll_service::metrics::{Metrics, Readings};

/// What the scripted provider does with a call.
#[derive(Clone, Copy)]
enum Act {
    Answer(i32),
    Refuse,
    InvalidAfterStart,
    Fail,
    Panic,
    /// Before there is a future.
    PanicAtOnce,
    Hang,
}

struct Scripted {
    act: Act,
    calls: AtomicU32,
    evidence: Arc<Evidence>,
}

impl Sandbox for Scripted {
    fn evidence(&self) -> Arc<Evidence> {
        Arc::clone(&self.evidence)
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
        let never = matches!(payload, Payload::JavaScript(snippet) if snippet.code == "never");
        never.then(|| Refusal::unsupported("no such code runs here"))
    }

    fn run<'a>(&'a self, _: &'a AdmittedCall, _: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let act = self.act;
        assert!(!matches!(act, Act::PanicAtOnce), "provider bug");
        Box::pin(async move {
            match act {
                Act::Answer(exit_code) => Ok(outcome(exit_code)),
                Act::Refuse => Err(Refusal::environment("the sandbox is not ready").into()),
                Act::InvalidAfterStart => {
                    Err(Fault::new(FaultKind::InvalidRequest, "the worker refused the plan").into())
                }
                Act::Fail => Err(Fault::internal("/var/lib/secret/path is gone").into()),
                Act::Panic | Act::PanicAtOnce => panic!("provider bug"),
                Act::Hang => std::future::pending().await,
            }
        })
    }
}

fn outcome(exit_code: i32) -> Outcome {
    Outcome {
        result: RunResult::JavaScript(JavaScriptResult {
            exit_code,
            ..JavaScriptResult::default()
        }),
        isolation: Isolation::Proven(Tier::Process),
        duration_ms: 7,
        environment: "quickjs-wasm:sha256:00".into(),
        software_identity: String::new(),
        instance: String::new(),
        diagnostics: Diagnostics::default(),
    }
}

struct House {
    corridor: Corridor,
    provider: Arc<Scripted>,
    limiter: Limiter,
    metrics: Arc<Metrics>,
    logged: Logged,
}

impl House {
    fn new(act: Act) -> Self {
        Self::with_limits(
            act,
            Limits {
                max_concurrent: 4,
                per_key_concurrent: 2,
                rate_per_min: 0,
                rate_burst: 0,
                memory: None,
            },
        )
    }

    fn with_limits(act: Act, limits: Limits) -> Self {
        let evidence = Evidence {
            provider: "wasm",
            availability: Availability::Serving,
            isolation: Isolation::Proven(Tier::Process),
            environments: Environments {
                javascript: Some(PayloadEnvironment {
                    identity: "quickjs-wasm:sha256:00".into(),
                    ..Default::default()
                }),
                ..Environments::default()
            },
            ..Evidence::disabled()
        };
        let provider = Arc::new(Scripted {
            act,
            calls: AtomicU32::new(0),
            evidence: Arc::new(evidence),
        });
        let limiter = Limiter::new(limits);
        let metrics = Arc::new(Metrics::default());
        let logged = Logged::new();
        let sandbox: Arc<dyn Sandbox> = provider.clone();
        let corridor = Corridor::new(
            sandbox,
            Profiles::default(),
            limiter.clone(),
            Arc::clone(&metrics),
            logged.log.clone(),
        );
        Self {
            corridor,
            provider,
            limiter,
            metrics,
            logged,
        }
    }

    async fn run(&self, request: RunRequest) -> Result<Answer, RunError> {
        self.run_within(request, None).await
    }

    async fn run_within(&self, request: RunRequest, deadline: Option<Instant>) -> Result<Answer, RunError> {
        self.corridor.run(within("alice", deadline), request).await
    }

    fn log_lines(&self) -> Vec<String> {
        self.logged.text().lines().map(str::to_owned).collect()
    }

    fn metric(&self, sample: &str) -> u64 {
        let readings = Readings {
            in_flight: self.limiter.in_flight(),
            proven: Isolation::None,
            current: Isolation::None,
            log_write_errors: 0,
            failed_handshakes: None,
            sessions: None,
        };
        let page = self.metrics.render(&readings);
        let line = page
            .lines()
            .find(|line| line.split_once(' ').is_some_and(|(name, _)| name == sample));
        line.map_or(0, |line| line.split_once(' ').unwrap().1.parse().unwrap())
    }
}

fn within(caller: &str, deadline: Option<Instant>) -> CallContext {
    CallContext {
        deadline,
        ..context(caller)
    }
}

fn snippet() -> RunRequest {
    RunRequest::javascript("1")
}

#[tokio::test]
async fn an_answer_carries_a_record_that_checks_and_one_audit_line() {
    let house = House::new(Act::Answer(3));
    let request = RunRequest {
        trace_id: "t-1".into(),
        minimum_isolation: "process".into(),
        ..snippet()
    };
    let answer = house.run(request.clone()).await.unwrap();
    let record = answer.record.unwrap();
    record.verify().unwrap();
    assert_eq!(record.request_sha256, plimsoll_record::request_sha256(&request));
    assert!(record.ended_unix_ms >= record.started_unix_ms);
    let lines = house.log_lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains(r#""msg":"code run","op":"javascript","caller":"alice""#),
        "{}",
        lines[0]
    );
    assert!(
        lines[0].contains(r#""exit_code":3"#) && lines[0].contains(r#""trace_id":"t-1""#),
        "{}",
        lines[0]
    );
    assert_eq!(
        (
            house.metric("plimsoll_runs_total"),
            house.metric("plimsoll_runs_failed_total")
        ),
        (1, 0)
    );
    assert_eq!(house.limiter.in_flight(), 0);
}

#[tokio::test]
async fn a_request_that_can_never_run_costs_nothing_and_is_not_audited() {
    let house = House::with_limits(
        Act::Answer(0),
        Limits {
            max_concurrent: 1,
            per_key_concurrent: 1,
            rate_per_min: 1,
            rate_burst: 1,
            memory: None,
        },
    );
    for (request, reason) in [
        (
            RunRequest {
                protocol: 3,
                ..snippet()
            },
            Reason::Protocol,
        ),
        (
            RunRequest {
                minimum_isolation: "vm".into(),
                ..snippet()
            },
            Reason::Isolation,
        ),
        (
            RunRequest {
                software_rule: SoftwareRule::exact("x").unwrap().to_text(),
                ..snippet()
            },
            Reason::Environment,
        ),
        (
            RunRequest::new(Payload::Project(ProjectRun {
                steps: vec!["x".into()],
                ..Default::default()
            })),
            Reason::Unsupported,
        ),
        (RunRequest::javascript(""), Reason::Request),
        // Of a kind that is stated, and refused by the provider for what it says.
        (RunRequest::javascript("never"), Reason::Unsupported),
        (
            RunRequest {
                minimum_isolation: "vm".into(),
                ..RunRequest::javascript("never")
            },
            Reason::Isolation,
        ),
    ] {
        assert_eq!(house.run(request).await.unwrap_err().reason(), Some(reason));
    }
    assert_eq!(house.provider.calls.load(Ordering::SeqCst), 0);
    assert!(house.log_lines().is_empty());
    assert_eq!(
        house.metric(r#"plimsoll_refused_total{reason="isolation",code="failed_precondition"}"#),
        2
    );

    house
        .run(snippet())
        .await
        .expect("the one token of this minute is still there");
    let error = house.run(snippet()).await.unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        (Code::ResourceExhausted, Some(Reason::Capacity))
    );
    assert_eq!(house.metric(r#"plimsoll_shed_total{reason="rate"}"#), 1);
}

#[tokio::test]
async fn slots_are_shed_not_queued_and_come_back() {
    let house = Arc::new(House::new(Act::Hang));
    let mut running = Vec::new();
    for caller in ["alice", "alice", "bob", "bob"] {
        let context = context(caller);
        let token = context.cancelled.clone();
        let call = tokio::spawn(house.corridor.run(context, snippet()));
        running.push((token, call));
    }
    while house.limiter.in_flight() < 4 {
        tokio::task::yield_now().await;
    }
    let error = house.corridor.run(context("carol"), snippet()).await.unwrap_err();
    assert_eq!(error.reason(), Some(Reason::Capacity));
    assert_eq!(house.metric(r#"plimsoll_shed_total{reason="at_capacity"}"#), 1);
    running[3].0.cancel();
    while house.limiter.in_flight() == 4 {
        tokio::task::yield_now().await;
    }
    house.corridor.run(context("alice"), snippet()).await.unwrap_err();
    assert_eq!(house.metric(r#"plimsoll_shed_total{reason="per_key"}"#), 1);
    for (token, call) in running {
        token.cancel();
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(
            (error.code(), error.reason()),
            (Code::Canceled, None),
            "it may have run"
        );
    }
    assert_eq!(house.limiter.in_flight(), 0);
}

#[tokio::test]
async fn a_caller_who_hangs_up_cancels_the_run_but_not_its_settlement() {
    let house = House::new(Act::Hang);
    let call = tokio::spawn(house.corridor.run(context("alice"), snippet()));
    while house.provider.calls.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    call.abort();
    while house.limiter.in_flight() > 0 {
        tokio::task::yield_now().await;
    }
    let lines = house.log_lines();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains(r#""msg":"code run failed""#), "{}", lines[0]);
    assert_eq!(
        house.metric("plimsoll_runs_failed_total"),
        0,
        "a cancelled run is not an infrastructure failure"
    );
}

#[tokio::test]
async fn deadlines_before_and_during_a_run() {
    let house = House::new(Act::Hang);
    let error = house.run_within(snippet(), Some(Instant::now())).await.unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        (Code::DeadlineExceeded, Some(Reason::Capacity))
    );
    assert_eq!(house.provider.calls.load(Ordering::SeqCst), 0);
    assert!(
        house.log_lines().is_empty(),
        "a call that was not admitted is not audited"
    );
    let soon = Instant::now() + Duration::from_millis(30);
    let error = house.run_within(snippet(), Some(soon)).await.unwrap_err();
    assert_eq!((error.code(), error.reason()), (Code::DeadlineExceeded, None));
    assert_eq!(house.provider.calls.load(Ordering::SeqCst), 1);
    assert_eq!(
        house.metric(r#"plimsoll_refused_total{reason="capacity",code="deadline_exceeded"}"#),
        1
    );
    assert_eq!(house.log_lines().len(), 1);
}

#[tokio::test]
async fn a_deadline_already_passed_costs_no_token_and_comes_after_what_can_never_run() {
    let limits = Limits {
        max_concurrent: 1,
        per_key_concurrent: 1,
        rate_per_min: 1,
        rate_burst: 1,
        memory: None,
    };
    let house = House::with_limits(Act::Answer(0), limits);
    for _ in 0..3 {
        let error = house.run_within(snippet(), Some(Instant::now())).await.unwrap_err();
        assert_eq!(error.code(), Code::DeadlineExceeded);
    }
    let too_weak = RunRequest {
        minimum_isolation: "vm".into(),
        ..snippet()
    };
    let error = house.run_within(too_weak, Some(Instant::now())).await.unwrap_err();
    assert_eq!(error.reason(), Some(Reason::Isolation));
    assert!(house.log_lines().is_empty());
    house
        .run(snippet())
        .await
        .expect("the one token of this minute is still there");
}

#[tokio::test]
async fn faults_after_dispatch_are_never_marked_and_a_panic_is_contained() {
    for (act, code, failed) in [
        (Act::InvalidAfterStart, Code::InvalidArgument, 0),
        (Act::Fail, Code::Internal, 1),
        (Act::Panic, Code::Internal, 1),
        (Act::PanicAtOnce, Code::Internal, 1),
    ] {
        let house = House::new(act);
        let error = house.run(snippet()).await.unwrap_err();
        assert_eq!((error.code(), error.reason()), (code, None));
        assert_eq!(house.metric("plimsoll_runs_failed_total"), failed);
        assert_eq!(house.limiter.in_flight(), 0);
        assert_eq!(house.log_lines().len(), 1);
    }
}

#[tokio::test]
async fn a_providers_own_mark_is_kept_and_counts_as_refused() {
    let house = House::new(Act::Refuse);
    let error = house.run(snippet()).await.unwrap_err();
    assert_eq!(error.reason(), Some(Reason::Environment));
    assert_eq!(house.metric("plimsoll_runs_total"), 0);
    assert_eq!(
        house.metric(r#"plimsoll_refused_total{reason="environment",code="failed_precondition"}"#),
        1
    );
}

#[tokio::test]
async fn an_internal_fault_is_told_by_an_id_that_leads_to_the_log() {
    let house = House::new(Act::Fail);
    let id = house
        .corridor
        .log_fault(&Fault::internal("/var/lib/secret/path is gone"));
    assert_eq!(id.len(), 16);
    assert!(
        id.bytes()
            .all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
    );
    let lines = house.log_lines();
    assert!(
        lines[0].contains(&id) && lines[0].contains("/var/lib/secret/path"),
        "{}",
        lines[0]
    );
    assert_ne!(house.corridor.log_fault(&Fault::internal("x")), id);
}
