//! The real daemon from its first line to its last: start-up, one run, metrics, readiness, signals.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, GOOD_TOKEN, exchange, get, run, run_snippet, write_clients};
use rustix::process::Signal;

const WASM: [(&str, &str); 2] = [("SANDBOX_PROVIDER", "wasm"), ("PLIMSOLL_TOKEN", GOOD_TOKEN)];

#[test]
fn the_start_up_line_has_its_fields_in_order_and_its_types_exact() {
    let daemon = Daemon::start(&WASM);
    let line = daemon.records.last().unwrap().as_object().unwrap();
    let names = [
        "time",
        "level",
        "msg",
        "addr",
        "provider",
        "isolation",
        "auth",
        "max_concurrent",
        "per_key_concurrent",
        "rate_per_min",
        "rate_burst",
        "mem_mb",
        "cpus",
        "pids",
        "disk_mb",
        "tls",
        "metrics_addr",
        "guard_addr",
        "max_connections",
    ];
    assert_eq!(line.len(), names.len(), "{line:?}");
    let places = names.map(|name| daemon.last_line.find(&format!("\"{name}\":")));
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{}",
        daemon.last_line
    );
    for (name, value) in [
        ("provider", serde_json::json!("wasm")),
        ("isolation", "process".into()),
        ("auth", true.into()),
        ("max_concurrent", 8.into()),
        ("per_key_concurrent", 4.into()),
        ("rate_per_min", 30.into()),
        ("rate_burst", 30.into()),
        ("mem_mb", 0.into()),
        ("cpus", 0.into()),
        ("tls", false.into()),
        ("guard_addr", "none".into()),
    ] {
        assert_eq!(line[name], value, "{name}");
    }
    assert!(line["max_connections"].as_u64().unwrap() >= 1);
}

#[test]
fn a_daemon_without_provider_serves_warns_and_refuses_every_run() {
    let daemon = Daemon::start(&[]);
    let warned = |words: &str| {
        daemon
            .records
            .iter()
            .any(|r| r["level"] == "WARN" && r["msg"].as_str().unwrap().contains(words))
    };
    assert!(warned("open development mode"), "{:?}", daemon.records);
    let listening = daemon.records.last().unwrap();
    assert_eq!(
        (&listening["provider"], &listening["isolation"], &listening["auth"]),
        (&"disabled".into(), &"none".into(), &false.into())
    );
    let (status, error) = run_snippet(daemon.addr, None, "1");
    assert_eq!((status, &error["code"]), (400, &"failed_precondition".into()));
    // NotDispatched with reason unsupported.
    assert_eq!(error["details"][0]["value"], "CAQ");
    assert_eq!(get(daemon.addr, "/readyz").0, 200);
}

#[test]
fn a_run_is_answered_counted_and_audited() {
    let mut daemon = Daemon::start(&WASM);
    let (status, answer) = run_snippet(daemon.addr, Some(GOOD_TOKEN), "console.log(6*7)");
    assert_eq!(status, 200, "{answer}");
    assert_eq!(
        (&answer["sandbox"], &answer["isolation"]),
        (&"wasm".into(), &"process".into())
    );
    assert_eq!(answer["javascript"]["stdout"], "NDIK");
    assert!(answer["record"].is_object());

    let audit = daemon.wait_for("code run");
    for (name, value) in [
        ("level", serde_json::json!("INFO")),
        ("op", "javascript".into()),
        ("caller", "static".into()),
        ("code_bytes", 16.into()),
        ("grant_profile", "".into()),
        ("sandbox", "wasm".into()),
        ("isolation", "process".into()),
        ("exit_code", 0.into()),
        ("timed_out", false.into()),
    ] {
        assert_eq!(audit[name], value, "{name}");
    }
    assert!(audit["duration_ms"].is_number());
    assert!(!audit.to_string().contains("console"), "{audit}");

    let (status, head, page) = get(daemon.metrics_addr.unwrap(), "/metrics");
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    assert!(
        page.contains("\nplimsoll_runs_total 1\n") && page.contains("\nplimsoll_inflight 0\n"),
        "{page}"
    );
    assert!(
        page.contains("plimsoll_isolation_tier{proven=\"process\",current=\"process\"} 1"),
        "{page}"
    );
}

#[test]
fn a_guest_that_exits_with_an_error_is_a_result_and_no_failure() {
    let mut daemon = Daemon::start(&WASM);
    let (status, answer) = run_snippet(daemon.addr, Some(GOOD_TOKEN), "throw new Error('x')");
    assert_eq!((status, &answer["javascript"]["exitCode"]), (200, &1.into()));
    let audit = daemon.wait_for("code run");
    assert_eq!((&audit["level"], &audit["exit_code"]), (&"INFO".into(), &1.into()));
    let (_, _, page) = get(daemon.metrics_addr.unwrap(), "/metrics");
    assert!(
        page.contains("\nplimsoll_runs_total 1\n") && page.contains("\nplimsoll_runs_failed_total 0\n"),
        "{page}"
    );
}

#[test]
fn metrics_and_calls_have_listeners_of_their_own() {
    let daemon = Daemon::start(&WASM);
    let metrics = daemon.metrics_addr.unwrap();
    for (addr, path, status) in [
        (daemon.addr, "/metrics", 404),
        (daemon.addr, "/healthz", 200),
        (daemon.addr, "/readyz", 200),
        (metrics, "/metrics", 200),
        (metrics, "/healthz", 404),
        (metrics, "/", 404),
    ] {
        assert_eq!(get(addr, path).0, status, "{path}");
    }
    assert_eq!(exchange(metrics, "POST /metrics HTTP/1.1", "x").0, 405);
}

#[test]
fn two_callers_of_a_clients_file_are_told_apart_and_a_wrong_bearer_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clients.json");
    let other = "fedcba9876543210fedcba9876543210";
    write_clients(&path, &[("ci", GOOD_TOKEN), ("dev", other)]);
    // The shared token is ignored where there is a clients file.
    let mut daemon = Daemon::start(&[
        ("SANDBOX_PROVIDER", "wasm"),
        ("PLIMSOLL_CLIENTS_FILE", path.to_str().unwrap()),
        ("PLIMSOLL_TOKEN", "0000000000000000000000000000000000"),
    ]);
    for (token, caller) in [(GOOD_TOKEN, "ci"), (other, "dev")] {
        assert_eq!(run_snippet(daemon.addr, Some(token), "1").0, 200);
        assert_eq!(daemon.wait_for("code run")["caller"], caller);
    }
    for token in [None, Some("0000000000000000000000000000000000"), Some("wrong")] {
        assert_eq!(run_snippet(daemon.addr, token, "1").0, 401);
    }
    let refused = daemon.wait_for("credentials refused");
    assert_eq!((&refused["level"], &refused["count"]), (&"WARN".into(), &1.into()));
    let (_, _, page) = get(daemon.metrics_addr.unwrap(), "/metrics");
    assert!(page.contains("\nplimsoll_auth_refused_total 3\n"), "{page}");
}

#[test]
fn a_start_over_the_rate_is_refused_and_counted() {
    let daemon = Daemon::start(&[
        WASM[0],
        WASM[1],
        ("SANDBOX_RATE_PER_MIN", "60"),
        ("SANDBOX_RATE_BURST", "2"),
    ]);
    let statuses: Vec<u16> = (0..3)
        .map(|_| run_snippet(daemon.addr, Some(GOOD_TOKEN), "1").0)
        .collect();
    assert_eq!(statuses, [200, 200, 429]);
    let (_, _, page) = get(daemon.metrics_addr.unwrap(), "/metrics");
    assert!(page.contains("plimsoll_shed_total{reason=\"rate\"} 1\n"), "{page}");
    assert!(
        page.contains("plimsoll_refused_total{reason=\"capacity\",code=\"resource_exhausted\"} 1\n"),
        "{page}"
    );
}

#[test]
fn refused_calls_are_told_where_that_was_asked_for_and_never_in_the_callers_words() {
    let folder = tempfile::tempdir().unwrap();
    let clients = folder.path().join("clients.json");
    write_clients(&clients, &[("ci", GOOD_TOKEN)]);
    let values = [
        ("SANDBOX_PROVIDER", "wasm"),
        ("PLIMSOLL_CLIENTS_FILE", clients.to_str().unwrap()),
    ];
    for (more, lines) in [(&[][..], 0), (&[("PLIMSOLL_LOG_REFUSALS", "1")], 2)] {
        let daemon = Daemon::start(&[&values[..], more].concat());
        let head = format!(
            "POST /plimsoll.v1.SandboxService/Run HTTP/1.1\r\nContent-Type: application/json\r\nAuthorization: Bearer {GOOD_TOKEN}"
        );
        for body in [
            r#"{"protocol":4,"minimumIsolation":"vm","javascript":{"code":"the-callers-words"}}"#,
            r#"{"protocol":4,"javascript":{"code":"1","grantProfile":"the-callers-words"}}"#,
        ] {
            assert_ne!(exchange(daemon.addr, &head, body).0, 200);
        }
        daemon.signal(Signal::TERM);
        let (_, records) = daemon.wait();
        let told: Vec<_> = records
            .iter()
            .filter(|record| record["msg"] == "call refused")
            .collect();
        assert_eq!(told.len(), lines, "{records:?}");
        for (record, [code, reason]) in told.into_iter().zip([
            ["failed_precondition", "isolation"],
            ["permission_denied", "permission"],
        ]) {
            let seen = ["level", "caller", "op", "code", "reason"].map(|key| record[key].as_str().unwrap());
            assert_eq!(seen, ["INFO", "ci", "javascript", code, reason]);
        }
        assert!(!format!("{records:?}").contains("the-callers-words"));
    }
}

#[test]
fn an_address_in_use_is_exit_1_naming_variable_and_address() {
    let daemon = Daemon::start(&[]);
    let taken = daemon.addr.to_string();
    for variable in ["PLIMSOLL_ADDR", "PLIMSOLL_METRICS_ADDR"] {
        let run = run(&[], &[(variable, &taken)]);
        assert_eq!(run.code, Some(1));
        assert!(
            run.stderr.contains(variable) && run.stderr.contains(&taken),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn a_name_nobody_reads_is_warned_about_once_and_changes_nothing() {
    let daemon = Daemon::start(&[("SANDBOX_MAX_CONCURENT", "4711")]);
    let told: Vec<_> = daemon
        .records
        .iter()
        .filter(|r| r.to_string().contains("SANDBOX_MAX_CONCURENT"))
        .collect();
    assert_eq!((told.len(), &told[0]["level"]), (1, &"WARN".into()));
    assert!(!told[0].to_string().contains("4711"));
    assert_eq!(daemon.records.last().unwrap()["max_concurrent"], 8);
}

#[test]
fn a_signal_lets_the_run_in_flight_finish_and_exits_0() {
    let mut daemon = Daemon::start(&[WASM[0], WASM[1]]);
    let addr = daemon.addr;
    let idle = TcpStream::connect(addr).unwrap();
    let long = std::thread::spawn(move || crate::daemon::run_snippet_for(addr, GOOD_TOKEN, 1500, "for (;;);"));
    std::thread::sleep(Duration::from_millis(300));
    daemon.signal(Signal::TERM);
    daemon.wait_for("draining");
    let (status, answer) = long.join().unwrap();
    assert_eq!(
        (status, &answer["javascript"]["exitCode"]),
        (200, &124.into()),
        "{answer}"
    );
    assert!(TcpStream::connect(addr).is_err(), "new connections are refused");
    drop(idle);
    let (status, records) = daemon.wait();
    assert_eq!(status.code(), Some(0));
    assert_eq!(records.last().unwrap()["msg"], "stopped");
}

#[test]
fn a_second_signal_kills_at_once() {
    use std::os::unix::process::ExitStatusExt as _;

    let mut daemon = Daemon::start(&[WASM[0], WASM[1]]);
    let addr = daemon.addr;
    let endless = std::thread::spawn(move || crate::daemon::begin_snippet(addr, GOOD_TOKEN, 30_000, "for (;;);"));
    std::thread::sleep(Duration::from_millis(300));
    daemon.signal(Signal::INT);
    daemon.wait_for("draining");
    let second = Instant::now();
    daemon.signal(Signal::TERM);
    let (status, _) = daemon.wait();
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    assert!(second.elapsed() < Duration::from_secs(2));
    drop(endless.join().unwrap());
}

#[test]
fn the_process_has_no_new_privileges_no_core_and_is_not_dumpable() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    // Root owns what concerns a process that is not dumpable, so the test needs another user; root can become one.
    let folder = tempfile::tempdir().unwrap();
    let root = rustix::process::getuid().is_root();
    let daemon = if root {
        let program = folder.path().join("plimsolld");
        fs_err::copy(env!("CARGO_BIN_EXE_plimsolld"), &program).unwrap();
        for path in [folder.path(), &program] {
            fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        Daemon::start_as(&program, 65_534, &[])
    } else {
        Daemon::start(&[])
    };
    let proc = std::path::PathBuf::from(format!("/proc/{}", daemon.pid()));
    let status = fs_err::read_to_string(proc.join("status")).unwrap();
    assert!(status.contains("\nNoNewPrivs:\t1\n"), "{status}");
    let limits = fs_err::read_to_string(proc.join("limits")).unwrap();
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .unwrap();
    assert_eq!(
        core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(),
        ["0", "0"],
        "{core}"
    );
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let files: Vec<&str> = files.split_whitespace().skip(3).take(2).collect();
    assert_eq!(files[0], files[1], "the soft limit is raised to the hard one");
    assert_eq!(
        fs_err::metadata(proc.join("environ")).unwrap().uid(),
        0,
        "a dumpable process owns its own entries"
    );
}

#[test]
fn a_log_nobody_reads_or_that_is_full_fails_no_run_and_is_counted() {
    let daemon = crate::daemon::start_with_full_log(&WASM);
    assert_eq!(run_snippet(daemon.addr, Some(GOOD_TOKEN), "1").0, 200);
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let (_, _, page) = get(daemon.metrics_addr.unwrap(), "/metrics");
        let lost: u64 = page
            .lines()
            .find_map(|line| line.strip_prefix("plimsoll_log_write_errors_total "))
            .and_then(|count| count.parse().ok())
            .unwrap();
        if lost >= 1 {
            break;
        }
        assert!(Instant::now() < deadline, "{page}");
    }
}
