//! What bounds a kept interpreter: its time, its memory, its output, and what it may leave resident.

use std::time::{Duration, Instant};

use plimsoll_wasm::engine::{EXIT_DEADLINE, Interpreter, RunError, TrapKind};
use tokio_util::sync::CancellationToken;

use super::{TIMEOUT, answer, cell, engine, fresh};

#[tokio::test]
async fn an_exit_a_deadline_and_a_trap_end_the_interpreter() {
    let ended = fresh()
        .await
        .cell("console.log('a'); process.exit(0)", TIMEOUT, None, None, None)
        .await
        .unwrap();
    assert!(ended.interpreter.is_none());
    assert_eq!(answer(ended.report), (1, "a\n".into(), String::new()));

    let started = Instant::now();
    let spinning = fresh().await.cell(
        "console.log('a'); while (true) {}",
        Duration::from_millis(200),
        None,
        None,
        None,
    );
    let ended = spinning.await.unwrap();
    assert!(ended.interpreter.is_none() && ended.report.timed_out && started.elapsed() < Duration::from_secs(2));
    assert_eq!(answer(ended.report), (EXIT_DEADLINE, "a\n".into(), String::new()));
    let waiting = "setInterval(() => {}, 1); await new Promise(() => {})";
    let ended = fresh()
        .await
        .cell(waiting, Duration::from_millis(200), None, None, None)
        .await
        .unwrap();
    assert!(ended.interpreter.is_none() && ended.report.timed_out);

    // A caller who drops the future gets nothing, and leaves nothing behind.
    let engine = engine(4096);
    let dropped = engine
        .interpreter()
        .await
        .unwrap()
        .cell("while (true) {}", TIMEOUT, None, None, None);
    tokio::time::timeout(Duration::from_millis(50), dropped)
        .await
        .unwrap_err();
    assert_eq!(answer(cell(engine.interpreter().await.unwrap(), "1").await.0).1, "1\n");

    let token = CancellationToken::new();
    let cancel = token.clone();
    let call = tokio::spawn(async move {
        fresh()
            .await
            .cell("while (true) {}", TIMEOUT, Some(cancel), None, None)
            .await
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    token.cancel();
    assert_eq!(call.await.unwrap().unwrap_err(), RunError::Cancelled);
}

#[tokio::test]
async fn memory_and_recursion_are_bounded_and_the_interpreter_survives_them() {
    let engine = engine(512);
    let interpreter = engine.interpreter().await.unwrap();
    let bomb = "var kept = 1; { const parts = []; for (;;) parts.push(new Uint8Array(1 << 20).fill(1)) }";
    let (report, interpreter) = cell(interpreter, bomb).await;
    assert!(report.memory_refused && report.peak_memory <= 512 << 16, "{report:?}");
    let (exit, stdout, stderr) = answer(report);
    assert_eq!((exit, stdout.as_str()), (1, ""));
    assert!(stderr.contains("RangeError: out of memory"), "{stderr}");
    let (report, interpreter) = cell(
        interpreter,
        "(function f(n) { return n <= 0 ? 0 : 1 + f(n - 1) })(200000)",
    )
    .await;
    assert!(
        answer(report)
            .2
            .contains("RangeError: Maximum call stack size exceeded")
    );
    let (report, _) = cell(interpreter, "kept + 1").await;
    assert!(!report.memory_refused);
    assert_eq!(answer(report), (0, "2\n".into(), String::new()));
}

#[tokio::test]
async fn a_memory_full_of_kept_values_ends_the_interpreter_and_not_the_session() {
    let engine = engine(512);
    let mut interpreter = engine.interpreter().await.unwrap();
    let hoard = "globalThis.parts ??= []; try { for (let size = 1 << 20; size >= 64; size >>= 1) try { for (;;) parts.push(new Uint8Array(size)) } catch {} } catch {}";
    let (_, next) = cell(interpreter, hoard).await;
    interpreter = next;
    let text = format!("'{}'", "x".repeat(256 << 10));
    let ended = interpreter.cell(&text, TIMEOUT, None, None, None).await.unwrap();
    assert!(ended.interpreter.is_none() && ended.report.memory_refused && ended.report.exit_code == 1);
    assert_eq!(ended.report.trap, None::<TrapKind>);
}

#[tokio::test]
async fn output_is_exact_and_capped_for_each_cell_alone() {
    let mut interpreter = fresh().await;
    for (written, kept, truncated) in [(65536_u64, 65536, false), (65537, 65536, true), (5, 5, false)] {
        let code =
            format!("process.stdout.write(Buffer.alloc({written}, 0xff)); process.stderr.write('\\0e'); undefined");
        let (report, next) = cell(interpreter, &code).await;
        assert_eq!(report.stdout.bytes.len(), kept);
        assert!(report.stdout.bytes.iter().all(|byte| *byte == 0xff));
        assert_eq!((report.stdout.produced, report.stdout.truncated), (written, truncated));
        assert_eq!(report.stderr.bytes, b"\0e");
        interpreter = next;
    }
}

#[tokio::test]
async fn a_thousand_cells_leave_no_more_than_ten_did() {
    let code = "const rows = Array.from({ length: 100 }, (_, i) => ({ i, s: 'x'.repeat(i) })); \
        const total = rows.reduce((sum, row) => sum + row.s.length, 0); await null; total";
    let mut interpreter = fresh().await;
    let mut early = 0;
    for number in 0..1000 {
        let (report, next) = cell(interpreter, code).await;
        assert_eq!(answer(report).1, "4950\n");
        interpreter = next;
        if number == 10 {
            early = interpreter.resident();
        }
    }
    let late = interpreter.resident();
    assert!(
        late <= early + (64 << 10),
        "{early} bytes after ten cells, {late} after a thousand"
    );
}

#[tokio::test]
async fn a_deep_recursion_does_not_stay_resident() {
    let (_, interpreter) = cell(fresh().await, "1").await;
    let before = interpreter.resident();
    let deep = "(function f(n) { return n <= 0 ? 0 : 1 + f(n - 1) })(9000)";
    let (report, interpreter) = cell(interpreter, deep).await;
    assert_eq!(answer(report).1, "9000\n");
    // The JavaScript stack lies in linear memory and stays; the machine's stack, larger than that, does not.
    let after = interpreter.resident();
    assert!(after < before + (5 << 20), "{before} bytes before, {after} after");
}

#[tokio::test]
async fn a_thousand_idle_interpreters_hold_less_than_a_gibibyte() {
    let engine = engine(4096);
    let mut kept = Vec::new();
    for number in 0..1000 {
        let code = format!("const mine = {number}; mine");
        kept.push(cell(engine.interpreter().await.unwrap(), &code).await.1);
    }
    let held: u64 = kept.iter().map(Interpreter::resident).sum();
    assert!(held < 1 << 30, "{held} bytes");
    for (number, mut interpreter) in kept.into_iter().enumerate().step_by(97) {
        interpreter.rest();
        assert_eq!(answer(cell(interpreter, "mine").await.0).1, format!("{number}\n"));
    }
}
