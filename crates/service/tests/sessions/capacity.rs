//! Slots, tokens and memory of sessions that run, rest and run again.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use plimsoll_core::{Code, Reason};
use plimsoll_service::limiter::{Limits, Memory};
use plimsoll_service::metrics::Readings;

use crate::support::*;

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
        failed_handshakes: None,
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

/// A run is counted as 256 MiB, and there is no budget.
const NO_BUDGET: Option<Memory> = Some(Memory {
    per_run: 256 << 20,
    budget: None,
});

#[tokio::test(start_paused = true)]
async fn what_a_callers_suspended_sessions_hold_takes_its_places_and_nobody_elses() {
    let limits = Limits {
        per_key_concurrent: 2,
        memory: NO_BUDGET,
        ..LIMITS
    };
    let house = House::with(IDLE, limits, &["python"]);
    house.script.held_bytes.store(256 << 20, SeqCst);
    let first = house.open("alice").await.unwrap().session_id;
    let second = house.open("alice").await.unwrap().session_id;
    house.cell("alice", &first, "1").await.unwrap();
    house.cell("alice", &second, "1").await.unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!((house.readings().suspended, house.limiter.in_flight()), (2, 0));
    let full = refusal(house.open("alice").await.unwrap_err());
    assert_eq!(
        (full.code(), full.reason()),
        (Code::ResourceExhausted, Reason::Capacity)
    );
    assert!(
        full.message().contains("suspended sessions hold") && full.message().contains("256 MiB"),
        "{full}"
    );
    house.open("bob").await.unwrap();
    // Its own memory is no obstacle to a session, and a closed one gives its place back.
    house.cell("alice", &first, "2").await.unwrap();
    house.cell("alice", &second, "2").await.unwrap();
    assert!(
        refusal(house.open("alice").await.unwrap_err())
            .message()
            .contains("2 runs in flight or sessions open")
    );
    house.close("alice", &second).await.unwrap();
    house.open("alice").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_daemon_whose_memory_is_held_by_suspended_sessions_says_so_and_not_that_it_is_busy() {
    let limits = Limits {
        max_concurrent: 2,
        memory: NO_BUDGET,
        ..LIMITS
    };
    let house = House::with(IDLE, limits, &["python"]);
    house.script.held_bytes.store(512 << 20, SeqCst);
    suspended(&house).await;
    let full = refusal(house.open("bob").await.unwrap_err());
    assert_eq!(
        (full.code(), full.reason()),
        (Code::ResourceExhausted, Reason::Capacity)
    );
    assert!(
        full.message().contains("suspended sessions") && !full.message().contains("in use"),
        "{full}"
    );
    assert!(!full.message().contains("512"), "it tells of others' use: {full}");
}

#[tokio::test(start_paused = true)]
async fn the_memory_of_a_session_that_makes_room_is_no_obstacle_to_its_successor() {
    let limits = Limits {
        max_concurrent: 1,
        memory: budget(1),
        ..LIMITS
    };
    let values = [IDLE[0], ("SANDBOX_MAX_SESSIONS_PER_OWNER", "1")];
    let house = House::with(&values, limits, &["python"]);
    let old = house.open_for("alice", "u1").await.unwrap().session_id;
    house.cell("alice", &old, "1").await.unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(house.readings().suspended, 1);
    // 100 MiB of the one run's 256 are held.
    assert_eq!(refused(house.open_for("bob", "u1").await), CAPACITY);
    house.open_for("alice", "u1").await.unwrap();
    assert_eq!((house.alive(), house.limiter.in_flight()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_suspended_session_that_ends_gives_its_memory_back() {
    for close in [true, false] {
        let limits = Limits {
            max_concurrent: 1,
            memory: budget(1),
            ..LIMITS
        };
        let house = House::with(IDLE, limits, &["python"]);
        let id = house
            .open_with("alice", |open| open.lifetime_ms = 60_000)
            .await
            .unwrap()
            .session_id;
        house.cell("alice", &id, "1").await.unwrap();
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert_eq!(refused(house.open("bob").await), CAPACITY);
        if close {
            house.close("alice", &id).await.unwrap();
        } else {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        house.open("bob").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_suspended_session_is_not_replaced_where_its_successor_gets_no_slot() {
    let limits = Limits {
        max_concurrent: 1,
        ..LIMITS
    };
    let values = [IDLE[0], ("SANDBOX_MAX_SESSIONS_PER_OWNER", "1")];
    let house = House::with(&values, limits, &["python"]);
    let old = house.open_for("alice", "u1").await.unwrap().session_id;
    house.cell("alice", &old, "1").await.unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    let other = house.open("bob").await.unwrap().session_id;
    assert_eq!(refused(house.open_for("alice", "u1").await), CAPACITY);
    assert_eq!((house.alive(), house.readings().suspended), (2, 1));
    house.close("bob", &other).await.unwrap();
    house.cell("alice", &old, "2").await.unwrap();
}
