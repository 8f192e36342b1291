//! Attempts to keep alice from being served.

use std::io::Write as _;
use std::net::TcpStream;

use serde_json::json;

use super::kit::House;
use crate::grants::setup::{ALICE, BOB};

#[test]
fn every_slot_that_one_caller_may_have_leaves_the_others_one() {
    let house = House::with(&[("SANDBOX_MAX_CONCURRENT", "4")]);
    let spinning: Vec<TcpStream> = (0..6).map(|_| house.bob_spins()).collect();
    // The default is half of all.
    house.in_flight(2);
    for _ in 0..5 {
        assert_eq!(house.snippet(ALICE, "", "1").0, 200);
    }
    let (status, refused) = house.snippet(BOB, "", "1");
    assert_eq!(
        (status, &refused["code"]),
        (429, &json!("resource_exhausted")),
        "{refused}"
    );
    assert!(
        refused["message"].as_str().unwrap().contains("this caller"),
        "{refused}"
    );
    drop(spinning);
    house.in_flight(0);
}

#[test]
fn a_caller_who_hangs_up_gives_its_slots_back() {
    let house = House::with(&[("SANDBOX_MAX_CONCURRENT", "1"), ("SANDBOX_RATE_PER_MIN", "0")]);
    for _ in 0..5 {
        let spinning = house.bob_spins();
        house.in_flight(1);
        drop(spinning);
        house.in_flight(0);
    }
    assert_eq!(house.snippet(ALICE, "", "1").0, 200);
}

#[test]
fn half_sent_requests_keep_nobody_out() {
    let house = House::with(&[("SANDBOX_MAX_CONCURRENT", "2")]);
    let held: Vec<TcpStream> = (0..40)
        .map(|at| {
            let mut stream = TcpStream::connect(house.daemon.addr).unwrap();
            let head = format!(
                "POST /plimsoll.v1.SandboxService/Run HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n\
                 Authorization: Bearer {}\r\nContent-Length: 1000\r\n\r\n{{\"protocol\": 4,",
                BOB.1
            );
            // Some hold back their body, some their header.
            let sent = if at % 2 == 0 { head.len() } else { head.len() / 2 };
            stream.write_all(&head.as_bytes()[..sent]).unwrap();
            stream
        })
        .collect();
    for _ in 0..5 {
        assert_eq!(house.snippet(ALICE, "", "1").0, 200);
    }
    drop(held);
}

#[test]
fn answers_that_are_not_read_keep_nobody_out() {
    let house = House::with(&[("SANDBOX_RATE_PER_MIN", "0")]);
    let flood = "for (let at = 0; at < 2000; at++) console.log('x'.repeat(30))";
    let unread: Vec<TcpStream> = (0..20)
        .map(|_| crate::daemon::begin_snippet(house.daemon.addr, BOB.1, 1000, flood))
        .collect();
    for _ in 0..10 {
        assert_eq!(house.snippet(ALICE, "", "1").0, 200);
    }
    drop(unread);
}

#[test]
fn runs_that_take_all_their_memory_take_none_of_anothers() {
    let house = House::with(&[("SANDBOX_MEMORY_MB", "64"), ("SANDBOX_RATE_PER_MIN", "0")]);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let hungry = "const held = []; try { for (;;) held.push(new Uint8Array(1 << 20).fill(1)) } catch {}";
                let (status, answer) = house.snippet(BOB, "", hungry);
                assert!(status == 200 || status == 429, "{answer}");
            });
        }
        for _ in 0..10 {
            let (status, answer) = house.snippet(ALICE, "", "console.log(new Uint8Array(8 << 20).fill(1).length)");
            assert_eq!(status, 200, "{answer}");
            assert_eq!(answer["javascript"].get("exitCode"), None, "{answer}");
        }
    });
}

#[test]
fn a_session_that_computes_leaves_the_others_theirs() {
    let house = House::new();
    let (alices, bobs) = (house.session(ALICE), house.session(BOB));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let body = json!({"protocol": 4, "sessionId": bobs["sessionId"], "timeoutMs": 3000,
                "cell": {"language": "javascript", "code": "for (;;);"}});
            let (status, answer) = house.call(BOB.1, "SessionRun", &body);
            assert_eq!(status, 200, "{answer}");
        });
        house.in_flight(2);
        for _ in 0..5 {
            house.still_alices(&alices);
        }
    });
}

#[test]
fn malformed_requests_one_after_another_keep_nobody_out() {
    let house = House::new();
    for body in [
        "",
        "{",
        "[]",
        "{\"protocol\":4}",
        "{\"protocol\":4,\"javascript\":{}}",
        "\u{0}\u{1}",
        "{\"protocol\":1e99}",
    ] {
        for _ in 0..20 {
            let head = format!(
                "POST /plimsoll.v1.SandboxService/Run HTTP/1.1\r\nContent-Type: application/json\r\nAuthorization: Bearer {}\r\n",
                BOB.1
            );
            let (status, _, answer) = crate::daemon::exchange(house.daemon.addr, &head, body);
            assert!(status == 400 || status == 501, "{body:?}: {status} {answer}");
        }
    }
    assert_eq!(house.snippet(ALICE, "", "1").0, 200);
    assert_eq!(house.metric("plimsoll_decode_slots_in_use "), 0);
}
