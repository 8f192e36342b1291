//! Members, claims and the filler, driven by an engine and a PID 1 that do what they are told.

use std::time::SystemTime;

use plimsoll_core::limits::PROTOCOL;
use plimsoll_core::{
    AuthorizedOpen, Evidence, Isolation, OpenRequest, Permit, Reason, Resources, RunError, SessionEnd, Tier,
};
use plimsoll_guest_link::messages::{Disk, GuestMessage, SweepEnd};
use plimsoll_sandbox::{OpenContext, Sandbox as _, Session, Sessions as _};
use serde_json::json;

use super::*;
use crate::fake::{Act, FakeEngine, Reply, ready};

const LIFETIME: Duration = Duration::from_secs(600);

const EVERY: [Language; 2] = [Language::JavaScript, Language::Python];

fn swept(disk: Disk) -> [Act; 2] {
    let end = SweepEnd {
        clean: true,
        disk,
        killed: 0,
        interpreters: Vec::new(),
        detail: String::new(),
    };
    [Act::Planned, Act::Say(GuestMessage::Swept(end))]
}

/// A PID 1 that is opened, says that these interpreters live, and then does this.
fn member(live: &[Language], more: impl IntoIterator<Item = Act>) -> Vec<Act> {
    let warm = [Act::Planned, Act::Say(GuestMessage::Warm(live.to_vec()))];
    let acts = ready().into_iter().chain(swept(Disk::NotMeasured)).chain(warm);
    acts.chain(more).chain([Act::Stay]).collect()
}

/// An engine whose containers play this and never end by themselves.
fn engine(guest: Vec<Act>) -> FakeEngine {
    let engine = FakeEngine::healthy();
    engine.on("GET", "/containers/*", [Reply::Made(json!({}))]);
    plays(&engine, guest);
    engine
}

/// What containers that are made from now on do.
fn plays(engine: &FakeEngine, guest: Vec<Act>) {
    engine.with_containers(guest, 0);
    engine.on_call("wait", || {
        let (sender, reply) = Reply::later();
        // No end is ever told.
        Box::leak(Box::new(sender));
        reply
    });
}

async fn provider(engine: &FakeEngine) -> Docker {
    let docker = Docker::new(engine.settings(), Resources::default(), 0);
    docker.preflight().await.unwrap();
    let snapshot = docker.state().current().unwrap();
    let languages = EVERY.map(|language| language.as_str().to_owned());
    docker.state().proven(&snapshot, languages.to_vec());
    docker.restate(Some(&snapshot));
    docker
}

async fn started(engine: &FakeEngine, size: u32) -> Docker {
    let docker = provider(engine).await;
    docker.pool().unwrap().start(size, LIFETIME).await.unwrap();
    docker
}

async fn open_under(docker: &Docker, evidence: &Evidence, floor: &str) -> Result<Arc<dyn Session>, RunError> {
    let request = OpenRequest {
        protocol: PROTOCOL,
        minimum_isolation: floor.to_owned(),
        ..OpenRequest::default()
    };
    let open = AuthorizedOpen::new(request, evidence)
        .unwrap()
        .admit(LIFETIME, Permit::new(()));
    let context = OpenContext {
        deadline: std::time::Instant::now() + Duration::from_secs(60),
        cancelled: CancellationToken::new(),
        disk_bytes: 1 << 20,
    };
    docker.open(&open, context).await
}

async fn open(docker: &Docker) -> Result<Arc<dyn Session>, RunError> {
    open_under(docker, &docker.evidence(), "").await
}

fn made(engine: &FakeEngine) -> usize {
    engine.count("POST", "/containers/create")
}

fn removed(engine: &FakeEngine) -> usize {
    let asked = engine.asked();
    let removals = asked.iter().filter(|asked| asked.method == http::Method::DELETE);
    removals.count()
}

async fn waiting(docker: &Docker) -> usize {
    docker
        .shared()
        .await
        .unwrap()
        .sessions
        .get()
        .unwrap()
        .shelf
        .lock()
        .len()
}

/// Looks until it is so.
async fn until(so: impl AsyncFn() -> bool) {
    for _ in 0..400 {
        if so().await {
            return;
        }
        sleep(Duration::from_millis(25)).await;
    }
    panic!("it never is so");
}

#[tokio::test]
async fn the_first_member_is_there_at_the_start_and_its_label_reaches_past_the_longest_session() {
    let engine = engine(member(&EVERY, []));
    let docker = started(&engine, 1).await;
    assert_eq!((waiting(&docker).await, made(&engine)), (1, 1));
    let asked = engine.asked();
    let created = asked.iter().find(|asked| asked.path == "/containers/create").unwrap();
    let label = |name: &str| created.body["Labels"][name].as_str().unwrap().to_owned();
    let expires: u64 = label("io.plimsoll.expires").parse().unwrap();
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    // Half an hour, the longest session, and a minute for its removal.
    let life = expires - now;
    assert!((1800 + 600..=1800 + 600 + 61).contains(&life), "{life}");
    assert_eq!(label("io.plimsoll.session"), "1");
}

#[tokio::test]
async fn a_session_gets_the_member_that_waits_and_another_is_made() {
    let engine = engine(member(&EVERY, [Act::Pinged]));
    let docker = started(&engine, 1).await;
    let probes = engine.count("GET", "/info");
    let _session = open(&docker).await.unwrap();
    assert_eq!(engine.count("GET", "/info"), probes, "a claim asks for no probe");
    until(async || waiting(&docker).await == 1).await;
    assert_eq!((made(&engine), removed(&engine)), (2, 0));
}

#[tokio::test]
async fn members_are_made_one_after_another() {
    let engine = engine(member(&EVERY, []));
    let docker = provider(&engine).await;
    let starts = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&starts);
    engine.on_call("create", move || {
        seen.lock().push(Instant::now());
        let made = Reply::Json(201, json!({ "Id": crate::fake::CONTAINER_ID, "Warnings": [] }));
        Reply::After(Duration::from_millis(200), Box::new(made))
    });
    docker.pool().unwrap().start(3, LIFETIME).await.unwrap();
    assert_eq!(waiting(&docker).await, 1, "the start waits for one");
    until(async || waiting(&docker).await == 3).await;
    let starts = starts.lock();
    let apart = starts
        .windows(2)
        .all(|pair| pair[1] - pair[0] >= Duration::from_millis(200));
    assert!(starts.len() == 3 && apart, "{starts:?}");
}

#[tokio::test]
async fn a_pool_whose_first_members_interpreters_do_not_start_stops_the_start() {
    let engine = engine(member(&[Language::JavaScript], []));
    let docker = provider(&engine).await;
    let fault = docker.pool().unwrap().start(1, LIFETIME).await.unwrap_err();
    assert_eq!(fault.phase, "session pool");
    assert!(
        fault.cause.contains("python interpreter does not start"),
        "{}",
        fault.cause
    );
    until(async || removed(&engine) == 1).await;
}

#[tokio::test]
async fn a_member_that_does_not_answer_is_removed_and_the_session_opened_all_the_same() {
    let engine = engine(member(&EVERY, []));
    let docker = started(&engine, 1).await;
    let cold = ready().into_iter().chain(swept(Disk::NotMeasured)).chain([Act::Stay]);
    plays(&engine, cold.collect());
    let session = open(&docker).await.unwrap();
    assert!(session.ended().is_none());
    assert!(made(&engine) >= 2);
    until(async || removed(&engine) == 1).await;
}

#[tokio::test]
async fn a_member_whose_container_somebody_changed_is_never_a_sessions() {
    let engine = engine(member(&EVERY, [Act::Pinged]));
    let docker = started(&engine, 1).await;
    engine.on("GET", "/containers/*", [Reply::Made(json!({ "PidsLimit": 7 }))]);
    // What is made now is not what was asked for either.
    let Err(RunError::NotDispatched(refusal)) = open(&docker).await else {
        panic!("opened");
    };
    assert_eq!(refusal.reason(), Reason::Environment);
    assert_eq!(waiting(&docker).await, 0);
}

#[tokio::test]
async fn a_floor_above_the_tier_takes_no_member_and_counts_for_nothing() {
    let engine = engine(member(&EVERY, [Act::Pinged]));
    let docker = started(&engine, 5).await;
    until(async || waiting(&docker).await == 5).await;
    // Checked against a tier that has fallen since.
    let stronger = Evidence {
        isolation: Isolation::Proven(Tier::Kernel),
        ..(*docker.evidence()).clone()
    };
    let Err(RunError::NotDispatched(refusal)) = open_under(&docker, &stronger, "kernel").await else {
        panic!("opened");
    };
    assert_eq!(refusal.reason(), Reason::Isolation);
    assert_eq!((waiting(&docker).await, made(&engine)), (5, 5));
}

#[tokio::test]
async fn what_a_claimed_session_may_write_is_bound_by_its_open() {
    let guest = member(&EVERY, [Act::Pinged].into_iter().chain(swept(Disk::Over(2 << 20))));
    let engine = engine(guest);
    let docker = started(&engine, 1).await;
    let session = open(&docker).await.unwrap();
    session.sweep().await;
    let ended = session.ended().unwrap();
    assert_eq!(ended.end, SessionEnd::DiskExceeded);
    assert_eq!(ended.detail, "2 MiB are written; SANDBOX_SESSION_DISK_MB allows 1");
}

#[tokio::test]
async fn a_drain_lets_every_member_go_and_no_session_comes_from_the_pool_afterwards() {
    let engine = engine(member(&EVERY, [Act::Pinged]));
    let docker = started(&engine, 2).await;
    until(async || waiting(&docker).await == 2).await;
    docker.drain().await.unwrap();
    assert_eq!((waiting(&docker).await, removed(&engine)), (0, 2));
    let snapshot = docker.state().current().unwrap();
    let pool = docker.shared().await.unwrap().sessions.get().unwrap();
    assert!(pool.claim(&[], &snapshot, LIFETIME).await.is_none());
}

#[tokio::test]
async fn a_member_is_tried_again_after_one_second_then_after_two() {
    let engine = engine(member(&EVERY, [Act::Pinged]));
    let docker = started(&engine, 1).await;
    let tries = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&tries);
    engine.on_call("create", move || {
        seen.lock().push(Instant::now());
        Reply::failure(500, "no")
    });
    let _session = open(&docker).await.unwrap();
    until(async || tries.lock().len() == 3).await;
    let tries = tries.lock();
    let (first, second) = (tries[1] - tries[0], tries[2] - tries[1]);
    assert!(
        first >= Duration::from_secs(1) && second >= Duration::from_secs(2),
        "{first:?} {second:?}"
    );
}

#[tokio::test]
async fn a_member_is_good_for_its_lifetime_and_half_an_hour() {
    let engine = engine(member(&EVERY, []));
    let docker = started(&engine, 1).await;
    let pool = docker.shared().await.unwrap().sessions.get().unwrap();
    let snapshot = docker.state().current().unwrap();
    let taken = pool.shelf.lock().take(&EVERY.into()).unwrap();
    let usable = |waited: Duration, life: Duration| pool.usable(&taken, &snapshot, taken.born + waited, life);
    let second = Duration::from_secs(1);
    assert!(usable(Duration::ZERO, LIFETIME));
    assert!(usable(WAITS, LIFETIME));
    assert!(!usable(WAITS + second, second));
    assert!(!usable(WAITS, LIFETIME + second));
    assert!(
        usable(second, LIFETIME + WAITS - second),
        "an open may ask for more than the daemon gives"
    );
    let other = |change: fn(&mut Snapshot)| {
        let mut other = (*snapshot).clone();
        change(&mut other);
        pool.usable(&taken, &other, taken.born, LIFETIME)
    };
    assert!(other(|_| {}));
    assert!(!other(
        |snapshot| snapshot.runtime = crate::runtime::Runtime::new("runsc")
    ));
    assert!(!other(|snapshot| snapshot.platform = Some("linux/arm64".to_owned())));
    assert!(!other(|snapshot| {
        let mut image = (*snapshot.project).clone();
        image.content_id = format!("sha256:{}", "2".repeat(64));
        snapshot.project = Arc::new(image);
    }));
    assert!(!other(|snapshot| {
        let mut image = (*snapshot.project).clone();
        image.manifest = format!("sha256:{}", "3".repeat(64));
        snapshot.project = Arc::new(image);
    }));
}
