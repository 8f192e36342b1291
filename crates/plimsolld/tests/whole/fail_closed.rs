//! Whatever is not known to be allowed is refused, and nothing of it ran: what the other rooms of this suite do not show.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use plimsoll_core::Reason;
use serde_json::{Value, json};

use crate::check::refused;
use crate::daemon::{Daemon, GOOD_TOKEN, exchange, get, run};

const JSON: &str = "Content-Type: application/json";

/// A daemon on wasm with one token.
fn serving() -> Daemon {
    Daemon::start(&[("SANDBOX_PROVIDER", "wasm"), ("PLIMSOLL_TOKEN", GOOD_TOKEN)])
}

/// What a procedure answers to a body: status, code, and the reason in the body's detail.
fn answer(daemon: &Daemon, procedure: &str, body: &str) -> (u16, String, Option<Reason>) {
    let head = format!(
        "POST /plimsoll.v1.SandboxService/{procedure} HTTP/1.1\r\n{JSON}\r\nAuthorization: Bearer {GOOD_TOKEN}\r\n"
    );
    let (status, _, body) = exchange(daemon.addr, &head, body);
    let error: Value = serde_json::from_str(&body).unwrap();
    (
        status,
        error["code"].as_str().unwrap_or_default().to_owned(),
        reason(&error),
    )
}

/// A `NotDispatched` is one small number: two bytes, of which the last Base64 digit holds it.
fn reason(error: &Value) -> Option<Reason> {
    let digit = error["details"][0]["value"].as_str()?.strip_prefix("CA")?;
    let number = "AEIMQUYc".find(digit)?;
    Reason::from_number(i32::try_from(number).ok()?)
}

/// Nothing was dispatched since the start.
fn ran_nothing(daemon: &Daemon) {
    let (_, _, page) = get(daemon.metrics_addr.unwrap(), "/metrics");
    assert!(page.contains("\nplimsoll_runs_total 0\n"), "{page}");
}

#[test]
fn a_provider_that_is_not_ready_stops_the_start() {
    let values = [
        ("SANDBOX_PROVIDER", "docker"),
        ("DOCKER_HOST", "unix:///nonexistent/docker.sock"),
        ("PLIMSOLL_TOKEN", GOOD_TOKEN),
    ];
    assert_eq!(run(&["check"], &values).code, Some(0), "it asks no engine");
    let served = run(&[], &values);
    assert_eq!(served.code, Some(1), "{}", served.stderr);
    assert!(
        served.stderr.contains("the provider is not ready") && !served.stderr.contains("\"msg\":\"listening\""),
        "{}",
        served.stderr
    );
}

#[test]
fn a_guard_address_without_a_guard_stops_the_start() {
    let wasm = [("SANDBOX_PROVIDER", "wasm"), ("PLIMSOLL_TOKEN", GOOD_TOKEN)];
    refused(
        &[wasm[0], wasm[1], ("PLIMSOLL_GUARD_ADDR", "127.0.0.1:0")],
        &["PLIMSOLL_GUARD_ADDR"],
    );
    refused(
        &[wasm[0], wasm[1], ("E2B_GUARD_URL", "https://guard.example")],
        &["E2B_GUARD_URL"],
    );
}

#[test]
fn a_procedure_that_is_mapped_to_no_scope_is_denied_to_everybody() {
    let daemon = serving();
    for procedure in ["Delete", "run", "Run/", ""] {
        assert_eq!(
            answer(&daemon, procedure, "{}"),
            (403, "permission_denied".to_owned(), Some(Reason::Permission)),
            "{procedure:?}"
        );
    }
    ran_nothing(&daemon);
}

#[test]
fn a_request_of_no_or_another_protocol_is_refused_whatever_it_holds() {
    let daemon = serving();
    let (absent, other) = ((400, "invalid_argument"), (501, "unimplemented"));
    for (body, expected) in [
        (json!({}), absent),
        (
            json!({"javascript": {"code": "1", "grantProfile": "x".repeat(1000)}}),
            absent,
        ),
        (json!({"protocol": 3, "javascript": {"code": "1"}}), other),
        (
            json!({"protocol": 5, "javascript": {"code": ""}, "minimumIsolation": "none"}),
            other,
        ),
    ] {
        let (status, code, reason) = answer(&daemon, "Run", &body.to_string());
        assert_eq!(
            ((status, code.as_str()), reason),
            (expected, Some(Reason::Protocol)),
            "{body}"
        );
    }
    ran_nothing(&daemon);
}

#[test]
fn a_floor_that_cannot_be_read_or_met_and_software_that_nobody_states_are_refused() {
    let daemon = serving();
    let identity = format!("oci-manifest:linux/amd64@sha256:{}", "a".repeat(64));
    for (member, value, expected) in [
        (
            "minimumIsolation",
            json!("none"),
            (400, "invalid_argument", Reason::Request),
        ),
        (
            "minimumIsolation",
            json!("unknown"),
            (400, "invalid_argument", Reason::Request),
        ),
        (
            "minimumIsolation",
            json!("Kernel "),
            (400, "invalid_argument", Reason::Request),
        ),
        (
            "minimumIsolation",
            json!("container"),
            (400, "failed_precondition", Reason::Isolation),
        ),
        (
            "softwareRule",
            json!({"mode": "exact", "identities": [identity]}),
            (400, "failed_precondition", Reason::Environment),
        ),
    ] {
        let body = json!({"protocol": 4, member: value, "javascript": {"code": "1"}});
        let (status, code, reason) = answer(&daemon, "Run", &body.to_string());
        assert_eq!(
            (status, code.as_str(), reason),
            (expected.0, expected.1, Some(expected.2)),
            "{body}"
        );
    }
    ran_nothing(&daemon);
}
