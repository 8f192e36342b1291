//! Every way a call in a session can go, driven by an engine and a PID 1 that do what they are told.

use plimsoll_core::{
    Addressed, AuthorizedOpen, CellRun, FaultKind, JavaScriptResult, OpenRequest, Payload, Permit, Resources,
    RunRequest, RunResult, SoftwareRule, Turn,
};
use plimsoll_guest_link::messages::{
    Captured, CellEnd, CellOutcome, Disk, End, GuestMessage, LimitFacts, NotRun, SnippetEnd, SweepEnd,
};
use plimsoll_sandbox::Sandbox as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::fake::{Act, Asked, CONTAINER_ID, FakeEngine, Reply, ready};

fn swept(clean: bool, disk: Disk, killed: u32) -> [Act; 2] {
    let end = SweepEnd {
        clean,
        disk,
        killed,
        interpreters: Vec::new(),
        detail: String::new(),
    };
    [Act::Planned, Act::Say(GuestMessage::Swept(end))]
}

fn clean() -> [Act; 2] {
    swept(true, Disk::NotMeasured, 0)
}

fn printed(text: &str) -> [Act; 3] {
    let end = SnippetEnd {
        end: End::Exited(0),
        timed_out: false,
        stdout: Captured {
            bytes: text.as_bytes().to_vec(),
            produced: text.len() as u64,
        },
        stderr: Captured::default(),
        duration_ms: 1,
        limits: LimitFacts::default(),
    };
    [
        Act::Planned,
        Act::Say(GuestMessage::Started),
        Act::Say(GuestMessage::SnippetEnd(end)),
    ]
}

/// A PID 1 that is opened, swept, and then does this.
fn opened(more: impl IntoIterator<Item = Act>) -> Vec<Act> {
    ready().into_iter().chain(clean()).chain(more).collect()
}

/// An engine whose sessions play this and then stay.
fn engine(guest: Vec<Act>) -> FakeEngine {
    let engine = FakeEngine::healthy();
    inspected(&engine, [Reply::Made(json!({}))]);
    let guest: Vec<Act> = guest.into_iter().chain([Act::Stay]).collect();
    engine.with_containers(guest, 0);
    // Nothing ends by itself.
    engine.on_call("wait", || Reply::later().1.kept());
    engine
}

impl Reply {
    /// A body that never ends.
    fn kept(self) -> Self {
        match self {
            Self::Later(_) => {
                let (sender, reply) = Self::later();
                Box::leak(Box::new(sender));
                reply
            }
            other => other,
        }
    }
}

/// What the engine says of every container from now on.
fn inspected(engine: &FakeEngine, replies: impl IntoIterator<Item = Reply>) {
    engine.on("GET", "/containers/*", replies);
}

/// A container in this state.
fn state(state: &Value) -> Reply {
    Reply::Json(200, json!({ "Id": CONTAINER_ID, "State": state }))
}

async fn provider(engine: &FakeEngine) -> Docker {
    let docker = Docker::new(engine.settings(), Resources::default(), 0);
    docker.preflight().await.unwrap();
    let snapshot = docker.state().current().unwrap();
    let languages = vec!["javascript".to_owned(), "python".to_owned()];
    docker.state().proven(&snapshot, languages);
    docker.restate(Some(&snapshot));
    docker
}

async fn open_with(docker: &Docker, disk_bytes: u64) -> Result<Arc<dyn Session>, RunError> {
    open_until(docker, disk_bytes, Permit::new(()), CancellationToken::new()).await
}

async fn open_until(
    docker: &Docker,
    disk_bytes: u64,
    capacity: Permit,
    cancelled: CancellationToken,
) -> Result<Arc<dyn Session>, RunError> {
    let request = OpenRequest {
        protocol: plimsoll_core::limits::PROTOCOL,
        ..OpenRequest::default()
    };
    let open = AuthorizedOpen::new(request, &docker.evidence())
        .unwrap()
        .admit(Duration::from_secs(60), capacity);
    let context = OpenContext {
        deadline: Instant::now() + Duration::from_secs(60),
        cancelled,
        disk_bytes,
    };
    docker.sessions().unwrap().open(&open, context).await
}

async fn open(docker: &Docker) -> Arc<dyn Session> {
    open_with(docker, 0).await.unwrap()
}

fn call(session: &dyn Session, request: RunRequest) -> SessionCall {
    Addressed::new(request)
        .unwrap()
        .validate(&SoftwareRule::default())
        .unwrap()
        .grant(|_| Ok(None))
        .unwrap()
        .authorize(session.evidence())
        .unwrap()
        .take(Turn::new(()))
        .admit(Permit::new(()))
}

fn cell() -> RunRequest {
    RunRequest::new(Payload::Cell(CellRun {
        language: "python".to_owned(),
        code: "1".to_owned(),
        files: Vec::new(),
    }))
}

async fn run_until(
    session: &dyn Session,
    request: RunRequest,
    cancelled: CancellationToken,
) -> Result<Outcome, RunError> {
    let context = RunContext {
        deadline: Instant::now() + Duration::from_secs(30),
        cancelled,
        broker: None,
    };
    session.run(&call(session, request), context).await
}

async fn run(session: &dyn Session) -> Result<Outcome, RunError> {
    run_until(session, RunRequest::javascript("1"), CancellationToken::new()).await
}

fn javascript(outcome: Result<Outcome, RunError>) -> JavaScriptResult {
    match outcome.unwrap().result {
        RunResult::JavaScript(result) => result,
        other => panic!("{other:?}"),
    }
}

fn refused(outcome: Result<Outcome, RunError>) -> Refusal {
    match outcome {
        Err(RunError::NotDispatched(refusal)) => refusal,
        other => panic!("not a refusal: {other:?}"),
    }
}

fn ended(refusal: &Refusal) -> SessionEnd {
    refusal.session_end().expect("the session has ended").end
}

/// Waits until the engine was asked for this of some container.
async fn asked_to(engine: &FakeEngine, method: &str, what: &str) {
    let is_it = |asked: &Asked| asked.method == method && asked.path.ends_with(what);
    while !engine.asked().iter().any(is_it) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_container_that_was_to_be_a_session_holds_its_capacity_until_it_is_gone() {
    let engine = engine(vec![Act::Stay]);
    engine.on(
        "DELETE",
        "/containers/*",
        [Reply::After(Duration::from_millis(500), Box::new(Reply::done()))],
    );
    let docker = provider(&engine).await;
    let held = Arc::new(());
    let (capacity, cancelled) = (Permit::new(Arc::clone(&held)), CancellationToken::new());
    let leaves = cancelled.clone();
    let leaving = async {
        asked_to(&engine, "POST", "/start").await;
        leaves.cancel();
    };
    let (opened, ()) = tokio::join!(open_until(&docker, 0, capacity, cancelled), leaving);
    assert!(opened.is_err());
    asked_to(&engine, "DELETE", "").await;
    assert_eq!(
        Arc::strong_count(&held),
        2,
        "the capacity came back before the container went"
    );
    tokio::time::timeout(Duration::from_secs(10), async {
        while Arc::strong_count(&held) > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the capacity came back");
}

#[tokio::test]
async fn calls_follow_one_another_on_one_stream_and_never_by_exec() {
    let guest = opened([printed("one").to_vec(), clean().to_vec(), printed("two").to_vec()].concat());
    let engine = engine(guest);
    let docker = provider(&engine).await;
    let session = open(&docker).await;
    assert_eq!(session.evidence().instance, "");
    assert_eq!(javascript(run(&*session).await).stdout, b"one");
    session.sweep().await;
    assert_eq!(javascript(run(&*session).await).stdout, b"two");
    assert_eq!(session.ended(), None);
    let asked = engine.asked();
    assert!(asked.iter().all(|asked| !asked.path.contains("exec")), "{asked:?}");
    let created = asked.iter().find(|asked| asked.path == "/containers/create").unwrap();
    assert_eq!(created.body["Labels"]["io.plimsoll.session"], "1");
    assert_eq!(created.body["HostConfig"]["AutoRemove"], false);
    assert!(created.query["name"].starts_with("plimsoll-session-"));
}

#[tokio::test]
async fn an_engine_that_cannot_be_asked_refuses_the_call_and_the_session_goes_on() {
    let engine = engine(opened(printed("later")));
    let docker = provider(&engine).await;
    let session = open(&docker).await;
    inspected(&engine, [Reply::failure(500, "busy"), Reply::Made(json!({}))]);
    engine.on("GET", "/containers/json", [Reply::failure(500, "busy")]);
    let refusal = refused(run(&*session).await);
    assert_eq!((refusal.reason(), session.ended()), (Reason::Environment, None));
    assert_eq!(javascript(run(&*session).await).stdout, b"later");
}

#[tokio::test]
async fn a_container_that_is_not_the_one_that_was_opened_is_not_used() {
    let paused = json!({ "Running": true, "Paused": true });
    let cases = [
        (Reply::Made(json!({ "PidsLimit": 9999 })), SessionEnd::SandboxChanged),
        (state(&paused), SessionEnd::SandboxChanged),
        (state(&json!({ "Running": false })), SessionEnd::MainProcessEnded),
        (Reply::failure(404, "no such container"), SessionEnd::SandboxChanged),
    ];
    for (reply, end) in cases {
        let engine = engine(opened(printed("never")));
        let docker = provider(&engine).await;
        let session = open(&docker).await;
        inspected(&engine, [reply]);
        assert_eq!(ended(&refused(run(&*session).await)), end);
        assert_eq!(session.ended().unwrap().end, end);
        // The first end stays.
        inspected(&engine, [Reply::Made(json!({}))]);
        assert_eq!(ended(&refused(run(&*session).await)), end);
    }
}

#[tokio::test]
async fn a_container_that_was_renamed_is_said_to_be_and_is_removed_by_its_id() {
    let engine = engine(opened(printed("never")));
    let docker = provider(&engine).await;
    let session = open(&docker).await;
    inspected(&engine, [Reply::Named("/another")]);
    let refusal = refused(run(&*session).await);
    assert_eq!(ended(&refusal), SessionEnd::SandboxChanged);
    assert_eq!(session.ended().unwrap().detail, "somebody renamed its sandbox");
    session.close().await.unwrap();
    let of_one = |asked: &Asked| {
        let path = asked.path.strip_prefix("/containers/")?;
        (!matches!(path, "create" | "json")).then(|| path.to_owned())
    };
    let of_ones: Vec<String> = engine.asked().iter().filter_map(of_one).collect();
    assert!(of_ones.iter().all(|path| path.starts_with(CONTAINER_ID)), "{of_ones:?}");
    assert!(
        engine
            .asked()
            .iter()
            .any(|asked| asked.method == "DELETE" && asked.path == format!("/containers/{CONTAINER_ID}"))
    );
}

#[tokio::test]
async fn a_stream_that_ended_between_calls_is_an_end_before_anything_ran() {
    let engine = FakeEngine::healthy();
    inspected(&engine, [Reply::Made(json!({}))]);
    engine.with_containers(opened([]), 0);
    engine.on_call("wait", || Reply::later().1.kept());
    let docker = provider(&engine).await;
    let session = open(&docker).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(ended(&refused(run(&*session).await)), SessionEnd::BoundaryFailed);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_lost_during_a_call_leaves_it_unmarked_and_ends_the_session() {
    for (seen, end) in [
        (Reply::Made(json!({})), SessionEnd::BoundaryFailed),
        (state(&json!({ "Running": false })), SessionEnd::MainProcessEnded),
        (
            state(&json!({ "Running": true, "Paused": true })),
            SessionEnd::SandboxChanged,
        ),
    ] {
        let engine = FakeEngine::healthy();
        inspected(&engine, [Reply::Made(json!({}))]);
        engine.with_containers(opened([Act::Planned, Act::Say(GuestMessage::Started)]), 0);
        engine.on_call("wait", || Reply::later().1.kept());
        let docker = provider(&engine).await;
        let session = open(&docker).await;
        // The read-back before the call, then the look after its loss.
        inspected(&engine, [Reply::Made(json!({})), seen]);
        match run(&*session).await {
            Err(RunError::MayHaveRun(fault)) => assert_eq!(fault.kind(), FaultKind::SessionEnded),
            other => panic!("{other:?}"),
        }
        assert_eq!(session.ended().unwrap().end, end);
    }
}

#[tokio::test]
async fn a_sweep_that_shows_too_little_or_too_much_ends_the_session() {
    for (acts, end, words) in [
        (
            swept(false, Disk::NotMeasured, 1),
            SessionEnd::BoundaryFailed,
            "its sandbox does not say what became of a call",
        ),
        (
            swept(true, Disk::Over((64 << 20) + 1), 0),
            SessionEnd::DiskExceeded,
            "65 MiB are written; SANDBOX_SESSION_DISK_MB allows 64",
        ),
        (
            swept(true, Disk::Unmeasurable, 0),
            SessionEnd::DiskExceeded,
            "what it has written cannot be measured",
        ),
    ] {
        let engine = engine(opened([printed("").to_vec(), acts.to_vec()].concat()));
        let docker = provider(&engine).await;
        let session = open_with(&docker, 64 << 20).await.unwrap();
        javascript(run(&*session).await);
        engine.on_call("wait", || Reply::Json(200, json!({ "StatusCode": 0 })));
        session.sweep().await;
        let ended = session.ended().unwrap();
        assert_eq!((ended.end, ended.detail.as_str()), (end, words));
    }
}

#[tokio::test]
async fn a_sandbox_with_strangers_in_it_is_no_sessions_and_is_removed() {
    let guest = ready().into_iter().chain(swept(true, Disk::NotMeasured, 1)).collect();
    let engine = engine(guest);
    let docker = provider(&engine).await;
    let refusal = match open_with(&docker, 0).await {
        Err(RunError::NotDispatched(refusal)) => refusal,
        _ => panic!("it opened"),
    };
    assert_eq!(refusal.reason(), Reason::Environment);
    docker.drain().await.unwrap();
    assert!(engine.asked().iter().any(|asked| asked.method == http::Method::DELETE));
}

#[tokio::test]
async fn a_caller_who_leaves_has_the_code_stopped_and_the_session_goes_on() {
    let stopped = CellEnd {
        outcome: CellOutcome::TimedOut,
        stdout: Captured::default(),
        stderr: Captured::default(),
        fresh: true,
        duration_ms: 1,
        limits: LimitFacts::default(),
    };
    let guest = opened(
        [
            vec![Act::Planned, Act::Say(GuestMessage::Started), Act::Stopped],
            vec![Act::Say(GuestMessage::CellEnd(stopped))],
            clean().to_vec(),
            printed("on").to_vec(),
        ]
        .concat(),
    );
    let engine = engine(guest);
    let docker = provider(&engine).await;
    let session = open(&docker).await;
    let cancelled = CancellationToken::new();
    let leaves = cancelled.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        leaves.cancel();
    });
    match run_until(&*session, cell(), cancelled).await.unwrap().result {
        RunResult::Cell(result) => assert!(result.timed_out && result.interpreter_ended),
        other => panic!("{other:?}"),
    }
    session.sweep().await;
    assert_eq!(javascript(run(&*session).await).stdout, b"on");
}

#[tokio::test]
async fn what_pid_1_did_not_run_is_refused_with_its_reason() {
    for (cause, code, reason, words) in [
        (
            NotRun::File { index: 2, errno: 20 },
            Code::InvalidArgument,
            Reason::Request,
            "cell.files[2] cannot be written: ENOTDIR",
        ),
        (
            NotRun::NoInterpreter("why".to_owned()),
            Code::Unimplemented,
            Reason::Environment,
            "nothing ran: why",
        ),
        (NotRun::TooLate, Code::DeadlineExceeded, Reason::Capacity, "deadline"),
    ] {
        let engine = engine(opened([Act::Planned, Act::Say(GuestMessage::NotRun(cause))]));
        let docker = provider(&engine).await;
        let session = open(&docker).await;
        let refusal = refused(run_until(&*session, cell(), CancellationToken::new()).await);
        assert_eq!((refusal.code(), refusal.reason()), (code, reason));
        assert!(refusal.message().contains(words), "{}", refusal.message());
        assert_eq!(session.ended(), None);
    }
}

#[tokio::test]
async fn what_was_started_is_never_refused_as_not_run() {
    let guest = [
        Act::Planned,
        Act::Say(GuestMessage::Started),
        Act::Say(GuestMessage::NotRun(NotRun::TooLate)),
    ];
    let engine = engine(opened(guest));
    let docker = provider(&engine).await;
    let session = open(&docker).await;
    engine.on_call("wait", || Reply::Json(200, json!({ "StatusCode": 0 })));
    match run(&*session).await {
        Err(RunError::MayHaveRun(fault)) => assert_eq!(fault.kind(), FaultKind::SessionEnded),
        other => panic!("{other:?}"),
    }
    assert_eq!(session.ended().unwrap().end, SessionEnd::BoundaryFailed);
}

#[tokio::test]
async fn a_close_tells_the_truth_about_the_container_and_can_be_asked_again() {
    let engine = engine(opened([]));
    let docker = provider(&engine).await;
    let session = open(&docker).await;
    session.close().await.unwrap();
    session.close().await.unwrap();
    let removals = engine
        .asked()
        .iter()
        .filter(|asked| asked.method == http::Method::DELETE)
        .count();
    assert_eq!(removals, 1);
    assert_eq!(ended(&refused(run(&*session).await)), SessionEnd::Closed);
}

#[tokio::test]
async fn suspending_freezes_and_a_failure_to_thaw_ends_the_session() {
    let engine = engine(opened(clean()));
    let docker = provider(&engine).await;
    let session = open(&docker).await;
    assert_eq!(session.suspend().await.unwrap(), Suspended::HoldsMemory);
    engine.on_call("unpause", || Reply::failure(500, "no"));
    session.resume().await.unwrap_err();
    assert_eq!(session.ended().unwrap().end, SessionEnd::BoundaryFailed);
    assert!(engine.asked().iter().any(|asked| asked.path.ends_with("/pause")));
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_laid_to_rest_is_not_frozen_and_ends() {
    let engine = engine(opened(swept(false, Disk::NotMeasured, 1)));
    let docker = provider(&engine).await;
    let session = open(&docker).await;
    engine.on_call("wait", || Reply::Json(200, json!({ "StatusCode": 0 })));
    session.suspend().await.unwrap_err();
    assert_eq!(session.ended().unwrap().end, SessionEnd::BoundaryFailed);
    assert!(!engine.asked().iter().any(|asked| asked.path.ends_with("/pause")));
}
