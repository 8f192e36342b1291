//! The daemon is stopped, killed, or short of descriptors while it serves: what its callers are told, and what it leaves.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::daemon::{Daemon, GOOD_TOKEN, begin_snippet, command, run_snippet};

/// How long anything may take that is waited for, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(60);

const SERVING: [(&str, &str); 4] = [
    ("SANDBOX_PROVIDER", "wasm"),
    ("PLIMSOLL_TOKEN", GOOD_TOKEN),
    ("SANDBOX_RATE_PER_MIN", "0"),
    ("SANDBOX_PER_KEY_CONCURRENT", "0"),
];

/// What came of one run that the daemon may not be there for.
#[derive(Debug, PartialEq, Eq)]
enum Came {
    /// A whole answer of a run.
    Answered,
    /// A whole answer that says that nothing ran.
    Refused,
    /// No byte: the connection was refused, or ended.
    Nothing,
}

/// One run on a connection of its own. Part of an answer is a failure of the test.
fn attempt(addr: SocketAddr) -> Came {
    let body = r#"{"protocol":4,"javascript":{"code":"for (let at = 0; at < 20000; at++); console.log(6*7)"}}"#;
    let Ok(mut stream) = TcpStream::connect(addr) else {
        return Came::Nothing;
    };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "POST /plimsoll.v1.SandboxService/Run HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Authorization: Bearer {GOOD_TOKEN}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut answer = String::new();
    if stream.write_all(request.as_bytes()).is_err() || stream.read_to_string(&mut answer).is_err() || answer.is_empty()
    {
        assert!(answer.is_empty(), "half an answer: {answer}");
        return Came::Nothing;
    }
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("half an answer ({error}): {answer}"));
    if head.starts_with("HTTP/1.1 200") {
        assert_eq!(body["javascript"]["stdout"], "NDIK", "{answer}");
        return Came::Answered;
    }
    let marked = head.to_lowercase().contains("plimsoll-not-dispatched")
        || body["details"][0]["type"] == "plimsoll.v1.NotDispatched";
    assert!(marked, "an error while the daemon stops: {answer}");
    Came::Refused
}

/// Callers that go on until they are told to stop; how many runs were answered.
fn under_load(addr: SocketAddr, then: impl FnOnce()) -> usize {
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    if attempt(addr) == Came::Answered {
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let began = Instant::now();
        while answered.load(Ordering::Relaxed) < 50 {
            assert!(began.elapsed() < PATIENCE, "nobody is served");
            std::thread::sleep(Duration::from_millis(5));
        }
        then();
        stop.store(true, Ordering::Relaxed);
    });
    answered.into_inner()
}

fn audited(records: &[Value]) -> usize {
    records.iter().filter(|record| record["msg"] == "code run").count()
}

#[test]
fn a_stop_under_load_answers_every_run_that_was_admitted_and_no_other() {
    let daemon = Daemon::start(&SERVING);
    let addr = daemon.addr;
    let mut ended = None;
    let answered = under_load(addr, || {
        daemon.signal(Signal::TERM);
        ended = Some(daemon.wait());
    });
    let (status, records) = ended.unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(audited(&records), answered);
    assert_eq!(records.last().unwrap()["msg"], "stopped");
    let problems: Vec<&Value> = records.iter().filter(|record| record["level"] == "ERROR").collect();
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn what_is_killed_answers_nothing_and_the_next_one_serves_at_once() {
    let temp = tempfile::tempdir().unwrap();
    let mut values = SERVING.to_vec();
    values.push(("TMPDIR", temp.path().to_str().unwrap()));
    let daemon = Daemon::start(&values);
    let addr = daemon.addr;
    let mut spinning = begin_snippet(addr, GOOD_TOKEN, 30_000, "console.log('begun'); for (;;);");
    under_load(addr, || daemon.signal(Signal::KILL));
    let mut answer = Vec::new();
    // A reset is as good as an end: neither says anything of the run.
    drop(spinning.read_to_end(&mut answer));
    assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    drop(daemon);

    let own = addr.to_string();
    values.push(("PLIMSOLL_ADDR", &own));
    let next = Daemon::start(&values);
    assert_eq!(next.addr, addr);
    assert_eq!(run_snippet(addr, Some(GOOD_TOKEN), "1").0, 200);
    drop(next);
    let left: Vec<_> = fs_err::read_dir(temp.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_daemon_that_is_out_of_descriptors_serves_again_when_there_are_some() {
    let limited = "ulimit -n 64 && exec \"$0\"";
    let mut shell = command("/bin/sh".as_ref(), &["-c", limited, env!("CARGO_BIN_EXE_plimsolld")]);
    let mut daemon = Daemon::spawn(
        shell
            .envs(SERVING)
            .env("PLIMSOLL_ADDR", "127.0.0.1:0")
            .env("PLIMSOLL_METRICS_ADDR", "127.0.0.1:0"),
    );
    let listening = daemon.records.last().unwrap();
    assert_eq!(listening["max_connections"], 32, "half of 64");
    let descriptors = |daemon: &Daemon| fs_err::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap().count();
    let before = descriptors(&daemon);
    for _ in 0..2 {
        // More than there are places: the rest wait in the listener's queue.
        let held: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(daemon.addr).unwrap()).collect();
        let began = Instant::now();
        while descriptors(&daemon) < before + 32 {
            assert!(began.elapsed() < PATIENCE, "{} descriptors", descriptors(&daemon));
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(held);
        for _ in 0..10 {
            assert_eq!(attempt(daemon.addr), Came::Answered);
        }
    }
    let began = Instant::now();
    while descriptors(&daemon) > before {
        assert!(
            began.elapsed() < PATIENCE,
            "{before} before, {} now",
            descriptors(&daemon)
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    daemon.signal(Signal::TERM);
    daemon.wait_for("stopped");
}
