use serde_json::json;

use super::*;
use crate::fake::{FakeEngine, IMAGE_ID, Reply, image, info, settings, version};
use crate::snapshot::FRESH_FOR;

const OTHER_ID: &str = "sha256:3333333333333333333333333333333333333333333333333333333333333333";

fn state(fake: &FakeEngine) -> EngineState {
    EngineState::new(Arc::new(fake.settings()))
}

fn probes(fake: &FakeEngine) -> usize {
    fake.count("GET", "/version")
}

/// Lets the result of a probe grow this old. Time is stopped only here: a stopped clock runs ahead of a socket.
async fn grow_old(by: Duration) {
    tokio::time::pause();
    tokio::time::advance(by).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_success_is_kept_for_five_seconds_and_refreshed_at_exactly_five() {
    let fake = FakeEngine::healthy();
    let state = state(&fake);
    assert!(state.admissible_now().is_none());
    let first = state.admissible().await.unwrap();
    // The clock moves while a test runs, so the age is set, not waited for.
    assert!(!first.is_stale(first.at + FRESH_FOR - Duration::from_nanos(1)));
    assert!(first.is_stale(first.at + FRESH_FOR));
    let asked = fake.asked().len();
    let again = state.admissible().await.unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    assert_eq!(fake.asked().len(), asked);
    grow_old(FRESH_FOR).await;
    let refreshed = state.admissible().await.unwrap();
    assert!(!Arc::ptr_eq(&first, &refreshed));
    assert!(Arc::ptr_eq(&first.cores, &refreshed.cores));
    assert_eq!(probes(&fake), 2);
}

#[tokio::test]
async fn a_failure_at_the_boundary_is_not_admissible_and_a_recovery_is() {
    let fake = FakeEngine::healthy();
    let state = state(&fake);
    state.admissible().await.unwrap();
    fake.on(
        "GET",
        "/info",
        [Reply::failure(500, "out of order"), Reply::Json(200, info())],
    );
    grow_old(FRESH_FOR).await;
    assert!(matches!(state.admissible().await, Err(StateError::Preflight(_))));
    assert!(state.admissible_now().is_none() && state.current().is_none());
    assert!(state.engine().is_some());
    state.admissible().await.unwrap();
    assert!(state.admissible_now().is_some());
}

#[tokio::test]
async fn the_endpoint_stays_when_the_context_is_switched() {
    let (first, second) = (FakeEngine::healthy(), FakeEngine::healthy());
    let folder = tempfile::tempdir().unwrap();
    let context = |name: &str, fake: &FakeEngine| {
        use sha2::Digest as _;
        use std::fmt::Write as _;
        let digest = sha2::Sha256::digest(name.as_bytes())
            .iter()
            .fold(String::new(), |mut text, byte| {
                write!(text, "{byte:02x}").unwrap();
                text
            });
        let meta = folder.path().join("contexts/meta").join(digest);
        fs_err::create_dir_all(&meta).unwrap();
        let host = format!("unix://{}", fake.socket().display());
        fs_err::write(
            meta.join("meta.json"),
            json!({ "Endpoints": { "docker": { "Host": host } } }).to_string(),
        )
        .unwrap();
    };
    context("one", &first);
    context("two", &second);
    let current = |name: &str| {
        fs_err::write(
            folder.path().join("config.json"),
            json!({ "currentContext": name }).to_string(),
        )
        .unwrap();
    };
    let state = EngineState::new(Arc::new(settings(&[(
        "DOCKER_CONFIG",
        folder.path().to_str().unwrap(),
    )])));
    // Nothing is pinned by a failure.
    current("absent");
    assert!(state.admissible().await.is_err());
    assert!(state.engine().is_none());
    current("one");
    state.admissible().await.unwrap();
    current("two");
    grow_old(FRESH_FOR).await;
    let snapshot = state.admissible().await.unwrap();
    assert_eq!(snapshot.endpoint.path(), first.socket());
    first.on("GET", "/info", [Reply::Hangup]);
    grow_old(FRESH_FOR).await;
    assert!(state.admissible().await.is_err());
    assert_eq!((probes(&first), probes(&second)), (3, 0));
}

#[tokio::test]
async fn many_callers_at_an_expiry_share_one_probe() {
    let fake = FakeEngine::healthy();
    let state = Arc::new(state(&fake));
    state.admissible().await.unwrap();
    let slow = Reply::After(Duration::from_millis(300), Box::new(Reply::Json(200, info())));
    fake.on("GET", "/info", [slow]);
    grow_old(FRESH_FOR).await;
    let callers: Vec<_> = (0..48)
        .map(|_| {
            let state = Arc::clone(&state);
            tokio::spawn(async move { state.admissible().await })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    assert_eq!(probes(&fake), 2);
}

#[tokio::test]
async fn a_stuck_probe_is_a_bounded_error_for_the_others_and_the_last_state_stays_meanwhile() {
    let fake = FakeEngine::healthy();
    let state = Arc::new(state(&fake));
    state.admissible().await.unwrap();
    fake.on("GET", "/info", [Reply::Silence]);
    grow_old(FRESH_FOR).await;
    let prober = {
        let state = Arc::clone(&state);
        tokio::spawn(async move { state.admissible().await })
    };
    while probes(&fake) < 2 {
        tokio::task::yield_now().await;
    }
    // The stuck probe needs no socket any more, so time may run ahead.
    tokio::time::pause();
    let began = Instant::now();
    assert_eq!(state.admissible().await.unwrap_err(), StateError::InProgress);
    assert!(began.elapsed() <= WAIT_FOR_OTHERS + LOOK_EVERY, "{:?}", began.elapsed());
    assert!(state.admissible_now().is_some());
    assert_eq!(prober.await.unwrap().unwrap_err(), StateError::Slow);
    assert!(state.admissible_now().is_none());
}

#[tokio::test]
async fn a_caller_that_leaves_does_not_end_the_probe() {
    let fake = FakeEngine::healthy();
    let state = Arc::new(state(&fake));
    let slow = Reply::After(Duration::from_millis(100), Box::new(Reply::Json(200, info())));
    fake.on("GET", "/info", [slow]);
    let left = timeout(Duration::from_millis(20), state.admissible()).await;
    assert!(left.is_err());
    state.admissible().await.unwrap();
    assert_eq!(probes(&fake), 1);
}

#[tokio::test]
async fn after_the_smoke_test_a_moved_tag_is_refused_and_the_tier_stays() {
    let fake = FakeEngine::healthy();
    let state = state(&fake);
    let snapshot = state.admissible().await.unwrap();
    assert_eq!(state.languages(), [""; 0]);
    state.proven(&snapshot, vec!["javascript".to_owned()]);
    assert_eq!(state.languages(), ["javascript"]);
    fake.on("GET", "/images/*", [Reply::Json(200, image(OTHER_ID))]);
    // Within the five seconds the verified content runs.
    assert_eq!(state.admissible().await.unwrap().javascript.content_id, IMAGE_ID);
    grow_old(FRESH_FOR).await;
    for _ in 0..2 {
        let error = state.admissible().await.unwrap_err();
        assert!(matches!(&error, StateError::Moved { now, proven, .. } if now == OTHER_ID && proven == IMAGE_ID));
    }
    assert!(state.admissible_now().is_none());
    assert_eq!(state.current().unwrap().tier(), snapshot.tier());
    fake.on("GET", "/images/*", [Reply::Json(200, image(IMAGE_ID))]);
    grow_old(FRESH_FOR).await;
    state.admissible().await.unwrap();
}

#[tokio::test]
async fn before_the_smoke_test_a_new_image_is_simply_the_image() {
    let fake = FakeEngine::healthy();
    let state = state(&fake);
    state.admissible().await.unwrap();
    fake.on("GET", "/images/*", [Reply::Json(200, image(OTHER_ID))]);
    fake.on("GET", "/version", [Reply::Json(200, version("1.41"))]);
    grow_old(FRESH_FOR).await;
    assert_eq!(state.admissible().await.unwrap().javascript.content_id, OTHER_ID);
}
