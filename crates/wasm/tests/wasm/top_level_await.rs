//! A program may `await` at its top level whatever the operand begins with; what only looks like it stays a script.

#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::time::Duration;

use plimsoll_wasm::engine::{Engine, EngineConfig, RunSpec};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Exit code, standard output, standard error.
async fn answer(code: &str) -> (i32, String, String) {
    let engine = Engine::new(EngineConfig {
        slots: 1,
        ..EngineConfig::default()
    })
    .unwrap();
    let report = engine.run(RunSpec::new(code, TIMEOUT)).await.unwrap();
    (
        report.exit_code,
        String::from_utf8(report.stdout.bytes).unwrap(),
        String::from_utf8(report.stderr.bytes).unwrap(),
    )
}

/// Program and what it prints.
const AWAITING: &[(&str, &str)] = &[
    ("await (async () => { console.log('in') })()", "in"),
    ("await (0, console.log('in'))", "in"),
    ("console.log(await (1))", "1"),
    ("console.log(await [1, 2])", "[ 1, 2 ]"),
    ("await [console.log('in')]", "in"),
    ("console.log(await +'3')", "3"),
    ("await +console.log('in')", "in"),
    ("console.log(await -'3')", "-3"),
    ("console.log(await ~1, await !1)", "-2 false"),
    ("let i = 1; await ++i; await --i; console.log(i)", "1"),
    ("console.log(await /a/g)", "/a/g"),
    ("console.log(await /[/]/.source)", "[/]"),
    ("console.log(await `t${1}`)", "t1"),
    ("console.log(`<${await (2)}>`)", "<2>"),
    (
        "console.log(await new Promise((done) => setTimeout(done, 5, 'late')))",
        "late",
    ),
    ("console.log(await new Map([[1, 2]]).get(1))", "2"),
    ("console.log(await typeof 1, await void 0)", "number undefined"),
    ("console.log(await delete globalThis.x)", "true"),
    (
        "console.log(await { a: 1 }, await 'text', await null, await this === globalThis)",
        "{ a: 1 } text null true",
    ),
    (
        "console.log(await function () { return 1 }(), await class {}.name.length)",
        "1 0",
    ),
    ("console.log(await await (Promise.resolve(5)))", "5"),
    ("for (const x of await (async () => [1, 2])()) console.log(x)", "1\n2"),
    (
        "for (const x of [1, 2]) { if (x > 1) { await (x); console.log(x) } }",
        "2",
    ),
    ("for await (const x of [Promise.resolve(1), 2]) console.log(x)", "1\n2"),
    (
        "while (await (false)); do { } while (await (0)); console.log('end')",
        "end",
    ),
    (
        "const { a, b = await (2) } = await ({ a: 1 }); console.log(a, b)",
        "1 2",
    ),
    (
        "const [a = await (1), ...b] = await [undefined, 2]; console.log(a, b)",
        "1 [ 2 ]",
    ),
    ("console.log(Math.max(await (1), ...await [2, 3]))", "3"),
    ("console.log(await (1) + await (2), await (3) ? 'y' : 'n')", "3 y"),
    (
        "console.log({ [await ('k')]: await (1) }, class { static [await ('m')]() {} }.m.name)",
        "{ k: 1 } m",
    ),
    (
        "try { await (Promise.reject(new Error('no'))) } catch (e) { console.log(e.message) }",
        "no",
    ),
    ("switch (await (1)) { case await (1): console.log('one') }", "one"),
    ("label: { await (1); break label } console.log('out')", "out"),
    ("const f = async () => await (1); console.log(await (f()))", "1"),
    (
        "{ await using x = { async [Symbol.asyncDispose]() { console.log('closed') } } }",
        "closed",
    ),
    ("await\n(console.log('in'))", "in"),
    ("// await\nawait (/* ( */ console.log('in'))", "in"),
];

#[tokio::test]
async fn every_form_of_operand_can_be_awaited() {
    for (code, printed) in AWAITING {
        assert_eq!(answer(code).await, (0, format!("{printed}\n"), String::new()), "{code}");
    }
}

#[tokio::test]
async fn await_inside_functions_or_as_a_name_leaves_a_script() {
    // Functions and labels of that name parse in a script alone.
    for (code, printed) in [
        (
            "const f = async () => { await (1) }; console.log(this === globalThis)",
            "true",
        ),
        (
            "async function f() { for await (const x of []); } console.log(this === globalThis)",
            "true",
        ),
        (
            "console.log('await (1)', this === globalThis) // await (2)",
            "await (1) true",
        ),
        ("var await = 1; console.log(await)", "1"),
        (
            "function await(x) { return x + 1 } console.log(await (1), await [0])",
            "2 undefined",
        ),
        (
            "var await = 8, g = 2; console.log(await /2/ g, await - 1, await + 1)",
            "2 7 9",
        ),
        (
            "const o = { await: 1 }; console.log(o.await, this === globalThis)",
            "1 true",
        ),
        ("await: for (;;) break await; console.log('label')", "label"),
    ] {
        assert_eq!(answer(code).await, (0, format!("{printed}\n"), String::new()), "{code}");
    }
    let (exit, stdout, stderr) = answer(
        "const f = async () => { await (1); console.log('later') };
        process.on('uncaughtException', (e) => console.log('caught', e.message));
        f(); Promise.resolve().then(() => console.log('job')); throw new Error('now')",
    )
    .await;
    assert_eq!(
        (exit, stdout.as_str(), stderr.as_str()),
        (0, "caught now\nlater\njob\n", "")
    );
}

#[tokio::test]
async fn an_await_that_parses_in_neither_mode_is_a_syntax_error() {
    for code in [
        "await (",
        "await (1",
        "const x = await ]",
        "function f() { await 1 }",
        "await (1); }",
    ] {
        let (exit, stdout, stderr) = answer(code).await;
        assert_eq!((exit, stdout.as_str()), (1, ""), "{code}");
        assert!(stderr.contains("SyntaxError"), "{code}: {stderr}");
    }
    // Never settled: as before, exit code 13.
    assert_eq!(answer("await (new Promise(() => {}))").await.0, 13);
}
