//! What an open checks, answers and gives back.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use plimsoll_core::{Code, Reason, RunError};
use plimsoll_service::handler::Handler;

use crate::support::*;

#[tokio::test]
async fn an_open_states_what_was_measured_and_effective_times() {
    let house = House::new(&[("SANDBOX_SESSION_IDLE", "10s")]);
    let opened = house
        .open_with("alice", |request| request.idle_timeout_ms = 1)
        .await
        .unwrap();
    assert_eq!(opened.idle_timeout_ms, 1000);
    assert_eq!(
        (opened.sandbox.as_str(), opened.isolation.as_str()),
        ("scripted", "kernel")
    );
    assert_eq!(opened.software_identity, SOFTWARE);
    assert_eq!(opened.session_id.reveal().len(), 32);
    assert_eq!(
        opened.session,
        plimsoll_record::Fingerprint::of(opened.session_id.reveal()).as_str()
    );
}

#[tokio::test]
async fn protocol_floor_rule_languages_and_owner_are_checked_before_anything_is_opened() {
    let house = House::new(&[]);
    let request = (Code::InvalidArgument, Reason::Request, None);
    for protocol in [0, 3, 5, 999] {
        let code = if protocol == 0 {
            Code::InvalidArgument
        } else {
            Code::Unimplemented
        };
        let answer = house.open_with("alice", |request| request.protocol = protocol).await;
        assert_eq!(refused(answer), (code, Reason::Protocol, None));
    }
    let answer = house
        .open_with("alice", |open| open.minimum_isolation = "none".into())
        .await;
    assert_eq!(refused(answer), request);
    let answer = house
        .open_with("alice", |open| open.minimum_isolation = "vm".into())
        .await;
    assert_eq!(refused(answer), (Code::FailedPrecondition, Reason::Isolation, None));
    let answer = house
        .open_with("alice", |open| open.software_rule = approved(&["other"]))
        .await;
    assert_eq!(refused(answer), (Code::FailedPrecondition, Reason::Environment, None));
    for owner in ["a/b", "a b", &"x".repeat(65)] {
        assert_eq!(refused(house.open_for("alice", owner).await), request, "{owner}");
    }
    let answer = house
        .open_with("alice", |open| open.languages = vec!["cobol".into()])
        .await;
    assert_eq!(refused(answer), request);
    assert_eq!(house.script.opens.load(SeqCst), 0);
}

#[tokio::test]
async fn a_language_hint_is_cut_to_what_is_stated_in_stated_order() {
    let hint = ["python", "javascript", "python"].map(str::to_owned).to_vec();
    for (stated, kept) in [
        (&["javascript", "python"][..], &["javascript", "python"][..]),
        (&["javascript"][..], &["javascript"][..]),
    ] {
        let house = House::with(&[], LIMITS, stated);
        house
            .open_with("alice", |open| open.languages = hint.clone())
            .await
            .unwrap();
        assert_eq!(*house.script.languages.lock().unwrap(), kept);
        assert_eq!(house.told("session opened")[0]["languages"], kept.join(","));
    }
    let house = House::new(&[]);
    house.open("alice").await.unwrap();
    assert_eq!(house.told("session opened")[0].get("languages"), None);
}

#[tokio::test]
async fn software_that_changed_during_the_open_is_refused_and_its_sandbox_closed() {
    let house = House::new(&[]);
    house
        .script
        .next_opens
        .lock()
        .unwrap()
        .push_back(OpenAct::OtherSoftware);
    let answer = house
        .open_with("alice", |open| open.software_rule = approved(&[SOFTWARE]))
        .await;
    assert_eq!(refused(answer), (Code::FailedPrecondition, Reason::Environment, None));
    assert_eq!((house.alive(), house.limiter.in_flight()), (0, 0));
    assert_eq!(house.readings().opening, 0);
}

#[tokio::test]
async fn at_the_cap_an_open_is_refused_before_it_reaches_the_provider_and_a_failed_one_gives_its_place_back() {
    let house = House::new(&[("SANDBOX_MAX_SESSIONS", "1")]);
    house
        .script
        .next_opens
        .lock()
        .unwrap()
        .extend([OpenAct::Wait, OpenAct::Fail, OpenAct::Panic]);
    let (first, second) = tokio::join!(house.open("alice"), async {
        eventually("the first open is under way", || house.script.opens.load(SeqCst) == 1).await;
        let second = house.open("bob").await;
        house.script.release.notify_one();
        second
    });
    assert_eq!(refused(second), CAPACITY);
    assert_eq!(house.script.opens.load(SeqCst), 1);
    house.close("alice", &first.unwrap().session_id).await.unwrap();
    assert_eq!(
        refused(house.open("alice").await),
        (Code::Internal, Reason::Environment, None)
    );
    let panicked = house.open("alice").await.unwrap_err();
    assert!(
        matches!(&panicked, RunError::MayHaveRun(fault) if fault.code() == Code::Internal),
        "{panicked:?}"
    );
    assert_eq!(house.told("session open failed").len(), 2);
    assert_eq!(house.limiter.in_flight(), 0);
    house.open("alice").await.unwrap();
}

#[tokio::test]
async fn the_callers_own_cap_is_refused_by_its_own_number() {
    let house = House::new(&[("SANDBOX_MAX_SESSIONS_PER_CALLER", "1")]);
    house.open("alice").await.unwrap();
    let refused = refusal(house.open("alice").await.unwrap_err());
    assert!(refused.message().contains("already has 1 sessions"), "{refused}");
    house.open("bob").await.unwrap();
}

#[tokio::test]
async fn an_open_its_caller_abandons_is_marked_and_leaves_nothing() {
    let house = House::new(&[]);
    house.script.next_opens.lock().unwrap().push_back(OpenAct::Wait);
    let context = context("alice");
    let gone = context.cancelled.clone();
    let request = plimsoll_core::OpenRequest {
        protocol: 4,
        ..Default::default()
    };
    let (answer, ()) = tokio::join!(house.corridor.open_session(context, request), async {
        eventually("the open is under way", || house.script.opens.load(SeqCst) == 1).await;
        gone.cancel();
    });
    assert_eq!(refused(answer), (Code::Canceled, Reason::Capacity, None));
    assert_eq!((house.alive(), house.limiter.in_flight()), (0, 0));
    assert_eq!(house.readings(), Default::default());
}

/// An open whose sandbox turns out to run other software than its caller wants.
async fn unwanted(house: &House) -> (Code, Reason, Option<plimsoll_core::SessionEnd>) {
    let other = OpenAct::OtherSoftware;
    house.script.next_opens.lock().unwrap().push_back(other);
    let open = house.open_with("alice", |open| open.software_rule = approved(&[SOFTWARE]));
    refused(open.await)
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_is_not_wanted_and_would_not_go_is_waited_for_90_seconds_and_takes_its_place_until_it_does() {
    let house = House::new(&[("SANDBOX_MAX_SESSIONS", "1")]);
    house.script.close_waits.store(true, SeqCst);
    let began = tokio::time::Instant::now();
    assert_eq!(
        unwanted(&house).await,
        (Code::FailedPrecondition, Reason::Environment, None)
    );
    assert_eq!(began.elapsed().as_secs(), 90);
    for _ in 0..3 {
        let readings = house.readings();
        assert_eq!(
            (readings.opening, readings.ending, house.limiter.in_flight()),
            (0, 1, 1)
        );
        assert_eq!(refused(house.open("bob").await), CAPACITY);
        tokio::time::sleep(Duration::from_secs(100)).await;
    }
    // One removal that takes its time is waited for and not begun again.
    assert_eq!(
        (house.script.closes.load(SeqCst), house.script.opens.load(SeqCst)),
        (1, 1)
    );
    house.script.closing.notify_one();
    house.nothing_is_left().await;
    house.open("bob").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_is_not_wanted_and_could_not_be_removed_is_tried_again_and_counts_meanwhile() {
    let house = House::new(&[]);
    house.script.close_fails.store(true, SeqCst);
    let began = tokio::time::Instant::now();
    assert_eq!(
        unwanted(&house).await,
        (Code::FailedPrecondition, Reason::Environment, None)
    );
    assert_eq!(began.elapsed().as_secs(), 0);
    assert_eq!((house.readings().ending, house.limiter.in_flight()), (1, 1));
    // A drain waits for it like for every session, and says so.
    assert_eq!(house.keeper.drain(Duration::from_secs(10)).await, 1);
    house.script.close_fails.store(false, SeqCst);
    assert_eq!(house.keeper.drain(Duration::from_secs(60)).await, 0);
    house.nothing_is_left().await;
    let told = house.told("sandbox of a failed open not removed yet");
    assert_eq!(told[0]["error"], "session: it would not go");
    assert!(told.len() > 2, "{told:?}");
}
