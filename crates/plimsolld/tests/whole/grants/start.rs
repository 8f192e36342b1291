//! A grants file the daemon cannot use stops it, and `check` names everything that is wrong.

use serde_json::{Value, json};

use super::setup::{Files, STATIC, profile, text};
use crate::daemon::{GOOD_TOKEN, Run, run};

fn start(arguments: &[&str], files: &Files, more: &[(&str, &str)]) -> Run {
    let grants = files.path("grants.json");
    let mut values = vec![
        ("PLIMSOLL_GRANTS_FILE", text(&grants)),
        ("PLIMSOLL_TOKEN", GOOD_TOKEN),
        ("API_TOKEN", STATIC),
    ];
    values.extend_from_slice(more);
    run(arguments, &values)
}

const WASM: (&str, &str) = ("SANDBOX_PROVIDER", "wasm");

/// The words as they stand in plain text, or escaped in a JSON line.
fn says(run: &Run, words: &str) -> bool {
    let all = format!("{}{}", run.stdout, run.stderr);
    all.contains(words) || all.contains(&words.replace('"', "\\\""))
}

#[test]
fn a_bad_grants_file_stops_the_start_and_names_profile_field_and_rule() {
    let good = |more: Value| profile("https://api.example.com", &["GET /items/*"], &more);
    let cases: [(Value, &str, &str); 12] = [
        (good(json!({"base_url": "http://api.example.com"})), "base_url", "https"),
        (
            good(json!({"base_url": "https://169.254.169.254"})),
            "base_url",
            "metadata",
        ),
        (good(json!({"allow": ["GET /items/a*b"]})), "allow[0]", "whole segment"),
        (
            good(json!({"catalog": ["GET /items", "HEAD /x"]})),
            "catalog[1]",
            "method",
        ),
        (good(json!({"allowed_callers": []})), "allowed_callers", "at least one"),
        (good(json!({"max_calls": 100_001})), "max_calls", "100000"),
        (good(json!({"timeout_sec": 61})), "timeout_sec", "60"),
        (
            good(json!({"allow_private": ["10.0.0.1/8"]})),
            "allow_private[0]",
            "prefix",
        ),
        (good(json!({"advice": "loud"})), "advice", "operator"),
        (good(json!({"scopes": ["a"]})), "scopes", "jwt"),
        (good(json!({"token": {"env": "NOT_SET"}})), "token.env", "not set"),
        (good(json!({"oops": 1})), "oops", "not a field"),
    ];
    for (bad, field, rule) in cases {
        let files = Files::new(&json!({ "berths": bad }));
        for (command, run) in [
            ("serve", start(&[], &files, &[WASM])),
            ("check", start(&["check"], &files, &[WASM])),
        ] {
            assert_eq!(run.code, Some(1), "{command} {field}: {}{}", run.stdout, run.stderr);
            for words in ["PLIMSOLL_GRANTS_FILE", "profile \"berths\"", field, rule] {
                assert!(
                    says(&run, words),
                    "{command} {field}: {words:?}\n{}{}",
                    run.stdout,
                    run.stderr
                );
            }
            assert!(!says(&run, STATIC), "{command} {field}");
            assert!(!says(&run, "listening"), "{command} {field}");
        }
    }
}

#[test]
fn check_lists_every_problem_of_every_profile() {
    let bad = profile(
        "https://api.example.com",
        &["GET /a", "GET /b/"],
        &json!({"advice": "loud", "max_calls": -1}),
    );
    let worse = profile("ftp://x", &[], &json!({"token": {"env": "NOT_SET"}}));
    let files = Files::new(&json!({ "zeta": worse, "alpha": bad }));
    for run in [start(&["check"], &files, &[WASM]), start(&[], &files, &[WASM])] {
        assert_eq!(run.code, Some(1));
        for words in [
            "profile \"alpha\", allow[1]",
            "profile \"alpha\", advice",
            "profile \"alpha\", max_calls",
            "profile \"zeta\", base_url",
            "profile \"zeta\", token.env",
        ] {
            assert!(says(&run, words), "{words}\n{}{}", run.stdout, run.stderr);
        }
    }
}

#[test]
fn a_file_that_is_missing_or_no_json_stops_the_start() {
    let files = Files::new(&json!({}));
    for content in ["{", "{\"profiles\":{}} x", "[]", "{\"profiles\":{},\"profiles\":{}}"] {
        fs_err::write(files.path("grants.json"), content).unwrap();
        let run = start(&["check"], &files, &[WASM]);
        assert_eq!(run.code, Some(1), "{content}: {}", run.stderr);
        assert!(says(&run, "PLIMSOLL_GRANTS_FILE"), "{content}: {}", run.stderr);
    }
    fs_err::remove_file(files.path("grants.json")).unwrap();
    let run = start(&[], &files, &[WASM]);
    assert!(
        run.code == Some(1) && says(&run, "PLIMSOLL_GRANTS_FILE"),
        "{}",
        run.stderr
    );
}

#[test]
fn profiles_without_a_provider_to_use_them_stop_the_start() {
    let files = Files::new(&json!({ "berths": profile("https://api.example.com", &[], &json!({})) }));
    for arguments in [&[][..], &["check"]] {
        let run = start(arguments, &files, &[]);
        assert_eq!(run.code, Some(1), "{}{}", run.stdout, run.stderr);
        for words in ["PLIMSOLL_GRANTS_FILE", "holds profiles", "provider disabled"] {
            assert!(says(&run, words), "{words}\n{}{}", run.stdout, run.stderr);
        }
    }
    // A file without profiles asks nothing of the provider, and one that a provider can use passes.
    let run = start(&["check"], &Files::new(&json!({})), &[]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let run = start(&["check"], &files, &[WASM]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

#[test]
fn a_profile_no_caller_can_use_is_warned_about() {
    let files = Files::new(&json!({
        "hers": profile("http://127.0.0.1:9", &[], &json!({})),
        "typo": profile("http://127.0.0.1:9", &[], &json!({"allowed_callers": ["alicia"]})),
    }));
    let clients = files.path("clients.json");
    let registry = ("PLIMSOLL_CLIENTS_FILE", text(&clients));
    let token = start(&["check"], &files, &[WASM]);
    let with_registry = start(&["check"], &files, &[WASM, registry]);
    let nobody = "can be used by nobody";
    for (run, hers) in [(&token, true), (&with_registry, false)] {
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(says(
            run,
            &format!("plimsolld: warning: PLIMSOLL_GRANTS_FILE: profile \"typo\" {nobody}")
        ));
        assert_eq!(says(run, &format!("profile \"hers\" {nobody}")), hers, "{}", run.stderr);
    }
    let daemon = files.start(&[]);
    let told = daemon.records.iter().filter_map(|record| record["msg"].as_str());
    let told: Vec<&str> = told.filter(|told| told.contains(nobody)).collect();
    assert!(told.len() == 1 && told[0].contains("\"typo\""), "{told:?}");
}

#[test]
fn an_unset_or_blank_variable_means_no_grants() {
    for value in ["", "  "] {
        let values = [WASM, ("PLIMSOLL_TOKEN", GOOD_TOKEN), ("PLIMSOLL_GRANTS_FILE", value)];
        assert_eq!(run(&["check"], &values).code, Some(0), "{value:?}");
    }
}

#[test]
fn a_profile_of_an_https_api_that_no_certificate_can_prove_stops_the_start() {
    let far = Files::new(&json!({ "far": profile("https://api.example.com", &["GET /b/*"], &json!({})) }));
    let near = Files::new(&json!({ "near": profile("http://127.0.0.1:9", &["GET /b/*"], &json!({})) }));
    fs_err::write(far.path("empty.pem"), "").unwrap();
    let anchors = far.path("empty.pem");
    let none = ("SSL_CERT_FILE", text(&anchors));
    for arguments in [&[][..], &["check"]] {
        let run = start(arguments, &far, &[WASM, none]);
        assert_eq!(run.code, Some(1), "{}{}", run.stdout, run.stderr);
        for words in ["PLIMSOLL_GRANTS_FILE", "certificate", "SSL_CERT_FILE"] {
            assert!(says(&run, words), "{words}\n{}{}", run.stdout, run.stderr);
        }
    }
    let run = start(&["check"], &near, &[WASM, none]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}
