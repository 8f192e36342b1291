//! Attempts to spend what is another caller's, or to spend more than one's own.

use serde_json::json;

use super::kit::House;
use crate::daemon::exchange;
use crate::grants::setup::{ALICE, BOB, Call};

/// Bob starts until he is refused; how many began.
fn until_refused(house: &House, mut start: impl FnMut() -> u16) -> usize {
    let mut began = 0;
    while start() == 200 {
        began += 1;
        assert!(began < 50, "never refused");
    }
    assert_eq!(house.metric("plimsoll_shed_total{reason=\"rate\"}"), 1);
    began
}

#[test]
fn who_spends_all_its_starts_leaves_the_others_theirs() {
    let house = House::with(&[("SANDBOX_RATE_PER_MIN", "3")]);
    assert_eq!(until_refused(&house, || house.snippet(BOB, "", "1").0), 3);
    for _ in 0..3 {
        assert_eq!(house.snippet(ALICE, "", "1").0, 200);
    }
}

#[test]
fn starts_are_one_budget_whatever_asks_for_them() {
    // Snippets, opens and calls of a session, in JSON and in binary, over connections of their own.
    let house = House::with(&[("SANDBOX_RATE_PER_MIN", "6")]);
    let opened = house.session(BOB);
    let mut turn = 0;
    let began = until_refused(&house, || {
        turn += 1;
        match turn % 2 {
            0 => house.snippet(BOB, "", "1").0,
            _ => house.cell(BOB.1, &opened["sessionId"], "1").0,
        }
    });
    // The open and the first cell were two of six.
    assert_eq!(began, 4);
}

#[test]
fn other_spellings_of_a_token_are_one_callers_budget() {
    let house = House::with(&[("SANDBOX_RATE_PER_MIN", "3")]);
    let schemes = ["Bearer", "bearer", "BEARER", "BeArEr"];
    let mut turn = 0;
    let body = json!({"protocol": 4, "javascript": {"code": "1"}}).to_string();
    let began = until_refused(&house, || {
        turn += 1;
        let head = format!(
            "POST /plimsoll.v1.SandboxService/Run HTTP/1.1\r\nContent-Type: application/json\r\n\
             Authorization: {} {}\r\nX-Forwarded-For: 10.0.0.{turn}\r\nUser-Agent: bob-{turn}\r\n",
            schemes[turn % 4],
            BOB.1
        );
        exchange(house.daemon.addr, &head, &body).0
    });
    assert_eq!(began, 3);
}

#[test]
fn a_refused_run_costs_nobody_a_start() {
    let house = House::with(&[("SANDBOX_RATE_PER_MIN", "2")]);
    for _ in 0..10 {
        assert_eq!(house.snippet(BOB, "berths", "1").0, 403);
        assert_eq!(
            house
                .call(
                    BOB.1,
                    "Run",
                    &json!({"protocol": 4, "minimumIsolation": "vm", "javascript": {"code": "1"}})
                )
                .0,
            400
        );
    }
    assert_eq!(until_refused(&house, || house.snippet(BOB, "", "1").0), 2);
    assert_eq!(house.snippet(ALICE, "", "1").0, 200);
}

#[test]
fn calls_of_one_run_do_not_use_up_anothers_budget_of_the_same_grant() {
    let house = House::new();
    let many = "for (let at = 0; at < 300; at++) { try { await host.get('/shared/' + at) } catch {} }";
    let (status, answer) = house.snippet(BOB, "shared", many);
    assert_eq!(status, 200, "{answer}");
    let asked = house.api.asked().len();
    assert_eq!(asked, 256, "there is a budget");
    let call = Call::of("shared", "console.log((await host.get('/shared/alices')).path)");
    assert_eq!(call.ran(house.daemon.addr).1, "/shared/alices\n");
}

#[test]
fn an_endless_run_is_ended_at_its_own_time_however_long_it_asks_for() {
    let house = House::new();
    let body =
        json!({"protocol": 4, "timeoutMs": 200, "javascript": {"code": "for (;;) { try { for (;;); } catch {} }"}});
    let (status, answer) = house.call(BOB.1, "Run", &body);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(
        (&answer["javascript"]["exitCode"], &answer["javascript"]["timedOut"]),
        (&json!(124), &json!(true)),
        "{answer}"
    );
}
