//! How sessions end: by themselves, by their caller, for a newer one, or because nobody ever named them.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use plimsoll_core::*;
use plimsoll_service::handler::Handler;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_session_that_expired_says_so_and_is_closed_with_its_count() {
    let house = House::new(&[]);
    let id = house
        .open_with("alice", |open| open.lifetime_ms = 60_000)
        .await
        .unwrap()
        .session_id;
    house.cell("alice", &id, "1").await.unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(
        refused(house.cell("alice", &id, "2").await),
        ended_by(SessionEnd::Expired)
    );
    let closed = house.close("alice", &id).await.unwrap();
    assert_eq!((closed.ended, closed.calls), (SessionEnd::Expired, 1));
    assert_eq!((house.alive(), house.limiter.in_flight()), (0, 0));
    tokio::time::sleep(Duration::from_secs(601)).await;
    assert_eq!(refused(house.close("alice", &id).await).0, Code::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_lifetime_that_passes_during_a_call_ends_it_unmarked() {
    let house = House::new(&[]);
    let id = house
        .open_with("alice", |open| open.lifetime_ms = 60_000)
        .await
        .unwrap()
        .session_id;
    let error = house.cell("alice", &id, "hang").await.unwrap_err();
    assert!(matches!(&error.error, RunError::MayHaveRun(fault) if fault.code() == Code::FailedPrecondition));
    assert_eq!(
        error.error.to_string(),
        "the session ended during the call (expired: its lifetime passed)"
    );
    assert_eq!(error.unanswered.unwrap().sequence, 1);
    assert_eq!(
        house.ran_and_failed(),
        (1, 0),
        "a session that is over is no failure of ours"
    );
    let closed = house.close("alice", &id).await.unwrap();
    assert_eq!((closed.ended, closed.calls), (SessionEnd::Expired, 1));
}

#[tokio::test]
async fn a_call_that_ends_its_session_carries_the_end_and_the_slot_stays_taken_until_the_sandbox_is_gone() {
    let house = House::new(&[]);
    house.script.close_waits.store(true, SeqCst);
    let id = house.open("alice").await.unwrap().session_id;
    let answer = house.cell("alice", &id, "disk").await.unwrap();
    assert_eq!(answer.ended.unwrap().end, SessionEnd::DiskExceeded);
    assert_eq!(
        refused(house.cell("alice", &id, "2").await),
        ended_by(SessionEnd::DiskExceeded)
    );
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!((house.limiter.in_flight(), house.readings().ending), (1, 1));
    house.script.closing.notify_one();
    let closed = house.close("alice", &id).await.unwrap();
    assert_eq!((closed.ended, closed.calls), (SessionEnd::DiskExceeded, 1));
    assert_eq!(house.limiter.in_flight(), 0);
}

#[tokio::test]
async fn a_close_that_outlives_its_deadline_is_unmarked_and_collected_later() {
    let house = House::new(&[]);
    house.script.close_waits.store(true, SeqCst);
    let id = house.open("alice").await.unwrap().session_id;
    house.cell("alice", &id, "1").await.unwrap();
    let late = house
        .corridor
        .close_session(within("alice", 50), closing(&id))
        .await
        .unwrap_err();
    assert!(
        matches!(&late, RunError::MayHaveRun(fault) if fault.code() == Code::DeadlineExceeded),
        "{late:?}"
    );
    house.script.closing.notify_one();
    let closed = house.close("alice", &id).await.unwrap();
    assert_eq!((closed.ended, closed.calls), (SessionEnd::Closed, 1));
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_would_not_go_is_tried_again_until_it_does() {
    let house = House::new(&[]);
    house.script.close_fails.store(true, SeqCst);
    let id = house.open("alice").await.unwrap().session_id;
    let failed = house.close("alice", &id).await.unwrap_err();
    assert!(matches!(failed, RunError::MayHaveRun(_)), "{failed:?}");
    assert_eq!((house.readings().ending, house.limiter.in_flight()), (1, 1));
    house.script.close_fails.store(false, SeqCst);
    assert_eq!(house.close("alice", &id).await.unwrap().ended, SessionEnd::Closed);
    assert_eq!((house.alive(), house.limiter.in_flight()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_session_nobody_named_is_closed_after_its_first_idle_time() {
    let house = House::new(&[("SANDBOX_SESSION_IDLE", "10s")]);
    let id = house.open("alice").await.unwrap().session_id;
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(house.alive(), 0);
    assert_eq!(
        refused(house.cell("alice", &id, "1").await),
        ended_by(SessionEnd::Unclaimed)
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_refused_for_lack_of_payload_claims_its_session() {
    let house = House::new(&[("SANDBOX_SESSION_IDLE", "10s")]);
    let id = house.open("alice").await.unwrap().session_id;
    let mut empty = cell(&id, "1");
    empty.run.payload = None;
    assert_eq!(
        refused(house.corridor.session_run(context("alice"), empty).await),
        (Code::InvalidArgument, Reason::Request, None)
    );
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!((house.alive(), house.readings().suspended), (1, 1));
}

#[tokio::test]
async fn at_the_owners_cap_the_least_recently_used_session_makes_room() {
    let house = House::new(&[("SANDBOX_MAX_SESSIONS_PER_OWNER", "2")]);
    let first = house.open_for("alice", "u1").await.unwrap().session_id;
    let second = house.open_for("alice", "u1").await.unwrap().session_id;
    let other_owner = house.open_for("alice", "u2").await.unwrap().session_id;
    let other_caller = house.open_for("bob", "u1").await.unwrap().session_id;
    house.cell("alice", &first, "1").await.unwrap();
    house.open_for("alice", "u1").await.unwrap();
    assert_eq!(
        refused(house.cell("alice", &second, "1").await),
        ended_by(SessionEnd::Replaced)
    );
    assert_eq!(house.close("alice", &second).await.unwrap().ended, SessionEnd::Replaced);
    house.cell("alice", &first, "2").await.unwrap();
    house.cell("alice", &other_owner, "1").await.unwrap();
    house.cell("bob", &other_caller, "1").await.unwrap();
    assert_eq!((house.alive(), house.limiter.in_flight()), (4, 4));
    assert!(house.logged().contains("\"msg\":\"session replaced\""));
}

#[tokio::test]
async fn an_owner_whose_only_session_is_busy_keeps_it() {
    let house = House::new(&[("SANDBOX_MAX_SESSIONS_PER_OWNER", "1")]);
    let id = house.open_for("alice", "u1").await.unwrap().session_id;
    let (held, ()) = tokio::join!(house.cell("alice", &id, "hold"), async {
        eventually("the call runs", || house.script.runs.load(SeqCst) == 1).await;
        assert_eq!(refused(house.open_for("alice", "u1").await), CAPACITY);
        house.script.release.notify_one();
    });
    held.unwrap();
    assert_eq!(house.script.opens.load(SeqCst), 1);
}

#[tokio::test]
async fn a_session_that_is_only_being_swept_makes_room_once_it_is() {
    let house = House::new(&[("SANDBOX_MAX_SESSIONS_PER_OWNER", "1")]);
    house.script.sweep_waits.store(true, SeqCst);
    let old = house.open_for("alice", "u1").await.unwrap().session_id;
    house.cell("alice", &old, "1").await.unwrap();
    // Whoever does not wait that long replaces nothing.
    let request = OpenRequest {
        protocol: 4,
        owner: "u1".into(),
        ..OpenRequest::default()
    };
    let late = house.corridor.open_session(within("alice", 50), request).await;
    assert_eq!(refused(late), (Code::DeadlineExceeded, Reason::Capacity, None));
    let swept = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(
            (house.script.opens.load(SeqCst), house.script.closes.load(SeqCst)),
            (1, 0)
        );
        house.script.sweeping.notify_one();
    };
    let (opened, ()) = tokio::join!(house.open_for("alice", "u1"), swept);
    opened.unwrap();
    assert_eq!(
        refused(house.cell("alice", &old, "2").await),
        ended_by(SessionEnd::Replaced)
    );
    assert_eq!((house.alive(), house.limiter.in_flight()), (1, 1));
}

#[tokio::test]
async fn an_open_that_waits_for_a_sweep_is_refused_when_the_session_is_used_again_or_the_daemon_stops() {
    for stops in [false, true] {
        let house = House::new(&[("SANDBOX_MAX_SESSIONS_PER_OWNER", "1")]);
        house.script.sweep_waits.store(true, SeqCst);
        let id = house.open_for("alice", "u1").await.unwrap().session_id;
        house.cell("alice", &id, "1").await.unwrap();
        let meanwhile = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if stops {
                house.keeper.drain(Duration::from_secs(5)).await;
            } else {
                house.cell("alice", &id, "hold").await.unwrap();
            }
        };
        let refused_first = async {
            let answer = tokio::join!(house.open_for("alice", "u1"), async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                if !stops {
                    house.script.sweeping.notify_one();
                }
            });
            assert_eq!(refused(answer.0), CAPACITY);
            // Only then does the sweep, or the call, come to its end.
            house.script.sweep_waits.store(false, SeqCst);
            house.script.sweeping.notify_one();
            house.script.release.notify_one();
        };
        tokio::join!(meanwhile, refused_first);
        assert_eq!(house.script.opens.load(SeqCst), 1);
    }
}

#[tokio::test]
async fn a_session_is_not_replaced_for_a_caller_that_has_gone_or_has_spent_its_rate() {
    let limits = plimsoll_service::limiter::Limits {
        rate_per_min: 1,
        rate_burst: 1,
        ..LIMITS
    };
    let house = House::with(&[("SANDBOX_MAX_SESSIONS_PER_OWNER", "1")], limits, &["python"]);
    house.open_for("alice", "u1").await.unwrap();
    assert_eq!(refused(house.open_for("alice", "u1").await), CAPACITY);
    let gone = context("alice");
    gone.cancelled.cancel();
    let request = OpenRequest {
        protocol: 4,
        owner: "u1".into(),
        ..OpenRequest::default()
    };
    let answer = house.corridor.open_session(gone, request).await;
    assert_eq!(refused(answer), (Code::Canceled, Reason::Capacity, None));
    assert_eq!((house.alive(), house.readings().running), (1, 1));
}

#[tokio::test]
async fn a_session_that_would_not_close_stays_open_and_the_open_is_refused() {
    let house = House::new(&[("SANDBOX_MAX_SESSIONS_PER_OWNER", "1")]);
    let id = house.open_for("alice", "u1").await.unwrap().session_id;
    house.script.close_fails.store(true, SeqCst);
    assert_eq!(refused(house.open_for("alice", "u1").await), CAPACITY);
    house.script.close_fails.store(false, SeqCst);
    assert_eq!((house.readings().running, house.limiter.in_flight()), (1, 1));
    house.cell("alice", &id, "1").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_session_that_expired_is_not_replaced() {
    let house = House::new(&[("SANDBOX_MAX_SESSIONS_PER_OWNER", "1")]);
    let old = house
        .open_with("alice", |open| {
            open.owner = "u1".into();
            open.lifetime_ms = 5000;
        })
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    house.open_for("alice", "u1").await.unwrap();
    assert_eq!(
        house.close("alice", &old.session_id).await.unwrap().ended,
        SessionEnd::Expired
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_comes_as_its_session_falls_due_runs_or_is_told_of_the_end_and_never_both() {
    // Around the moment at which the session is closed as unclaimed, to the millisecond: a call of that moment is in time.
    for late_ms in -20_i64..20 {
        let house = House::new(&[("SANDBOX_SESSION_IDLE", "10s")]);
        let id = house.open("alice").await.unwrap().session_id;
        tokio::time::sleep(Duration::from_millis(u64::try_from(10_000 + late_ms).unwrap())).await;
        let answer = house.cell("alice", &id, "1").await;
        if late_ms <= 0 {
            assert_eq!((answer.unwrap().ended, house.alive()), (None, 1), "{late_ms}");
            house.cell("alice", &id, "2").await.unwrap();
        } else {
            assert_eq!(refused(answer), ended_by(SessionEnd::Unclaimed), "{late_ms}");
            assert_eq!(house.script.runs.load(SeqCst), 0, "{late_ms}");
            house.nothing_is_left().await;
        }
    }
}
