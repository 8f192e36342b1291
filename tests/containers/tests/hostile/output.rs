//! Floods, drips and forgeries on the two streams; the bytes that are told are the bytes that were written.

use std::time::{Duration, Instant};

use plimsoll_core::{Limit, ProjectOutcome, RunRequest};

use crate::kit::{answer, attack, limit, output, request, told};
use crate::support::{ask, javascript, project_of, run};

const MIB: usize = 1 << 20;

#[test]
fn a_flood_on_both_streams_is_cut_at_the_cap_and_flagged() {
    run(async {
        let began = Instant::now();
        let answer = attack(&["yes out & yes err >&2 & wait"]).await;
        let result = project_of(&answer);
        let step = &result.steps[0];
        assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{}", result.outcome_detail);
        assert!(step.stdout_truncated || step.stderr_truncated);
        assert!(step.stdout.len() <= MIB && step.stderr.len() <= MIB);
        assert!(step.stdout.chunks(4).all(|line| b"out\n".starts_with(line)));
        assert!(step.stderr.chunks(4).all(|line| b"err\n".starts_with(line)));
        assert_eq!(limit(&answer), Some(Limit::Output));
        assert!(began.elapsed() < Duration::from_secs(10));
    });
}

#[test]
fn a_flood_without_a_line_end_on_standard_error_alone_is_cut_too() {
    run(async {
        let result = project_of(&attack(&["tr '\\0' 'x' < /dev/zero >&2"]).await);
        let step = &result.steps[0];
        assert_eq!(
            (step.stderr.len(), step.stderr_truncated, step.stdout_truncated),
            (MIB, true, false)
        );
        assert!(step.stderr.iter().all(|byte| *byte == b'x'));
        assert_ne!(step.exit_code, 0);
    });
}

#[test]
fn a_flood_by_a_descendant_that_left_the_session_is_ended_with_the_step() {
    run(async {
        let result =
            told(&["setsid sh -c 'setsid sh -c \"while :; do echo more; done\" &' & sleep 0.3; echo end"]).await;
        let step = &result.steps[0];
        assert!(step.duration_ms < 3_000, "{}", step.duration_ms);
        let text = String::from_utf8_lossy(&step.stdout).into_owned();
        assert!(step.stdout_truncated || text.contains("end\n"), "{}", text.len());
    });
}

#[test]
fn a_grandchild_that_holds_the_pipe_after_the_shells_end_does_not_hold_the_step() {
    run(async {
        let began = Instant::now();
        let result = told(&[
            "(sleep 60; echo late) & (sleep 60; echo late >&2) & echo early",
            "sleep 1; echo second",
        ])
        .await;
        assert_eq!(output(&result), "early\n");
        assert_eq!(result.steps[1].stdout, b"second\n");
        assert!(began.elapsed() < Duration::from_secs(8));
    });
}

#[test]
fn a_slow_drip_is_kept_to_the_byte_until_the_deadline() {
    run(async {
        let drip = "#py
for number in range(10000):
    os.write(1, b'.')
    time.sleep(0.01)
";
        let result = project_of(&answer(request(&[drip], &[], 2_000)).await);
        let step = &result.steps[0];
        assert_eq!(
            (step.exit_code, step.timed_out, step.stdout_truncated),
            (124, true, false)
        );
        assert!((20..=250).contains(&step.stdout.len()), "{}", step.stdout.len());
        assert!(step.stdout.iter().all(|byte| *byte == b'.'));
    });
}

#[test]
fn every_byte_value_in_ragged_writes_comes_back_exactly() {
    run(async {
        let program = "#py
data = bytes(range(256)) * 2000
at = 0
step = 1
while at < len(data):
    at += os.write(1, data[at:at + step])
    step = step * 7 % 65521
os.write(2, data[::-1])
";
        let result = told(&[program]).await;
        let data: Vec<u8> = (0..2000).flat_map(|_| 0..=255).collect();
        let reversed: Vec<u8> = data.iter().rev().copied().collect();
        assert!(result.steps[0].stdout == data && result.steps[0].stderr == reversed);
    });
}

#[test]
fn bytes_are_exact_while_the_sandbox_is_full_of_busy_processes() {
    run(async {
        let program = "#py
for _ in range(12):
    if os.fork() == 0:
        while True: pass
for number in range(300):
    os.write(1, b'%06d\\n' % number)
";
        let result = told(&[program]).await;
        let expected: String = (0..300).map(|number| format!("{number:06}\n")).collect();
        assert_eq!(output(&result), expected);
    });
}

#[test]
fn closed_swapped_and_nonblocking_streams_confuse_nobody() {
    run(async {
        let result = told(&[
            "exec >&- 2>&-; echo lost; true",
            "exec 3>&1 1>&2 2>&3; echo to-err; echo to-out >&2",
            "#py
import fcntl
for stream in (1, 2):
    fcntl.fcntl(stream, fcntl.F_SETFL, os.O_NONBLOCK)
    for size in (4096, 1 << 20):
        try: fcntl.fcntl(stream, 1031, size)
        except OSError: pass
sent = 0
while sent < 900_000:
    try: sent += os.write(1, b'y' * 65536)
    except BlockingIOError: time.sleep(0.001)
os.write(2, b'%d' % sent)
",
        ])
        .await;
        assert_eq!(
            (result.steps[1].stdout.as_slice(), result.steps[1].stderr.as_slice()),
            (&b"to-out\n"[..], &b"to-err\n"[..])
        );
        let last = &result.steps[2];
        assert_eq!(last.stdout.len().to_string().as_bytes(), last.stderr);
    });
}

#[test]
fn reading_back_from_its_own_output_pipe_takes_only_its_own_bytes() {
    run(async {
        let result = told(&[
            "echo secret-of-step-one",
            "#py
import fcntl
read = 0
for path in ('/proc/self/fd/1', '/proc/self/fd/2'):
    try:
        end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try: read += len(os.read(end, 65536))
        except BlockingIOError: pass
    except OSError: pass
print(read, flush=True)
",
        ])
        .await;
        assert_eq!(output(&result), "secret-of-step-one\n");
        assert_eq!(result.steps[1].stdout, b"0\n");
    });
}

#[test]
fn a_snippet_that_floods_and_exits_keeps_its_code_and_its_first_bytes() {
    run(async {
        let code = "const b = Buffer.alloc(1 << 20, 'z'); for (let i = 0; i < 20; i++) { require('fs').writeSync(1, b); require('fs').writeSync(2, b); } process.exit(7)";
        let answer = ask(RunRequest::javascript(code)).await.unwrap();
        let result = javascript(&answer);
        assert_eq!(
            (result.exit_code, result.timed_out),
            (7, false),
            "{}",
            result.stdout.len()
        );
        assert_eq!((result.stdout.len(), result.stderr.len()), (65536, 65536));
        assert!(result.stdout_truncated && result.stderr_truncated);
        assert_eq!(answer.diagnostics.unwrap().stdout_bytes, 20 << 20);
    });
}
