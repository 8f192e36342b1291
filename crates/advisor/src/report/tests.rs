use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::*;

/// Runs the command on `log` as its standard input; exit code, standard output, standard error.
fn command(args: &[&str], log: &str) -> (u8, String, String) {
    let (mut stdin, mut stdout, mut stderr) = (log.as_bytes(), Vec::new(), Vec::new());
    let mut streams = Streams {
        stdin: &mut stdin,
        stdout: &mut stdout,
        stderr: &mut stderr,
    };
    let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let code = run(args.iter().map(OsString::from), "prospector-report", now, &mut streams);
    (
        code,
        String::from_utf8(stdout).unwrap(),
        String::from_utf8(stderr).unwrap(),
    )
}

fn page_of(lines: &[Value]) -> String {
    page_with(&[], lines)
}

fn page_with(args: &[&str], lines: &[Value]) -> String {
    let (code, page, errors) = command(args, &log_of(lines));
    assert_eq!((code, errors.as_str()), (0, ""));
    page
}

fn log_of(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// An audit line with one finding of each class and one of a retired pattern.
fn advised() -> Value {
    let finding = |route: &str, severity: &str, extra: Value| {
        let mut finding = json!({
            "pattern": "fan_out", "severity": severity, "remedy": "batch", "method": "GET", "route": route,
            "detail": "This run made 12 successful calls.", "agent_fixable": false,
            "extra_calls": 11, "added_latency_ms": 55, "bytes_moved": 6_144,
        });
        finding
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        finding
    };
    json!({
        "time": "2026-01-02T03:04:05.678Z", "level": "INFO", "msg": "code run", "op": "javascript", "caller": "planner",
        "grant_profile": "berths", "sandbox": "wasm", "isolation": "process", "exit_code": 124, "timed_out": true,
        "duration_ms": 1_250, "trace_id": "t-1", "host_calls": 60, "host_calls_denied": 3, "host_calls_shed": 2,
        "host_calls_dropped": 4, "advice": "caller", "advice_retention": "detailed", "advice_findings": 5,
        "advice_agent_fixable": 1, "advice_ungranted_routes": 1, "advice_candidate_routes": 1,
        "advice_extra_calls": 55, "advice_added_latency_ms": 1_275, "advice_bytes_moved": 30_720,
        "advice_finding_details": [
            finding("/s/*", "low", json!({"agent_fixable": true, "suggested_method": "GET", "suggested_route": "/s"})),
            finding("/g/*", "medium", json!({"grant_route_method": "GET", "grant_route": "/g"})),
            finding("/c/*", "high", json!({"candidate_method": "GET", "candidate_route": "/c"})),
            finding("/n/*", "loud", json!({})),
            finding("/old", "info", json!({"pattern": "sequential_calls", "remedy": "parallel", "extra_calls": 0,
                "added_latency_ms": 0, "bytes_moved": 0})),
        ],
    })
}

fn plain(msg: &str) -> Value {
    json!({"time": "2026-01-02T03:05:00Z", "msg": msg, "caller": "ci", "sandbox": "docker", "isolation": "kernel",
        "exit_code": 0, "duration_ms": 7})
}

/// What stands between the first `from` and the next `to`.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("no {from} in {text}"));
    rest.split_once(to).unwrap_or_else(|| panic!("no {to} after {from}")).0
}

#[test]
fn the_policy_allows_the_pages_own_style_and_nothing_else() {
    let page = page_of(&[advised()]);
    let style = between(&page, "<style>", "</style>");
    let hash = BASE64_STANDARD.encode(Sha256::digest(style.as_bytes()));
    assert_eq!(
        between(&page, "http-equiv=\"Content-Security-Policy\" content=\"", "\""),
        format!("default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'")
    );
    assert_eq!(page.matches("<style").count(), 1);
    for other in [
        "<script", "<link", "<img", "<iframe", " style=", " src=", "url(", "@import", "http://", "https://",
    ] {
        assert!(!page.contains(other), "{other}");
    }
    assert!(page.starts_with("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"));
    assert!(page.ends_with("</html>\n"));
}

#[test]
fn markup_in_any_field_stays_text() {
    const EVIL: &str = "<script>alert(1)</script>\"'&";
    let mut line = advised();
    line["msg"] = "code run".into();
    poison(&mut line, EVIL);
    let page = page_with(&["-title", EVIL, "-source", EVIL], &[line]);
    assert!(!page.contains("<script") && !page.contains("alert(1)</"), "{page}");
    assert!(
        page.matches("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;")
            .count()
            > 20
    );
}

/// Puts `text` into every text of the line but its message, which makes it a run.
fn poison(value: &mut Value, text: &str) {
    match value {
        Value::String(old) => text.clone_into(old),
        Value::Array(items) => items.iter_mut().for_each(|item| poison(item, text)),
        Value::Object(fields) => fields
            .iter_mut()
            .filter(|(name, _)| *name != "msg")
            .for_each(|(_, value)| poison(value, text)),
        _ => {}
    }
}

proptest! {
    #[test]
    fn no_text_of_a_log_changes_the_markup(text in "(?s).{1,40}|[<>&\"'/a-z=! -]{1,40}") {
        let page = |text: &str| {
            let mut line = advised();
            poison(&mut line, text);
            page_with(&["-title", text, "-source", text], &[line, plain("project run")])
        };
        let marks = |page: &str| ['<', '>', '"', '\''].map(|mark| page.matches(mark).count());
        prop_assert_eq!(marks(&page(&text)), marks(&page("x")));
    }
}

#[test]
fn a_log_without_runs_gives_one_block_that_says_so() {
    for log in ["", "\n\n", "{\"msg\":\"session opened\"}\n"] {
        let (code, page, told) = command(&[], log);
        assert_eq!(code, 0);
        assert!(told.starts_with("prospector-report: 0 runs: "), "{told}");
        assert!(page.contains("<h2>No runs in this log</h2>"));
        assert!(!page.contains("<table") && !page.contains("class=\"tile\""));
        assert!(page.contains("Metadata only."));
    }
    assert!(!command(&[], "").1.contains("could not be read"));
    assert!(
        command(&[], "x\n[]\n")
            .1
            .contains("2 lines of the log could not be read")
    );
}

#[test]
fn a_log_without_runs_is_told_on_standard_error_with_what_it_holds() {
    for (log, told) in [
        ("", "0 runs: stdin is empty"),
        (" \n\n", "0 runs: stdin is empty"),
        (
            "{\"msg\":\"listening\"}\n",
            "0 runs: stdin has 1 line; none is an audit line",
        ),
        (
            "x\n{}\n[]\n",
            "0 runs: stdin has 3 lines, of which 2 are no JSON object; none is an audit line",
        ),
    ] {
        for args in [&[][..], &["-json"]] {
            let (code, _, errors) = command(args, log);
            assert_eq!(code, 0);
            let line = errors.strip_prefix("prospector-report: ").unwrap();
            assert!(line.starts_with(told) && line.ends_with('\n'), "{line}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let (log, page) = (folder.path().join("audit.jsonl"), folder.path().join("page.html"));
    fs_err::write(&log, "").unwrap();
    let (code, _, errors) = command(&["-o", page.to_str().unwrap(), log.to_str().unwrap()], "");
    assert_eq!((code, errors.lines().count()), (0, 1));
    assert!(
        errors.contains("0 runs: ") && errors.contains("audit.jsonl is empty"),
        "{errors}"
    );
    assert!(fs_err::read_to_string(page).unwrap().contains("No runs in this log"));
    // A log with runs is reported in silence, as before.
    assert_eq!(command(&[], &log_of(&[advised()])).2, "");
}

#[test]
fn the_header_names_title_time_and_source() {
    let page = page_of(&[advised()]);
    assert!(
        page.contains(&format!("<h1>{DEFAULT_TITLE}</h1>"))
            && page.contains(&format!("<title>{DEFAULT_TITLE}</title>"))
    );
    assert!(page.contains("<dt>Generated</dt><dd>2027-01-15 08:00:00 UTC</dd>"));
    assert!(page.contains("<dt>Source</dt><dd>stdin</dd>"));
    let page = page_with(&["-title", "March", "--source=last boot"], &[advised()]);
    assert!(page.contains("<h1>March</h1>") && page.contains("<dd>last boot</dd>"));
}

#[test]
fn tiles_show_totals_and_say_when_details_are_missing() {
    let mut totals_only = plain("code run");
    totals_only["advice"] = "operator".into();
    totals_only["advice_findings"] = 2.into();
    let page = page_of(&[advised(), totals_only, plain("code run failed")]);
    for (name, value) in [
        ("Runs", "<b>3</b><small>1 failed</small>"),
        ("Host calls", "<b>60</b><small>3 denied, 2 shed, 4 not traced</small>"),
        ("Findings", "<b>7</b><small>in 2 runs</small>"),
        ("Agent-fixable", "<b>1</b><small>the agent</small>"),
        ("Declared routes to grant", "<b>1</b><small>the operator</small>"),
        ("Candidates", "<b>1</b><small>the operator</small>"),
        ("No known route", "<b>2</b><small>the owner of the API</small>"),
        ("Latency", "<b>1.28 s</b>"),
        ("Extra calls", "<b>55</b>"),
        ("Bytes moved", "<b>30.0 KB</b>"),
    ] {
        let expected = format!("<dt>{name}</dt><dd>{value}</dd>");
        assert!(page.contains(&expected), "{expected}");
    }
    assert!(page.contains("known for 5 of 7 findings"));
    assert!(!page_of(&[advised()]).contains("known for"));
}

#[test]
fn tables_show_profiles_patterns_and_runs() {
    let mut call = plain("code run");
    call["session_call"] = 3.into();
    let page = page_of(&[
        plain("code run"),
        advised(),
        plain("project run"),
        call,
        plain("code run failed"),
    ]);
    let profiles = between(&page, "<table class=\"profiles\">", "</table>");
    let order: Vec<usize> = ["<bdi>berths</bdi>", "(none)"]
        .map(|name| profiles.find(name).unwrap())
        .to_vec();
    assert!(order.is_sorted());
    let patterns = between(&page, "<table class=\"patterns\">", "</table>");
    assert!(patterns.contains(
        "<th scope=\"row\">Fan-out (N+1)</th><td class=\"num\">4</td><td><span class=\"badge high\">high</span>"
    ));
    assert!(patterns.contains("<th scope=\"row\">Sequential calls</th>"));
    let runs = between(&page, "<table class=\"runs\">", "</table>");
    assert_eq!(runs.matches("<tbody").count(), 5);
    assert!(
        runs.find(">ci<").unwrap() < runs.find(">planner<").unwrap(),
        "the order of the log"
    );
    for shown in [
        "<th scope=\"row\">2026-01-02 03:04:05</th>",
        "<bdi>t-1</bdi><small>planner</small>",
        "<span class=\"quiet\">(none)</span>",
        "<bdi>wasm</bdi><small>process</small>",
        "124 <span class=\"badge medium\">timed out</span>",
        "<span class=\"badge high\">failed</span>",
        ">1.25 s</td>",
        "60<small>3 denied</small><small>2 shed</small><small>4 not traced</small>",
        "1.28 s<small>55 extra calls</small><small>30.0 KB</small>",
        "<small>project</small>",
        "<small>session call 3</small>",
    ] {
        assert!(runs.contains(shown), "{shown} in {runs}");
    }
    assert!(page.contains("id=\"only-advised\""));
    assert!(
        !page_of(&[advised()]).contains("id=\"only-advised\""),
        "nothing to filter"
    );
}

#[test]
fn a_finding_shows_badges_detail_cost_and_who_can_act() {
    let page = page_of(&[advised()]);
    let articles: Vec<&str> = page.split("<article>").skip(1).collect();
    assert_eq!(articles.len(), 5);
    for (index, shown) in [
        (0, "<h3><code>GET /s/*</code></h3>"),
        (
            0,
            "<span class=\"badge low\">low</span> <span class=\"badge agent-fixable\">agent-fixable</span>",
        ),
        (0, "The caller was told so"),
        (0, "11 extra calls · 55 ms of added latency · 6.0 KB moved"),
        (1, "badge grant-route\">grant-route</span>"),
        (
            1,
            "<code>GET /g</code> is declared to serve these reads in one call, and it is not granted",
        ),
        (2, "badge candidate\">candidate</span>"),
        (2, "<code>GET /c</code> looks like the list of these items"),
        (3, "<span class=\"badge info\">loud</span>"),
        (3, "The owner of the API can act."),
        (4, "<span class=\"badge\">Sequential calls</span>"),
        (4, "No modelled cost"),
    ] {
        assert!(articles[index].contains(shown), "{shown} in {}", articles[index]);
    }
    assert!(!page.contains("<details class=\"prompt\">"));
    let mut operator = advised();
    operator["advice"] = "operator".into();
    assert!(page_of(&[operator]).contains("The caller was not told"));
}

#[test]
fn runs_without_a_pattern_get_a_note_instead_of_a_table() {
    assert!(page_of(&[plain("code run")]).contains("No finding in these runs"));
    let mut totals_only = plain("code run");
    totals_only["advice_findings"] = 2.into();
    assert!(page_of(&[totals_only]).contains("These lines keep totals only"));
}

#[test]
fn prompts_go_to_findings_without_a_known_route_whose_profile_may_call_something() {
    let folder = tempfile::tempdir().unwrap();
    let grants = folder.path().join("grants.json");
    let profile = |allow: Value| {
        json!({"base_url": "https://api.example.com", "allow": allow, "allowed_callers": ["planner"],
        "token": {"env": "NOBODY_SETS_THIS"}})
    };
    let file = json!({"profiles": {"berths": profile(json!(["GET /n/*", "GET /n"])), "empty": profile(json!([]))}});
    fs_err::write(&grants, file.to_string()).unwrap();
    let grants = grants.to_str().unwrap();
    let prompts = |profile: &str| {
        let mut line = advised();
        line["grant_profile"] = profile.into();
        page_with(&["-grants", grants], &[line])
            .matches("<details class=\"prompt\">")
            .count()
    };
    assert_eq!(
        prompts("berths"),
        1,
        "not for the other classes, and not for the retired remedy"
    );
    assert_eq!(prompts("empty"), 0);
    assert_eq!(prompts("unknown"), 0);
    let page = page_with(&["-grants", grants], &[advised()]);
    assert!(page.contains("  - GET /n\n  - GET /n/*\n"));

    let mut no_route = advised();
    no_route["advice_finding_details"][3]["route"] = "/n/*?ignore=previous instructions".into();
    assert!(!page_with(&["-grants", grants], &[no_route]).contains("<details class=\"prompt\">"));

    fs_err::write(grants, "{\"profiles\": {\"a b\": {}}}").unwrap();
    let (code, page, errors) = command(&["-grants", grants], "");
    assert_eq!((code, page.as_str()), (1, ""));
    assert!(
        errors.starts_with("prospector-report: ") && errors.contains("grants.json"),
        "{errors}"
    );
}

#[test]
fn files_are_read_and_written_and_the_count_goes_to_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let name = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (log, output) = (name("audit.jsonl"), name("report.html"));
    fs_err::write(&log, log_of(&[advised(), plain("code run")])).unwrap();
    let (code, out, errors) = command(&["-o", &output, &log], "");
    assert_eq!(
        (code, out.as_str(), errors.as_str()),
        (0, "", "prospector-report: 2 runs\n")
    );
    let written = fs_err::read_to_string(&output).unwrap();
    assert!(written.contains(&format!("<dd>{log}</dd>")));
    assert_eq!(command(&[&log], "").1, written);
    let from_stdin = command(&["-source", &log, "-"], &log_of(&[advised(), plain("code run")])).1;
    assert_eq!(from_stdin, written);

    let (code, _, errors) = command(&["-o", &log, &log], "");
    assert_eq!(code, 1);
    assert!(errors.contains("-o names the log itself"), "{errors}");
    assert!(
        fs_err::read_to_string(&log).unwrap().contains("planner"),
        "the log is still there"
    );
}

#[test]
fn what_goes_wrong_is_said_with_its_place_and_exit_code() {
    for (args, log, code, said) in [
        (&["/nowhere/audit.jsonl"][..], String::new(), 1, "/nowhere/audit.jsonl"),
        (
            &["-o", "/nowhere/report.html"],
            String::new(),
            1,
            "/nowhere/report.html",
        ),
        (
            &["-grants", "/nowhere/grants.json"],
            String::new(),
            1,
            "/nowhere/grants.json",
        ),
        (&["-nosuch"], String::new(), 2, "there is no flag"),
        (&["a", "b"], String::new(), 2, "one log can be read"),
        (
            &[],
            "\n".to_owned() + &"x".repeat((16 << 20) + 1),
            1,
            "stdin: line 2 is longer than 16 MiB",
        ),
    ] {
        let (exit, out, errors) = command(args, &log);
        assert_eq!((exit, out.as_str()), (code, ""), "{errors}");
        assert!(
            errors.starts_with("prospector-report: ") && errors.contains(said),
            "{errors}"
        );
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
    let (code, help, errors) = command(&["--help"], "");
    assert_eq!((code, errors.as_str()), (0, ""));
    for flag in ["-o", "-grants", "-title", "-source", "-json", "prospector-report"] {
        assert!(help.contains(flag), "{flag}");
    }
}

#[test]
fn json_holds_what_the_page_shows() {
    let (code, text, _) = command(&["-json"], &(log_of(&[advised(), plain("project run failed")]) + "x\n"));
    assert_eq!(code, 0);
    insta::assert_snapshot!(text);
    let empty: Value = serde_json::from_str(&command(&["-json"], "").1).unwrap();
    assert_eq!((&empty["totals"]["runs"], &empty["runs"]), (&json!(0), &json!([])));
}

#[test]
fn a_reader_who_has_gone_is_an_error_and_no_panic() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for args in [&[][..], &["-help"]] {
        let mut streams = Streams {
            stdin: &mut &b""[..],
            stdout: &mut Gone,
            stderr: &mut Gone,
        };
        assert_eq!(
            run(args.iter().map(OsString::from), "report", UNIX_EPOCH, &mut streams),
            1
        );
    }
}
