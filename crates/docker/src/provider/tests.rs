//! Every row of the outcome tables, driven by an engine and a PID 1 that do what they are told.

use std::time::Duration;

use plimsoll_core::{
    Code, Fault, FaultKind, Payload, Permit, ProjectOutcome, ProjectRun, Reason, RunRequest, RunResult, Validated,
};
use plimsoll_guest_link::messages::{Captured, End, Fault as GuestFault, GuestMessage, LimitFacts, Report, SnippetEnd};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::fake::{Act, CONTAINER_ID, FakeEngine, Reply, ready};

fn acts(more: impl IntoIterator<Item = Act>) -> Vec<Act> {
    ready().into_iter().chain(more).collect()
}

fn snippet_end(end: End, stdout: &[u8]) -> Act {
    Act::Say(GuestMessage::SnippetEnd(SnippetEnd {
        end,
        timed_out: false,
        stdout: Captured {
            bytes: stdout.to_vec(),
            produced: stdout.len() as u64,
        },
        stderr: Captured::default(),
        duration_ms: 1,
        limits: LimitFacts::default(),
    }))
}

/// An engine whose containers play this.
fn engine(guest: Vec<Act>, exit: i64) -> FakeEngine {
    let engine = FakeEngine::healthy();
    engine.on("GET", "/containers/*", [Reply::Made(json!({}))]);
    engine.with_containers(guest, exit);
    engine
}

async fn provider(engine: &FakeEngine) -> Docker {
    let docker = Docker::new(engine.settings(), Resources::default(), 0);
    docker.preflight().await.unwrap();
    docker
}

fn project() -> RunRequest {
    RunRequest::new(Payload::Project(ProjectRun {
        steps: vec!["true".to_owned()],
        ..ProjectRun::default()
    }))
}

fn snippet() -> RunRequest {
    let mut request = RunRequest::javascript("1");
    request.timeout_ms = 1000;
    request
}

async fn run(docker: &Docker, request: RunRequest, cancelled: CancellationToken) -> Result<Outcome, RunError> {
    let call = Validated::new(request)
        .unwrap()
        .grant(|_| Ok(None))
        .unwrap()
        .authorize(&docker.evidence())
        .unwrap()
        .admit(Permit::new(()));
    let context = RunContext {
        deadline: std::time::Instant::now() + Duration::from_secs(130),
        cancelled,
        broker: None,
    };
    docker.run(&call, context).await
}

async fn outcome(guest: Vec<Act>, exit: i64, request: RunRequest) -> Result<Outcome, RunError> {
    let engine = engine(guest, exit);
    run(&provider(&engine).await, request, CancellationToken::new()).await
}

fn javascript(outcome: Result<Outcome, RunError>) -> plimsoll_core::JavaScriptResult {
    match outcome.unwrap().result {
        RunResult::JavaScript(result) => result,
        other => panic!("{other:?}"),
    }
}

fn of_project(outcome: Result<Outcome, RunError>) -> (ProjectOutcome, String) {
    match outcome.unwrap().result {
        RunResult::Project(result) => (result.outcome, result.outcome_detail),
        other => panic!("{other:?}"),
    }
}

fn unmarked(outcome: Result<Outcome, RunError>) -> Fault {
    match outcome {
        Err(RunError::MayHaveRun(fault)) => fault,
        other => panic!("not an unmarked error: {other:?}"),
    }
}

fn refused(outcome: Result<Outcome, RunError>) -> Refusal {
    match outcome {
        Err(RunError::NotDispatched(refusal)) => refusal,
        other => panic!("not a refusal: {other:?}"),
    }
}

#[tokio::test]
async fn an_end_that_pid_1_tells_is_the_result() {
    for code in [0, 3, 125, 126, 127, 137] {
        let guest = acts([
            Act::Planned,
            Act::Say(GuestMessage::Started),
            snippet_end(End::Exited(code), b"42\n"),
        ]);
        let result = javascript(outcome(guest, 0, snippet()).await);
        assert_eq!(
            (result.exit_code, result.stdout.as_slice(), result.timed_out),
            (code, &b"42\n"[..], false)
        );
    }
}

#[tokio::test]
async fn a_cold_container_that_never_takes_the_program_is_a_refusal() {
    for guest in [
        vec![],
        vec![Act::Opened],
        vec![Act::Opened, Act::Beside("exec format error")],
        vec![
            Act::Opened,
            Act::Say(GuestMessage::Fault(GuestFault { text: "no".to_owned() })),
        ],
        vec![Act::Opened, Act::Noise(b"PLIMSOLL1 y 0 0 0\n".to_vec())],
    ] {
        let refusal = refused(outcome(guest, 125, snippet()).await);
        assert_eq!(
            (refusal.code(), refusal.reason()),
            (Code::Internal, Reason::Environment)
        );
    }
}

#[tokio::test]
async fn a_sent_program_without_a_start_is_unmarked_whatever_the_exit() {
    for request in [snippet, project] {
        for (guest, exit) in [
            (acts([Act::Planned]), 0),
            (acts([Act::Planned]), 124),
            (acts([Act::Planned, Act::Beside("runtime words")]), 137),
            (acts([Act::Planned, Act::Noise(b"PLIMSOLL1 e 1 0 00\n".to_vec())]), 0),
            (
                acts([
                    Act::Planned,
                    Act::Say(GuestMessage::Fault(GuestFault { text: "x".to_owned() })),
                ]),
                3,
            ),
        ] {
            let fault = unmarked(outcome(guest, exit, request()).await);
            assert_eq!(fault.kind(), FaultKind::Internal);
        }
    }
}

#[tokio::test]
async fn a_started_run_that_loses_pid_1_is_never_a_success() {
    let guest = || acts([Act::Planned, Act::Say(GuestMessage::Started)]);
    unmarked(outcome(guest(), 0, snippet()).await);
    let (told, detail) = of_project(outcome(guest(), 137, project()).await);
    assert_eq!(told, ProjectOutcome::PROTOCOL_ERROR);
    assert!(detail.contains("137"), "{detail}");
    let forged = acts([
        Act::Planned,
        Act::Say(GuestMessage::Started),
        Act::Noise(b"PLIMSOLL1 p 2 3 0000000000000000000000000000000000000000000000000000000000000000\nabc".to_vec()),
    ]);
    let (told, _) = of_project(outcome(forged, 0, project()).await);
    assert_eq!(told, ProjectOutcome::PROTOCOL_ERROR);
}

#[tokio::test]
async fn an_end_of_another_kind_is_no_end() {
    let report = Act::Say(GuestMessage::Report(Report::default()));
    unmarked(
        outcome(
            acts([Act::Planned, Act::Say(GuestMessage::Started), report]),
            0,
            snippet(),
        )
        .await,
    );
    let end = snippet_end(End::Exited(0), b"");
    unmarked(outcome(acts([Act::Planned, Act::Say(GuestMessage::Started), end]), 0, project()).await);
}

#[tokio::test]
async fn a_report_without_a_step_is_a_failed_setup() {
    let report = GuestMessage::Report(Report {
        error: "path: outside".to_owned(),
        ..Report::default()
    });
    let told = of_project(outcome(acts([Act::Planned, Act::Say(report)]), 0, project()).await);
    assert_eq!(told, (ProjectOutcome::SETUP_FAILED, "path: outside".to_owned()));
}

#[tokio::test]
async fn a_run_that_never_ends_is_a_timeout_only_if_it_was_started() {
    let stay = |started: bool| {
        let said = started.then_some(Act::Say(GuestMessage::Started));
        acts([Act::Planned].into_iter().chain(said).chain([Act::Stay]))
    };
    let (late, never, whole) = tokio::join!(
        outcome(stay(true), 137, snippet()),
        outcome(stay(false), 137, snippet()),
        async {
            let mut request = project();
            request.timeout_ms = 1000;
            outcome(stay(true), 137, request).await
        },
    );
    let result = javascript(late);
    assert_eq!((result.exit_code, result.timed_out), (124, true));
    unmarked(never);
    assert_eq!(of_project(whole).0, ProjectOutcome::TIMED_OUT);
}

#[tokio::test]
async fn the_stream_of_a_sandbox_that_is_gone_is_not_waited_for() {
    let vanish = |started: bool| {
        let said = started.then_some(Act::Say(GuestMessage::Started));
        acts([Act::Planned].into_iter().chain(said).chain([Act::Vanish]))
    };
    let request = |mut request: RunRequest| {
        request.timeout_ms = 60_000;
        request
    };
    let began = std::time::Instant::now();
    let (snippet, never, project) = tokio::join!(
        outcome(vanish(true), 137, request(snippet())),
        outcome(vanish(false), 137, request(snippet())),
        outcome(vanish(true), 137, request(project())),
    );
    unmarked(snippet);
    unmarked(never);
    assert_eq!(of_project(project).0, ProjectOutcome::PROTOCOL_ERROR);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_caller_who_leaves_is_refused_before_the_program_is_sent_and_unmarked_after() {
    let leaving = |guest: Vec<Act>| async {
        let engine = engine(guest, 137);
        let docker = provider(&engine).await;
        let cancelled = CancellationToken::new();
        let later = cancelled.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            later.cancel();
        });
        run(&docker, snippet(), cancelled).await
    };
    let refusal = refused(leaving(vec![Act::Stay]).await);
    assert_eq!((refusal.code(), refusal.reason()), (Code::Canceled, Reason::Capacity));
    let fault = unmarked(leaving(acts([Act::Planned, Act::Say(GuestMessage::Started), Act::Stay])).await);
    assert_eq!(fault.kind(), FaultKind::Canceled);
}

#[tokio::test]
async fn an_engine_that_will_not_or_lies_runs_nothing() {
    let good = || {
        acts([
            Act::Planned,
            Act::Say(GuestMessage::Started),
            snippet_end(End::Exited(0), b""),
        ])
    };
    type Lie = fn(&FakeEngine);
    let lies: [(&str, Lie); 6] = [
        ("refuses to create", |engine| {
            engine.on("POST", "/containers/create", [Reply::failure(500, "no space")]);
        }),
        ("hangs up on create", |engine| {
            engine.on("POST", "/containers/create", [Reply::Hangup]);
        }),
        ("creates another image's container", |engine| {
            engine.on(
                "GET",
                "/containers/*",
                [Reply::Json(200, json!({ "Id": "x", "Image": "sha256:0" }))],
            );
        }),
        ("gives it a network", |engine| {
            engine.on(
                "GET",
                "/containers/*",
                [Reply::Made(json!({ "NetworkMode": "bridge" }))],
            );
        }),
        ("gives it privileges", |engine| {
            engine.on("GET", "/containers/*", [Reply::Made(json!({ "Privileged": true }))]);
        }),
        ("forgets the memory limit", |engine| {
            engine.on("GET", "/containers/*", [Reply::Made(json!({ "Memory": 0 }))]);
        }),
    ];
    for (lie, tell) in lies {
        let engine = engine(good(), 0);
        let docker = provider(&engine).await;
        tell(&engine);
        let refusal = refused(run(&docker, snippet(), CancellationToken::new()).await);
        assert_eq!(refusal.reason(), Reason::Environment, "{lie}");
        let started = engine.asked().iter().any(|asked| asked.path.ends_with("/start"));
        assert!(!started, "an engine that {lie} was told to start");
    }
}

#[tokio::test]
async fn every_container_of_a_run_is_removed_and_its_socket_with_it() {
    let engine = engine(acts([Act::Planned, Act::Say(GuestMessage::Started), Act::Stay]), 137);
    let docker = provider(&engine).await;
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    refused(run(&docker, snippet(), cancelled).await);
    let result = javascript(run(&docker, snippet(), CancellationToken::new()).await);
    assert!(result.timed_out);
    docker.drain().await.unwrap();
    let asked = engine.asked();
    let removed: Vec<&str> = asked
        .iter()
        .filter(|asked| asked.method == "DELETE")
        .map(|asked| asked.path.as_str())
        .collect();
    // By what the engine calls it: its name may have become another container's.
    assert!(!removed.is_empty());
    assert!(
        removed
            .iter()
            .all(|path| *path == format!("/containers/{CONTAINER_ID}")),
        "{removed:?}"
    );
    let body = &asked
        .iter()
        .find(|asked| asked.path == "/containers/create")
        .unwrap()
        .body;
    let bind = body["HostConfig"]["Binds"][0].as_str().unwrap();
    let socket = bind.split(':').next().unwrap();
    assert!(!fs_err::exists(socket).unwrap(), "{socket} is left behind");
}
