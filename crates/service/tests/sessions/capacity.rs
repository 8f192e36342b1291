//! Slots, tokens and memory of sessions that run, rest and run again.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use plimsoll_core::{Code, Reason};
use plimsoll_service::limiter::Limits;
use plimsoll_service::metrics::Readings;

use crate::support::*;

const CAPACITY: (Code, Reason, Option<plimsoll_core::SessionEnd>) = (Code::ResourceExhausted, Reason::Capacity, None);
const IDLE: &[(&str, &str)] = &[("SANDBOX_SESSION_IDLE", "10s")];

/// A session of alice's that has been idle for long enough.
async fn suspended(house: &House) -> plimsoll_core::SessionId {
    let id = house.open("alice").await.unwrap().session_id;
    house.cell("alice", &id, "1").await.unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!((house.readings().suspended, house.script.suspends.load(SeqCst)), (1, 1));
    id
}

#[tokio::test(start_paused = true)]
async fn a_suspended_session_that_holds_its_memory_keeps_its_slot() {
    let house = House::new(IDLE);
    house.script.holds_memory.store(true, SeqCst);
    let id = suspended(&house).await;
    assert_eq!(house.limiter.in_flight(), 1);
    house.cell("alice", &id, "2").await.unwrap();
    assert_eq!((house.limiter.in_flight(), house.script.resumes.load(SeqCst)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn one_that_frees_it_gives_the_slot_back_and_is_charged_what_was_measured() {
    let limits = Limits {
        max_concurrent: 2,
        memory: budget(2),
        ..LIMITS
    };
    let house = House::with(IDLE, limits, &["python"]);
    let id = suspended(&house).await;
    assert_eq!(house.limiter.in_flight(), 0);
    // 100 of 512 MiB are charged: one run of 256 MiB fits beside them, and not a second one.
    house.open("bob").await.unwrap();
    assert_eq!(refused(house.open("bob").await), CAPACITY);
    // Its own memory is no obstacle to the session itself.
    house.cell("alice", &id, "2").await.unwrap();
    assert_eq!(house.limiter.in_flight(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_refused_for_its_rate_gives_the_slot_back_at_once_and_the_session_stays_suspended() {
    let limits = Limits {
        rate_per_min: 2,
        rate_burst: 2,
        ..LIMITS
    };
    let house = House::with(IDLE, limits, &["python"]);
    let id = suspended(&house).await;
    assert_eq!(refused(house.cell("alice", &id, "2").await), CAPACITY);
    assert_eq!((house.limiter.in_flight(), house.readings().suspended), (0, 1));
    assert_eq!(house.script.resumes.load(SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_session_needs_a_slot_to_run_again() {
    let limits = Limits {
        max_concurrent: 1,
        ..LIMITS
    };
    let house = House::with(IDLE, limits, &["python"]);
    let id = suspended(&house).await;
    let other = house.open("bob").await.unwrap().session_id;
    assert_eq!(refused(house.cell("alice", &id, "2").await), CAPACITY);
    house.close("bob", &other).await.unwrap();
    house.cell("alice", &id, "2").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_metrics_count_sessions_by_state_and_their_calls_as_runs() {
    let house = House::new(IDLE);
    suspended(&house).await;
    house.open("bob").await.unwrap();
    let page = house.metrics.render(&Readings {
        in_flight: house.limiter.in_flight(),
        proven: plimsoll_core::Isolation::None,
        current: plimsoll_core::Isolation::None,
        log_write_errors: 0,
        sessions: Some(house.readings()),
    });
    for line in [
        "plimsoll_runs_total 1",
        "plimsoll_sessions{state=\"running\"} 1",
        "plimsoll_sessions{state=\"suspended\"} 1",
        "plimsoll_sessions{state=\"ending\"} 0",
    ] {
        assert!(page.lines().any(|one| one == line), "{line} is not in {page}");
    }
}
