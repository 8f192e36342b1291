//! `plimsolld check`, help and arguments, through the real binary: what stops the start and in which words.

use crate::daemon::{GOOD_TOKEN, Run, run, write_clients};

fn check(values: &[(&str, &str)]) -> Run {
    run(&["check"], values)
}

/// The same configuration, checked and served: both refuse it, with exit code 1 and these words on stderr.
pub(crate) fn refused(values: &[(&str, &str)], words: &[&str]) {
    for (command, run) in [("check", check(values)), ("serve", run(&[], values))] {
        assert_eq!(run.code, Some(1), "{command} {values:?}: {}", run.stderr);
        for word in words {
            // The log is JSON, where a quote is escaped.
            let escaped = word.replace('"', "\\\"");
            assert!(
                run.stderr.contains(word) || run.stderr.contains(&escaped),
                "{command} {values:?} does not say {word:?}: {}",
                run.stderr
            );
        }
        assert!(
            !run.stderr.contains("\"msg\":\"listening\""),
            "{command} {values:?}: {}",
            run.stderr
        );
    }
}

#[test]
fn an_unknown_argument_is_exit_2_with_the_whole_help_on_stderr() {
    for arguments in [&["-v"][..], &["-h", "x"], &["serve"], &["--check"]] {
        let run = run(arguments, &[]);
        assert_eq!(run.code, Some(2), "{arguments:?}");
        assert!(
            run.stdout.is_empty() && run.stderr.contains("SANDBOX_MAX_CONCURRENT"),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn help_and_version_are_exit_0_on_stdout() {
    for argument in ["-h", "--help", "help"] {
        let run = run(&[argument], &[]);
        assert_eq!(run.code, Some(0));
        assert!(
            run.stderr.is_empty() && run.stdout.contains("PLIMSOLL_CLIENTS_FILE"),
            "{}",
            run.stdout
        );
    }
    for argument in ["version", "--version"] {
        let version = run(&[argument], &[]);
        assert_eq!(version.code, Some(0));
        assert_eq!(version.stdout, concat!("plimsolld ", env!("CARGO_PKG_VERSION"), "\n"));
    }
}

#[test]
fn a_good_configuration_passes_and_binds_nothing() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    for values in [
        &[][..],
        &[("PLIMSOLL_ADDR", addr.as_str())],
        &[("SANDBOX_PROVIDER", " WASM "), ("PLIMSOLL_TOKEN", GOOD_TOKEN)],
        &[
            ("SANDBOX_PROVIDER", "wasm"),
            ("PLIMSOLL_INSECURE", "1"),
            ("SANDBOX_MEMORY_MB", "-0"),
        ],
        &[
            ("PLIMSOLL_CLIENTS_FILE", "  "),
            ("PLIMSOLL_TOKEN", GOOD_TOKEN),
            ("SANDBOX_PROVIDER", "wasm"),
        ],
        &[("PLIMSOLL_METRICS_ADDR", " OFF "), ("PLIMSOLL_LOG_FORMAT", "xml")],
        &[
            ("SANDBOX_PROVIDER", "wasm"),
            ("PLIMSOLL_INSECURE", "1"),
            ("SANDBOX_MIN_ISOLATION", "PROCESS "),
        ],
        &[("SANDBOX_MAX_SESSIONS", "  ")],
    ] {
        let run = check(values);
        assert_eq!(run.code, Some(0), "{values:?}: {}", run.stderr);
    }
}

#[test]
fn a_malformed_value_is_named_with_its_variable() {
    for (name, value) in [
        ("SANDBOX_PROVIDER", "dokcer"),
        ("SANDBOX_MEMORY_MB", "abc"),
        ("SANDBOX_MEMORY_MB", "9223372036854775808"),
        ("SANDBOX_CPUS", "NaN"),
        ("SANDBOX_CPUS", "Inf"),
        ("SANDBOX_CPUS", "-1"),
        ("SANDBOX_MIN_ISOLATION", "none"),
        ("SANDBOX_MAX_CONCURRENT", "0"),
        ("SANDBOX_MAX_CONCURRENT", "1025"),
        ("SANDBOX_MAX_CONCURRENT", "ten"),
        ("SANDBOX_PER_KEY_CONCURRENT", "9"),
        ("SANDBOX_RATE_PER_MIN", "-1"),
        ("SANDBOX_RATE_BURST", "x"),
        ("SANDBOX_SESSION_LIFETIME", "30"),
        ("SANDBOX_SESSION_LIFETIME", "13h"),
        ("SANDBOX_SESSION_IDLE", "500ms"),
        ("SANDBOX_SESSION_DISK_MB", "1048577"),
        ("SANDBOX_SESSION_POOL", "two"),
        ("SANDBOX_READY_POOL", "-1"),
        ("SANDBOX_REQUIRE_PINNED_IMAGES", "yes"),
        ("PLIMSOLL_CLIENTS_RELOAD", "yes"),
        ("PLIMSOLL_METRICS_ADDR", "9464"),
        ("PLIMSOLL_METRICS_ADDR", "no"),
        ("PLIMSOLL_ADDR", "8746"),
        ("PLIMSOLL_ADDR", "127.0.0.1:65536"),
        ("SANDBOX_SESSION_IDLE", "-1s"),
        ("SANDBOX_PAID_SECONDS_PER_DAY", "-1"),
    ] {
        refused(&[(name, value)], &[name, &format!("{value:?}")]);
    }
}

#[test]
fn sessions_of_containers_may_be_bounded_and_kept_ready_and_a_crowd_of_them_is_warned_of() {
    let values = |sessions| {
        [
            ("SANDBOX_PROVIDER", "docker"),
            ("PLIMSOLL_INSECURE", "1"),
            ("SANDBOX_SESSION_DISK_MB", "64"),
            ("SANDBOX_SESSION_POOL", "2"),
            ("SANDBOX_MAX_SESSIONS", sessions),
        ]
    };
    for (sessions, warned) in [("7", false), ("8", true)] {
        let run = check(&values(sessions));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert_eq!(
            run.stderr
                .contains("SANDBOX_MAX_SESSIONS=8 can take all 8 runs this daemon does at once"),
            warned,
            "{}",
            run.stderr
        );
    }
}

#[test]
fn sessions_on_a_provider_that_keeps_none_are_refused() {
    refused(
        &[("SANDBOX_MAX_SESSIONS", "1")],
        &["SANDBOX_MAX_SESSIONS", "keeps no sessions"],
    );
}

#[test]
fn what_sessions_of_a_provider_cannot_do_is_refused_at_once() {
    refused(
        &[
            ("SANDBOX_PROVIDER", "wasm"),
            ("PLIMSOLL_INSECURE", "1"),
            ("SANDBOX_MAX_SESSIONS", "4"),
            ("SANDBOX_SESSION_DISK_MB", "64"),
            ("SANDBOX_SESSION_POOL", "2"),
        ],
        &[
            "SANDBOX_SESSION_DISK_MB=\"64\": provider wasm cannot bound what a session writes",
            "SANDBOX_SESSION_POOL=\"2\": provider wasm keeps no session sandboxes ready",
        ],
    );
}

#[test]
fn a_session_pool_needs_as_many_sessions_and_leaves_memory_for_a_run() {
    refused(
        &[("SANDBOX_SESSION_POOL", "1")],
        &[
            "SANDBOX_SESSION_POOL=\"1\": sessions are off",
            "set SANDBOX_MAX_SESSIONS",
        ],
    );
    refused(
        &[("SANDBOX_SESSION_POOL", "5"), ("SANDBOX_MAX_SESSIONS", "4")],
        &["SANDBOX_SESSION_POOL=\"5\": above SANDBOX_MAX_SESSIONS, which is 4"],
    );
    for provider in ["wasm", "docker"] {
        refused(
            &[
                ("SANDBOX_PROVIDER", provider),
                ("PLIMSOLL_INSECURE", "1"),
                ("SANDBOX_MAX_CONCURRENT", "8"),
                ("SANDBOX_TOTAL_MEMORY_MB", "1024"),
                ("SANDBOX_MEMORY_MB", "256"),
                ("SANDBOX_MAX_SESSIONS", "4"),
                ("SANDBOX_SESSION_POOL", "4"),
            ],
            &[
                "SANDBOX_TOTAL_MEMORY_MB=\"1024\"",
                "4 sandboxes that wait ready",
                "at least 1280, lower SANDBOX_SESSION_POOL",
            ],
        );
    }
}

#[test]
fn what_this_host_shows_of_a_container_setting_is_judged_before_anything_is_asked_of_an_engine() {
    for (name, value, words) in [
        ("SANDBOX_DOCKER_SECCOMP", "/nonexistent/profile.json", "No such file"),
        (
            "SANDBOX_DOCKER_SECCOMP",
            "/etc/passwd",
            "not a profile in Docker's format",
        ),
        ("SANDBOX_GUEST_UID", "1", "1 is already used in /etc/passwd"),
        (
            "DOCKER_HOST",
            "tcp://127.0.0.1:2375",
            "names no Unix socket of this host",
        ),
        ("DOCKER_HOST", "ssh://host", "names no Unix socket of this host"),
        ("DOCKER_CONTEXT", "nowhere", "no docker context of this name"),
        ("SANDBOX_PIDS", "1", "needs at least 16 processes"),
        ("SANDBOX_MEMORY_MB", "63", "needs at least 64 MiB"),
    ] {
        refused(
            &[
                ("SANDBOX_PROVIDER", "docker"),
                ("PLIMSOLL_INSECURE", "1"),
                (name, value),
            ],
            &[&format!("{name}={value:?}"), words],
        );
    }
}

#[test]
fn a_token_that_could_be_guessed_is_refused_although_a_clients_file_wins_over_it() {
    let folder = tempfile::tempdir().unwrap();
    let clients = folder.path().join("clients.json");
    write_clients(&clients, &[("ci", GOOD_TOKEN)]);
    let values = |token| {
        [
            ("SANDBOX_PROVIDER", "wasm"),
            ("PLIMSOLL_CLIENTS_FILE", clients.to_str().unwrap()),
            ("PLIMSOLL_TOKEN", token),
        ]
    };
    refused(
        &values("short"),
        &["PLIMSOLL_TOKEN: has 5 bytes, and 32 is the minimum"],
    );
    assert_eq!(check(&values(GOOD_TOKEN)).code, Some(0));
}

#[test]
fn a_variable_of_something_unbuilt_is_named() {
    for (name, value) in [
        ("PLIMSOLL_STATE_DIR", "/var/lib/plimsoll"),
        ("PLIMSOLL_GUARD_ADDR", "127.0.0.1:8443"),
        ("SANDBOX_PAID_SECONDS_PER_DAY", "3600"),
        ("SANDBOX_DOCKER_MODULE_IMAGE", "plimsoll/sandbox-sim"),
        ("SANDBOX_DOCKERCLOUD_API", "rest"),
        ("SANDBOX_OPENSHELL_IMAGE", "x"),
    ] {
        refused(
            &[("SANDBOX_PROVIDER", "wasm"), ("PLIMSOLL_INSECURE", "1"), (name, value)],
            &[name, "not built yet"],
        );
    }
    for provider in ["e2b", "dockercloud", "openshell"] {
        refused(
            &[("SANDBOX_PROVIDER", provider)],
            &["SANDBOX_PROVIDER", provider, "not built yet"],
        );
    }
}

#[test]
fn what_only_containers_have_is_refused_on_wasm() {
    for (name, value) in [("SANDBOX_READY_POOL", "1"), ("SANDBOX_GUEST_UID", "61000")] {
        refused(
            &[("SANDBOX_PROVIDER", "wasm"), ("PLIMSOLL_INSECURE", "1"), (name, value)],
            &[name, "provider wasm", "choose provider docker"],
        );
    }
}

#[test]
fn credentials_are_refused_without_being_shown() {
    let short = &GOOD_TOKEN[1..];
    let spaced = format!("{} x", &GOOD_TOKEN[2..]);
    for (name, value) in [
        ("PLIMSOLL_TOKEN", short),
        ("PLIMSOLL_TOKEN", &spaced),
        ("E2B_API_KEY", "e2b_hunter2hunter2"),
    ] {
        let values = [("SANDBOX_PROVIDER", "wasm"), (name, value)];
        refused(&values, &[name]);
        assert!(!check(&values).stderr.contains(&value[..8]));
        assert!(!run(&[], &values).stderr.contains(&value[..8]));
    }
}

#[test]
fn every_problem_is_reported_in_one_go() {
    let values = [
        ("SANDBOX_MEMORY_MB", "abc"),
        ("PLIMSOLL_HARDENED", "yes"),
        ("SANDBOX_MAX_CONCURRENT", "0"),
    ];
    let run = check(&values);
    assert_eq!(run.stderr.lines().count(), 3, "{}", run.stderr);
    assert!(
        values.iter().all(|(name, _)| run.stderr.contains(name)),
        "{}",
        run.stderr
    );
}

#[test]
fn settings_that_do_not_go_together_are_reported_beside_those_that_are_wrong_by_themselves() {
    let values = [
        ("SANDBOX_PROVIDER", "wasm"),
        ("SANDBOX_MIN_ISOLATION", "kernel"),
        ("SANDBOX_PIDS", "64"),
        ("SANDBOX_CPUS", "2"),
        ("SANDBOX_TOTAL_MEMORY_MB", "100"),
        ("SANDBOX_RATE_PER_MIN", "many"),
        ("PLIMSOLL_TOKEN", "short"),
    ];
    let expected = &values[1..];
    for (command, run) in [("check", check(&values)), ("serve", run(&[], &values))] {
        assert_eq!(run.code, Some(1), "{command}");
        assert_eq!(run.stderr.lines().count(), expected.len(), "{command}: {}", run.stderr);
        assert!(
            expected.iter().all(|(name, _)| run.stderr.contains(name)),
            "{command}: {}",
            run.stderr
        );
    }
}

#[test]
fn a_minimum_no_proof_can_reach_is_seen_without_a_start() {
    let wasm = [("SANDBOX_PROVIDER", "wasm"), ("PLIMSOLL_INSECURE", "1")];
    for floor in ["container", "kernel", "VM "] {
        let tier = floor.trim().to_lowercase();
        refused(
            &[wasm[0], wasm[1], ("SANDBOX_MIN_ISOLATION", floor)],
            &[
                &format!("SANDBOX_MIN_ISOLATION={tier:?}"),
                "wasm proves process at most",
            ],
        );
    }
    refused(
        &[("SANDBOX_MIN_ISOLATION", "process")],
        &["SANDBOX_MIN_ISOLATION=\"process\"", "no provider is chosen"],
    );
}

#[test]
fn an_unknown_provider_is_answered_with_those_of_this_build() {
    refused(
        &[("SANDBOX_PROVIDER", "dokcer")],
        &["a provider of this build (wasm or docker)"],
    );
    assert!(!check(&[("SANDBOX_PROVIDER", "dokcer")]).stderr.contains("openshell"));
}

#[test]
fn a_port_that_is_none_and_a_negative_time_are_told_as_what_they_are() {
    refused(
        &[("PLIMSOLL_ADDR", "0.0.0.0:87460")],
        &[
            "PLIMSOLL_ADDR=\"0.0.0.0:87460\"",
            "out of range",
            "a port from 0 to 65535",
            "default :8746",
        ],
    );
    refused(
        &[("SANDBOX_SESSION_LIFETIME", "-30m")],
        &[
            "SANDBOX_SESSION_LIFETIME=\"-30m\"",
            "cannot be negative",
            "from 1s to 12h",
            "default 30m",
        ],
    );
}

#[test]
fn addresses_that_are_both_in_use_are_both_named() {
    let taken = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let addrs = taken
        .each_ref()
        .map(|listener| listener.local_addr().unwrap().to_string());
    let run = run(
        &[],
        &[("PLIMSOLL_ADDR", &addrs[0]), ("PLIMSOLL_METRICS_ADDR", &addrs[1])],
    );
    assert_eq!(run.code, Some(1));
    assert!(addrs.iter().all(|addr| run.stderr.contains(addr)), "{}", run.stderr);
}

#[test]
fn wasm_refuses_what_it_cannot_enforce_and_memory_it_cannot_start_with() {
    let wasm = [("SANDBOX_PROVIDER", "wasm"), ("PLIMSOLL_INSECURE", "1")];
    for (name, value) in [
        ("SANDBOX_PIDS", "64"),
        ("SANDBOX_CPUS", "1"),
        ("SANDBOX_DISK_MB", "10"),
        ("SANDBOX_MEMORY_MB", "1"),
    ] {
        refused(&[wasm[0], wasm[1], (name, value)], &[name, "wasm"]);
    }
}

#[test]
fn code_is_not_run_for_strangers() {
    refused(
        &[("SANDBOX_PROVIDER", "wasm")],
        &["PLIMSOLL_CLIENTS_FILE", "PLIMSOLL_TOKEN", "PLIMSOLL_INSECURE=1"],
    );
    refused(
        &[("SANDBOX_PROVIDER", "wasm"), ("PLIMSOLL_INSECURE", "true")],
        &["PLIMSOLL_INSECURE=1"],
    );
}

#[test]
fn a_clients_file_must_be_there_well_formed_and_name_a_caller() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clients.json");
    let name = path.to_str().unwrap();
    let values = [("SANDBOX_PROVIDER", "wasm"), ("PLIMSOLL_CLIENTS_FILE", name)];
    refused(&values, &["PLIMSOLL_CLIENTS_FILE", name]);
    for text in ["{\"clients\":[]}", "{", "null", "{\"clients\":[],\"unexpected\":true}"] {
        fs_err::write(&path, text).unwrap();
        refused(&values, &["PLIMSOLL_CLIENTS_FILE", name]);
    }
    write_clients(&path, &[("ci", GOOD_TOKEN)]);
    assert_eq!(check(&values).code, Some(0));
}

#[test]
fn a_memory_budget_that_fits_no_run_or_less_than_the_callers_cap_is_refused() {
    let wasm = [("SANDBOX_PROVIDER", "wasm"), ("PLIMSOLL_INSECURE", "1")];
    refused(
        &[wasm[0], wasm[1], ("SANDBOX_TOTAL_MEMORY_MB", "255")],
        &["SANDBOX_TOTAL_MEMORY_MB=\"255\""],
    );
    refused(
        &[
            wasm[0],
            wasm[1],
            ("SANDBOX_TOTAL_MEMORY_MB", "512"),
            ("SANDBOX_MEMORY_MB", "256"),
            ("SANDBOX_PER_KEY_CONCURRENT", "4"),
        ],
        &["SANDBOX_PER_KEY_CONCURRENT=\"4\""],
    );
    let clamped = check(&[wasm[0], wasm[1], ("SANDBOX_TOTAL_MEMORY_MB", "1024")]);
    assert_eq!(clamped.code, Some(0), "{}", clamped.stderr);
    assert!(clamped.stderr.contains("4 is in force"), "{}", clamped.stderr);
}

#[test]
fn a_name_nobody_reads_is_a_warning_without_its_value() {
    let run = check(&[("SANDBOX_MAX_CONCURENT", "4711")]);
    assert_eq!(run.code, Some(0));
    assert!(
        run.stderr.contains("SANDBOX_MAX_CONCURENT") && !run.stderr.contains("4711"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_value_that_is_not_utf8_is_refused_by_name() {
    let run = crate::daemon::run_with_bytes(&["check"], "SANDBOX_MEMORY_MB", &[0x31, 0xff]);
    assert_eq!(run.code, Some(1));
    assert!(
        run.stderr.contains("SANDBOX_MEMORY_MB") && run.stderr.contains("UTF-8"),
        "{}",
        run.stderr
    );
}
