//! SIGHUP: the caller registry of the real daemon is read again, or is not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::daemon::{Daemon, GOOD_TOKEN, begin_snippet, exchange, get, run, run_snippet, write_clients};

/// How long anything may take that a test waits for, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(30);

const OTHER: &str = "fedcba9876543210fedcba9876543210";
const THIRD: &str = "00000000000000001111111111111111";

/// A registry, and the settings of a daemon that may read it again.
struct House {
    folder: tempfile::TempDir,
}

impl House {
    fn of(callers: &[(&str, &str)]) -> Self {
        let house = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        write_clients(&house.path(), callers);
        house
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("clients.json")
    }

    fn start(&self, more: &[(&str, &str)]) -> Daemon {
        let path = self.path();
        let mut values = vec![
            ("SANDBOX_PROVIDER", "wasm"),
            ("PLIMSOLL_CLIENTS_FILE", path.to_str().unwrap()),
        ];
        values.extend_from_slice(more);
        Daemon::start(&values)
    }

    /// A daemon that reads it again.
    fn reloading(&self, more: &[(&str, &str)]) -> Daemon {
        self.start(&[&[("PLIMSOLL_CLIENTS_RELOAD", "1")], more].concat())
    }
}

/// Sends SIGHUP and gives the record about it.
fn hang_up(daemon: &mut Daemon, message: &str) -> Value {
    daemon.signal(Signal::HUP);
    daemon.wait_for(message)
}

fn status(daemon: &Daemon, token: &str) -> u16 {
    run_snippet(daemon.addr, Some(token), "1").0
}

fn session_call(daemon: &Daemon, token: &str, procedure: &str, body: &Value) -> (u16, Value) {
    let head = format!(
        "POST /plimsoll.v1.SandboxService/{procedure} HTTP/1.1\r\nContent-Type: application/json\r\n\
         Authorization: Bearer {token}"
    );
    let (status, _, body) = exchange(daemon.addr, &head, &body.to_string());
    (status, serde_json::from_str(&body).unwrap())
}

fn open(daemon: &Daemon, token: &str) -> Value {
    let (status, opened) = session_call(daemon, token, "OpenSession", &json!({"protocol": 4}));
    assert_eq!(status, 200, "{opened}");
    opened["sessionId"].clone()
}

fn cell(daemon: &Daemon, token: &str, id: &Value, code: &str) -> (u16, Value) {
    let body = json!({"protocol": 4, "sessionId": id, "cell": {"language": "javascript", "code": code}});
    session_call(daemon, token, "SessionRun", &body)
}

#[test]
fn a_hangup_is_logged_and_ignored_where_nobody_asked_for_more() {
    let house = House::of(&[("ci", GOOD_TOKEN)]);
    for off in [&[][..], &[("PLIMSOLL_CLIENTS_RELOAD", "0")]] {
        write_clients(&house.path(), &[("ci", GOOD_TOKEN)]);
        let mut daemon = house.start(off);
        write_clients(&house.path(), &[("ci", OTHER)]);
        let told = hang_up(&mut daemon, "SIGHUP ignored: PLIMSOLL_CLIENTS_RELOAD is not on");
        assert_eq!(told["level"], "INFO");
        assert_eq!((status(&daemon, GOOD_TOKEN), status(&daemon, OTHER)), (200, 401));
    }
    let mut open = Daemon::start(&[]);
    hang_up(&mut open, "SIGHUP ignored: PLIMSOLL_CLIENTS_RELOAD is not on");
    assert_eq!(get(open.addr, "/healthz").0, 200);
}

#[test]
fn a_good_file_is_in_force_after_a_hangup_and_not_before() {
    let house = House::of(&[("ci", GOOD_TOKEN), ("dev", OTHER)]);
    let mut daemon = house.reloading(&[]);
    write_clients(&house.path(), &[("ci", THIRD)]);
    assert_eq!((status(&daemon, GOOD_TOKEN), status(&daemon, THIRD)), (200, 401));
    let told = hang_up(&mut daemon, "callers reloaded");
    assert_eq!(
        (&told["level"], &told["callers"], &told["revoked"]),
        (&json!("INFO"), &json!(1), &json!(1))
    );
    let now = [GOOD_TOKEN, OTHER, THIRD].map(|token| status(&daemon, token));
    assert_eq!(now, [401, 401, 200]);
    assert_eq!(daemon.wait_for("code run")["caller"], "ci");
    // Hangups that come together are read together, and the last of them sees what was written before it.
    for token in [OTHER, GOOD_TOKEN] {
        write_clients(&house.path(), &[("ci", token)]);
        for _ in 0..5 {
            daemon.signal(Signal::HUP);
        }
    }
    let begun = Instant::now();
    while status(&daemon, GOOD_TOKEN) != 200 {
        assert!(begun.elapsed() < PATIENCE, "the last hangup was lost");
        std::thread::sleep(Duration::from_millis(5));
    }
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait().0.code(), Some(0));
}

#[test]
fn a_file_that_cannot_be_used_leaves_the_callers_as_they_were() {
    let house = House::of(&[("ci", GOOD_TOKEN)]);
    let mut daemon = house.reloading(&[]);
    let path = house.path();
    for (text, problem) in [
        (r#"{"clients":[]}"#, "names no caller"),
        (r#"{"clients":["#, "ends too early"),
        (
            r#"{"clients":[{"id":"dev","token_sha256":"x"}]}"#,
            "clients[0].token_sha256",
        ),
    ] {
        fs_err::write(&path, text).unwrap();
        let told = hang_up(&mut daemon, "callers not reloaded; those of before stay");
        assert_eq!(told["level"], "ERROR");
        let error = told["error"].as_str().unwrap();
        assert!(
            error.starts_with("PLIMSOLL_CLIENTS_FILE=") && error.contains(problem),
            "{error}"
        );
        assert_eq!(status(&daemon, GOOD_TOKEN), 200);
    }
    fs_err::remove_file(&path).unwrap();
    let told = hang_up(&mut daemon, "callers not reloaded; those of before stay");
    assert!(told["error"].as_str().unwrap().contains("does not exist"), "{told}");
    // A folder, and a pipe nobody writes to: neither is waited for.
    fs_err::create_dir(&path).unwrap();
    hang_up(&mut daemon, "callers not reloaded; those of before stay");
    fs_err::remove_dir(&path).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    hang_up(&mut daemon, "callers not reloaded; those of before stay");
    assert_eq!(status(&daemon, GOOD_TOKEN), 200);
    fs_err::remove_file(&path).unwrap();
    write_clients(&path, &[("ci", OTHER)]);
    hang_up(&mut daemon, "callers reloaded");
    assert_eq!((status(&daemon, GOOD_TOKEN), status(&daemon, OTHER)), (401, 200));
}

#[test]
fn a_link_is_followed_to_whatever_it_leads_to_then() {
    let house = House::of(&[("ci", GOOD_TOKEN)]);
    let at = |name: &str| house.folder.path().join(name);
    write_clients(&at("new.json"), &[("ci", OTHER)]);
    let to = |target: &Path| {
        let _not_there_at_first = fs_err::remove_file(at("link.json"));
        std::os::unix::fs::symlink(target, at("link.json")).unwrap();
    };
    to(&house.path());
    let mut daemon = Daemon::start(&[
        ("SANDBOX_PROVIDER", "wasm"),
        ("PLIMSOLL_CLIENTS_FILE", at("link.json").to_str().unwrap()),
        ("PLIMSOLL_CLIENTS_RELOAD", "true"),
    ]);
    assert_eq!(status(&daemon, GOOD_TOKEN), 200);
    to(&at("new.json"));
    hang_up(&mut daemon, "callers reloaded");
    assert_eq!((status(&daemon, GOOD_TOKEN), status(&daemon, OTHER)), (401, 200));
}

#[test]
fn buckets_and_sessions_belong_to_ids_and_a_revoked_callers_sessions_are_closed() {
    let house = House::of(&[("ci", GOOD_TOKEN), ("dev", OTHER)]);
    let mut daemon = house.reloading(&[
        ("SANDBOX_MAX_SESSIONS", "4"),
        ("SANDBOX_RATE_PER_MIN", "1"),
        ("SANDBOX_RATE_BURST", "3"),
    ]);
    let kept = open(&daemon, GOOD_TOKEN);
    let closed = open(&daemon, OTHER);
    assert_eq!(cell(&daemon, GOOD_TOKEN, &kept, "const x = 41").0, 200);
    assert_eq!(cell(&daemon, OTHER, &closed, "1").0, 200);
    // ci has another token and its id; dev is revoked.
    write_clients(&house.path(), &[("ci", THIRD)]);
    let told = hang_up(&mut daemon, "callers reloaded");
    assert_eq!((&told["revoked"], &told["sessions_closed"]), (&json!(1), &json!(1)));
    let ended = match daemon.records.iter().find(|record| record["msg"] == "session closed") {
        Some(record) => record.clone(),
        None => daemon.wait_for("session closed"),
    };
    assert_eq!(
        (&ended["caller"], &ended["end"], &ended["calls"]),
        (&json!("dev"), &json!("closed"), &json!(1))
    );
    let (_, _, page) = get(daemon.metrics_addr.unwrap(), "/metrics");
    assert!(page.contains("plimsoll_sessions{state=\"running\"} 1\n"), "{page}");
    assert_eq!(cell(&daemon, OTHER, &closed, "1").0, 401);
    // The third and last start of its bucket: nobody gets a fresh one by a reload.
    let (status, answer) = cell(&daemon, THIRD, &kept, "x + 1");
    assert_eq!(
        (status, &answer["run"]["cell"]["stdout"]),
        (200, &json!("NDIK")),
        "{answer}"
    );
    let (status, answer) = cell(&daemon, THIRD, &kept, "1");
    assert_eq!(status, 429, "{answer}");
    hang_up(&mut daemon, "callers reloaded");
    assert_eq!(cell(&daemon, THIRD, &kept, "1").0, 429);
}

#[test]
fn a_run_that_is_admitted_goes_on_when_its_caller_is_revoked() {
    let house = House::of(&[("ci", GOOD_TOKEN), ("dev", OTHER)]);
    let mut daemon = house.reloading(&[]);
    let running = begin_snippet(
        daemon.addr,
        OTHER,
        20_000,
        "for (let i = 0; i < 3e7; i++); console.log('through')",
    );
    let begun = Instant::now();
    while get(daemon.metrics_addr.unwrap(), "/metrics")
        .2
        .contains("plimsoll_inflight 0\n")
    {
        assert!(begun.elapsed() < PATIENCE, "the run was not seen in flight");
        std::thread::sleep(Duration::from_millis(2));
    }
    write_clients(&house.path(), &[("ci", GOOD_TOKEN)]);
    hang_up(&mut daemon, "callers reloaded");
    assert_eq!(status(&daemon, OTHER), 401);
    let ran = daemon.wait_for("code run");
    assert_eq!((&ran["caller"], &ran["exit_code"]), (&json!("dev"), &json!(0)), "{ran}");
    drop(running);
}

#[test]
fn a_file_that_others_can_write_is_warned_of_at_the_start_and_at_every_reload() {
    const WARNING: &str = "PLIMSOLL_CLIENTS_FILE can be written by group or others";
    let house = House::of(&[("ci", GOOD_TOKEN)]);
    fs_err::set_permissions(house.path(), std::fs::Permissions::from_mode(0o620)).unwrap();
    let mut daemon = house.reloading(&[]);
    let warned = |daemon: &Daemon| {
        let told = daemon.records.iter().filter(|record| record["msg"] == WARNING);
        told.inspect(|record| assert_eq!(record["level"], "WARN")).count()
    };
    assert_eq!(warned(&daemon), 1);
    hang_up(&mut daemon, "callers reloaded");
    assert_eq!(warned(&daemon), 2);
    fs_err::set_permissions(house.path(), std::fs::Permissions::from_mode(0o600)).unwrap();
    hang_up(&mut daemon, "callers reloaded");
    assert_eq!(warned(&daemon), 2);
}

#[test]
fn reloading_what_is_no_file_is_refused_at_the_start() {
    for with in [
        &[][..],
        &[("PLIMSOLL_TOKEN", GOOD_TOKEN)],
        &[("PLIMSOLL_CLIENTS_FILE", "  ")],
    ] {
        let checked = run(&["check"], &[with, &[("PLIMSOLL_CLIENTS_RELOAD", "1")]].concat());
        assert_eq!(checked.code, Some(1), "{with:?}");
        assert!(
            checked.stderr.contains("PLIMSOLL_CLIENTS_RELOAD=") && checked.stderr.contains("set PLIMSOLL_CLIENTS_FILE"),
            "{}",
            checked.stderr
        );
    }
}
