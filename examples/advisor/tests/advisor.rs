//! The example does what its page says.

#![expect(clippy::disallowed_methods, reason = "a test of a program starts it")]

use std::process::Command;

#[test]
fn thirteen_calls_are_told_to_caller_and_operator_and_one_call_to_nobody() {
    let output = Command::new(env!("CARGO_BIN_EXE_example-advisor")).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stdout}{stderr}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 12, "{stdout}");
    assert_eq!(lines[0], "one by one: 4 berths are free");
    assert_eq!(lines[1], "  requests the API saw: 13");
    assert_eq!(
        lines[2],
        "  advice to the caller: fan_out (low), remedy batch, of GET /berths/*"
    );
    assert_eq!(lines[3], "    instead: GET /berths");
    assert!(lines[4].starts_with("    modelled cost: 11 extra calls, "), "{stdout}");
    assert!(
        lines[5].starts_with("    This run made 12 successful calls of GET /berths/*."),
        "{stdout}"
    );
    assert_eq!(lines[6], "at once: 4 berths are free");
    assert_eq!(lines[7], "  requests the API saw: 1");
    assert_eq!(lines[8], "  advice to the caller: none");

    for part in [
        "caller=\"alice\"",
        "grant_profile=\"port\"",
        "host_calls=13",
        "advice=\"caller\"",
        "advice_retention=\"detailed\"",
        "advice_findings=1",
        "advice_agent_fixable=1",
        "advice_extra_calls=11",
        "advice_finding_details=[{",
        "\"pattern\":\"fan_out\"",
        "\"suggested_route\":\"/berths\"",
    ] {
        assert!(
            lines[9].starts_with("audit: ") && lines[9].contains(part),
            "{part}: {stdout}"
        );
    }
    assert_eq!(lines[10], "audit: caller=\"alice\" grant_profile=\"port\" host_calls=1");

    let page = lines[11].strip_prefix("report: ").unwrap();
    let html = fs_err::read_to_string(page).unwrap();
    fs_err::remove_file(page).unwrap();
    for part in ["Fan-out (N+1)", "/berths/*", "alice", "the example&#39;s daemon"] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("<script"), "the page runs nothing");
}
