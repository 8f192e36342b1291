//! The host's clock is set while the daemon serves: nothing that is measured moves with it.
//!
//! The clock that is set is the daemon's alone: a library that the system's loader puts before it answers for the wall clock, and
//! adds what a file says.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::daemon::{Daemon, GOOD_TOKEN, command, exchange};

/// Adds the seconds that stand in the file of `CLOCK_FILE` to the wall clock, and leaves every other clock alone.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void begin(void) {
    int file = open(getenv("CLOCK_FILE"), O_RDONLY);
    void *page = file < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) abort();
    close(file);
    offset = page;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int answer = (int)syscall(SYS_clock_gettime, clock, now);
    if (answer == 0 && clock == CLOCK_REALTIME) now->tv_sec += *offset;
    return answer;
}
"#;

/// Where the system's compiler, and what it calls, are.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

const HOUR: i64 = 3600;

/// A daemon whose wall clock can be set.
struct House {
    daemon: Daemon,
    clock: PathBuf,
    _folder: tempfile::TempDir,
}

impl House {
    fn new(more: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [source, library, clock] = ["clock.c", "clock.so", "clock"].map(|name| folder.path().join(name));
        fs_err::write(&source, SHIM).unwrap();
        fs_err::write(&clock, 0_i64.to_ne_bytes()).unwrap();
        let mut compiler = command("/usr/bin/env".as_ref(), &["cc", "-shared", "-fPIC", "-O1", "-o"]);
        let compiled = compiler.env("PATH", PATH).arg(&library).arg(&source).output().unwrap();
        assert!(compiled.status.success(), "{compiled:?}");
        let mut plimsolld = command(env!("CARGO_BIN_EXE_plimsolld").as_ref(), &[]);
        plimsolld
            .env("LD_PRELOAD", &library)
            .env("CLOCK_FILE", &clock)
            .env("PLIMSOLL_ADDR", "127.0.0.1:0")
            .env("PLIMSOLL_METRICS_ADDR", "127.0.0.1:0")
            .env("SANDBOX_PROVIDER", "wasm")
            .env("SANDBOX_MAX_SESSIONS", "2")
            .env("PLIMSOLL_TOKEN", GOOD_TOKEN)
            .envs(more.iter().copied());
        Self {
            daemon: Daemon::spawn(&mut plimsolld),
            clock,
            _folder: folder,
        }
    }

    /// Sets the daemon's clock to so many seconds from the true time.
    fn set(&self, seconds: i64) {
        // In place: the daemon has the file's page mapped.
        let file = fs_err::OpenOptions::new().write(true).open(&self.clock).unwrap();
        std::os::unix::fs::FileExt::write_all_at(file.file(), &seconds.to_ne_bytes(), 0).unwrap();
    }

    fn call(&self, procedure: &str, body: &Value) -> (u16, Value) {
        let head = format!(
            "POST /plimsoll.v1.SandboxService/{procedure} HTTP/1.1\r\nContent-Type: application/json\r\n\
             Authorization: Bearer {GOOD_TOKEN}"
        );
        let (status, _, body) = exchange(self.daemon.addr, &head, &body.to_string());
        (status, serde_json::from_str(&body).unwrap())
    }

    fn run(&self, code: &str, timeout_ms: u32) -> (u16, Value) {
        self.call(
            "Run",
            &json!({"protocol": 4, "timeoutMs": timeout_ms, "javascript": {"code": code}}),
        )
    }
}

/// Beginning and end of a record, in milliseconds since 1970.
fn times(answer: &Value) -> [i64; 2] {
    ["startedUnixMs", "endedUnixMs"].map(|name| answer["record"][name].as_str().unwrap().parse().unwrap())
}

/// Seconds that the daemon's clock is from this process's own, as a record states it.
fn seen(answer: &Value) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    times(answer)[1] / 1000 - i64::try_from(now).unwrap()
}

#[test]
fn a_run_lasts_as_long_as_it_may_whatever_becomes_of_the_clock() {
    let house = House::new(&[]);
    for (before, after) in [(0, 5 * HOUR), (5 * HOUR, -5 * HOUR)] {
        house.set(before);
        let began = Instant::now();
        let answer = std::thread::scope(|scope| {
            let running = scope.spawn(|| house.run("for (;;);", 1_000));
            std::thread::sleep(Duration::from_millis(400));
            house.set(after);
            running.join().unwrap().1
        });
        assert_eq!(answer["javascript"]["timedOut"], true, "{answer}");
        assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
        // The record goes on from its beginning by the time that passed.
        let [started, ended] = times(&answer);
        assert!((1_000..60_000).contains(&(ended - started)), "{started} to {ended}");
        assert!(
            (seen(&answer) - before).abs() < 60,
            "{} s, not {before} s",
            seen(&answer)
        );
    }
    // And the clock is really the one that was set.
    let (_, answer) = house.run("1", 0);
    assert!((seen(&answer) + 5 * HOUR).abs() < 60, "{} s", seen(&answer));
}

#[test]
fn a_clock_set_ahead_ends_no_session_and_gives_nobody_more_runs() {
    let house = House::new(&[("SANDBOX_RATE_PER_MIN", "3"), ("SANDBOX_SESSION_IDLE", "0")]);
    let (status, opened) = house.call("OpenSession", &json!({"protocol": 4}));
    assert_eq!(status, 200, "{opened}");
    let cell = |code| {
        let cell = json!({"language": "javascript", "code": code});
        house.call(
            "SessionRun",
            &json!({"protocol": 4, "sessionId": opened["sessionId"], "cell": cell}),
        )
    };
    assert_eq!(cell("globalThis.kept = 42").0, 200);
    // Beyond its lifetime, and beyond a minute's worth of runs.
    house.set(48 * HOUR);
    let (status, answer) = cell("kept");
    assert_eq!(
        (status, &answer["run"]["cell"]["stdout"]),
        (200, &json!("NDIK")),
        "{answer}"
    );
    // The open and two cells were three starts.
    let (status, refused) = house.run("1", 0);
    assert_eq!(
        (status, &refused["code"]),
        (429, &json!("resource_exhausted")),
        "{refused}"
    );
    house.set(-48 * HOUR);
    assert_eq!(house.run("1", 0).0, 429);
    let (status, closed) = house.call(
        "CloseSession",
        &json!({"protocol": 4, "sessionId": opened["sessionId"]}),
    );
    assert_eq!((status, &closed["calls"]), (200, &json!("2")), "{closed}");
}
