//! Sessions: what stays from call to call, and that nothing else does.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "tests start sandboxes and read files")]
#![allow(dead_code, reason = "each test file uses its part of the support")]

mod support;

use std::time::{Duration, Instant};

use plimsoll_guest_messages::limits::SNIPPET_STREAM_CAP;
use plimsoll_guest_messages::{
    CellEnd, CellOutcome, CellPlan, Disk, End, GuestMessage, Language, NotRun, Plan, Prepare, ProjectFile, SweepEnd,
    SweepPlan, WarmPlan,
};
use support::{Sandbox, snippet, steps, text};

use Language::{JavaScript, Python};

/// A session with what its host does around calls.
struct Session(Sandbox);

impl Session {
    fn open() -> Self {
        Self::open_with(&[])
    }

    fn open_with(env: &[(&str, &str)]) -> Self {
        let mut sandbox = Sandbox::open_with(Prepare::Session, env, SNIPPET_STREAM_CAP);
        sandbox.expect_ready();
        Self(sandbox)
    }

    fn sweep_with(&mut self, keep_interpreters: bool, disk_budget: u64) -> SweepEnd {
        self.0.send(Plan::Sweep(SweepPlan {
            keep_interpreters,
            disk_budget,
            rest: false,
        }));
        match self.0.next_word() {
            Some(GuestMessage::Swept(end)) => end,
            other => panic!("not swept: {other:?}"),
        }
    }

    fn sweep(&mut self) -> SweepEnd {
        let end = self.sweep_with(true, 0);
        assert!(end.clean, "{end:?}");
        end
    }

    fn send_cell(&mut self, language: Language, code: &str, files: &[(&str, &str)], timeout_ms: u64) {
        let nonce = format!("{:032x}", rand(code));
        self.0.send(Plan::Cell(CellPlan {
            language,
            nonce,
            files: files
                .iter()
                .map(|(path, content)| ProjectFile {
                    path: (*path).to_owned(),
                    content: (*content).to_owned(),
                })
                .collect(),
            code: code.to_owned(),
            timeout_ms,
        }));
    }

    /// A cell that is started, and the sweep after it.
    fn cell_within(&mut self, language: Language, code: &str, timeout_ms: u64) -> CellEnd {
        self.send_cell(language, code, &[], timeout_ms);
        let end = self.cell_end();
        self.sweep();
        end
    }

    fn cell_end(&mut self) -> CellEnd {
        self.0.expect_started();
        match self.0.next_word() {
            Some(GuestMessage::CellEnd(end)) => end,
            other => panic!("no end of a cell: {other:?}"),
        }
    }

    fn cell(&mut self, language: Language, code: &str) -> CellEnd {
        self.cell_within(language, code, 20_000)
    }

    fn not_run(&mut self) -> NotRun {
        match self.0.next_word() {
            Some(GuestMessage::NotRun(cause)) => cause,
            other => panic!("it ran: {other:?}"),
        }
    }

    /// A step, and what it printed.
    fn step(&mut self, step: &str) -> String {
        self.sweep_with(false, 0);
        let report = self.0.project(steps(&[step]));
        self.sweep();
        assert_eq!(report.error, "");
        text(&report.steps[0].stdout.bytes)
    }
}

/// A number that differs from cell to cell, which is all that a nonce must do here.
fn rand(seed: &str) -> u128 {
    use std::hash::BuildHasher;
    u128::from(std::hash::RandomState::new().hash_one(seed))
}

/// Processes in a session that are not dead. The dead child of a stopped interpreter waits for it.
fn living(session: &Session) -> usize {
    let inside = Sandbox::inhabitants(session.0.host_pid()).into_iter();
    let state = |pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    inside.filter(|pid| !state(*pid).contains(") Z ")).count()
}

fn out(end: &CellEnd) -> String {
    text(&end.stdout.bytes)
}

#[test]
fn cells_keep_their_variables_in_both_languages_and_projects_end_them() {
    let mut session = Session::open();
    let first = session.cell(JavaScript, "const kept = 41");
    assert_eq!(
        (first.outcome, first.fresh, out(&first)),
        (CellOutcome::Ran, true, String::new()),
        "{first:?}"
    );
    let second = session.cell(JavaScript, "kept + 1");
    assert_eq!((out(&second).as_str(), second.fresh), ("42\n", false));
    let other = session.cell(Python, "kept = 1");
    assert!(other.fresh, "{other:?}");
    assert_eq!(out(&session.cell(Python, "kept + 1")), "2\n");
    assert_eq!(session.sweep().interpreters, [JavaScript, Python]);
    assert_eq!(session.step("echo file > there; echo done"), "done\n");
    let after = session.cell(Python, "print(open('there').read(), end='')\nkept");
    assert_eq!(
        (after.outcome, after.fresh, out(&after).as_str()),
        (CellOutcome::Raised, true, "file\n")
    );
    assert!(text(&after.stderr.bytes).contains("NameError"), "{after:?}");
}

#[test]
fn what_a_call_left_is_gone_and_interpreters_are_not() {
    let mut session = Session::open();
    session.cell(
        Python,
        "import subprocess; kept = subprocess.Popen(['sleep', '1000'], start_new_session=True).pid",
    );
    assert_eq!(living(&session), 2, "PID 1 and python3");
    session.0.send(snippet(
        "require('child_process').spawn('sleep', ['1000'], { detached: true, stdio: 'ignore' }).unref(); console.log('left')",
        "",
        20_000,
    ));
    session.0.expect_started();
    assert_eq!(text(&session.0.snippet_end().stdout.bytes), "left\n");
    assert_eq!(session.sweep().interpreters, [Python]);
    assert_eq!(living(&session), 2);
    assert_eq!(out(&session.cell(Python, "type(kept).__name__")), "'int'\n");
}

#[test]
fn nothing_of_an_interpreter_runs_between_cells() {
    let mut session = Session::open();
    session.cell(
        Python,
        "import threading, time\nticks = 0\ndef tick():\n    global ticks\n    while True:\n        ticks += 1\n        time.sleep(0.001)\n\
         threading.Thread(target=tick, daemon=True).start()",
    );
    let before: u64 = out(&session.cell(Python, "ticks")).trim().parse().unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    let after: u64 = out(&session.cell(Python, "ticks")).trim().parse().unwrap();
    // A thousand ticks would have passed.
    assert!(after - before < 500, "{before} {after}");
}

#[test]
fn an_interpreter_that_wakes_itself_between_calls_is_not_kept() {
    let mut session = Session::open();
    // The kernel sends SIGCONT to whom a timer names, and code may name its own process.
    session.cell(
        Python,
        "import ctypes, os, subprocess, threading, time\nlibc = ctypes.CDLL(None)\n\
         class Event(ctypes.Structure):\n    _fields_ = [('v', ctypes.c_void_p), ('signo', ctypes.c_int), ('notify', ctypes.c_int), ('pad', ctypes.c_char * 48)]\n\
         class Spec(ctypes.Structure):\n    _fields_ = [('is_', ctypes.c_long), ('in_', ctypes.c_long), ('vs', ctypes.c_long), ('vn', ctypes.c_long)]\n\
         timer = ctypes.c_void_p()\nassert libc.timer_create(1, ctypes.byref(Event(None, 18, 0)), ctypes.byref(timer)) == 0\n\
         assert libc.timer_settime(timer, 0, ctypes.byref(Spec(0, 20000000, 0, 100000000)), None) == 0\n\
         def leave():\n    time.sleep(0.3)\n    subprocess.Popen(['sleep', '1000'], start_new_session=True)\n    time.sleep(1000)\n\
         threading.Thread(target=leave, daemon=True).start()\nNone",
    );
    std::thread::sleep(Duration::from_millis(700));
    assert!(living(&session) > 1);
    session.0.send(snippet(
        "console.log(require('fs').readdirSync('/proc').filter((name) => /^\\d+$/.test(name)).length)",
        "",
        20_000,
    ));
    session.0.expect_started();
    // PID 1 and the snippet's node.
    assert_eq!(text(&session.0.snippet_end().stdout.bytes), "2\n");
    session.sweep();
    assert!(session.cell(Python, "1").fresh);
}

/// Has a session's interpreter put this in the place of what `node` preloads, as soon as a snippet has put it there: the
/// kernel sends SIGCONT to whom it is to tell of a new file.
fn replace_bootstrap(session: &mut Session, with: &str) {
    let code = format!(
        "import fcntl, os, signal, threading, time\nboot = '/dev/shm/.plimsoll-snippet.cjs'\n\
         own = {with:?}.encode()\nshm = os.open('/dev/shm', os.O_RDONLY)\n\
         fcntl.fcntl(shm, fcntl.F_SETSIG, signal.SIGCONT)\n\
         fcntl.fcntl(shm, fcntl.F_NOTIFY, fcntl.DN_CREATE | fcntl.DN_MULTISHOT)\n\
         def replace():\n    while not os.path.exists(boot): time.sleep(0.001)\n    open('/work/own', 'wb').write(own)\n    \
         open('/dev/shm/own', 'wb').write(own)\n    os.rename('/dev/shm/own', boot)\n\
         threading.Thread(target=replace, daemon=True).start()\nNone"
    );
    let end = session.cell(Python, &code);
    assert_eq!(end.outcome, CellOutcome::Ran, "{end:?}");
}

#[test]
fn a_snippet_that_a_replaced_bootstrap_runs_is_started_whatever_that_says() {
    for bootstrap in [
        "const fs = require('fs'); fs.writeSync(3, 'r'); eval(fs.readFileSync(0, 'utf8')); process.exit(0)",
        "const fs = require('fs'); fs.writeSync(3, 'r'); fs.closeSync(3); eval(fs.readFileSync(0, 'utf8')); for (;;);",
    ] {
        let mut session = Session::open();
        replace_bootstrap(&mut session, bootstrap);
        let program = format!(
            "require('fs').writeFileSync('/work/ran', ''); //{}",
            "x".repeat(100_000)
        );
        session.0.send(snippet(&program, "", 2_000));
        session.0.expect_started();
        session.0.snippet_end();
        session.sweep();
        assert_eq!(session.step("echo own* ran*"), "own ran\n", "{bootstrap}");
    }
}

#[test]
fn a_snippet_that_was_not_run_was_not_handed_over() {
    // It never says that it waits, and runs whatever it is given.
    let bootstrap = "const fs = require('fs'); try { eval(fs.readFileSync(0, 'utf8')) } catch {}; for (;;);";
    let mut session = Session::open();
    replace_bootstrap(&mut session, bootstrap);
    session
        .0
        .send(snippet("require('fs').writeFileSync('/work/ran', '')", "", 2_000));
    assert_eq!(session.not_run(), NotRun::TooLate);
    session.sweep();
    assert_eq!(session.step("echo own* ran*"), "own ran*\n");
}

#[test]
fn a_project_begins_alone_even_where_nobody_swept() {
    let mut session = Session::open();
    session.0.send(Plan::Warm(WarmPlan {
        languages: vec![Python, JavaScript],
    }));
    assert!(matches!(session.0.next_word(), Some(GuestMessage::Warm(both)) if both.len() == 2));
    let report = session.0.project(steps(&["set -- /proc/[0-9]*; echo $#"]));
    // PID 1 and the shell that counts.
    assert_eq!(text(&report.steps[0].stdout.bytes), "2\n");
}

#[test]
fn whatever_a_session_starts_is_first_to_go_when_memory_runs_out() {
    let mut session = Session::open();
    for (language, code) in [
        (
            JavaScript,
            "require('fs').readFileSync('/proc/self/oom_score_adj', 'utf8')",
        ),
        (Python, "open('/proc/self/oom_score_adj').read()"),
    ] {
        assert_eq!(out(&session.cell(language, code)), "'1000\\n'\n");
    }
    let program =
        "setTimeout(() => console.log(require('fs').readFileSync('/proc/self/oom_score_adj', 'utf8').trim()), 20)";
    session.0.send(snippet(program, "", 20_000));
    session.0.expect_started();
    assert_eq!(text(&session.0.snippet_end().stdout.bytes), "1000\n");
}

#[test]
fn what_forks_while_it_is_swept_does_not_get_past() {
    let mut session = Session::open();
    for _ in 0..20 {
        session.cell(
            Python,
            "import os, threading, time\ndef again():\n    while True:\n        child = os.fork()\n        if child == 0:\n            time.sleep(1000)\n        os.waitpid(child, 0)\n\
             for _ in range(3): threading.Thread(target=again, daemon=True).start()\nNone",
        );
        let inside = living(&session);
        assert!(inside <= 2, "{inside} live after a sweep");
    }
}

#[test]
fn a_cell_that_does_not_end_loses_its_interpreter_and_nothing_else() {
    let mut session = Session::open();
    for (language, code) in [
        (JavaScript, "console.log('before'); for (;;);"),
        (Python, "print('before', flush=True)\nwhile True: pass"),
    ] {
        session.cell(language, "1");
        let began = Instant::now();
        let end = session.cell_within(language, code, 500);
        assert_eq!(
            (end.outcome, out(&end).as_str()),
            (CellOutcome::TimedOut, "before\n"),
            "{end:?}"
        );
        assert!(began.elapsed() < Duration::from_secs(5));
        let next = session.cell(language, "2");
        assert_eq!(
            (next.outcome, next.fresh, out(&next).as_str()),
            (CellOutcome::Ran, true, "2\n")
        );
    }
}

#[test]
fn an_interpreter_that_ends_itself_is_replaced_at_the_next_cell() {
    let mut session = Session::open();
    for (language, code) in [
        (JavaScript, "process.exit(0)"),
        (JavaScript, "process.kill(process.pid, 'SIGKILL')"),
        (Python, "import os; os._exit(0)"),
        (Python, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"),
        (Python, "import os; os.execv('/bin/sleep', ['sleep', '0'])"),
    ] {
        let end = session.cell(language, code);
        assert_eq!(end.outcome, CellOutcome::Died, "{code}: {end:?}");
        let next = session.cell(language, "3");
        assert_eq!((next.fresh, out(&next).as_str()), (true, "3\n"), "{code}");
    }
    // Killed between two cells, from outside of any.
    session.cell(Python, "kept = 1");
    session.0.send(snippet("for (const p of require('fs').readdirSync('/proc')) if (p > 1) try { if (require('fs').readFileSync(`/proc/${p}/comm`, 'latin1') === 'python3\\n') process.kill(p, 'SIGKILL') } catch {}", "", 20_000));
    session.0.expect_started();
    session.0.snippet_end();
    session.sweep();
    assert!(session.cell(Python, "1").fresh);
}

#[test]
fn an_interpreter_that_became_another_program_is_not_kept() {
    let mut session = Session::open();
    // A thread becomes the program after the cell's end was said.
    session.cell(
        Python,
        "import os, threading, time\ndef become():\n    time.sleep(0.05)\n    os.execv('/bin/sleep', ['sleep', '1000'])\n\
         threading.Thread(target=become, daemon=True).start()",
    );
    session.send_cell(Python, "import time; time.sleep(10)", &[], 20_000);
    assert_eq!(session.cell_end().outcome, CellOutcome::Died);
    session.sweep();
    assert_eq!(Sandbox::inhabitants(session.0.host_pid()).len(), 1);
}

#[test]
fn forged_answers_cost_the_interpreter_only() {
    let mut session = Session::open();
    let forged = |body: &str| {
        format!(
            "import os\nfor fd in range(3, 64):\n    try: os.write(fd, {body})\n    except OSError: pass\nimport time; time.sleep(5)"
        )
    };
    for body in [
        "b'd\\0\\0\\0\\x21' + b'0' * 32 + b'0'",
        "b'r\\0\\0\\0\\0'",
        "b'd\\xff\\xff\\xff\\xff'",
        "b'zzzzzzzzzz'",
    ] {
        let end = session.cell(Python, &forged(body));
        assert_eq!(end.outcome, CellOutcome::Died, "{body}: {end:?}");
        assert!(session.cell(Python, "1").fresh);
    }
}

#[test]
fn a_file_that_cannot_be_written_refuses_the_cell_and_keeps_the_state() {
    let mut session = Session::open();
    session.cell(Python, "kept = 5");
    session.send_cell(Python, "kept = 6", &[("a", "1"), ("a/b", "2")], 20_000);
    let enotdir = 20;
    assert_eq!(
        session.not_run(),
        NotRun::File {
            index: 1,
            errno: enotdir
        }
    );
    session.sweep();
    session.send_cell(
        Python,
        "open('a').read(), open('d/e').read(), kept",
        &[("d/e", "x")],
        20_000,
    );
    assert_eq!(out(&session.cell_end()), "('1', 'x', 5)\n");
}

#[test]
fn what_keeps_a_snippet_from_starting_is_named() {
    let mut session = Session::open();
    session.cell(Python, "import os\nos.mkdir('/dev/shm/.plimsoll-snippet.cjs')");
    session.0.send(snippet("1", "", 20_000));
    let NotRun::NoInterpreter(words) = session.not_run() else {
        panic!("another cause")
    };
    assert_eq!(
        words,
        "node cannot be started: /dev/shm/.plimsoll-snippet.cjs cannot be written: Is a directory (os error 21)"
    );
}

#[test]
fn interpreters_are_named_as_a_cause_only_where_some_are_kept() {
    for kept in [false, true] {
        let mut session = Session::open_with(&[("NODE_OPTIONS", "--no-such-option")]);
        if kept {
            session.cell(Python, "1");
        }
        session.send_cell(JavaScript, "1", &[], 20_000);
        let NotRun::NoInterpreter(words) = session.not_run() else {
            panic!("another cause")
        };
        assert!(
            words.starts_with("no javascript interpreter could be started: "),
            "{words}"
        );
        assert_eq!(words.contains("a project ends them"), kept, "{words}");
    }
}

#[test]
fn a_stopped_call_ends_as_if_its_time_were_up() {
    let mut session = Session::open();
    session.send_cell(Python, "while True: pass", &[], 60_000);
    session.0.expect_started();
    session.0.stop();
    match session.0.next_word() {
        Some(GuestMessage::CellEnd(end)) => assert_eq!(end.outcome, CellOutcome::TimedOut),
        other => panic!("{other:?}"),
    }
    session.sweep();
    session.0.send(Plan::Project(steps(&["sleep 60", "echo never"])));
    session.0.expect_started();
    session.0.stop();
    let report = session.0.report();
    assert_eq!((report.steps.len(), report.steps[0].timed_out), (1, true));
    session.sweep();
    // A stop that comes late is none of the next call's.
    session.0.stop();
    assert_eq!(out(&session.cell(Python, "7")), "7\n");
}

#[test]
fn what_is_written_is_measured_with_what_is_deleted_and_still_open() {
    let mut session = Session::open();
    let budget = 8 << 20;
    assert!(matches!(session.sweep_with(true, budget).disk, Disk::Within(used) if used < 1 << 20));
    session.cell(
        Python,
        "import os\nheld = open('big', 'wb')\nheld.write(bytes(16 << 20)); held.flush()\nos.unlink('big')",
    );
    assert!(matches!(session.sweep_with(true, budget).disk, Disk::Over(used) if used >= 16 << 20));
    assert!(matches!(session.sweep_with(false, budget).disk, Disk::Within(_)));
    assert_eq!(session.sweep_with(true, 0).disk, Disk::NotMeasured);
}

#[test]
fn a_disk_that_an_earlier_call_filled_is_told_only_of_calls_that_fail() {
    let mut session = Session::open();
    let fill = "head -c 64M /dev/zero >/tmp/fill 2>/dev/null; exit 0";
    assert!(session.0.project(steps(&[fill])).limits.disk_full);
    for (code, told) in [
        ("1", false),
        ("with open('/tmp/more', 'w') as more: more.write('more')", true),
    ] {
        assert_eq!(session.cell(Python, code).limits.disk_full, told, "{code}");
    }
    let report = session.0.project(steps(&["true", "echo more >/tmp/more"]));
    let full: Vec<bool> = report.steps.iter().map(|step| step.limits.disk_full).collect();
    assert_eq!(full, [false, true]);
}

#[test]
fn warm_interpreters_are_fresh_at_their_first_cell() {
    let mut session = Session::open();
    session.0.send(Plan::Warm(WarmPlan {
        languages: vec![Python, JavaScript],
    }));
    assert_eq!(
        session.0.next_word(),
        Some(GuestMessage::Warm(vec![JavaScript, Python]))
    );
    assert_eq!(Sandbox::inhabitants(session.0.host_pid()).len(), 3);
    assert!(session.cell(JavaScript, "1").fresh);
    assert!(!session.cell(JavaScript, "1").fresh);
    assert!(session.cell(Python, "1").fresh);
}

#[test]
fn output_between_cells_belongs_to_none() {
    let mut session = Session::open();
    session.cell(JavaScript, "setInterval(() => console.log('late'), 1); undefined");
    session.cell(Python, "import threading, time\ndef f():\n    while True:\n        print('late', flush=True)\n        time.sleep(0.001)\nthreading.Thread(target=f, daemon=True).start()");
    std::thread::sleep(Duration::from_millis(200));
    for (language, code) in [(JavaScript, "console.log('mine')"), (Python, "print('mine')")] {
        let text = out(&session.cell(language, code));
        let late = text.lines().filter(|line| *line == "late").count();
        // What still runs may write while a cell runs, and a hundred lines and more were due before it.
        assert!(text.contains("mine\n") && late < 20, "{text}");
    }
}

#[test]
fn output_is_exact_to_the_byte_and_capped() {
    let mut session = Session::open();
    let end = session.cell(
        Python,
        "import sys\nsys.stdout.buffer.write(b'a\\xff\\0b'); sys.stderr.write('e')\nNone",
    );
    assert_eq!(
        (end.stdout.bytes.as_slice(), end.stderr.bytes.as_slice()),
        (&b"a\xff\0b"[..], &b"e"[..])
    );
    let end = session.cell(JavaScript, "process.stdout.write('x'.repeat(1 << 20)); undefined");
    assert_eq!((end.stdout.bytes.len(), end.stdout.produced), (64 << 10, 1 << 20));
    let code = format!("# {}\nprint('long')", "x".repeat(255 << 10));
    assert_eq!(out(&session.cell(Python, &code)), "long\n");
}

#[test]
fn a_changed_limit_of_the_runner_is_told_by_every_later_project() {
    let mut session = Session::open();
    session.0.send(snippet(
        "require('child_process').execFileSync('prlimit', ['--pid', '1', '--nofile=64:64'])",
        "",
        20_000,
    ));
    session.0.expect_started();
    assert_eq!(session.0.snippet_end().end, End::Exited(0));
    session.sweep();
    for _ in 0..2 {
        let report = session.0.project(steps(&["true"]));
        assert!(report.error.contains("resource limits were changed"), "{report:?}");
        assert_eq!(report.steps_begun, 1);
    }
}

#[test]
fn calls_of_every_kind_share_the_files() {
    let mut session = Session::open();
    assert_eq!(session.step("echo 1 > one; pwd"), "/work\n");
    session.0.send(snippet(
        "require('fs').appendFileSync('one', '2'); console.log(process.cwd())",
        "",
        20_000,
    ));
    session.0.expect_started();
    assert_eq!(text(&session.0.snippet_end().stdout.bytes), "/work\n");
    session.sweep();
    assert_eq!(out(&session.cell(Python, "open('one').read()")), "'1\\n2'\n");
    assert_eq!(session.step("cat one"), "1\n2");
}

#[test]
fn a_thousand_calls_leave_nothing_behind() {
    let mut session = Session::open();
    let pid = session.0.host_pid();
    session.cell(Python, "n = 0");
    let open = |pid: u32| std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let before = open(pid);
    for _ in 0..1_000 {
        session.cell(Python, "n += 1");
    }
    assert_eq!(out(&session.cell(Python, "n")), "1000\n");
    assert_eq!((open(pid), Sandbox::inhabitants(pid).len()), (before, 2));
}

#[test]
fn the_end_of_its_input_ends_a_session_with_its_interpreters() {
    let mut session = Session::open();
    session.cell(Python, "1");
    session.cell(JavaScript, "1");
    let inside = Sandbox::inhabitants(session.0.host_pid());
    assert_eq!(inside.len(), 3);
    assert_eq!(support::code(session.0.close()), Some(0));
    assert!(
        inside
            .iter()
            .all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists())
    );
}
