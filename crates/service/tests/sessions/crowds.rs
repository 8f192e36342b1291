//! Many at once, and callers that vanish.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Waker};
use std::time::Duration;

use plimsoll_core::*;
use plimsoll_record::{Chain, Fingerprint};
use plimsoll_service::handler::Handler;
use plimsoll_service::limiter::Limits;

use crate::support::*;

const ROOMY: Limits = Limits {
    max_concurrent: 100,
    ..LIMITS
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_hundred_opens_of_one_owner_none_leaks_and_no_cap_is_passed() {
    let values = [("SANDBOX_MAX_SESSIONS", "50"), ("SANDBOX_MAX_SESSIONS_PER_OWNER", "3")];
    let house = Arc::new(House::with(&values, ROOMY, &["python"]));
    let opens = (0..100).map(|_| {
        let house = Arc::clone(&house);
        tokio::spawn(async move {
            let opened = house.open_for("alice", "u1").await;
            assert!(house.alive() <= 3, "{} sandboxes live", house.alive());
            opened
        })
    });
    let mut opened = Vec::new();
    for open in opens.collect::<Vec<_>>() {
        match open.await.unwrap() {
            Ok(session) => opened.push(session.session_id),
            Err(error) => assert_eq!(refusal(error).reason(), Reason::Capacity),
        }
    }
    let open = house.readings();
    assert_eq!((open.opening, open.running), (0, house.alive().into()));
    assert!((1..=3).contains(&house.alive()), "{}", house.alive());
    let mut ends = Vec::new();
    for id in &opened {
        ends.push(house.close("alice", id).await.unwrap().ended);
    }
    let closed = ends.iter().filter(|end| **end == SessionEnd::Closed).count() as u64;
    assert_eq!(closed, open.running);
    assert!(
        ends.iter()
            .all(|end| matches!(end, SessionEnd::Closed | SessionEnd::Replaced)),
        "{ends:?}"
    );
    house.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_hundred_opens_whose_callers_vanish_nothing_is_left() {
    let values = [("SANDBOX_MAX_SESSIONS", "100")];
    let house = Arc::new(House::with(&values, ROOMY, &["python"]));
    for round in 0..100 {
        let waits = round % 2 == 0;
        if waits {
            house.script.next_opens.lock().unwrap().push_back(OpenAct::Wait);
        }
        let begun = house.script.opens.load(SeqCst);
        let open = tokio::spawn({
            let house = Arc::clone(&house);
            async move { house.open("alice").await.map(drop) }
        });
        if waits {
            eventually("the open is under way", || house.script.opens.load(SeqCst) > begun).await;
        }
        open.abort();
        if let Ok(answer) = open.await {
            assert_eq!(answer, Ok(()), "an open that was quicker succeeded");
        }
    }
    eventually("no open is under way and nothing is removed", || {
        let now = house.readings();
        (now.opening, now.ending) == (0, 0)
    })
    .await;
    // Those that were answered before their callers vanished are the only ones there.
    let answered = house.readings().running;
    assert_eq!(u64::from(house.alive()), answered);
    assert_eq!(house.keeper.drain(Duration::from_secs(5)).await, 0);
    house.nothing_is_left().await;
}

#[tokio::test]
async fn a_session_whose_caller_went_before_it_had_the_id_gives_its_place_back_at_once() {
    let house = House::with(&[("SANDBOX_MAX_SESSIONS", "1")], LIMITS, &["python"]);
    let mut open = Box::pin(house.open("alice"));
    // Asked once, and never again: the answer is on its way when the caller goes.
    assert!(open.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    eventually("the session is open", || house.readings().running == 1).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(open);
    house.nothing_is_left().await;
    assert_eq!(house.told("session closed")[0]["end"], "unclaimed");
    house.open("bob").await.unwrap();
}

#[tokio::test]
async fn a_stranger_that_names_a_session_neither_claims_nor_disturbs_it() {
    let house = House::new(&[]);
    let id = house.open("alice").await.unwrap().session_id;
    let not_found = (Code::NotFound, Reason::Request, Some(SessionEnd::NotFound));
    let (first, second, ()) = tokio::join!(
        house.cell("alice", &id, "hold"),
        async {
            eventually("the call runs", || house.script.runs.load(SeqCst) == 1).await;
            for _ in 0..10 {
                assert_eq!(refused(house.cell("bob", &id, "1").await), not_found);
                assert_eq!(refused(house.close("bob", &id).await), not_found);
            }
            house.cell("alice", &id, "2").await
        },
        async {
            eventually("the call runs", || house.script.runs.load(SeqCst) == 1).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            house.script.release.notify_one();
        }
    );
    assert_eq!(first.unwrap().run.record.unwrap().sequence, 1);
    assert_eq!(second.unwrap().run.record.unwrap().sequence, 2);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_only_a_stranger_named_is_unclaimed() {
    let house = House::new(&[("SANDBOX_SESSION_IDLE", "10s")]);
    let id = house.open("alice").await.unwrap().session_id;
    tokio::time::sleep(Duration::from_secs(5)).await;
    refused(house.cell("bob", &id, "1").await);
    refused(house.close("bob", &id).await);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(
        refused(house.cell("alice", &id, "1").await),
        ended_by(SessionEnd::Unclaimed)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_callers_that_share_the_name_of_an_owner_never_meet() {
    let values = [("SANDBOX_MAX_SESSIONS", "50"), ("SANDBOX_MAX_SESSIONS_PER_OWNER", "1")];
    let house = Arc::new(House::with(&values, ROOMY, &["python"]));
    let kept = house.open_for("alice", "u1").await.unwrap().session_id;
    house.cell("alice", &kept, "1").await.unwrap();
    for _ in 0..20 {
        house.open_for("bob", "u1").await.unwrap();
        house.open_for("", "u1").await.unwrap();
    }
    assert_eq!(
        house
            .cell("alice", &kept, "2")
            .await
            .unwrap()
            .run
            .record
            .unwrap()
            .sequence,
        2
    );
    assert_eq!(house.alive(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_hundred_calls_at_once_one_runs_one_waits_and_the_chain_has_both() {
    let house = Arc::new(House::with(&[], ROOMY, &["python"]));
    let opened = house.open("alice").await.unwrap();
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let (house, id) = (Arc::clone(&house), opened.session_id.clone());
            tokio::spawn(async move { house.cell("alice", &id, "hold").await })
        })
        .collect();
    eventually("all but two were turned away", || {
        calls.iter().filter(|call| call.is_finished()).count() == 98
    })
    .await;
    house.script.release.notify_one();
    eventually("the other one runs", || house.script.runs.load(SeqCst) == 2).await;
    house.script.release.notify_one();
    let mut records = Vec::new();
    for call in calls {
        match call.await.unwrap() {
            Ok(answer) => records.push(answer.run.record.unwrap()),
            Err(error) => assert_eq!(refused::<()>(Err(error)), CAPACITY),
        }
    }
    records.sort_by_key(|record| record.sequence);
    let mut chain = Chain::new(Fingerprint::of(opened.session_id.reveal()));
    for record in &records {
        chain.follow(record).unwrap();
    }
    let closed = house.close("alice", &opened.session_id).await.unwrap();
    assert_eq!(
        (closed.calls, closed.last_record_sha256.as_str()),
        (2, chain.last_sha256())
    );
    house.nothing_is_left().await;
}

#[tokio::test]
async fn a_waiting_caller_that_vanishes_leaves_its_place_to_the_next() {
    let house = Arc::new(House::new(&[]));
    let id = house.open("alice").await.unwrap().session_id;
    let spawn = |code: &'static str| {
        let (house, id) = (Arc::clone(&house), id.clone());
        tokio::spawn(async move { house.cell("alice", &id, code).await })
    };
    let first = spawn("hold");
    eventually("the call runs", || house.script.runs.load(SeqCst) == 1).await;
    let second = spawn("2");
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(refused(house.cell("alice", &id, "3").await), CAPACITY);
    second.abort();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let third = spawn("4");
    tokio::time::sleep(Duration::from_millis(20)).await;
    house.script.release.notify_one();
    assert_eq!(first.await.unwrap().unwrap().run.record.unwrap().sequence, 1);
    assert_eq!(third.await.unwrap().unwrap().run.record.unwrap().sequence, 2);
}

#[tokio::test]
async fn a_caller_that_vanishes_while_it_waits_to_close_closes_nothing() {
    let house = House::new(&[]);
    let id = house.open("alice").await.unwrap().session_id;
    let late = async {
        eventually("the call runs", || house.script.runs.load(SeqCst) == 1).await;
        let late = house.corridor.close_session(within("alice", 50), closing(&id)).await;
        house.script.release.notify_one();
        late
    };
    let (first, late) = tokio::join!(house.cell("alice", &id, "hold"), late);
    assert_eq!(refused(late), (Code::DeadlineExceeded, Reason::Capacity, None));
    assert_eq!(first.unwrap().run.record.unwrap().sequence, 1);
    assert_eq!(
        house
            .cell("alice", &id, "2")
            .await
            .unwrap()
            .run
            .record
            .unwrap()
            .sequence,
        2
    );
    assert_eq!(house.close("alice", &id).await.unwrap().calls, 2);
}

#[tokio::test]
async fn two_closes_at_once_tell_the_same() {
    let house = House::new(&[]);
    let id = house.open("alice").await.unwrap().session_id;
    house.cell("alice", &id, "1").await.unwrap();
    house.script.close_waits.store(true, SeqCst);
    let (first, second, ()) = tokio::join!(house.close("alice", &id), house.close("alice", &id), async {
        eventually("the sandbox is removed", || house.script.closes.load(SeqCst) == 1).await;
        house.script.closing.notify_one();
    });
    assert_eq!(first.unwrap(), second.unwrap());
    assert_eq!(house.script.closes.load(SeqCst), 1);
    house.nothing_is_left().await;
}
