//! The example does what its page says.

#![expect(clippy::disallowed_methods, reason = "a test of a program starts it")]

use std::process::Command;

const ROUTE: &str = "route not permitted: method and path must match an entry of the grant, without query or escapes; call \
                     a listed route";

#[test]
fn it_calls_what_is_listed_nothing_else_and_the_hostile_program_finds_nothing() {
    let output = Command::new(env!("CARGO_BIN_EXE_example-grant")).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stdout}{stderr}");
    assert_eq!(stderr, "");

    let (before, hostile) = stdout.split_once("a hostile program:\n").unwrap();
    assert_eq!(
        before,
        format!(
            "\
an allowed route:
  berth A1 held Ellida, and holds Fram after the PUT
  requests that reached the API: 3
a route that is not listed:
  host api call not permitted: GET /crew
  requests that reached the API: 0
the same without the client:
  403 {ROUTE}
  requests that reached the API: 0
the same under grant crew:
  the crew: Amundsen, Wisting
  requests that reached the API: 1
"
        )
    );

    let (hostile, after) = hostile.split_once("call trace of the first run:\n").unwrap();
    let lines: Vec<&str> = hostile.lines().map(str::trim).collect();
    assert_eq!(lines[0], "control: found 9 of 9 tokens it had hidden itself");
    assert_eq!(
        lines[1],
        "answers of the host: 200 502 403 400 400 400 413 413 error error"
    );
    assert_eq!(
        lines[2],
        "the echo of its request: answer refused: it repeats the credential of the call; tell the operator that this API \
         echoes it"
    );
    let numbers: Vec<usize> = lines[3]
        .split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect();
    let [
        objects,
        functions,
        getters,
        strings,
        modules,
        variables,
        buffers,
        mebibytes,
    ] = numbers[..]
    else {
        panic!("{}", lines[3]);
    };
    assert!(
        objects > 1_000 && functions > 1_000 && getters > 50 && strings > 5_000,
        "{}",
        lines[3]
    );
    assert!(modules >= 30 && buffers > 100 && mebibytes > 50, "{}", lines[3]);
    assert_eq!(variables, 0);
    assert!(lines[3].ends_with(" MiB"), "no bound was reached: {}", lines[3]);
    assert_eq!(lines[4], "found: nothing");
    assert_eq!(lines[5], "requests that reached the API: 5");
    assert_eq!(lines.len(), 6, "{hostile}");

    let trace = after.split_once("call trace of the hostile run:\n").unwrap();
    assert_eq!(
        trace.0,
        "  1 GET /berths/*: 200 delivered, 0 bytes sent, 30 received
  2 PUT /berths/*: 200 delivered, 15 bytes sent, 28 received
  3 GET /berths/*: 200 delivered, 0 bytes sent, 28 received
  refused before anything was sent: 0
"
    );
    assert!(
        trace
            .1
            .contains("  2 GET /headers: 200 withheld, 0 bytes sent, 0 received\n"),
        "{after}"
    );
    assert!(!trace.1.contains("GET /crew: "), "a refused call has no row: {after}");
    assert!(
        after.ends_with(
            "checked: none of 3 tokens, no part of one and not the key is in the output, record, diagnostics or trace of 5 \
             runs\n"
        ),
        "{after}"
    );
}

#[test]
fn two_runs_print_the_same() {
    let print = || {
        Command::new(env!("CARGO_BIN_EXE_example-grant"))
            .output()
            .unwrap()
            .stdout
    };
    assert_eq!(String::from_utf8(print()).unwrap(), String::from_utf8(print()).unwrap());
}
