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
    assert!(
        rows.len() == 3 && rows[1..].iter().all(|row| row.starts_with("wasm ")),
        "{stdout}"
    );
    assert!(
        rows[1].contains(" node ") && rows[1].contains("3 berths, 475 m"),
        "{stdout}"
    );
    // What wasm has no shell for it refuses, and says why.
    assert!(
        rows[2].contains(" shell ")
            && rows[2].contains("refused as unsupported: ")
            && rows[2].contains("project.steps[0] cannot run on provider wasm")
            && rows[2].contains("wasm runs steps of the form `node FILE [arguments]` only"),
        "{stdout}"
    );
    assert!(
        stderr.contains("tier container cannot be proven here. It needs a container engine")
            && stderr.contains("/nonexistent/engine.sock"),
        "{stderr}"
    );
}
