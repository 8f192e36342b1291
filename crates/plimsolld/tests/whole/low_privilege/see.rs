//! Attempts to see what is another caller's: its grant, its runs, its numbers, the daemon's own pages.

use serde_json::json;

use super::kit::{GRANT, House};
use crate::daemon::{exchange, get};
use crate::grants::setup::{ALICE, BOB, Call, SECRET, stream};

#[test]
fn anothers_grant_is_refused_as_one_that_does_not_exist() {
    let house = House::new();
    let named = house.snippet(BOB, GRANT, "console.log(await host.get('/berths/1'))");
    let unknown = house.snippet(BOB, "no-such-profile", "1");
    assert_eq!((&named, named.0), (&unknown, 403));
    assert!(house.api.asked().is_empty());
}

#[test]
fn a_grant_is_not_reached_by_another_spelling_of_its_name() {
    let house = House::new();
    for name in [
        "BERTHS",
        "berths\u{0}",
        "berths\n",
        "\u{feff}berths",
        "berths/",
        "%62erths",
        "*",
    ] {
        let (status, answer) = house.snippet(BOB, name, "1");
        assert!(status == 403 || status == 400, "{name:?}: {status} {answer}");
        assert!(!answer.to_string().contains("alice"), "{answer}");
    }
}

#[test]
fn no_grant_reaches_the_routes_of_another_grant_of_the_same_api() {
    let house = House::new();
    let (status, answer) = house.snippet(
        BOB,
        "shared",
        "for (const path of ['/berths/1', '/shared/../berths/1', '/shared/%2e%2e/berths/1', '/shared//berths/1']) \
         { const answer = await host.call('GET', path); console.log(answer.status) }",
    );
    assert_eq!(status, 200, "{answer}");
    let lines = house.api.lines();
    assert!(lines.iter().all(|line| !line.contains("berths")), "{lines:?}");
}

#[test]
fn nothing_of_a_run_is_left_for_another_callers_run() {
    let house = House::new();
    let canary = "alices-canary-9d4c";
    let leave = format!(
        "globalThis.left = '{canary}'; Object.prototype.left = '{canary}'; process.env.LEFT = '{canary}'; \
         Array.prototype.push = () => '{canary}'; console.log('{canary}'.repeat(1000)); new Array(1 << 20).fill('{canary}')"
    );
    for _ in 0..8 {
        let (status, answer) = house.snippet(ALICE, "", &leave);
        assert_eq!(status, 200, "{answer}");
        let seen = house.bob_prints(
            "const seen = [typeof left, ({}).left, process.env.LEFT, [].push(1)]; console.log(seen.join()); \
             console.log(Object.getOwnPropertyNames(globalThis).join())",
        );
        assert!(seen.starts_with("undefined,,,1\n"), "{seen}");
        assert!(!seen.contains(canary) && !seen.contains(",left"), "{seen}");
    }
}

#[test]
fn nothing_of_a_session_is_left_for_another_callers_session_or_run() {
    let house = House::new();
    let _alices = house.session(ALICE);
    let (status, opened) = house.call(BOB.1, "OpenSession", &json!({"protocol": 4}));
    assert_eq!(status, 200, "{opened}");
    let (_, answer) = house.cell(BOB.1, &opened["sessionId"], "typeof kept");
    assert_eq!(answer["run"]["cell"]["stdout"], "J3VuZGVmaW5lZCcK", "{answer}");
    assert_eq!(house.bob_prints("console.log(typeof kept)"), "undefined\n");
}

#[test]
fn files_of_a_session_are_not_in_anothers() {
    let house = House::new();
    let alices = house.session(ALICE);
    let write =
        "require('node:fs').writeFileSync('/work/notes.txt', 'alices'); require('node:fs').readdirSync('/work')";
    assert_eq!(house.cell(ALICE.1, &alices["sessionId"], write).0, 200);
    let bobs = house.session(BOB);
    let list = "console.log(require('node:fs').readdirSync('/work').length)";
    let (_, answer) = house.cell(BOB.1, &bobs["sessionId"], list);
    assert_eq!(answer["run"]["cell"]["stdout"], "MAo=", "{answer}");
}

#[test]
fn metrics_and_the_guards_paths_are_not_on_the_callers_listener() {
    let house = House::new();
    for path in [
        "/metrics",
        "/v1/e2b/guard",
        "/v1/dockercloud/guard",
        "/debug/pprof",
        "/",
        "/readyz/../metrics",
        "//metrics",
    ] {
        let head = format!("GET {path} HTTP/1.1\r\nAuthorization: Bearer {}\r\n", BOB.1);
        let (status, _, body) = exchange(house.daemon.addr, &head, "");
        assert_eq!(status, 404, "{path}: {body}");
        assert!(!body.contains("plimsoll_"), "{path}: {body}");
    }
}

#[test]
fn the_metrics_page_names_no_caller() {
    let house = House::new();
    let _session = house.session(ALICE);
    assert_eq!(house.snippet(ALICE, GRANT, "await host.get('/berths/7')").0, 200);
    let (_, _, page) = get(house.daemon.metrics_addr.unwrap(), "/metrics");
    assert!(page.contains("plimsoll_host_calls_total{profile=\"berths\""), "{page}");
    for secret in ["alice", "bob", "/berths/7", SECRET] {
        assert!(!page.contains(secret), "{secret}: {page}");
    }
}

#[test]
fn what_a_grants_api_is_shown_reaches_nobodys_output() {
    let house = House::new();
    let code = "const answer = await host.call('GET', '/shared/1'); console.log(JSON.stringify(answer)); \
                console.log(JSON.stringify(Object.getOwnPropertyNames(host)))";
    let (status, answer) = house.snippet(BOB, "shared", code);
    assert_eq!(status, 200, "{answer}");
    let asked = house.api.asked();
    let credential = asked[0]
        .header("authorization")
        .unwrap()
        .strip_prefix("Bearer ")
        .unwrap();
    let printed = stream(&answer, "stdout") + &stream(&answer, "stderr");
    assert!(!printed.contains(credential) && !printed.contains(SECRET), "{printed}");
    assert!(!answer.to_string().contains(credential));
}

#[test]
fn describe_states_the_same_to_everybody_and_names_nobody() {
    let house = House::new();
    let _session = house.session(ALICE);
    let (alices, bobs) = (
        house.call(ALICE.1, "Describe", &json!({})),
        house.call(BOB.1, "Describe", &json!({})),
    );
    assert_eq!(alices, bobs);
    let text = bobs.1.to_string();
    assert!(!text.contains("alice") && !text.contains(GRANT), "{text}");
}

#[test]
fn a_request_id_of_anothers_brings_back_nothing_of_its_answer() {
    let house = House::new();
    let id = "0123456789abcdef0123456789abcdef";
    let headers = format!("Plimsoll-Request-Id: {id}\r\n");
    let run = |token, code: &str| {
        let body = json!({"protocol": 4, "javascript": {"code": code}});
        house.raw_with(token, "Run", &headers, &body)
    };
    let (_, head, alices) = run(ALICE.1, "console.log('alices')");
    assert!(head.contains(&format!("plimsoll-request-id: {id}")), "{head}");
    let (status, _, bobs) = run(BOB.1, "console.log('bobs')");
    assert_eq!(
        (status, &bobs["javascript"]["stdout"]),
        (200, &json!("Ym9icwo=")),
        "{bobs}"
    );
    assert_ne!(alices["record"]["recordSha256"], bobs["record"]["recordSha256"]);
}

#[test]
fn the_time_of_a_run_without_a_grant_says_nothing_of_the_others_clock() {
    // Every run has the same clock and the same randomness, so neither carries what others do.
    let house = House::new();
    let code = "console.log(Date.now(), performance.now(), Math.random(), crypto.randomUUID(), process.pid)";
    let alone = house.bob_prints(code);
    let _session = house.session(ALICE);
    let _other = house.snippet(ALICE, "", code);
    assert_eq!(house.bob_prints(code), alone);
}

#[test]
fn a_call_in_ones_own_name_carries_ones_own_subject_and_nobody_elses() {
    let house = House::new();
    for caller in [ALICE, BOB] {
        let call = Call {
            token: Some(caller.1),
            ..Call::of("shared", "await host.get('/shared/1')")
        };
        call.ran(house.daemon.addr);
        let asked = house.api.asked();
        let token = asked.last().unwrap().header("authorization").unwrap();
        let claims = token.split('.').nth(1).unwrap();
        let claims = String::from_utf8(crate::grants::setup::from_base64(claims)).unwrap();
        let claims: serde_json::Value = serde_json::from_str(&claims).unwrap();
        assert_eq!(claims["sub"], caller.0, "{claims}");
    }
}
