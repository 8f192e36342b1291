//! Sessions of the real daemon: a variable that lives from cell to cell, the chain, and what a stop does with what is open.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::daemon::{Daemon, GOOD_TOKEN, exchange, get};
use rustix::process::Signal;
use serde_json::{Value, json};

const SESSIONS: [(&str, &str); 3] = [
    ("SANDBOX_PROVIDER", "wasm"),
    ("PLIMSOLL_TOKEN", GOOD_TOKEN),
    ("SANDBOX_MAX_SESSIONS", "2"),
];

fn call(daemon: &Daemon, procedure: &str, body: &Value) -> (u16, Value) {
    let head = format!(
        "POST /plimsoll.v1.SandboxService/{procedure} HTTP/1.1\r\nContent-Type: application/json\r\n\
         Authorization: Bearer {GOOD_TOKEN}"
    );
    let (status, _, body) = exchange(daemon.addr, &head, &body.to_string());
    (status, serde_json::from_str(&body).unwrap())
}

fn cell(daemon: &Daemon, id: &Value, code: &str) -> Value {
    let body = json!({"protocol": 4, "sessionId": id, "cell": {"language": "javascript", "code": code}});
    let (status, answer) = call(daemon, "SessionRun", &body);
    assert_eq!(status, 200, "{answer}");
    answer
}

#[test]
fn a_variable_lives_from_cell_to_cell_and_the_records_chain() {
    let mut daemon = Daemon::start(&SESSIONS);
    let (_, stated) = call(&daemon, "Describe", &json!({}));
    assert_eq!(stated["supportsSessions"], true);
    assert_eq!(stated["sessionEnvironment"]["languages"], json!(["javascript"]));

    let (status, opened) = call(&daemon, "OpenSession", &json!({"protocol": 4}));
    assert_eq!(status, 200, "{opened}");
    let id = &opened["sessionId"];
    let first = cell(&daemon, id, "const x = 41");
    assert_eq!(first["run"]["cell"]["interpreterStarted"], true);
    let second = cell(&daemon, id, "x + 1");
    assert_eq!(second["run"]["cell"]["stdout"], "NDIK");
    assert_eq!(second["run"]["cell"].get("interpreterStarted"), None);
    assert_eq!(
        second["run"]["record"]["previousSha256"],
        first["run"]["record"]["recordSha256"]
    );
    let (_, _, page) = get(daemon.metrics_addr.unwrap(), "/metrics");
    assert!(page.contains("plimsoll_sessions{state=\"running\"} 1\n"), "{page}");

    let (status, closed) = call(&daemon, "CloseSession", &json!({"protocol": 4, "sessionId": id}));
    assert_eq!(status, 200, "{closed}");
    assert_eq!(
        (&closed["calls"], &closed["ended"]),
        (&json!("2"), &json!("SESSION_END_CLOSED"))
    );
    assert_eq!(closed["lastRecordSha256"], second["run"]["record"]["recordSha256"]);
    let told = daemon.wait_for("session closed");
    assert_eq!((&told["session"], &told["end"]), (&opened["session"], &json!("closed")));
    let id = id.as_str().unwrap();
    assert!(daemon.records.iter().all(|record| !record.to_string().contains(id)));
}

#[test]
fn a_stop_ends_open_sessions_and_the_daemon_ends_well() {
    let daemon = Daemon::start(&SESSIONS);
    let (_, opened) = call(&daemon, "OpenSession", &json!({"protocol": 4}));
    cell(&daemon, &opened["sessionId"], "1");
    daemon.signal(Signal::TERM);
    let (status, records) = daemon.wait();
    assert_eq!(status.code(), Some(0));
    let closed = records.iter().find(|record| record["msg"] == "session closed").unwrap();
    assert_eq!((&closed["end"], &closed["calls"]), (&json!("shutdown"), &json!(1)));
}

#[test]
fn what_suspended_sessions_hold_is_measured_and_takes_their_callers_places() {
    let mut values = SESSIONS.to_vec();
    values.extend([
        ("SANDBOX_MEMORY_MB", "64"),
        ("SANDBOX_PER_KEY_CONCURRENT", "1"),
        ("SANDBOX_SESSION_IDLE", "1s"),
    ]);
    let mut daemon = Daemon::start(&values);
    let mut open = Vec::new();
    for _ in 0..2 {
        let (status, opened) = call(&daemon, "OpenSession", &json!({"protocol": 4}));
        assert_eq!(status, 200, "{opened}");
        cell(
            &daemon,
            &opened["sessionId"],
            "const held = new Uint8Array(40 << 20).fill(7)",
        );
        let told = daemon.wait_for("session suspended");
        assert_eq!(
            (&told["session"], &told["holds_memory"]),
            (&opened["session"], &json!(false))
        );
        assert!(told["idle_ms"].as_u64().unwrap() >= 1000, "{told}");
        open.push(opened["sessionId"].clone());
    }
    // 80 MiB and more are held: the caller's one place of 64 MiB is taken, although nothing runs.
    let snippet = json!({"protocol": 4, "javascript": {"code": "1"}});
    let (status, refused) = call(&daemon, "Run", &snippet);
    assert_eq!(
        (status, &refused["code"]),
        (429, &json!("resource_exhausted")),
        "{refused}"
    );
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("suspended sessions hold") && message.contains("64 MiB"),
        "{message}"
    );
    // The sessions themselves go on, and closing one makes room.
    assert_eq!(
        cell(&daemon, &open[0], "held.length")["run"]["cell"]["stdout"],
        "NDE5NDMwNDAK"
    );
    let (status, closed) = call(&daemon, "CloseSession", &json!({"protocol": 4, "sessionId": open[0]}));
    assert_eq!(status, 200, "{closed}");
    let (status, answer) = call(&daemon, "Run", &snippet);
    assert_eq!(status, 200, "{answer}");
}
