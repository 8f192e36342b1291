//! The example does what its page says.

#![expect(clippy::disallowed_methods, reason = "a test of a program starts it")]

use std::process::Command;

#[test]
fn it_prints_the_payroll_and_the_tier() {
    let output = Command::new(env!("CARGO_BIN_EXE_example-minimal")).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let mut lines = stdout.lines();
    assert_eq!(
        lines.next(),
        Some(r#"{"Engineering":59000000,"Sales":20300000,"Operations":9800000}"#)
    );
    let label = lines.next().unwrap();
    let digest = label.strip_prefix("ran behind tier process, record ").unwrap();
    assert!(
        digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{label}"
    );
    assert_eq!(lines.next(), None);
    assert!(output.status.success() && output.stderr.is_empty());
}
