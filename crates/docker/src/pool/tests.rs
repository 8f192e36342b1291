//! Filling, claiming and letting go, against an engine that does what it is told.

use std::time::Instant;

use plimsoll_core::Resources;
use plimsoll_sandbox::Sandbox as _;
use serde_json::json;

use super::*;
use crate::fake::{Act, CONTAINER_ID, FakeEngine, Reply, ready};
use crate::provider::Docker;

/// How long anything here may take on a loaded host.
const PATIENCE: Duration = Duration::from_secs(60);

/// An engine whose containers wait and answer when they are asked.
fn engine() -> FakeEngine {
    let engine = FakeEngine::healthy();
    engine.on("GET", "/containers/*", [Reply::Made(json!({}))]);
    engine.with_containers(ready().into_iter().chain([Act::Pinged, Act::Stay]).collect(), 0);
    engine
}

/// An engine that makes no container.
fn full(engine: &FakeEngine) {
    engine.on("POST", "/containers/create", [Reply::failure(500, "no space left")]);
}

fn roomy(engine: &FakeEngine) {
    let created = json!({ "Id": CONTAINER_ID, "Warnings": [] });
    engine.on("POST", "/containers/create", [Reply::Json(201, created)]);
}

/// A provider with a pool of this size that has looked at its engine and fills nothing yet.
async fn provider(engine: &FakeEngine, size: u32) -> Docker {
    let docker = Docker::new(engine.settings(), Resources::default(), size);
    docker.preflight().await.unwrap();
    docker
}

impl Docker {
    async fn pool(&self) -> &Arc<Pool> {
        &self.shared().await.unwrap().pool
    }

    /// Starts filling, as a proof that went well does.
    async fn fills(&self) {
        self.pool()
            .await
            .start(&self.shared().await.unwrap().launcher, self.state());
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.state().current().unwrap()
    }

    /// Puts a member of this age on the first shelf.
    async fn waits(&self, age: Duration) {
        let mut member = self.member().await;
        member.born = member.born.checked_sub(age).unwrap();
        self.pool().await.snippets.waiting.lock().push_back(member);
    }

    /// A member of the first shelf, made now.
    async fn member(&self) -> Member {
        let order = Order {
            of: Use::Snippet,
            prepare: Use::Snippet.prepare(),
            lives: MEMBER_LIFE,
            memory_mib: None,
            capacity: None,
        };
        let launcher = &self.shared().await.unwrap().launcher;
        launcher.launch(&self.snapshot(), order).await.unwrap()
    }
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_filler_that_fails_tries_again_less_and_less_often_and_fills_when_it_can() {
    let engine = engine();
    let docker = provider(&engine, 1).await;
    full(&engine);
    let began = Instant::now();
    docker.fills().await;
    // Each of the two shelves: at once, and after a quarter, a half and a whole second.
    until("the fourth try", || engine.count("POST", "/containers/create") >= 8).await;
    assert!(began.elapsed() >= Duration::from_millis(1750), "{:?}", began.elapsed());
    roomy(&engine);
    let pool = docker.pool().await;
    until("a full pool", || {
        Use::ALL.iter().all(|of| pool.shelf(*of).waiting.lock().len() == 1)
    })
    .await;
    let made = engine.count("POST", "/containers/create");
    sleep(Duration::from_millis(600)).await;
    assert_eq!(
        engine.count("POST", "/containers/create"),
        made,
        "a full pool makes nothing"
    );
    // The next failure is a first one again.
    full(&engine);
    let began = Instant::now();
    assert!(pool.claim(Use::Snippet, &docker.snapshot()).await.is_some());
    until("a second try", || {
        engine.count("POST", "/containers/create") >= made + 2
    })
    .await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[test]
fn pauses_double_up_to_half_a_minute() {
    let mut pause = FIRST_PAUSE;
    let mut pauses = Vec::new();
    for _ in 0..10 {
        pauses.push(pause.as_millis());
        pause = longer(pause);
    }
    assert_eq!(
        pauses,
        [250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]
    );
}

#[tokio::test]
async fn a_member_past_its_label_is_never_handed_out() {
    let engine = engine();
    let docker = provider(&engine, 1).await;
    let pool = docker.pool().await;
    docker.waits(MEMBER_LIFE).await;
    assert!(pool.claim(Use::Snippet, &docker.snapshot()).await.is_none());
    // The same half a minute before its time is one.
    docker.waits(MEMBER_LIFE - Duration::from_secs(30)).await;
    assert!(pool.claim(Use::Snippet, &docker.snapshot()).await.is_some());
}

#[tokio::test]
async fn a_member_past_its_label_is_replaced_without_a_claim() {
    let engine = engine();
    let docker = provider(&engine, 1).await;
    let pool = docker.pool().await;
    docker.waits(MEMBER_LIFE).await;
    let removed = format!("/containers/{CONTAINER_ID}");
    assert_eq!(engine.count("DELETE", &removed), 0);
    docker.fills().await;
    until("a young member", || {
        let waiting = pool.snippets.waiting.lock();
        waiting.len() == 1 && waiting.iter().all(|member| member.born.elapsed() < MEMBER_LIFE)
    })
    .await;
    // More than once where it is still shown afterwards, as this engine does.
    until("the old one's removal", || engine.count("DELETE", &removed) > 0).await;
}

#[tokio::test]
async fn a_member_of_another_state_is_let_go_and_the_next_one_is_taken() {
    let engine = engine();
    let docker = provider(&engine, 1).await;
    let pool = docker.pool().await;
    let now = docker.snapshot();
    let moved = |change: fn(&mut Snapshot)| {
        let mut snapshot = Snapshot::clone(&now);
        change(&mut snapshot);
        Arc::new(snapshot)
    };
    for other in [
        moved(|snapshot| {
            let mut image = snapshot.javascript.as_ref().clone();
            image.content_id = "sha256:0".to_owned();
            snapshot.javascript = Arc::new(image);
        }),
        moved(|snapshot| snapshot.guest_uid += 1),
        moved(|snapshot| snapshot.limits.memory_mib += 1),
        moved(|snapshot| snapshot.platform = Some("linux/arm64".to_owned())),
    ] {
        let mut stale = docker.member().await;
        stale.snapshot = other;
        let fresh = docker.member().await;
        let born = fresh.born;
        pool.snippets.waiting.lock().extend([stale, fresh]);
        let taken = pool.claim(Use::Snippet, &now).await.unwrap();
        assert_eq!(taken.born, born);
        assert!(pool.claim(Use::Snippet, &now).await.is_none());
    }
}

#[tokio::test]
async fn an_empty_pool_and_one_of_nothing_give_nothing_at_once() {
    let engine = engine();
    for size in [0, 4] {
        let docker = provider(&engine, size).await;
        let began = Instant::now();
        assert!(
            docker
                .pool()
                .await
                .claim(Use::Project, &docker.snapshot())
                .await
                .is_none()
        );
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
    let docker = provider(&engine, 0).await;
    docker.fills().await;
    sleep(Duration::from_millis(300)).await;
    assert_eq!(engine.count("POST", "/containers/create"), 0);
}

#[tokio::test]
async fn what_was_emptied_is_not_filled_again() {
    let engine = engine();
    let docker = provider(&engine, 2).await;
    docker.fills().await;
    let pool = docker.pool().await;
    until("a full pool", || {
        Use::ALL.iter().all(|of| pool.shelf(*of).waiting.lock().len() == 2)
    })
    .await;
    pool.empty().await;
    let made = engine.count("POST", "/containers/create");
    assert!(pool.claim(Use::Snippet, &docker.snapshot()).await.is_none());
    sleep(Duration::from_millis(600)).await;
    assert_eq!(engine.count("POST", "/containers/create"), made);
}
