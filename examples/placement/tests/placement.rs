//! The example does what its page says.

#![expect(clippy::disallowed_methods, reason = "a test of a program starts it")]

use std::process::Command;

#[test]
fn three_calls_are_three_runs_wherever_they_end_up() {
    let output = Command::new(env!("CARGO_BIN_EXE_example-placement")).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stdout}{stderr}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 7, "{stdout}");
    assert_eq!(lines[..2], ["first: 42", "first: near ran it"]);
    assert_eq!(
        lines[2..4],
        ["second: 42", "second: near refused it (capacity), then far ran it"]
    );
    assert!(
        lines[4].starts_with("floor vm: nothing was sent: no backend"),
        "{stdout}"
    );
    assert_eq!(
        lines[5],
        "near has stopped: near refused it (environment), then far ran it"
    );
    assert_eq!(lines[6], "three calls, three runs: near 1, far 2");
}
