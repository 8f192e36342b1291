//! Hardened mode through the real binary: what is refused before anything starts, and what only a start can tell.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use crate::check::refused;
use crate::daemon::{Daemon, GOOD_TOKEN, Run, run, write_clients};
use crate::tls::Authority;

const HARDENED: (&str, &str) = ("PLIMSOLL_HARDENED", "true");

/// The records of a daemon that did not serve, whose start failed.
fn failures(run: &Run) -> Vec<String> {
    let records = run
        .stderr
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    records
        .filter(|record| record["msg"] == "the daemon does not start")
        .map(|record| record["error"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn wasm_is_refused_and_told_that_it_can_never_hold() {
    let values = [HARDENED, ("SANDBOX_PROVIDER", "wasm"), ("PLIMSOLL_TOKEN", GOOD_TOKEN)];
    refused(
        &values,
        &[
            "hardened mode (PLIMSOLL_HARDENED) refuses to serve",
            "rule 2: callers share PLIMSOLL_TOKEN",
            "rule 11: ",
            "hardened mode can never hold on provider wasm",
        ],
    );
    let told = run(&["check"], &values).stderr;
    assert!(
        told.lines()
            .last()
            .unwrap()
            .starts_with("plimsolld: hardened mode can never hold on provider wasm: "),
        "{told}"
    );
}

#[test]
fn everything_wrong_is_one_report_beside_the_settings_that_cannot_be_read_and_nothing_was_started() {
    let values = [
        HARDENED,
        ("SANDBOX_PROVIDER", "docker"),
        // An engine that is asked answers that it is not there, which is another report.
        ("DOCKER_HOST", "unix:///nonexistent/docker.sock"),
        ("PLIMSOLL_ADDR", ":0"),
        ("PLIMSOLL_METRICS_ADDR", ":0"),
        ("PLIMSOLL_INSECURE", "1"),
        ("SANDBOX_REQUIRE_PINNED_IMAGES", "yes"),
        ("SANDBOX_RATE_PER_MIN", "0"),
        ("SANDBOX_PER_KEY_CONCURRENT", "0"),
        ("SANDBOX_MAX_SESSIONS", "4"),
        ("SANDBOX_MAX_CONCURENT", "4711"),
    ];
    let served = run(&[], &values);
    assert_eq!(served.code, Some(1));
    let told = failures(&served);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].starts_with("SANDBOX_REQUIRE_PINNED_IMAGES=\"yes\": "),
        "{told:?}"
    );
    let numbers: Vec<&str> = told[1]
        .split("; rule ")
        .skip(1)
        .map(|rule| rule.split(':').next().unwrap())
        .collect();
    assert_eq!(
        numbers,
        ["2", "3", "4", "5", "7", "11", "12", "14", "16", "18"],
        "{told:?}"
    );
    assert!(
        !served.stderr.contains("docker.sock") && !served.stderr.contains("4711"),
        "{}",
        served.stderr
    );
    let checked = run(&["check"], &values);
    assert_eq!(checked.code, Some(1));
    assert_eq!(
        checked.stderr.matches("plimsolld: rule ").count(),
        10,
        "{}",
        checked.stderr
    );
}

#[test]
fn a_hardened_container_daemon_passes_the_check_and_meets_its_engine_only_then() {
    let authority = Authority::until(4000);
    let folder = tempfile::tempdir().unwrap();
    let clients = folder.path().join("clients.json");
    write_clients(&clients, &[("ci", GOOD_TOKEN)]);
    let image = format!("sha256:{}", "0a".repeat(32));
    let (cert, key) = (authority.path("cert.pem"), authority.path("key.pem"));
    let values = [
        HARDENED,
        ("SANDBOX_PROVIDER", "docker"),
        ("SANDBOX_DOCKER_RUNTIME", "runsc"),
        ("SANDBOX_DOCKER_IMAGE", &image),
        ("SANDBOX_DOCKER_PROJECT_IMAGE", &image),
        ("SANDBOX_REQUIRE_PINNED_IMAGES", "true"),
        ("DOCKER_HOST", "unix:///nonexistent/docker.sock"),
        ("SANDBOX_MEMORY_MB", "256"),
        ("SANDBOX_CPUS", "1"),
        ("SANDBOX_DISK_MB", "1024"),
        ("SANDBOX_PIDS", "128"),
        ("SANDBOX_TOTAL_MEMORY_MB", "4096"),
        ("PLIMSOLL_ADDR", ":0"),
        ("PLIMSOLL_CLIENTS_FILE", clients.to_str().unwrap()),
        ("PLIMSOLL_TLS_CERT", &cert),
        ("PLIMSOLL_TLS_KEY", &key),
    ];
    let checked = run(&["check"], &values);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(
        checked
            .stdout
            .starts_with("hardened mode: every rule holds but rule 1, the tier proven, which only a start can judge\n"),
        "{}",
        checked.stdout
    );
    let served = run(&[], &values);
    assert_eq!(served.code, Some(1));
    let told = failures(&served);
    assert!(
        told.len() == 1 && told[0].starts_with("the provider is not ready"),
        "{told:?}"
    );
}

#[test]
fn a_tier_that_was_not_proven_is_refused_after_the_start_of_the_provider() {
    let folder = tempfile::tempdir().unwrap();
    let clients = folder.path().join("clients.json");
    write_clients(&clients, &[("ci", GOOD_TOKEN)]);
    // Every rule that can be judged before holds; nothing runs, so no tier is proven.
    let values = [
        HARDENED,
        ("PLIMSOLL_CLIENTS_FILE", clients.to_str().unwrap()),
        ("SANDBOX_MEMORY_MB", "256"),
        ("SANDBOX_CPUS", "1"),
        ("SANDBOX_DISK_MB", "64"),
    ];
    assert_eq!(run(&["check"], &values).code, Some(0));
    let served = run(&[], &values);
    assert_eq!(served.code, Some(1));
    let told = failures(&served);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("refuses to serve: 1 rule does not hold; rule 1: the tier proven is none"),
        "{told:?}"
    );
}

#[test]
fn a_profile_that_is_acknowledged_and_is_not_there_is_warned_of() {
    let daemon = Daemon::start(&[("PLIMSOLL_HARDENED_OPEN_PROFILES", "berths")]);
    let told = daemon.records.iter().find(|record| {
        let message = record["msg"].as_str().unwrap();
        message.starts_with("PLIMSOLL_HARDENED_OPEN_PROFILES names \"berths\"")
    });
    assert_eq!(told.expect("a warning")["level"], "WARN");
    refused(
        &[("PLIMSOLL_HARDENED_OPEN_PROFILES", "a,,b")],
        &["PLIMSOLL_HARDENED_OPEN_PROFILES", "an empty name"],
    );
}
