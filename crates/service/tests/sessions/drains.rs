//! The daemon stops: every session ends, whatever it is doing, and nothing stays behind.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use plimsoll_core::*;
use plimsoll_record::{Chain, Fingerprint};

use crate::support::*;

const BUDGET: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_drain_ends_every_session_and_takes_no_more() {
    let house = House::new(&[]);
    let opened = house.open("alice").await.unwrap();
    assert_eq!(house.keeper.drain(Duration::from_secs(5)).await, 0);
    assert_eq!((house.alive(), house.limiter.in_flight()), (0, 0));
    assert_eq!(refused(house.open("alice").await), CAPACITY);
    let closed = house.close("alice", &opened.session_id).await.unwrap();
    assert_eq!(closed.ended, SessionEnd::Shutdown);
}

#[tokio::test]
async fn a_drain_says_how_many_would_not_go() {
    let house = House::new(&[]);
    house.open("alice").await.unwrap();
    house.script.close_waits.store(true, SeqCst);
    assert_eq!(house.keeper.drain(Duration::from_millis(50)).await, 1);
}

#[tokio::test]
async fn a_drain_cuts_the_call_that_runs_turns_the_waiting_one_away_and_leaves_a_chain() {
    let house = House::new(&[]);
    let opened = house.open("alice").await.unwrap();
    let id = &opened.session_id;
    let mut chain = Chain::new(Fingerprint::of(id.reveal()));
    chain
        .follow(&house.cell("alice", id, "1").await.unwrap().run.record.unwrap())
        .unwrap();
    let (cut, waiting, left) = tokio::join!(
        house.cell("alice", id, "hang"),
        async {
            eventually("the call runs", || house.script.runs.load(SeqCst) == 2).await;
            house.cell("alice", id, "3").await
        },
        async {
            eventually("the call runs", || house.script.runs.load(SeqCst) == 2).await;
            tokio::time::sleep(Duration::from_millis(30)).await;
            house.keeper.drain(BUDGET).await
        }
    );
    let cut = cut.unwrap_err();
    assert!(matches!(&cut.error, RunError::MayHaveRun(fault) if fault.code() == Code::FailedPrecondition));
    chain.follow(&cut.unanswered.unwrap()).unwrap();
    assert_eq!(refused(waiting), ended_by(SessionEnd::Shutdown));
    assert_eq!(left, 0);
    let closed = house.close("alice", id).await.unwrap();
    assert_eq!((closed.ended, closed.calls), (SessionEnd::Shutdown, 2));
    assert_eq!(closed.last_record_sha256, chain.last_sha256());
    house.nothing_is_left().await;
}

#[tokio::test]
async fn a_drain_waits_for_an_open_that_is_under_way_and_its_caller_is_refused() {
    let house = House::new(&[]);
    house.script.next_opens.lock().unwrap().push_back(OpenAct::Wait);
    let (answer, left, ()) = tokio::join!(
        house.open("alice"),
        async {
            eventually("the open is under way", || house.script.opens.load(SeqCst) == 1).await;
            house.keeper.drain(BUDGET).await
        },
        async {
            eventually("the open is under way", || house.script.opens.load(SeqCst) == 1).await;
            tokio::time::sleep(Duration::from_millis(30)).await;
            assert_eq!(house.readings().opening, 1);
            house.script.release.notify_one();
        }
    );
    assert_eq!(refused(answer), CAPACITY);
    assert_eq!(left, 0);
    house.nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_the_sandbox_of_an_open_that_came_too_late() {
    let house = House::new(&[]);
    house.script.next_opens.lock().unwrap().push_back(OpenAct::Wait);
    house.script.close_waits.store(true, SeqCst);
    let (answer, left) = tokio::join!(house.open("alice"), async {
        eventually("the open is under way", || house.script.opens.load(SeqCst) == 1).await;
        let (left, ()) = tokio::join!(house.keeper.drain(Duration::from_secs(200)), async {
            house.script.release.notify_one();
            tokio::time::sleep(Duration::from_secs(150)).await;
            assert_eq!((house.readings().ending, house.limiter.in_flight()), (1, 1));
            house.script.closing.notify_one();
        });
        left
    });
    assert_eq!(refused(answer), CAPACITY);
    assert_eq!(left, 0);
    house.nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_sessions_that_are_suspended_or_about_to_be() {
    let house = House::new(&[("SANDBOX_SESSION_IDLE", "10s")]);
    let [suspended, about_to_be] = house.suspended_and_about_to_be().await;
    let (left, ()) = tokio::join!(house.keeper.drain(BUDGET), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        house.script.suspending.notify_one();
    });
    assert_eq!(left, 0);
    for id in [suspended, about_to_be] {
        assert_eq!(house.close("alice", &id).await.unwrap().ended, SessionEnd::Shutdown);
    }
    house.nothing_is_left().await;
}
