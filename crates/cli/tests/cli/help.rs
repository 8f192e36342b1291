//! What users see: help, pages, and the reports of this host.

use crate::support::{command, finish, plimsoll};

#[test]
fn help_of_every_command() {
    for command in [
        "",
        "run",
        "session",
        "describe",
        "serve",
        "check",
        "doctor",
        "bench",
        "clients",
        "gvisor install",
        "images build",
        "images list",
        "images verify",
        "images derive",
        "completions",
        "man",
    ] {
        let args: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let ran = plimsoll(&args);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{command}");
        assert!(ran.stdout_text().contains("Examples:"), "{command}");
        let name = if command.is_empty() {
            "plimsoll".to_owned()
        } else {
            command.replace(' ', "_")
        };
        insta::assert_snapshot!(name, ran.stdout_text());
    }
}

#[test]
fn the_daemon_under_another_name_calls_itself_by_that_name() {
    let variables = plimsoll(&["serve", "--variables"]);
    assert_eq!((variables.code, variables.stderr.as_str()), (0, ""));
    let text = variables.stdout_text();
    assert!(
        text.starts_with("Variables:\n") && text.contains("  SANDBOX_MIN_ISOLATION ("),
        "{text}"
    );
    assert!(!text.contains("Usage:") && !text.contains("plimsolld"), "{text}");

    let with = |name: &str, value: &str| finish(command(&["check"]).env(name, value).spawn().unwrap());
    let wrong = with("SANDBOX_MEMORY_MB", "x");
    assert_eq!(wrong.code, 1);
    assert!(
        wrong.stderr.starts_with("plimsoll check: SANDBOX_MEMORY_MB=\"x\""),
        "{}",
        wrong.stderr
    );
    let warned = with("SANDBOX_MEMORY_GB", "1");
    assert_eq!(
        (warned.code, warned.stdout_text()),
        (
            0,
            "the configuration is complete; nothing was started. No provider is chosen (SANDBOX_PROVIDER): it would serve and \
             refuse every run\n"
        )
    );
    assert!(
        warned
            .stderr
            .lines()
            .all(|line| line.starts_with("plimsoll check: warning: "))
            && !warned.stderr.is_empty(),
        "{}",
        warned.stderr
    );
}

#[test]
fn no_command_shows_help_and_is_an_error() {
    let ran = plimsoll(&[]);
    assert_eq!((ran.code, ran.stdout_text()), (2, ""));
    assert!(ran.stderr.contains("Usage: plimsoll"), "{}", ran.stderr);
}

#[test]
fn completions_and_pages_go_to_standard_output() {
    assert!(plimsoll(&["completions", "bash"]).stdout_text().contains("complete"));
    assert!(plimsoll(&["man"]).stdout_text().contains(".TH plimsoll"));
    assert!(plimsoll(&["man", "run"]).stdout_text().contains("plimsoll\\-run"));
    assert_eq!(plimsoll(&["man", "nosuch"]).code, 2);
}

#[test]
fn the_doctor_proves_the_process_tier_and_says_what_the_others_want() {
    let doctor = |args: &[&str]| {
        // No engine: what a machine has must not decide this test.
        finish(
            command(args)
                .env("DOCKER_HOST", "unix:///nonexistent/engine.sock")
                .spawn()
                .unwrap(),
        )
    };
    let ran = doctor(&["doctor", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let report: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    let tiers = report["tiers"].as_array().unwrap();
    let words: Vec<_> = tiers.iter().map(|tier| tier["tier"].as_str().unwrap()).collect();
    assert_eq!(words, ["process", "container", "kernel", "vm"]);
    assert_eq!(
        (&tiers[0]["proven"], &tiers[0]["provider"]),
        (&true.into(), &"wasm".into())
    );
    assert!(
        tiers[0]["environment"]
            .as_str()
            .unwrap()
            .starts_with("quickjs-wasm:sha256:")
    );
    for tier in &tiers[1..3] {
        assert_eq!((&tier["built"], &tier["proven"]), (&true.into(), &false.into()));
        let missing = tier["missing"][0]["what"].as_str().unwrap();
        assert!(missing.contains("/nonexistent/engine.sock"), "{tier}");
    }
    assert_eq!(
        (&tiers[3]["built"], &tiers[3]["missing"]),
        (&false.into(), &serde_json::json!([]))
    );
    for tier in &tiers[1..] {
        let facts = tier["host"].as_array().unwrap();
        assert!(
            !facts.is_empty() && facts.iter().all(serde_json::Value::is_string),
            "{tier}"
        );
    }
    assert!(
        doctor(&["doctor"])
            .stdout_text()
            .starts_with("process    proven: provider wasm, smoke test passed")
    );
}

#[test]
fn the_bench_gives_this_hosts_figures() {
    // No engine: what a machine has must not decide how long this takes.
    let bench = command(&["bench", "--json"])
        .env("DOCKER_HOST", "unix:///nonexistent/engine.sock")
        .spawn();
    let ran = finish(bench.unwrap());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let report: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    let tier = &report["tiers"][0];
    assert_eq!((&tier["tier"], &tier["provider"]), (&"process".into(), &"wasm".into()));
    let [runs, p50, p99, rate] =
        ["runs", "p50_us", "p99_us", "runs_per_second"].map(|name| tier[name].as_u64().unwrap());
    assert!(runs > 0 && p50 > 0 && p50 <= p99 && rate > 0, "{report}");
}

#[test]
fn a_description_is_the_providers_own() {
    let text = plimsoll(&["describe"]);
    assert!(
        text.stdout_text()
            .starts_with("provider     wasm\ntier         process\nprotocol     4\n"),
        "{text:?}"
    );
    let json = plimsoll(&["describe", "--json"]);
    let stated: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&stated["sandbox"], &stated["isolation"]),
        (&"wasm".into(), &"process".into())
    );
}
