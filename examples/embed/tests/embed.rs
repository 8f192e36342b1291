//! The example does what its page says.

#![expect(clippy::disallowed_methods, reason = "a test of a program starts it")]

use std::process::Command;

#[test]
fn it_prices_an_order_and_survives_every_bad_rule() {
    let output = Command::new(env!("CARGO_BIN_EXE_example-embed")).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 5, "{stdout}");
    assert_eq!(lines[0], "an order of 250 costs 225, computed behind tier process");
    assert!(
        lines[1].starts_with("a rule that fails: exit 1, ") && lines[1].contains("TypeError"),
        "{stdout}"
    );
    assert_eq!(lines[2], "a rule that never ends: exit 124, timed out: true");
    assert!(
        lines[3].contains("exit 1, ") && lines[3].contains("RangeError"),
        "{stdout}"
    );
    assert!(
        lines[4].starts_with("a floor of vm: minimum_isolation is vm") && lines[4].contains("nothing ran"),
        "{stdout}"
    );
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
