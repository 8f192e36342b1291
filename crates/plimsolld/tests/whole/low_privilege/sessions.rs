//! Attempts on alice's sessions.

use serde_json::{Value, json};

use super::kit::House;
use crate::grants::setup::{ALICE, BOB};

/// What is answered about a session that nobody has.
fn unknown(house: &House, procedure: &str) -> (u16, Value) {
    house.call(BOB.1, procedure, &request(procedure, &json!("0".repeat(32))))
}

fn request(procedure: &str, id: &Value) -> Value {
    let mut body = json!({"protocol": 4, "sessionId": id});
    if procedure == "SessionRun" {
        body["cell"] = json!({"language": "javascript", "code": "kept"});
    }
    body
}

/// Bob names alice's session by this text, and is told what he is told of none.
fn is_unknown_by(name: impl Fn(&str) -> Value, what: &str) {
    let house = House::new();
    let opened = house.session(ALICE);
    let name = name(opened["sessionId"].as_str().unwrap());
    for procedure in ["SessionRun", "CloseSession"] {
        let answer = house.call(BOB.1, procedure, &request(procedure, &name));
        assert_eq!(answer, unknown(&house, procedure), "{procedure} by {what}");
        assert_eq!(answer.0, 404, "{procedure} by {what}");
    }
    house.still_alices(&opened);
}

#[test]
fn the_very_id_of_anothers_session_names_none_of_ones_own() {
    is_unknown_by(|id| json!(id), "its ID");
}

#[test]
fn the_fingerprint_of_a_session_is_no_id() {
    let house = House::new();
    let opened = house.session(ALICE);
    for token in [ALICE.1, BOB.1] {
        let (status, answer) = house.call(token, "CloseSession", &request("CloseSession", &opened["session"]));
        assert_eq!(status, 404, "{answer}");
    }
    house.still_alices(&opened);
}

#[test]
fn an_id_in_capitals_or_with_blanks_names_nothing() {
    is_unknown_by(|id| json!(id.to_uppercase()), "its ID in capitals");
    is_unknown_by(|id| json!(format!(" {id}")), "its ID behind a blank");
}

#[test]
fn the_beginning_of_an_id_names_nothing() {
    is_unknown_by(|id| json!(&id[..31]), "31 digits");
    is_unknown_by(|id| json!(format!("{id}0")), "33 digits");
}

#[test]
fn an_id_tells_nothing_of_another() {
    // Nothing in an ID tells of another: no counter, no time, no process.
    let house = House::new();
    let ids: Vec<String> = (0..6)
        .map(|_| {
            let opened = house.session(BOB);
            let id = opened["sessionId"].as_str().unwrap().to_owned();
            let (status, _) = house.call(BOB.1, "CloseSession", &request("CloseSession", &json!(id)));
            assert_eq!(status, 200);
            id
        })
        .collect();
    for (at, id) in ids.iter().enumerate() {
        assert_eq!(id.len(), 32);
        for other in &ids[..at] {
            let same = id.bytes().zip(other.bytes()).filter(|(a, b)| a == b).count();
            // Two of 32 random digits agree in 2 places; in 12 once in a hundred thousand million.
            assert!(same < 12, "{id} and {other}");
        }
    }
}

#[test]
fn an_owner_of_the_same_name_is_another_callers_owner() {
    let house = House::with(&[("SANDBOX_MAX_SESSIONS_PER_OWNER", "1")]);
    let owned = json!({"protocol": 4, "owner": "user-1"});
    let (status, alices) = house.call(ALICE.1, "OpenSession", &owned);
    assert_eq!(status, 200, "{alices}");
    // An open at the cap replaces the owner's session: the caller's own owner's.
    for _ in 0..2 {
        let (status, bobs) = house.call(BOB.1, "OpenSession", &owned);
        assert_eq!(status, 200, "{bobs}");
    }
    let (status, answer) = house.cell(ALICE.1, &alices["sessionId"], "1");
    assert_eq!(status, 200, "{answer}");
}

#[test]
fn sessions_of_one_caller_leave_the_others_their_places() {
    let house = House::with(&[("SANDBOX_MAX_SESSIONS", "4"), ("SANDBOX_MAX_SESSIONS_PER_CALLER", "2")]);
    let open = |token| house.call(token, "OpenSession", &json!({"protocol": 4}));
    assert_eq!([open(BOB.1).0, open(BOB.1).0], [200, 200]);
    let (status, refused) = open(BOB.1);
    assert_eq!(
        (status, &refused["code"]),
        (429, &json!("resource_exhausted")),
        "{refused}"
    );
    assert_eq!([open(ALICE.1).0, open(ALICE.1).0], [200, 200]);
}

#[test]
fn a_refusal_for_a_full_house_says_nothing_of_the_others_sessions() {
    let house = House::with(&[("SANDBOX_MAX_SESSIONS", "1")]);
    let alices = house.session(ALICE);
    let (status, refused) = house.call(BOB.1, "OpenSession", &json!({"protocol": 4}));
    assert_eq!(status, 429, "{refused}");
    let text = refused.to_string();
    for secret in [
        "alice",
        alices["sessionId"].as_str().unwrap(),
        alices["session"].as_str().unwrap(),
    ] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn a_call_that_waits_at_anothers_session_takes_no_turn_of_it() {
    let house = House::new();
    let opened = house.session(ALICE);
    // Forty of bob's at once, whose turn would be refused to alice if any of them had one.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_eq!(house.cell(BOB.1, &opened["sessionId"], "kept").0, 404);
                }
            });
        }
        for _ in 0..10 {
            house.still_alices(&opened);
        }
    });
}

#[test]
fn a_call_by_another_does_not_claim_a_session_or_count_in_its_chain() {
    let house = House::new();
    let opened = house.session(ALICE);
    for _ in 0..3 {
        assert_eq!(house.cell(BOB.1, &opened["sessionId"], "kept").0, 404);
    }
    let (status, closed) = house.call(ALICE.1, "CloseSession", &request("CloseSession", &opened["sessionId"]));
    assert_eq!((status, &closed["calls"]), (200, &json!("1")), "{closed}");
}
