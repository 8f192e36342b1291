//! Without an engine the first half runs and the second says what is missing; with one, running the example is the test: every
//! claim that does not hold ends it.

#![expect(
    clippy::disallowed_methods,
    reason = "a test of a program starts it and fails by panicking"
)]

use std::process::Command;

#[test]
fn cells_remember_the_verifier_refuses_and_without_an_engine_the_rest_says_so() {
    let output = Command::new(env!("CARGO_BIN_EXE_example-sessions"))
        .env("DOCKER_HOST", "unix:///nonexistent/engine.sock")
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stdout}{stderr}");
    let lines: Vec<&str> = stdout.lines().map(str::trim).collect();
    assert_eq!(lines.len(), 11, "{stdout}");
    assert!(
        lines[0].starts_with("a session on wasm, tier process, fingerprint "),
        "{stdout}"
    );
    assert_eq!(lines[1], "call 1, exit 0:");
    assert_eq!(lines[2], "call 2, exit 0: 475");
    assert!(lines[3].starts_with("call 3, exit 1: TypeError: "), "{stdout}");
    assert_eq!(lines[4], "call 4, exit 0: 4");
    assert_eq!(lines[5], "closed: the daemon counts 4 calls as well");
    assert_eq!(lines[6], "the chain of 4 records stands");
    assert_eq!(
        lines[7],
        "a record dropped: refused: record 2 of the chain: record is call 3 of its session; call 2 was expected"
    );
    assert_eq!(
        lines[8],
        "a record changed: refused: record 3 of the chain: record_sha256 is not the digest of the record's fields"
    );
    assert_eq!(
        lines[9],
        "a record changed and its digest too: refused: record 4 of the chain: record does not follow the previous call's record"
    );
    assert_eq!(
        lines[10],
        "the last record dropped: refused: the chain ends at call 3, the session at call 4"
    );
    assert!(
        stderr.contains("needs a container engine and the image plimsoll/sandbox")
            && stderr.contains("/nonexistent/engine.sock"),
        "{stderr}"
    );
}
