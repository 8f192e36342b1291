//! The example does what its page says.

#![expect(clippy::disallowed_methods, reason = "a test of a program starts it")]

use std::process::Command;

#[test]
fn two_callers_run_and_the_floor_and_the_wrong_token_run_nothing() {
    let output = Command::new(env!("CARGO_BIN_EXE_example-daemon")).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stdout}{stderr}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 7, "{stdout}");
    for (at, name) in [(0, "alice"), (2, "bob")] {
        assert_eq!(lines[at], format!("{name}: 42"));
        assert!(
            lines[at + 1].starts_with(&format!("{name}: ran behind tier process, record ")),
            "{stdout}"
        );
    }
    assert!(
        lines[4].starts_with("alice, floor vm: nothing ran (isolation): "),
        "{stdout}"
    );
    assert_eq!(lines[5], "wrong token: nothing ran (permission): unauthenticated");
    assert_eq!(lines[6], "the daemon stopped; its audit shows 2 runs");
}
