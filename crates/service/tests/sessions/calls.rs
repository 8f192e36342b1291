//! Calls: whose session it is, how they follow each other, and the chain of their records.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use plimsoll_core::*;
use plimsoll_record::{Chain, Fingerprint, rule_id};
use plimsoll_service::handler::Handler;

use crate::support::*;

const NOT_FOUND: (Code, Reason, Option<SessionEnd>) = (Code::NotFound, Reason::Request, Some(SessionEnd::NotFound));
const BUSY: (Code, Reason, Option<SessionEnd>) = (Code::ResourceExhausted, Reason::Capacity, None);

#[tokio::test]
async fn a_session_is_its_callers_alone_and_a_strangers_error_is_that_of_an_unknown_id() {
    let house = House::new(&[]);
    let id = house.open("alice").await.unwrap().session_id;
    let unknown = SessionId::new("0".repeat(32));
    let text = |error: plimsoll_service::handler::SessionError| refusal(error.error);
    let (strange, missing) = (
        text(house.cell("bob", &id, "1").await.unwrap_err()),
        text(house.cell("bob", &unknown, "1").await.unwrap_err()),
    );
    assert_eq!(strange, missing);
    assert_eq!(refused(house.cell("bob", &id, "1").await), NOT_FOUND);
    assert_eq!(refused(house.close("bob", &id).await), NOT_FOUND);
    house.cell("alice", &id, "1").await.unwrap();
}

#[tokio::test]
async fn without_authentication_everybody_is_the_same_caller_and_a_named_one_is_not() {
    let house = House::new(&[]);
    let id = house.open("").await.unwrap().session_id;
    house.cell("", &id, "1").await.unwrap();
    assert_eq!(refused(house.cell("alice", &id, "1").await), NOT_FOUND);
}

#[tokio::test]
async fn three_calls_chain_and_closing_gives_their_count_twice() {
    let house = House::new(&[]);
    let opened = house.open("alice").await.unwrap();
    let id = &opened.session_id;
    let mut chain = Chain::new(Fingerprint::of(id.reveal()));
    for code in ["1", "2", "3"] {
        let answer = house.cell("alice", id, code).await.unwrap();
        assert_eq!(answer.ended, None);
        let record = answer.run.record.unwrap();
        assert_eq!(record.verify(), Ok(()));
        assert_eq!(
            (record.environment.as_str(), record.software_identity.as_str()),
            ("docker-image:sha256:cc", SOFTWARE)
        );
        chain.follow(&record).unwrap();
    }
    let closed = house.close("alice", id).await.unwrap();
    assert_eq!((closed.ended, closed.calls), (SessionEnd::Closed, 3));
    assert_eq!(closed.last_record_sha256, chain.last_sha256());
    assert_eq!(refused(house.cell("alice", id, "4").await), NOT_FOUND);
    assert_eq!(house.close("alice", id).await.unwrap(), closed);
    assert_eq!((house.alive(), house.limiter.in_flight()), (0, 0));
    assert_eq!(house.script.sweeps.load(SeqCst), 3);
}

#[tokio::test]
async fn a_call_that_breaks_or_panics_is_in_the_chain_without_an_answer() {
    for broken in ["break", "panic", "panic at once"] {
        let house = House::new(&[]);
        let id = house.open("alice").await.unwrap().session_id;
        let mut chain = Chain::new(Fingerprint::of(id.reveal()));
        chain
            .follow(&house.cell("alice", &id, "1").await.unwrap().run.record.unwrap())
            .unwrap();
        let error = house.cell("alice", &id, broken).await.unwrap_err();
        assert!(matches!(&error.error, RunError::MayHaveRun(fault) if fault.code() == Code::Internal));
        let record = error.unanswered.unwrap();
        assert_eq!(
            (record.verify(), record.sequence, record.unanswered.as_str()),
            (Ok(()), 2, "internal")
        );
        assert_eq!(record.result_sha256, "");
        chain.follow(&record).unwrap();
        chain
            .follow(&house.cell("alice", &id, "3").await.unwrap().run.record.unwrap())
            .unwrap();
        assert_eq!(house.close("alice", &id).await.unwrap().calls, 3, "{broken}");
        let logged = house.logged();
        assert!(logged.contains("\"session_call_unanswered\":\"internal\""), "{logged}");
    }
}

#[tokio::test]
async fn a_refused_call_is_not_counted() {
    let house = House::new(&[]);
    let id = house.open("alice").await.unwrap().session_id;
    assert_eq!(
        refused(house.cell("alice", &id, "refuse").await),
        (Code::FailedPrecondition, Reason::Environment, None)
    );
    assert_eq!(house.close("alice", &id).await.unwrap().calls, 0);
}

#[tokio::test]
async fn one_call_runs_one_waits_and_more_are_refused_at_once() {
    let house = House::new(&[]);
    let id = house.open("alice").await.unwrap().session_id;
    let (first, second, ()) = tokio::join!(
        house.cell("alice", &id, "hold"),
        async {
            eventually("the first call runs", || house.script.runs.load(SeqCst) == 1).await;
            house.cell("alice", &id, "second").await
        },
        async {
            eventually("the first call runs", || house.script.runs.load(SeqCst) == 1).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(refused(house.cell("alice", &id, "third").await), BUSY);
            assert_eq!(refused(house.close("alice", &id).await), BUSY);
            house.script.release.notify_one();
        }
    );
    assert_eq!(first.unwrap().run.record.unwrap().sequence, 1);
    assert_eq!(second.unwrap().run.record.unwrap().sequence, 2);
}

#[tokio::test]
async fn two_callers_that_each_send_one_call_after_the_other_are_never_told_of_a_third() {
    let house = House::new(&[]);
    house.script.sweep_waits.store(true, SeqCst);
    let id = house.open("alice").await.unwrap().session_id;
    house.cell("alice", &id, "1").await.unwrap();
    let swept = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        // Nothing runs while the sweep does, and two wait.
        assert_eq!(house.script.runs.load(SeqCst), 1);
        assert_eq!(refused(house.cell("alice", &id, "4").await), BUSY);
        house.script.sweep_waits.store(false, SeqCst);
        house.script.sweeping.notify_one();
    };
    let (second, third, ()) = tokio::join!(house.cell("alice", &id, "2"), house.cell("alice", &id, "3"), swept);
    let mut sequences = [second, third].map(|answer| answer.unwrap().run.record.unwrap().sequence);
    sequences.sort_unstable();
    assert_eq!(sequences, [2, 3]);
    // Two closes are no different.
    house.script.sweep_waits.store(true, SeqCst);
    house.cell("alice", &id, "4").await.unwrap();
    let (one, other, ()) = tokio::join!(house.close("alice", &id), house.close("alice", &id), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        house.script.sweeping.notify_one();
    });
    assert_eq!(one.unwrap().calls, 4);
    assert_eq!(other.unwrap().calls, 4);
}

#[tokio::test]
async fn a_call_that_could_never_run_is_told_so_and_not_that_the_session_is_busy() {
    let house = House::with(&[], LIMITS, &["javascript"]);
    let id = house.open("alice").await.unwrap().session_id;
    let mut python = cell(&id, "1");
    let answer = house.corridor.session_run(context("alice"), python.clone()).await;
    assert_eq!(refused(answer), (Code::Unimplemented, Reason::Environment, None));
    python.run.payload = None;
    let answer = house.corridor.session_run(context("alice"), python.clone()).await;
    assert_eq!(refused(answer), (Code::InvalidArgument, Reason::Request, None));
    python.run.minimum_isolation = "vm".into();
    python.run.payload = Some(Payload::JavaScript(JavaScriptRun {
        code: "1".into(),
        grant_profile: String::new(),
    }));
    let answer = house.corridor.session_run(context("alice"), python).await;
    assert_eq!(refused(answer), (Code::FailedPrecondition, Reason::Isolation, None));
    assert_eq!(house.script.runs.load(SeqCst), 0);
}

#[tokio::test]
async fn what_the_provider_can_never_run_is_refused_before_turn_and_token_and_writes_no_line() {
    let limits = plimsoll_service::limiter::Limits {
        rate_per_min: 3,
        rate_burst: 3,
        ..LIMITS
    };
    let house = House::with(&[], limits, &["python"]);
    let id = house.open("alice").await.unwrap().session_id;
    let never = async {
        eventually("the call runs", || house.script.runs.load(SeqCst) == 1).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        for _ in 0..5 {
            let answer = house.cell("alice", &id, "never").await;
            assert_eq!(refused(answer), (Code::Unimplemented, Reason::Unsupported, None));
        }
        house.script.release.notify_one();
    };
    // One call runs, one waits, and both have a token: what can never run is told so all the same.
    let waits = async {
        eventually("the call runs", || house.script.runs.load(SeqCst) == 1).await;
        house.cell("alice", &id, "2").await
    };
    let (first, second, ()) = tokio::join!(house.cell("alice", &id, "hold"), waits, never);
    first.unwrap();
    assert_eq!(second.unwrap().run.record.unwrap().sequence, 2);
    assert_eq!(house.logged().matches("\"op\":").count(), 2, "{}", house.logged());
}

#[tokio::test]
async fn a_caller_that_goes_while_it_waits_takes_no_turn() {
    let house = House::new(&[]);
    let id = house.open("alice").await.unwrap().session_id;
    let waiting = async {
        eventually("the first call runs", || house.script.runs.load(SeqCst) == 1).await;
        let answer = house.corridor.session_run(within("alice", 50), cell(&id, "late")).await;
        house.script.release.notify_one();
        answer
    };
    let (first, waited) = tokio::join!(house.cell("alice", &id, "hold"), waiting);
    first.unwrap();
    assert_eq!(refused(waited), (Code::DeadlineExceeded, Reason::Capacity, None));
    let next = house.cell("alice", &id, "next").await.unwrap();
    assert_eq!(next.run.record.unwrap().sequence, 2);
}

#[tokio::test]
async fn a_deadline_that_passes_during_a_call_leaves_the_session_open() {
    let house = House::new(&[]);
    let id = house.open("alice").await.unwrap().session_id;
    let error = house
        .corridor
        .session_run(within("alice", 50), cell(&id, "hang"))
        .await
        .unwrap_err();
    assert!(matches!(&error.error, RunError::MayHaveRun(fault) if fault.code() == Code::DeadlineExceeded));
    assert_eq!(error.unanswered.unwrap().unanswered, "deadline_exceeded");
    let next = house.cell("alice", &id, "next").await.unwrap();
    assert_eq!(next.run.record.unwrap().sequence, 2);
}

#[tokio::test]
async fn a_caller_that_vanishes_during_a_call_leaves_it_in_the_chain() {
    let house = House::new(&[]);
    let id = house.open("alice").await.unwrap().session_id;
    let call = house.corridor.session_run(context("alice"), cell(&id, "hang"));
    let call = tokio::spawn(call);
    eventually("the call runs", || house.script.runs.load(SeqCst) == 1).await;
    call.abort();
    let next = house.cell("alice", &id, "next").await.unwrap();
    assert_eq!(next.run.record.unwrap().sequence, 2);
}

#[tokio::test]
async fn a_call_repeats_the_rule_of_the_open_or_narrows_it() {
    for opened_with in [&[SOFTWARE][..], &[SOFTWARE, "other:1"][..]] {
        let house = House::new(&[]);
        let opened = house
            .open_with("alice", |open| open.software_rule = approved(opened_with))
            .await
            .unwrap();
        let mut call = cell(&opened.session_id, "1");
        let run = |call: SessionRunRequest| house.corridor.session_run(context("alice"), call);
        let without = run(call.clone()).await;
        assert_eq!(refused(without), (Code::InvalidArgument, Reason::Request, None));
        call.run.software_rule = approved(&["other:2"]);
        assert_eq!(
            refused(run(call.clone()).await),
            (Code::InvalidArgument, Reason::Request, None)
        );
        call.run.software_rule = approved(opened_with);
        let repeated = run(call.clone()).await.unwrap().run.record.unwrap();
        assert_eq!(
            repeated.software_rule_id,
            rule_id(&SoftwareRule::approved(opened_with.to_vec()).unwrap())
        );
        call.run.software_rule = approved(&[SOFTWARE]);
        let narrowed = run(call).await.unwrap().run.record.unwrap();
        assert_eq!(narrowed.software_rule_id, format!("exact:{SOFTWARE}"));
    }
}

#[tokio::test]
async fn a_time_limit_beyond_five_minutes_is_clamped() {
    let house = House::new(&[]);
    let id = house.open("alice").await.unwrap().session_id;
    let mut call = cell(&id, "1");
    call.run.timeout_ms = 86_400_000;
    house.corridor.session_run(context("alice"), call).await.unwrap();
    assert_eq!(*house.script.limit.lock().unwrap(), Duration::from_secs(300));
}

#[tokio::test]
async fn the_log_of_a_whole_session_names_its_fingerprint_and_never_its_id_or_owner() {
    let house = House::new(&[]);
    let opened = house.open_for("alice", "owner-17").await.unwrap();
    let id = &opened.session_id;
    house.cell("alice", id, "1").await.unwrap();
    drop(house.cell("alice", id, "break").await);
    drop(house.cell("bob", id, "1").await);
    house.close("alice", id).await.unwrap();
    let logged = house.logged();
    assert!(
        !logged.contains(id.reveal()) && !logged.contains("owner-17"),
        "{logged}"
    );
    for line in [
        "session opened",
        "code run",
        "session call unanswered",
        "session closed",
    ] {
        let line = logged
            .lines()
            .find(|one| one.contains(&format!("\"msg\":\"{line}\"")))
            .unwrap();
        assert!(line.contains(&opened.session), "{line}");
    }
    assert!(logged.contains("\"session_call\":1") && !format!("{id:?}").contains(id.reveal()));
}
