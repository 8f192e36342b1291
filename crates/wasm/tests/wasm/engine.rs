//! What the engine promises about one run.

#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::time::{Duration, Instant};

use plimsoll_wasm::engine::{
    CLOCK_START_MS, EXIT_DEADLINE, EXIT_TRAP, Engine, EngineConfig, IMPORTS, RunError, RunReport, RunSpec,
};
use tokio_util::sync::CancellationToken;

const TIMEOUT: Duration = Duration::from_secs(20);

fn engine(memory_pages: u32) -> Engine {
    Engine::new(EngineConfig {
        memory_pages,
        slots: 4,
        ..EngineConfig::default()
    })
    .unwrap()
}

async fn run(code: &str) -> RunReport {
    engine(4096).run(RunSpec::new(code, TIMEOUT)).await.unwrap()
}

/// Exit code, standard output, standard error of a run that ended by itself.
async fn answer(code: &str) -> (i32, String, String) {
    let report = run(code).await;
    assert!(!report.timed_out && report.trap.is_none(), "{report:?}");
    (
        report.exit_code,
        String::from_utf8(report.stdout.bytes).unwrap(),
        String::from_utf8(report.stderr.bytes).unwrap(),
    )
}

async fn prints(code: &str) -> String {
    let (exit, stdout, stderr) = answer(code).await;
    assert_eq!((exit, stderr.as_str()), (0, ""), "{code}");
    stdout
}

#[tokio::test]
async fn a_program_prints_and_ends_with_zero() {
    assert_eq!(
        answer(r#"console.log("wasm", 6*7)"#).await,
        (0, "wasm 42\n".into(), String::new())
    );
}

#[tokio::test]
async fn errors_and_warnings_go_to_standard_error() {
    let code = r#"console.error("E");console.warn("W");console.info("I");console.debug("D");console.log("OK")"#;
    assert_eq!(answer(code).await, (0, "I\nD\nOK\n".into(), "E\nW\n".into()));
}

#[tokio::test]
async fn failures_end_with_one_and_say_why() {
    for (code, text) in [
        (r#"throw new Error("boom")"#, "Error: boom"),
        ("let x = ;", "SyntaxError"),
        (r#"import x from "y""#, "SyntaxError"),
        (r#"Promise.reject(new Error("lost"))"#, "Error: lost"),
        (r#"await Promise.reject(new Error("lost"))"#, "Error: lost"),
        (r#"setTimeout(() => { throw new Error("late") }, 5)"#, "Error: late"),
        (r#"queueMicrotask(() => { throw new Error("micro") })"#, "Error: micro"),
    ] {
        let (exit, stdout, stderr) = answer(code).await;
        assert_eq!((exit, stdout.as_str()), (1, ""), "{code}");
        assert!(stderr.contains(text), "{code}: {stderr}");
        assert!(stderr.contains("main.js:1"), "{code}: {stderr}");
    }
}

#[tokio::test]
async fn a_rejection_handled_in_time_is_no_failure() {
    assert_eq!(
        prints("const p = Promise.reject(1); p.catch(() => console.log('caught'))").await,
        "caught\n"
    );
}

#[tokio::test]
async fn top_level_await_works_and_one_that_never_settles_ends_with_13() {
    assert_eq!(prints("await 1").await, "");
    assert_eq!(
        prints("console.log(await Promise.resolve(5), this === globalThis)").await,
        "5 true\n"
    );
    assert_eq!(
        prints("await new Promise((done) => setTimeout(done, 1000)); console.log('done')").await,
        "done\n"
    );
    assert_eq!(answer("await new Promise(() => {})").await.0, 13);
}

#[tokio::test]
async fn a_program_is_a_sloppy_global_script() {
    assert_eq!(
        prints("console.log(this === globalThis, (function () { return this })() === globalThis)").await,
        "true true\n"
    );
    assert_eq!(
        prints("undeclared = 1; console.log(undeclared, delete globalThis.undeclared)").await,
        "1 true\n"
    );
    assert_eq!(
        prints("console.log(await0()); function await0() { var await = 7; return await }").await,
        "7\n"
    );
}

#[tokio::test]
async fn exit_ends_at_once_with_the_code_modulo_256() {
    let code = "try { process.exit(CODE) } finally { console.log('never') } ";
    for (given, exit) in [("0", 0), ("3", 3), ("-1", 255), ("256", 0), ("511", 255)] {
        assert_eq!(
            answer(&code.replace("CODE", given)).await,
            (exit, String::new(), String::new()),
            "{given}"
        );
    }
    assert_eq!(
        answer("(async () => { process.exit(4) })(); setTimeout(() => console.log('never'), 1)")
            .await
            .0,
        4
    );
    assert_eq!(answer("process.exitCode = 7").await.0, 7);
    let report = run("process.exit(124)").await;
    assert_eq!((report.exit_code, report.timed_out), (EXIT_DEADLINE, false));
}

#[tokio::test]
async fn two_runs_give_the_same_bytes() {
    let code =
        "console.log(Math.random(), Date.now(), performance.now(), crypto.randomUUID(), new Date().toISOString())";
    let engine = engine(4096);
    let first = engine.run(RunSpec::new(code, TIMEOUT)).await.unwrap();
    let second = engine.run(RunSpec::new(code, TIMEOUT)).await.unwrap();
    assert_eq!(first.exit_code, 0);
    assert_eq!(first.stdout, second.stdout);
    assert!(!first.stdout.bytes.is_empty());
}

#[tokio::test]
async fn the_clock_is_virtual_and_one_millisecond_a_reading() {
    assert_eq!(CLOCK_START_MS, 1_640_995_200_000);
    let code = "const a = Date.now(), b = Date.now(), c = performance.now(), d = new Date().getTime(); console.log(a, b - a, d - b)";
    assert_eq!(prints(code).await, "1640995200000 1 2\n");
    let code = "const a = Date.now(); setTimeout(() => console.log(Date.now() - a >= 60000), 60000)";
    assert_eq!(prints(code).await, "true\n");
}

#[tokio::test]
async fn strings_leave_as_utf8_with_lone_surrogates_replaced_and_nul_kept() {
    let report = run(r#"process.stdout.write("é€😀\u0000x\ud800y\udc00z")"#).await;
    assert_eq!(report.stdout.bytes, "é€😀\0x\u{fffd}y\u{fffd}z".as_bytes());
}

#[tokio::test]
async fn output_is_cut_at_the_cap_exactly() {
    let report = run("process.stdout.write('x'.repeat(65536))").await;
    assert_eq!(
        (
            report.stdout.bytes.len(),
            report.stdout.truncated,
            report.stdout.produced
        ),
        (65_536, false, 65_536)
    );
    let report = run("process.stdout.write('x'.repeat(65537)); console.error('still')").await;
    assert_eq!(
        (
            report.stdout.bytes.len(),
            report.stdout.truncated,
            report.stdout.produced
        ),
        (65_536, true, 65_537)
    );
    assert_eq!(
        (report.stderr.bytes.as_slice(), report.stderr.truncated),
        (&b"still\n"[..], false)
    );
}

#[tokio::test]
async fn an_endless_loop_is_answered_in_time_and_its_output_kept() {
    let engine = engine(4096);
    for code in [
        "console.log('before'); while (true) {}",
        "console.log('before'); /(a+)+b/.test('a'.repeat(40))",
        "console.log('before'); const a = Array.from({ length: 3e5 }, (_, i) => i); for (;;) a.sort(() => 0)",
        "console.log('before'); for (;;) await 0",
        "console.log('before'); setInterval(() => {}, 1000)",
        "console.log('before'); try { while (true) {} } finally { console.log('never') }",
    ] {
        let begin = Instant::now();
        let report = engine
            .run(RunSpec::new(code, Duration::from_millis(300)))
            .await
            .unwrap();
        assert!(
            begin.elapsed() < Duration::from_millis(1500),
            "{code}: {:?}",
            begin.elapsed()
        );
        assert_eq!(
            (report.exit_code, report.timed_out, report.trap),
            (EXIT_DEADLINE, true, None),
            "{code}"
        );
        assert_eq!(report.stdout.bytes, b"before\n", "{code}");
    }
}

#[tokio::test]
async fn a_loop_leaves_its_thread_to_others() {
    // One thread: were the loop not to yield, the short run could only follow it.
    let engine = engine(4096);
    let long = engine.run(RunSpec::new("while (true) {}", Duration::from_millis(1500)));
    let short = async {
        tokio::task::yield_now().await;
        engine.run(RunSpec::new("console.log(1)", TIMEOUT)).await.unwrap();
        Instant::now()
    };
    let long = async {
        let report = long.await.unwrap();
        (report, Instant::now())
    };
    let ((report, long_ended), short_ended) = tokio::join!(long, short);
    assert!(report.timed_out);
    assert!(short_ended < long_ended);
}

#[tokio::test]
async fn a_cancelled_run_has_no_result() {
    let engine = engine(4096);
    let cancel = CancellationToken::new();
    let mut spec = RunSpec::new("console.log('x'); while (true) {}", TIMEOUT);
    spec.cancel = Some(cancel.clone());
    let begin = Instant::now();
    let (outcome, ()) = tokio::join!(engine.run(spec), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        cancel.cancel();
    });
    assert_eq!(outcome, Err(RunError::Cancelled));
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_dropped_run_gives_its_slot_back() {
    let engine = Engine::new(EngineConfig {
        slots: 1,
        ..EngineConfig::default()
    })
    .unwrap();
    for _ in 0..3 {
        let run = engine.run(RunSpec::new("while (true) {}", TIMEOUT));
        assert!(tokio::time::timeout(Duration::from_millis(20), run).await.is_err());
    }
    assert_eq!(
        engine
            .run(RunSpec::new("console.log(2)", TIMEOUT))
            .await
            .unwrap()
            .stdout
            .bytes,
        b"2\n"
    );
}

#[tokio::test]
async fn memory_ends_at_the_limit_and_the_run_is_still_a_result() {
    let code = "const kept = []; for (let i = 0; i < 128; i++) kept.push(new Uint8Array(1 << 20).fill(1)); console.log('done')";
    assert_eq!(prints(code).await, "done\n");
    let report = engine(512).run(RunSpec::new(code, TIMEOUT)).await.unwrap();
    assert_eq!(
        (report.exit_code, report.trap, report.memory_refused),
        (1, None, true),
        "{report:?}"
    );
    assert!(!report.stdout.bytes.starts_with(b"done"));
    assert!(report.peak_memory <= 512 * 65_536);
    assert!(
        String::from_utf8_lossy(&report.stderr.bytes).contains("RangeError: out of memory"),
        "{report:?}"
    );
}

#[tokio::test]
async fn running_out_of_memory_can_be_caught_again_and_again() {
    let code = "let kept = []; for (let n = 0; n < 5; n++) { \
                try { for (;;) kept.push({ a: { b: n } }) } catch (e) { kept = null; kept = []; console.log(e instanceof RangeError, e.message) } }";
    let report = engine(512).run(RunSpec::new(code, TIMEOUT)).await.unwrap();
    assert_eq!(report.exit_code, 0, "{report:?}");
    assert_eq!(
        String::from_utf8(report.stdout.bytes).unwrap(),
        "true out of memory\n".repeat(5)
    );
}

#[tokio::test]
async fn all_of_a_32_bit_memory_may_be_given() {
    let engine = Engine::new(EngineConfig {
        memory_pages: 65_536,
        slots: 1,
        ..EngineConfig::default()
    })
    .unwrap();
    assert_eq!(
        engine
            .run(RunSpec::new("console.log(1)", TIMEOUT))
            .await
            .unwrap()
            .stdout
            .bytes,
        b"1\n"
    );
}

#[tokio::test]
async fn the_smallest_memory_is_named_and_suffices() {
    let too_few = Engine::new(EngineConfig {
        memory_pages: 1,
        ..EngineConfig::default()
    })
    .unwrap_err();
    let plimsoll_wasm::engine::BuildError::TooFewPages { given: 1, minimum } = too_few else {
        panic!("{too_few:?}")
    };
    assert!(too_few.to_string().contains(&minimum.to_string()));
    assert!(
        Engine::new(EngineConfig {
            memory_pages: minimum - 1,
            ..EngineConfig::default()
        })
        .is_err()
    );
    assert_eq!(
        engine(minimum)
            .run(RunSpec::new("console.log(1)", TIMEOUT))
            .await
            .unwrap()
            .stdout
            .bytes,
        b"1\n"
    );
}

#[tokio::test]
async fn nothing_blocks_and_only_what_can_be_required_can_be_imported() {
    let code =
        "try { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10) } catch (e) { console.log(e.name) }";
    assert_eq!(prints(code).await, "TypeError\n");
    let code = "for (const m of ['qjs:std', 'qjs:os', './x.js', 'main', 'fs', 'plimsoll:fs', 'intl/index.js', 'file:///x.js']) \
                await import(m).then(() => console.log('imported', m), (e) => console.log(e.code))";
    assert_eq!(prints(code).await, "ERR_MODULE_NOT_FOUND\n".repeat(8));
    let code = "console.log((await import('node:util')).inspect === require('util').inspect, (await import('path')).default.sep)";
    assert_eq!(prints(code).await, "true /\n");
    assert_eq!(
        prints("console.log(typeof fetch, typeof require, typeof process)").await,
        "undefined function object\n"
    );
    assert_eq!(
        prints("console.log(typeof __native, typeof Temporal, typeof std, typeof os)").await,
        "undefined undefined undefined undefined\n"
    );
}

#[tokio::test]
async fn a_host_call_without_a_grant_answers_503_and_a_bad_one_its_own_status() {
    let call = |text: &str| format!("console.log(__plimsoll_host_call({text}).status)");
    assert_eq!(prints(&call(r#"'{"method":"GET","path":"/x"}'"#)).await, "503\n");
    assert_eq!(prints(&call("''")).await, "413\n");
    assert_eq!(prints(&call("' '.repeat(1114113)")).await, "413\n");
    assert_eq!(prints(&call(r#"'{"method":"GET","path":"/x","z":1}'"#)).await, "400\n");
    assert_eq!(prints(&call(r#"'{"method":"GET","path":"/x"} {}'"#)).await, "400\n");
}

#[tokio::test]
async fn the_smoke_test_passes_quickly() {
    let engine = engine(4096);
    engine.smoke_test().await.unwrap();
    // The bound of 30 ms is the benchmark's; here other tests share the processor.
    let begin = Instant::now();
    engine.smoke_test().await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn the_smoke_test_passes_with_all_the_memory_there_is() {
    for pages in [33_000, 48_000, 65_536] {
        engine(pages).smoke_test().await.unwrap();
    }
}

#[tokio::test]
async fn a_view_of_a_resized_buffer_is_as_long_as_the_buffer() {
    let shrunk =
        "const ab = new ArrayBuffer(1 << 20, { maxByteLength: 1 << 24 }); const b = new Uint8Array(ab).fill(120);";
    let report = run(&format!("{shrunk} b.fill(120); ab.resize(16); process.stdout.write(b)")).await;
    assert_eq!(
        (report.stdout.bytes.as_slice(), report.trap),
        ([120; 16].as_slice(), None)
    );
    let grown = run(&format!("{shrunk} ab.resize((1 << 20) + 5); process.stdout.write(b)")).await;
    assert_eq!(grown.stdout.produced, (1 << 20) + 5);
    let written =
        format!("{shrunk} ab.resize(0); console.log(new TextEncoder().encodeInto('B'.repeat(1 << 16), b).written)");
    assert_eq!(prints(&written).await, "0\n");
}

#[tokio::test]
async fn filling_all_of_memory_can_be_interrupted() {
    let code = "const a = new Uint8Array(200e6).fill(1); for (;;) a.copyWithin(1, 0)";
    let report = engine(4096)
        .run(RunSpec::new(code, Duration::from_millis(900)))
        .await
        .unwrap();
    assert!(report.timed_out);
    assert!(report.duration < Duration::from_millis(1100), "{:?}", report.duration);
}

#[test]
fn the_image_imports_exactly_our_functions() {
    let mut imports = engine(4096).imports();
    imports.sort();
    assert_eq!(
        imports,
        [
            "plimsoll.exit",
            "plimsoll.files",
            "plimsoll.host_call",
            "plimsoll.write"
        ]
    );
    assert_eq!(IMPORTS, ["exit", "files", "host_call", "write"]);
}

#[test]
fn the_exit_code_of_a_trap_is_that_of_an_abort() {
    assert_eq!(EXIT_TRAP, 128 + 6);
}
