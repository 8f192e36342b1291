//! Without an engine the example says so; with one, running it is the test: every row that is not as it must be ends it.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test of a program starts it and fails by panicking"
)]

use std::process::{Command, Output};

fn run(variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_example-providers"))
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

#[test]
fn without_an_engine_it_says_so_and_fails() {
    let output = run(&[("DOCKER_HOST", "unix:///nonexistent/engine.sock")]);
    let (stdout, stderr) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let rows: Vec<&str> = stdout.lines().collect();
    assert!(rows.len() == 2 && rows[1].starts_with("wasm "), "{stdout}");
    assert!(rows[1].contains("3 berths, 475 m"), "{stdout}");
    assert!(
        stderr.contains("tier container cannot be proven here. It needs a container engine")
            && stderr.contains("/nonexistent/engine.sock"),
        "{stderr}"
    );
}
