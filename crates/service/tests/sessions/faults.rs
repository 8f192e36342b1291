//! What breaks: the sandbox between calls and during one, the sweep, suspension, and a caller's crowd.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use plimsoll_core::*;
use plimsoll_record::{Chain, Fingerprint};
use plimsoll_service::handler::Handler;

use crate::support::*;

#[tokio::test]
async fn a_sandbox_that_ends_between_calls_is_told_to_the_next_and_leaves_nothing() {
    let house = House::new(&[]);
    let id = house.open("alice").await.unwrap().session_id;
    house.cell("alice", &id, "1").await.unwrap();
    house.script.lost.cancel();
    house.nothing_is_left().await;
    assert_eq!(
        refused(house.cell("alice", &id, "2").await),
        ended_by(SessionEnd::MainProcessEnded)
    );
    let closed = house.close("alice", &id).await.unwrap();
    assert_eq!((closed.ended, closed.calls), (SessionEnd::MainProcessEnded, 1));
}

#[tokio::test]
async fn a_sandbox_that_ends_during_a_call_ends_it_unmarked_with_its_record() {
    let house = House::new(&[]);
    let opened = house.open("alice").await.unwrap();
    let (error, ()) = tokio::join!(house.cell("alice", &opened.session_id, "hang"), async {
        eventually("the call runs", || house.script.runs.load(SeqCst) == 1).await;
        house.script.lost.cancel();
    });
    let error = error.unwrap_err();
    assert!(matches!(&error.error, RunError::MayHaveRun(fault) if fault.code() == Code::FailedPrecondition));
    assert!(
        error.error.to_string().contains("(main_process_ended: "),
        "{}",
        error.error
    );
    assert_eq!(
        house.ran_and_failed(),
        (1, 1),
        "a sandbox that was lost is a failure of ours"
    );
    let mut chain = Chain::new(Fingerprint::of(opened.session_id.reveal()));
    chain.follow(&error.unanswered.unwrap()).unwrap();
    house.nothing_is_left().await;
    let closed = house.close("alice", &opened.session_id).await.unwrap();
    assert_eq!(
        (closed.calls, closed.last_record_sha256.as_str()),
        (1, chain.last_sha256())
    );
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_shows_nothing_ends_the_session_and_the_answer_stands() {
    for panics in [false, true] {
        let house = House::new(&[]);
        house.script.sweep_hangs.store(!panics, SeqCst);
        house.script.sweep_panics.store(panics, SeqCst);
        let id = house.open("alice").await.unwrap().session_id;
        let answer = house.cell("alice", &id, "1").await.unwrap();
        assert_eq!(answer.ended, None);
        assert_eq!(
            refused(house.cell("alice", &id, "2").await),
            ended_by(SessionEnd::BoundaryFailed)
        );
        assert_eq!(house.close("alice", &id).await.unwrap().calls, 1);
        house.nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_cannot_be_stopped_ends_its_session() {
    let house = House::new(&[]);
    let id = house.open("alice").await.unwrap().session_id;
    let context = context("alice");
    let gone = context.cancelled.clone();
    let (answer, ()) = tokio::join!(house.corridor.session_run(context, cell(&id, "stuck")), async {
        eventually("the call runs", || house.script.runs.load(SeqCst) == 1).await;
        gone.cancel();
    });
    assert_eq!(answer.unwrap_err().unanswered.unwrap().unanswered, "canceled");
    assert_eq!(
        refused(house.cell("alice", &id, "2").await),
        ended_by(SessionEnd::BoundaryFailed)
    );
    house.nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_cannot_be_resumed_ends_and_its_call_ran_nothing() {
    let house = House::new(&[("SANDBOX_SESSION_IDLE", "10s")]);
    let id = house.open("alice").await.unwrap().session_id;
    house.cell("alice", &id, "1").await.unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    house.script.resume_fails.store(true, SeqCst);
    assert_eq!(
        refused(house.cell("alice", &id, "2").await),
        ended_by(SessionEnd::BoundaryFailed)
    );
    assert_eq!(house.close("alice", &id).await.unwrap().calls, 1);
    house.nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_cannot_be_suspended_goes_on_and_is_tried_again() {
    let house = House::new(&[("SANDBOX_SESSION_IDLE", "10s")]);
    house.script.suspend_fails.store(true, SeqCst);
    let id = house.open("alice").await.unwrap().session_id;
    house.cell("alice", &id, "1").await.unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!((house.script.suspends.load(SeqCst), house.readings().running), (1, 1));
    house.cell("alice", &id, "2").await.unwrap();
    house.script.suspend_fails.store(false, SeqCst);
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!((house.script.suspends.load(SeqCst), house.readings().suspended), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_session_of_which_nobody_knows_whether_it_is_suspended_ends() {
    for panics in [false, true] {
        let house = House::new(&[("SANDBOX_SESSION_IDLE", "10s")]);
        house.script.suspend_panics.store(panics, SeqCst);
        house.script.suspend_waits.store(!panics, SeqCst);
        let id = house.open("alice").await.unwrap().session_id;
        house.cell("alice", &id, "1").await.unwrap();
        tokio::time::sleep(Duration::from_secs(if panics { 11 } else { 101 })).await;
        assert_eq!(
            refused(house.cell("alice", &id, "2").await),
            ended_by(SessionEnd::BoundaryFailed)
        );
        house.nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_takes_its_time_is_never_undone_nor_begun_twice() {
    let house = House::new(&[("SANDBOX_SESSION_IDLE", "10s")]);
    let id = house.open("alice").await.unwrap().session_id;
    house.script.close_waits.store(true, SeqCst);
    tokio::time::sleep(Duration::from_secs(400)).await;
    assert_eq!(
        refused(house.cell("alice", &id, "1").await),
        ended_by(SessionEnd::Unclaimed)
    );
    assert_eq!((house.script.closes.load(SeqCst), house.readings().ending), (1, 1));
    house.script.closing.notify_one();
    house.nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn an_unclaimed_session_that_would_not_go_can_still_be_named() {
    let house = House::new(&[("SANDBOX_SESSION_IDLE", "10s")]);
    let id = house.open("alice").await.unwrap().session_id;
    house.script.close_fails.store(true, SeqCst);
    tokio::time::sleep(Duration::from_secs(11)).await;
    house.script.close_fails.store(false, SeqCst);
    assert_eq!(house.readings().running, 1);
    house.cell("alice", &id, "1").await.unwrap();
    assert_eq!(house.close("alice", &id).await.unwrap().ended, SessionEnd::Closed);
}

#[tokio::test]
async fn a_close_waits_for_the_call_that_runs_and_counts_it() {
    let house = House::new(&[]);
    let id = house.open("alice").await.unwrap().session_id;
    let (answer, closed, ()) = tokio::join!(
        house.cell("alice", &id, "hold"),
        async {
            eventually("the call runs", || house.script.runs.load(SeqCst) == 1).await;
            house.close("alice", &id).await
        },
        async {
            eventually("the call runs", || house.script.runs.load(SeqCst) == 1).await;
            tokio::time::sleep(Duration::from_millis(30)).await;
            assert_eq!(house.alive(), 1);
            house.script.release.notify_one();
        }
    );
    answer.unwrap();
    assert_eq!((closed.unwrap().calls, house.alive()), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_hundred_opens_at_once_as_many_succeed_as_there_are_places() {
    let limits = plimsoll_service::limiter::Limits {
        max_concurrent: 100,
        ..LIMITS
    };
    let house = std::sync::Arc::new(House::with(&[("SANDBOX_MAX_SESSIONS", "7")], limits, &["python"]));
    let opens = (0..100).map(|_| {
        let house = std::sync::Arc::clone(&house);
        tokio::spawn(async move { house.open("alice").await })
    });
    let mut opened = Vec::new();
    for open in opens.collect::<Vec<_>>() {
        match open.await.unwrap() {
            Ok(session) => opened.push(session.session_id),
            Err(error) => assert_eq!(refusal(error).reason(), Reason::Capacity),
        }
    }
    assert_eq!((opened.len(), house.script.opens.load(SeqCst)), (7, 7));
    for id in &opened {
        house.close("alice", id).await.unwrap();
    }
    house.nothing_is_left().await;
}

#[tokio::test]
async fn a_thousand_calls_leave_what_one_leaves() {
    let house = House::new(&[]);
    let opened = house.open("alice").await.unwrap();
    let mut chain = Chain::new(Fingerprint::of(opened.session_id.reveal()));
    for _ in 0..1000 {
        let answer = house.cell("alice", &opened.session_id, "1").await.unwrap();
        chain.follow(&answer.run.record.unwrap()).unwrap();
    }
    assert_eq!(house.limiter.in_flight(), 1);
    let closed = house.close("alice", &opened.session_id).await.unwrap();
    assert_eq!(
        (closed.calls, closed.last_record_sha256.as_str()),
        (1000, chain.last_sha256())
    );
    house.nothing_is_left().await;
}
