//! What an interpreter that is kept promises about its cells.

#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod bounds;

use std::time::Duration;

use plimsoll_wasm::engine::{Engine, EngineConfig, Files, Interpreter, RunReport, RunSpec};

const TIMEOUT: Duration = Duration::from_secs(20);

fn engine(memory_pages: u32) -> Engine {
    Engine::new(EngineConfig {
        memory_pages,
        slots: 2,
        ..EngineConfig::default()
    })
    .unwrap()
}

async fn fresh() -> Interpreter {
    engine(4096).interpreter().await.unwrap()
}

/// Runs a cell that the interpreter survives.
async fn cell(interpreter: Interpreter, code: &str) -> (RunReport, Interpreter) {
    let ended = interpreter.cell(code, TIMEOUT, None, None, None).await.unwrap();
    let kept = ended.interpreter;
    (
        ended.report,
        kept.unwrap_or_else(|| panic!("{code} ended its interpreter")),
    )
}

fn answer(report: RunReport) -> (i32, String, String) {
    (
        report.exit_code,
        String::from_utf8(report.stdout.bytes).unwrap(),
        String::from_utf8(report.stderr.bytes).unwrap(),
    )
}

/// Runs cells one after the other in a fresh interpreter; each answers with its exit code and standard output, and says nothing
/// on standard error.
async fn conversation(cells: &[(&str, i32, &str)]) {
    let mut interpreter = fresh().await;
    for (code, exit, printed) in cells {
        let (report, next) = cell(interpreter, code).await;
        assert_eq!(answer(report), (*exit, (*printed).to_owned(), String::new()), "{code}");
        interpreter = next;
    }
}

#[tokio::test]
async fn what_a_cell_defines_the_next_finds() {
    conversation(&[
        (
            "const x = 20, f = (n) => n * 2; let y; var z = 1; class A { m() { return 'm' } }",
            0,
            "",
        ),
        ("function g() { return f(x) + 2 }", 0, ""),
        ("g()", 0, "42\n"),
        ("y = new A(); y.m() + z", 0, "'m1'\n"),
        ("import_ = require('util'); import_.format('%d', 5)", 0, "'5'\n"),
        ("globalThis.w = [x]; w", 0, "[ 20 ]\n"),
        (
            "this === globalThis && typeof module === 'object' && __dirname",
            0,
            "'/'\n",
        ),
    ])
    .await;
}

#[tokio::test]
async fn names_can_be_declared_again() {
    conversation(&[
        ("const x = 1", 0, ""),
        ("const x = 2; x", 0, "2\n"),
        ("let x = 3; class x2 {}; x", 0, "3\n"),
        (
            "class x { static s = 4 }; class x2 { static s = 1 }; x.s + x2.s",
            0,
            "5\n",
        ),
        ("function x() { return 5 } x()", 0, "5\n"),
        ("var x = 6; x", 0, "6\n"),
        (
            "const { x, q: [r, ...s], ...t } = { x: 7, q: [8, 9, 10], u: 11 }; [x, r, s, t]",
            0,
            "[ 7, 8, [ 9, 10 ], { u: 11 } ]\n",
        ),
        ("const [x] = await Promise.resolve([12]); x", 0, "12\n"),
        (
            "const x = await 13, fetcher = async () => x; await fetcher()",
            0,
            "13\n",
        ),
        (
            "const process = require('process'), console2 = console; process.pid",
            0,
            "1\n",
        ),
        (
            "let a = 1; { let a = 2; const b = 3; } [a, typeof b]",
            0,
            "[ 1, 'undefined' ]\n",
        ),
        (
            "const fs_ = []; for (let i = 0; i < 3; i++) fs_.push(() => i); fs_.map((f) => f())",
            0,
            "[ 0, 1, 2 ]\n",
        ),
        ("'use strict'; const strict = 1; strict", 0, "1\n"),
        ("strict = 2; x", 0, "13\n"),
    ])
    .await;
}

#[tokio::test]
async fn a_cell_that_throws_leaves_no_name_stuck_and_keeps_earlier_ones() {
    let (report, interpreter) = cell(
        fresh().await,
        "const kept = 1; const lost = (() => { throw new Error('boom') })()",
    )
    .await;
    let (exit, stdout, stderr) = answer(report);
    assert_eq!((exit, stdout.as_str()), (1, ""));
    assert!(stderr.contains("Error: boom"), "{stderr}");
    let (report, interpreter) = cell(interpreter, "const lost = kept + 1; lost").await;
    assert_eq!(answer(report), (0, "2\n".into(), String::new()));
    // What cannot be a program declares nothing, and inside one cell names still clash.
    for (code, text) in [
        ("const again = 1; const again = 2", "SyntaxError"),
        ("let again; var again", "SyntaxError"),
        ("const nothing", "SyntaxError"),
    ] {
        let (report, _) = cell(fresh().await, code).await;
        let (exit, stdout, stderr) = answer(report);
        assert_eq!((exit, stdout.as_str()), (1, ""), "{code}");
        assert!(stderr.contains(text), "{code}: {stderr}");
    }
    drop(interpreter);
}

/// Cell and what node 22's `util.inspect` with a depth of 4 says of its value.
const SHOWN: &[(&str, &str)] = &[
    ("1 + 1", "2\n"),
    ("'text'", "'text'\n"),
    ("'it\\'s'", "\"it's\"\n"),
    ("undefined", ""),
    ("null", "null\n"),
    ("-0", "-0\n"),
    ("10n ** 20n", "100000000000000000000n\n"),
    ("Symbol('s')", "Symbol(s)\n"),
    ("if (true) 5", "5\n"),
    ("var declared = 1", ""),
    ("let declared2 = 1", ""),
    ("class Declared {}", ""),
    ("function declared3() {}", ""),
    ("{ a: 1 }", "1\n"),
    ("({ a: 1 })", "{ a: 1 }\n"),
    (
        "({ a: { b: { c: { d: { e: { f: 1 } } } } } })",
        "{\n  a: {\n    b: { c: { d: { e: [Object] } } }\n  }\n}\n",
    ),
    ("new Map([['k', new Set([1])]])", "Map(1) { 'k' => Set(1) { 1 } }\n"),
    ("[undefined, , null]", "[ undefined, <1 empty item>, null ]\n"),
    ("Array.from({ length: 101 }, () => 7).length", "101\n"),
    ("(function named() {})", "[Function: named]\n"),
    ("class C {}; C", "[class C]\n"),
    ("new (class Point { x = 1 })()", "Point { x: 1 }\n"),
    ("Buffer.from('hi')", "<Buffer 68 69>\n"),
    ("new Date(0)", "1970-01-01T00:00:00.000Z\n"),
    ("/a+/gi", "/a+/gi\n"),
    ("for (var i = 0; i < 3; i++) i", "2\n"),
    ("await Promise.resolve(5)", "5\n"),
    ("Promise.resolve(6)", "6\n"),
    ("await 1; Promise.resolve(7)", "7\n"),
    ("(async () => ({ then: 1 }))()", "{ then: 1 }\n"),
    (
        "await new Promise((done) => setTimeout(done, 1000, 'late'))",
        "'late'\n",
    ),
    ("await undefined", ""),
    ("console.log('out'); 8", "out\n8\n"),
    ("Promise.resolve().then(() => console.log('job')); 9", "job\n9\n"),
    ("process.nextTick(() => console.log('tick')); 10", "tick\n10\n"),
    ("'x'.repeat(10001).length", "10001\n"),
];

#[tokio::test]
async fn the_value_of_a_cell_is_shown_as_node_shows_it() {
    let mut interpreter = fresh().await;
    for (code, printed) in SHOWN {
        let (report, next) = cell(interpreter, code).await;
        assert_eq!(answer(report), (0, (*printed).to_owned(), String::new()), "{code}");
        interpreter = next;
    }
    let (report, interpreter) = cell(interpreter, "Array.from({ length: 101 }, () => 7)").await;
    assert!(answer(report).1.ends_with("... 1 more item\n]\n"));
    let (report, _) = cell(interpreter, "'x'.repeat(10001)").await;
    assert_eq!(
        answer(report).1,
        format!("'{}'... 1 more character\n", "x".repeat(10000))
    );
}

#[tokio::test]
async fn the_last_value_is_kept_in_underscore() {
    conversation(&[
        ("[1, 2]", 0, "[ 1, 2 ]\n"),
        ("_.length", 0, "2\n"),
        ("var nothing = 1", 0, ""),
        ("_ + 1", 0, "3\n"),
        ("await 7", 0, "7\n"),
        ("_", 0, "7\n"),
    ])
    .await;
}

#[tokio::test]
async fn errors_name_cell_and_line() {
    let mut interpreter = fresh().await;
    for (code, expected) in [
        ("function thrower() {\n  null.x\n}", ""),
        (
            "let a = 1;\nthrow new Error('boom')",
            "cell2.js:2\nthrow new Error('boom')\n      ^\n\nError: boom\n    at cell2.js:2:7\n",
        ),
        (
            "null.x",
            "cell3.js:1\nnull.x\n     ^\n\nTypeError: Cannot read properties of null (reading 'x')\n    at cell3.js:1:6\n",
        ),
        (
            "1;\nthrower()",
            "TypeError: Cannot read properties of null (reading 'x')\n    at thrower (cell1.js:2:8)\n    at cell4.js:2:1\n",
        ),
        ("throw 5", "Uncaught 5\n"),
        ("throw { a: 1 }", "Uncaught { a: 1 }\n"),
        ("throw undefined", "Uncaught undefined\n"),
        ("await Promise.reject('no')", "Uncaught 'no'\n"),
    ] {
        let (report, next) = cell(interpreter, code).await;
        let (exit, stdout, stderr) = answer(report);
        let raised = i32::from(!expected.is_empty());
        assert_eq!(
            (exit, stdout.as_str(), stderr.as_str()),
            (raised, "", expected),
            "{code}"
        );
        interpreter = next;
    }
    let (report, _) = cell(interpreter, "\n\nlet x = ;").await;
    let (exit, _, stderr) = answer(report);
    assert!(
        exit == 1 && stderr.starts_with("cell9.js:3\nlet x = ;\n        ^\n\nSyntaxError: Unexpected token ';'"),
        "{stderr}"
    );
}

#[tokio::test]
async fn what_callbacks_throw_is_told_and_ends_nothing() {
    let mut interpreter = fresh().await;
    for (code, printed, text) in [
        (
            "queueMicrotask(() => { throw new Error('micro') }); 1",
            "1\n",
            "Error: micro",
        ),
        ("Promise.reject(new Error('lost')); 2", "2\n", "Error: lost"),
        (
            "setTimeout(() => { throw new Error('late') }, 1); await new Promise((done) => setTimeout(done, 5)); 3",
            "3\n",
            "Error: late",
        ),
        (
            "process.nextTick(() => { throw new Error('tick') }); 4",
            "4\n",
            "Error: tick",
        ),
    ] {
        let (report, next) = cell(interpreter, code).await;
        let (exit, stdout, stderr) = answer(report);
        assert_eq!((exit, stdout.as_str()), (0, printed), "{code}");
        assert!(stderr.contains(text), "{code}: {stderr}");
        interpreter = next;
    }
}

#[tokio::test]
async fn what_a_cell_started_and_did_not_wait_for_ends_with_it() {
    conversation(&[
        ("var ticks = 0; setInterval(() => ticks++, 1); setImmediate(() => ticks++); var never = setTimeout(() => ticks++, 9); undefined", 0, ""),
        ("await new Promise((done) => setTimeout(done, 100)); ticks", 0, "0\n"),
        ("clearTimeout(never); var again = setTimeout(() => { ticks = 7 }, 1); await new Promise((done) => setTimeout(done, 5)); ticks", 0, "7\n"),
        ("setTimeout(() => console.log('before'), 1); await new Promise((done) => setTimeout(done, 5))", 0, "before\n"),
    ])
    .await;
    // Nor does it help to lock them against being ended.
    conversation(&[
        ("var ticks = 0; Object.freeze(setInterval(() => ticks++, 1)); Object.freeze(setImmediate(() => ticks++)); undefined", 0, ""),
        ("Object.defineProperty(setTimeout(() => ticks++), '_destroyed', { set() { throw 1 } }); setTimeout(() => ticks++); undefined", 0, ""),
        ("await new Promise((done) => setTimeout(done, 100)); ticks", 0, "0\n"),
        ("var one = Object.freeze(setTimeout(() => { ticks = 7 }, 1)); await new Promise((done) => setTimeout(done, 5)); ticks", 0, "7\n"),
        ("clearTimeout(one); clearImmediate(Object.freeze(setImmediate(() => { ticks = 8 }))); await new Promise((done) => setTimeout(done, 5)); ticks", 0, "7\n"),
    ])
    .await;
    // A wait that nothing can end ends at once, and the interpreter goes on.
    let (report, interpreter) = cell(
        fresh().await,
        "var kept = 1; setTimeout(() => {}, 9); await new Promise(() => {})",
    )
    .await;
    let (exit, stdout, stderr) = answer(report);
    assert_eq!((exit, stdout.as_str()), (13, ""));
    assert!(stderr.contains("unsettled top-level await"), "{stderr}");
    assert_eq!(answer(cell(interpreter, "kept").await.0).1, "1\n");
}

#[tokio::test]
async fn clock_and_randomness_go_on_from_cell_to_cell_and_are_the_same_in_every_session() {
    let cells = [
        "[Date.now(), performance.now()]",
        "[Date.now(), Math.random(), crypto.randomUUID()]",
        "Math.random()",
    ];
    let mut said = Vec::new();
    for _ in 0..2 {
        let mut interpreter = fresh().await;
        let mut all = Vec::new();
        for code in cells {
            let (report, next) = cell(interpreter, code).await;
            all.push(answer(report).1);
            interpreter = next;
        }
        said.push(all);
    }
    assert_eq!(said[0], said[1]);
    assert_eq!(said[0][0], "[ 1640995200000, 1 ]\n");
    assert!(said[0][1].contains("1640995200002,"), "{}", said[0][1]);
    assert_ne!(said[0][2], said[0][1]);
}

#[tokio::test]
async fn no_interpreter_sees_another_or_a_run() {
    let engine = engine(4096);
    let secret =
        "globalThis.secret = 'CANARY'.repeat(1e5); Object.prototype.mark = 1; require('util').mark = 1; secret.length";
    let (report, first) = cell(engine.interpreter().await.unwrap(), secret).await;
    assert_eq!(answer(report).1, "600000\n");
    let search = "console.log(typeof secret, ({}).mark, require('util').mark, Date.now(), \
        Buffer.allocUnsafe(1 << 20).includes('CANARY'), new Uint8Array(1 << 20).every((byte) => byte === 0))";
    let expected = "undefined undefined undefined 1640995200000 false true\n";
    let (report, second) = cell(engine.interpreter().await.unwrap(), search).await;
    assert_eq!(answer(report), (0, expected.into(), String::new()));
    let run = engine.run(RunSpec::new(search, TIMEOUT)).await.unwrap();
    assert_eq!(answer(run), (0, expected.into(), String::new()));
    drop(first);
    // Memory of one that is gone is nobody's any more.
    let (report, _) = cell(engine.interpreter().await.unwrap(), search).await;
    assert_eq!(answer(report).1, expected);
    let (report, _) = cell(second, "typeof secret").await;
    assert_eq!(answer(report).1, "'undefined'\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn interpreters_at_once_keep_to_themselves() {
    let engine = std::sync::Arc::new(engine(4096));
    let talks = (0..64).map(|number| {
        let engine = std::sync::Arc::clone(&engine);
        tokio::spawn(async move {
            let mut interpreter = engine.interpreter().await.unwrap();
            for turn in 0..20 {
                let code = format!(
                    "globalThis.log ??= []; log.push('{number}-{turn}'); let spin = 0; while (spin < 2e4) spin++; \
                     await null; log.every((line) => line.startsWith('{number}-')) && log.length"
                );
                let (report, next) = cell(interpreter, &code).await;
                assert_eq!(answer(report), (0, format!("{}\n", turn + 1), String::new()));
                interpreter = next;
            }
        })
    });
    for talk in talks.collect::<Vec<_>>() {
        talk.await.unwrap();
    }
}

/// An object inherits what a program puts on `Object.prototype`; the one a value travels in does not.
#[tokio::test]
async fn the_value_of_a_cell_that_awaits_is_its_own_whatever_objects_inherit() {
    for spoiled in [
        "Object.prototype.then = function (done) { done({ value: 'forged' }) }; undefined",
        "Object.prototype.then = function () {}; undefined",
        "Object.defineProperty(Object.prototype, 'value', { set() {}, get() { return 'forged' } }); undefined",
    ] {
        conversation(&[
            (spoiled, 0, ""),
            ("await null; 6 * 7", 0, "42\n"),
            ("await null; 'own'", 0, "'own'\n"),
        ])
        .await;
    }
}

#[tokio::test]
async fn import_in_a_cell_gives_modules_and_says_what_is_not_there() {
    conversation(&[
        ("const { basename } = await import('node:path'); basename('/a/b')", 0, "'b'\n"),
        ("(await import('util')).default === require('util')", 0, "true\n"),
        ("await import('fs').catch((error) => error.message)", 0, "\"Cannot find module 'fs' imported from cell3.js: this sandbox has no file system; put the data in the program and print the result\"\n"),
        ("await import('lodash').catch((error) => error.code)", 0, "'ERR_MODULE_NOT_FOUND'\n"),
    ])
    .await;
    let (files, mut interpreter) = (Files::default(), fresh().await);
    for (code, printed) in [
        (
            "require('fs').writeFileSync('m.mjs', 'export let n = 1; export const add = () => n++;')",
            "",
        ),
        ("var m = await import('./m.mjs'); m.add(); m.n", "2\n"),
        ("(await import('/work/m.mjs')) === m", "true\n"),
        ("require('fs').writeFileSync('bad.mjs', 'import \"./missing.mjs\"')", ""),
        (
            "await import('./bad.mjs').catch((error) => error.message)",
            "\"Cannot find module '/work/missing.mjs' imported from /work/bad.mjs: there is no such file here\"\n",
        ),
        (
            "process.chdir('/tmp'); await import('./m.mjs').catch((error) => error.code)",
            "'ERR_MODULE_NOT_FOUND'\n",
        ),
    ] {
        let ended = interpreter
            .cell(code, TIMEOUT, None, None, Some(files.clone()))
            .await
            .unwrap();
        interpreter = ended.interpreter.unwrap();
        assert_eq!(answer(ended.report), (0, printed.to_owned(), String::new()), "{code}");
    }
}

#[tokio::test]
async fn a_hostile_cell_cannot_stop_later_cells_from_running_and_telling() {
    for spoiled in [
        "Object.defineProperty(Object.prototype, 'value', { get() { throw 1 }, set() { throw 2 }, configurable: true })",
        "Object.prototype.then = function () {}",
        "Promise.prototype.then = null; Promise = null; queueMicrotask = null",
        "Object.defineProperty(globalThis, '_', { set() { throw 1 }, get() { return 1 } })",
        "Object.preventExtensions(globalThis)",
        "process.listenerCount = () => { throw 1 }; process.emit = null",
        "process.on('uncaughtException', () => {}); process.on('exit', () => { throw 1 })",
        "Error.prepareStackTrace = () => { throw 1 }; Error.prototype.toString = null",
        "require('util').inspect.defaultOptions.depth = 0; Symbol.for = null",
        "console = null; process.stdout.write = null; globalThis.process = null",
        "for (const key of Reflect.ownKeys(globalThis)) try { delete globalThis[key] } catch {}",
        "Array.prototype[Symbol.iterator] = null; Map.prototype.get = null; String.prototype.split = null",
    ] {
        let ended = fresh().await.cell(spoiled, TIMEOUT, None, None, None).await.unwrap();
        let interpreter = ended.interpreter.unwrap_or_else(|| panic!("{spoiled}"));
        let (report, interpreter) = cell(interpreter, "throw 7").await;
        let (exit, stdout, stderr) = answer(report);
        assert_eq!((exit, stdout.as_str()), (1, ""), "{spoiled}");
        assert!(stderr.contains('7'), "{spoiled}: {stderr}");
        let (report, _) = cell(interpreter, "6 * 7").await;
        assert_eq!(answer(report), (0, "42\n".into(), String::new()), "{spoiled}");
    }
}
