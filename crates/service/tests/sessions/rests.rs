//! Being suspended and resumed, and what may happen meanwhile.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use plimsoll_core::*;
use plimsoll_record::{Chain, Fingerprint};
use plimsoll_service::handler::Handler;

use crate::support::*;

const IDLE: &[(&str, &str)] = &[("SANDBOX_SESSION_IDLE", "10s")];

/// A session of alice's with one call, suspended; it lives for a minute.
async fn suspended(house: &House) -> OpenedSession {
    let opened = house
        .open_with("alice", |open| open.lifetime_ms = 60_000)
        .await
        .unwrap();
    house.cell("alice", &opened.session_id, "1").await.unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(house.readings().suspended, 1);
    opened
}

#[tokio::test(start_paused = true)]
async fn the_record_of_a_suspension_says_how_long_the_session_was_idle() {
    let house = House::new(IDLE);
    let opened = house.open("alice").await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    house.cell("alice", &opened.session_id, "1").await.unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    let told = house.told("session suspended");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        (&told[0]["session"], &told[0]["holds_memory"]),
        (&opened.session.as_str().into(), &false.into())
    );
    let idle_ms = told[0]["idle_ms"].as_u64().unwrap();
    assert!((10_000..10_100).contains(&idle_ms), "{idle_ms}");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_expires_while_it_is_resumed_runs_nothing_more_and_the_call_is_audited_once() {
    let house = House::new(IDLE);
    let opened = suspended(&house).await;
    house.script.resume_waits.store(true, SeqCst);
    let (answer, ()) = tokio::join!(house.cell("alice", &opened.session_id, "2"), async {
        eventually("the session is resumed", || house.script.resumes.load(SeqCst) == 1).await;
        tokio::time::sleep(Duration::from_secs(50)).await;
        house.script.resuming.notify_one();
    });
    assert_eq!(refused(answer), ended_by(SessionEnd::Expired));
    assert_eq!(house.script.runs.load(SeqCst), 1);
    let failed = house.told("code run failed");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0]["session"], opened.session);
    assert_eq!(failed[0].get("session_call"), None);
    let closed = house.close("alice", &opened.session_id).await.unwrap();
    assert_eq!((closed.ended, closed.calls), (SessionEnd::Expired, 1));
    house.nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_session_cannot_be_resumed_is_audited_once_and_counts_as_refused() {
    let house = House::new(IDLE);
    let opened = suspended(&house).await;
    house.script.resume_fails.store(true, SeqCst);
    let answer = house.cell("alice", &opened.session_id, "22").await;
    assert_eq!(refused(answer), ended_by(SessionEnd::BoundaryFailed));
    let failed = house.told("code run failed");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(
        (&failed[0]["op"], &failed[0]["code_bytes"], &failed[0]["session"]),
        (&"cell".into(), &2.into(), &opened.session.as_str().into())
    );
    let page = house.metrics.render(&readings(&house));
    for line in [
        "plimsoll_runs_total 1",
        "plimsoll_refused_total{reason=\"request\",code=\"failed_precondition\"} 1",
    ] {
        assert!(page.lines().any(|one| one == line), "{line} is not in {page}");
    }
    // The next call finds the session ended and is not admitted.
    refused(house.cell("alice", &opened.session_id, "3").await);
    assert_eq!(house.told("code run failed").len(), 1);
    house.nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_while_its_session_is_resumed_runs_nothing_and_the_session_goes_on() {
    let house = House::new(IDLE);
    let opened = suspended(&house).await;
    house.script.resume_waits.store(true, SeqCst);
    let context = context("alice");
    let gone = context.cancelled.clone();
    let call = house.corridor.session_run(context, cell(&opened.session_id, "2"));
    let (answer, ()) = tokio::join!(call, async {
        eventually("the session is resumed", || house.script.resumes.load(SeqCst) == 1).await;
        gone.cancel();
        house.script.resuming.notify_one();
    });
    assert_eq!(refused(answer), (Code::Canceled, Reason::Capacity, None));
    assert_eq!(house.script.runs.load(SeqCst), 1);
    let next = house.cell("alice", &opened.session_id, "3").await.unwrap();
    assert_eq!(next.run.record.unwrap().sequence, 2);
    assert_eq!(house.script.resumes.load(SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_close_that_comes_while_the_session_is_resumed_waits_for_its_call() {
    let house = House::new(IDLE);
    let opened = suspended(&house).await;
    house.script.resume_waits.store(true, SeqCst);
    let (answer, closed, ()) = tokio::join!(
        house.cell("alice", &opened.session_id, "2"),
        async {
            eventually("the session is resumed", || house.script.resumes.load(SeqCst) == 1).await;
            house.close("alice", &opened.session_id).await
        },
        async {
            eventually("the session is resumed", || house.script.resumes.load(SeqCst) == 1).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            house.script.resuming.notify_one();
        }
    );
    let record = answer.unwrap().run.record.unwrap();
    let closed = closed.unwrap();
    assert_eq!((closed.ended, closed.calls), (SessionEnd::Closed, 2));
    assert_eq!(closed.last_record_sha256, record.record_sha256);
    house.nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_comes_while_the_session_is_suspended_waits_and_resumes_it() {
    let house = House::new(IDLE);
    let id = house.open("alice").await.unwrap().session_id;
    house.cell("alice", &id, "1").await.unwrap();
    house.script.suspend_waits.store(true, SeqCst);
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!((house.script.suspends.load(SeqCst), house.readings().suspended), (1, 0));
    let (answer, ()) = tokio::join!(house.cell("alice", &id, "2"), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        house.script.suspending.notify_one();
    });
    assert_eq!(answer.unwrap().run.record.unwrap().sequence, 2);
    assert_eq!((house.script.resumes.load(SeqCst), house.limiter.in_flight()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_suspension_that_takes_for_ever_ends_the_session() {
    let house = House::new(IDLE);
    let id = house.open("alice").await.unwrap().session_id;
    house.cell("alice", &id, "1").await.unwrap();
    house.script.suspend_waits.store(true, SeqCst);
    tokio::time::sleep(Duration::from_secs(110)).await;
    assert_eq!(
        refused(house.cell("alice", &id, "2").await),
        ended_by(SessionEnd::BoundaryFailed)
    );
    house.nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_ends_what_has_expired_and_a_call_that_runs_stays_in_the_chain() {
    let house = House::new(IDLE);
    let (idle, busy) = (house.open("alice").await.unwrap(), house.open("alice").await.unwrap());
    let mut chain = Chain::new(Fingerprint::of(busy.session_id.reveal()));
    house.cell("alice", &idle.session_id, "1").await.unwrap();
    let first = house.cell("alice", &busy.session_id, "1").await.unwrap();
    chain.follow(&first.run.record.unwrap()).unwrap();
    let (cut, ()) = tokio::join!(house.cell("alice", &busy.session_id, "hang"), async {
        eventually("the call runs", || house.script.runs.load(SeqCst) == 3).await;
        tokio::time::advance(Duration::from_secs(100_000)).await;
    });
    let record = cut.unwrap_err().unanswered.unwrap();
    chain.follow(&record).unwrap();
    assert!(record.ended_unix_ms >= record.started_unix_ms);
    assert_eq!(house.script.suspends.load(SeqCst), 0);
    for (opened, calls) in [(&idle, 1), (&busy, 2)] {
        let closed = house.close("alice", &opened.session_id).await.unwrap();
        assert_eq!((closed.ended, closed.calls), (SessionEnd::Expired, calls));
    }
    house.nothing_is_left().await;
}

fn readings(house: &House) -> plimsoll_service::metrics::Readings {
    plimsoll_service::metrics::Readings {
        in_flight: house.limiter.in_flight(),
        proven: Isolation::None,
        current: Isolation::None,
        log_write_errors: 0,
        failed_handshakes: None,
        sessions: Some(house.readings()),
    }
}
