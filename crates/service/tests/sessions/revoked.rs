//! A caller is revoked: its sessions are closed, what runs in them goes on to its answer, and everybody else's stay.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use plimsoll_core::*;

use crate::support::*;

fn only(callers: &[&str]) -> HashSet<Arc<str>> {
    callers.iter().map(|caller| Arc::from(*caller)).collect()
}

#[tokio::test]
async fn a_revoked_callers_sessions_are_closed_and_everybody_elses_go_on() {
    let house = House::new(&[]);
    let first = house.open("alice").await.unwrap().session_id;
    let second = house.open("alice").await.unwrap().session_id;
    let kept = house.open("bob").await.unwrap().session_id;
    house.cell("alice", &first, "1").await.unwrap();
    assert_eq!(house.keeper.retain(only(&["bob", "carol"])), 2);
    eventually("both are gone", || house.alive() == 1).await;
    eventually("their slots are free", || house.limiter.in_flight() == 1).await;
    assert_eq!(house.keeper.retain(only(&["bob"])), 0, "each is closed once");
    house.cell("bob", &kept, "1").await.unwrap();
    // Whoever comes back under the same id finds how it ended.
    for (id, calls) in [(first, 1), (second, 0)] {
        let closed = house.close("alice", &id).await.unwrap();
        assert_eq!((closed.ended, closed.calls), (SessionEnd::Closed, calls));
    }
    let told = house.told("session closed");
    assert_eq!(told.len(), 2);
    assert!(
        told.iter()
            .all(|record| record["caller"] == "alice" && record["end"] == "closed")
    );
}

#[tokio::test]
async fn a_call_that_runs_has_its_answer_and_one_that_waits_is_told_of_the_end() {
    let house = House::new(&[]);
    let id = house.open("alice").await.unwrap().session_id;
    let (ran, waited, ()) = tokio::join!(
        house.cell("alice", &id, "hold"),
        async {
            eventually("the call runs", || house.script.runs.load(SeqCst) == 1).await;
            house.cell("alice", &id, "2").await
        },
        async {
            eventually("the call runs", || house.script.runs.load(SeqCst) == 1).await;
            tokio::time::sleep(Duration::from_millis(30)).await;
            assert_eq!(house.keeper.retain(only(&[])), 1);
            tokio::time::sleep(Duration::from_millis(30)).await;
            assert_eq!(house.alive(), 1, "the call still runs");
            assert_eq!(
                refused(house.cell("alice", &id, "3").await),
                ended_by(SessionEnd::Closed)
            );
            house.script.release.notify_one();
        }
    );
    let answer = ran.unwrap();
    assert_eq!(answer.run.record.unwrap().sequence, 1);
    assert_eq!(answer.ended.unwrap().end, SessionEnd::Closed);
    assert_eq!(refused(waited), ended_by(SessionEnd::Closed));
    house.nothing_is_left().await;
}

#[tokio::test]
async fn an_open_that_is_under_way_is_answered_and_its_session_is_closed() {
    let house = House::new(&[]);
    house.script.next_opens.lock().unwrap().push_back(OpenAct::Wait);
    let (opened, ()) = tokio::join!(house.open("alice"), async {
        eventually("the open is under way", || house.script.opens.load(SeqCst) == 1).await;
        assert_eq!(house.keeper.retain(only(&["bob"])), 0);
        house.script.release.notify_one();
    });
    let id = opened.unwrap().session_id;
    assert_eq!(
        refused(house.cell("alice", &id, "1").await),
        ended_by(SessionEnd::Closed)
    );
    house.nothing_is_left().await;
    // Known again, it keeps what it opens.
    house.keeper.retain(only(&["alice"]));
    let id = house.open("alice").await.unwrap().session_id;
    house.cell("alice", &id, "1").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn sessions_that_are_suspended_or_about_to_be_are_closed_too() {
    let house = House::new(&[("SANDBOX_SESSION_IDLE", "10s")]);
    let [suspended, about_to_be] = house.suspended_and_about_to_be().await;
    assert_eq!(house.keeper.retain(only(&[])), 2);
    house.script.suspending.notify_one();
    house.nothing_is_left().await;
    for id in [suspended, about_to_be] {
        assert_eq!(house.close("alice", &id).await.unwrap().ended, SessionEnd::Closed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lifetime_that_passes_while_the_last_call_runs_cuts_it_all_the_same() {
    let house = House::new(&[]);
    let id = house
        .open_with("alice", |open| open.lifetime_ms = 60_000)
        .await
        .unwrap()
        .session_id;
    let (ran, ()) = tokio::join!(house.cell("alice", &id, "hang"), async {
        eventually("the call runs", || house.script.runs.load(SeqCst) == 1).await;
        assert_eq!(house.keeper.retain(only(&[])), 1);
    });
    let error = ran.unwrap_err();
    assert!(matches!(&error.error, RunError::MayHaveRun(fault) if fault.code() == Code::FailedPrecondition));
    assert_eq!(house.close("alice", &id).await.unwrap().ended, SessionEnd::Expired);
    house.nothing_is_left().await;
}
