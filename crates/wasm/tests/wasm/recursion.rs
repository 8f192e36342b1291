//! The stack is bounded: whatever recurses without end, or goes down a structure deeper than the stack, is a RangeError a
//! program can catch, never a trap.

#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::time::Duration;

use plimsoll_wasm::engine::{Engine, EngineConfig, RunSpec};

const TIMEOUT: Duration = Duration::from_secs(60);
const OVERFLOW: &str = "RangeError Maximum call stack size exceeded true\n";

/// Exit code, standard output, standard error.
async fn answer(code: &str) -> (i32, String, String) {
    let engine = Engine::new(EngineConfig {
        slots: 1,
        ..EngineConfig::default()
    })
    .unwrap();
    let report = engine.run(RunSpec::new(code, TIMEOUT)).await.unwrap();
    assert!(!report.timed_out && report.trap.is_none(), "{code}: {report:?}");
    (
        report.exit_code,
        String::from_utf8(report.stdout.bytes).unwrap(),
        String::from_utf8(report.stderr.bytes).unwrap(),
    )
}

/// What `code`, which may `await`, throws; `no error` if nothing.
async fn thrown(code: &str) -> String {
    let program = format!(
        "const N = 100000; (async () => {{ {code}\n }})().then(() => console.log('no error'), (e) => \
         console.log(e.name, e.message, e instanceof RangeError))"
    );
    let (exit, stdout, stderr) = answer(&program).await;
    assert_eq!((exit, stderr.as_str()), (0, ""), "{code}");
    stdout
}

/// Each runs out of a stack somewhere else: interpreter, natives calling back, parser, JSON, regular expressions.
const ENDLESS: &[&str] = &[
    "(function f() { f() })()",
    "(function f() { [1].map(f) })()",
    "(function f() { 'a'.replace(/a/, f) })()",
    "(function f() { new (class { constructor() { f() } }) })()",
    "(function f() { [2, 1].sort(f) })()",
    "(() => { const p = new Proxy({}, { get(t, k, r) { return r[k] } }); p.x })()",
    "(() => { const o = { toString() { return '' + o } }; '' + o })()",
    "eval('('.repeat(1e6) + '1' + ')'.repeat(1e6))",
    "eval('['.repeat(1e6) + '1' + ']'.repeat(1e6))",
    "eval('{'.repeat(1e6) + '}'.repeat(1e6))",
    "eval('!'.repeat(4e6) + '1')",
    "eval('if(1)'.repeat(1e6) + '1')",
    "eval('1?'.repeat(1e6) + '1' + ':1'.repeat(1e6))",
    "eval('a=>'.repeat(1e6) + '1')",
    "eval('`${'.repeat(1e6) + '1' + '}`'.repeat(1e6))",
    "eval('(function(' + '[a='.repeat(1e6) + '1' + ']'.repeat(1e6) + '){})')",
    "JSON.parse('['.repeat(4e6) + ']'.repeat(4e6))",
    "JSON.parse('{\"a\":'.repeat(1e6) + '1' + '}'.repeat(1e6))",
    "(() => { let x = []; for (let i = 0; i < 1e6; i++) x = [x]; x.flat(Infinity) })()",
    "(() => { let x = []; for (let i = 0; i < 1e6; i++) x = [x]; structuredClone(x) })()",
    "new RegExp('(?='.repeat(1e6) + 'a' + ')'.repeat(1e6))",
    "new RegExp('['.repeat(1e6) + 'a' + ']'.repeat(1e6), 'v')",
    "const o = { get x() { return this.x } }; o.x",
    "const o = { set x(v) { this.x = v } }; o.x = 1",
    "const o = { valueOf() { return +o } }; +o",
    "const o = { [Symbol.toPrimitive]() { return o + 1 } }; o + 1",
    "const o = { [Symbol.hasInstance]() { return 1 instanceof o } }; 1 instanceof o",
    "const o = { [Symbol.iterator]() { return [...o] } }; [...o]",
    "const o = { [Symbol.iterator]() { const [a] = o } }; const [a] = o",
    "const o = { toJSON() { return JSON.stringify(o) } }; JSON.stringify(o)",
    "JSON.stringify({}, () => ({ a: 1 }))",
    "const s = '[]'; const f = () => JSON.parse(s, f); JSON.parse(s, f)",
    "const f = { [Symbol.replace]() { return 'a'.replace(f) } }; 'a'.replace(f)",
    "const e = new Error(); Object.defineProperty(e, 'message', { get: () => String(e) }); String(e)",
    "const f = () => [1].forEach(f); f()",
    "const f = () => Array.from([1], f); f()",
    "const f = () => Object.groupBy([1], f); f()",
    "const m = new Map([[1, 1]]); const f = () => m.forEach(f); f()",
    "const f = () => new Uint8Array(1).map(f); f()",
    "const s = { size: 1, has: () => true, keys: () => new Set([1]).union(s) }; new Set([1]).union(s)",
    "const f = () => Reflect.apply(f, null, []); f()",
    "function f() { return f.call() } f()",
    "function F() { Reflect.construct(F, []) } new F()",
    "function f(...a) { f(...a) } f(1, 2, 3)",
    "const f = () => eval('f()'); f()",
    "globalThis.f = () => Function('return f()')(); f()",
    "const t = () => t`x`; t`x`",
    "class A { a = new A() } new A()",
    "const f = () => class { static x = f() }; f()",
    "function* g(n) { if (n) yield* g(n - 1); else yield 1 } g(N).next()",
    "async function* g(n) { if (n) yield* g(n - 1); else yield 1 } await g(N).next()",
    "async function f(n) { return n ? await f(n - 1) : 1 } await f(N)",
    "const f = () => new Promise((done) => done(f())); await f()",
    "const f = () => Promise.try(f); await f()",
    "const u = require('util'); const o = { [u.inspect.custom]: () => u.inspect(o) }; u.inspect(o)",
    "const u = require('util'); class A { toString() { return u.format('%s', new A()) } } u.format('%s', new A())",
    "const { EventEmitter } = require('events'); const e = new EventEmitter(); e.on('x', () => e.emit('x')); e.emit('x')",
    "eval('class A extends '.repeat(N))",
    "eval('2**'.repeat(N) + '1')",
    "eval('try{'.repeat(N) + '}finally{}'.repeat(N))",
    "new RegExp('(?:'.repeat(N) + ')'.repeat(N))",
];

/// A step that makes `x` one level deeper, and what then goes down all the levels.
const CHAINS: &[(&str, &str, &[&str])] = &[
    (
        "[1].values()",
        "x.map((y) => y)",
        &["x.next()", "for (const y of x);", "[...x]", "x.toArray()", "x.return()"],
    ),
    ("[1].values()", "x.filter(() => true)", &["x.next()"]),
    ("[1].values()", "x.flatMap((y) => [y])", &["x.next()"]),
    ("[1].values()", "x.take(1)", &["x.next()"]),
    ("[1].values()", "x.drop(0)", &["x.next()"]),
    ("[1].values()", "Iterator.concat(x)", &["x.next()", "[...x]"]),
    ("[1].values()", "(function* (y) { yield* y })(x)", &["x.next()"]),
    (
        "{}",
        "new Proxy(x, {})",
        &[
            "x.a",
            "x.a = 1",
            "'a' in x",
            "delete x.a",
            "Object.keys(x)",
            "Object.getOwnPropertyDescriptor(x, 'a')",
            "Object.getPrototypeOf(x)",
            "Object.freeze(x)",
            "Array.isArray(x)",
            "for (const k in x);",
            "({ ...x })",
            "String(x)",
            "JSON.stringify(x)",
        ],
    ),
    (
        "function () {}",
        "new Proxy(x, {})",
        &[
            "x()",
            "new x()",
            "({}) instanceof x",
            "Reflect.construct(Object, [], x)",
        ],
    ),
    (
        "function () {}",
        "Object.defineProperty(x.bind(null), 'name', { value: '' })",
        &["x()", "new x()", "({}) instanceof x"],
    ),
    (
        "[]",
        "[x]",
        &[
            "x.flat(Infinity)",
            "x.join()",
            "+x",
            "x.toLocaleString()",
            "JSON.stringify(x)",
            "structuredClone(x)",
        ],
    ),
    ("class {}", "class extends x {}", &["new x()"]),
];

#[tokio::test]
async fn recursion_of_every_kind_is_a_catchable_range_error() {
    for code in ENDLESS {
        assert_eq!(thrown(code).await, OVERFLOW, "{code}");
    }
}

#[tokio::test]
async fn a_chain_longer_than_the_stack_is_a_catchable_range_error() {
    for (start, step, uses) in CHAINS {
        for down in *uses {
            let code = format!("let x = {start}; for (let i = 0; i < N; i++) x = {step}; {down}");
            assert_eq!(thrown(&code).await, OVERFLOW, "{code}");
        }
    }
}

#[tokio::test]
async fn depth_that_takes_no_stack_is_no_error() {
    for code in [
        "let e = new Error('x'); for (let i = 0; i < N; i++) e = new Error('x', { cause: e }); require('util').inspect(e)",
        "let e = new Error('x'); for (let i = 0; i < N; i++) e = new AggregateError([e]); require('util').inspect(e)",
        "let o = {}; for (let i = 0; i < N; i++) o = new Proxy(o, {}); require('util').inspect(o)",
        "let o = {}; for (let i = 0; i < N; i++) o = Object.create(o); o.x",
        "eval('1+'.repeat(N) + '1')",
    ] {
        assert_eq!(thrown(code).await, "no error\n", "{code}");
    }
}

#[tokio::test]
async fn a_program_too_deep_to_parse_says_where() {
    for open in ["(", "[", "({a:", "!"] {
        let (exit, stdout, stderr) = answer(&format!("\n  {}", open.repeat(250_000 / open.len()))).await;
        assert_eq!((exit, stdout.as_str()), (1, ""), "{open}");
        assert!(
            stderr.starts_with("RangeError: Maximum call stack size exceeded\n    at main.js:2:"),
            "{open}: {stderr}"
        );
    }
}

#[tokio::test]
async fn recursion_as_deep_as_node_allows_works_and_deeper_fails_the_run() {
    let function = "function f(n) { return n <= 0 ? 0 : 1 + f(n - 1) } ";
    assert_eq!(answer(&format!("{function} console.log(f(10000))")).await.1, "10000\n");
    let (exit, stdout, stderr) = answer(&format!("{function} f(200000)")).await;
    assert_eq!((exit, stdout.as_str()), (1, ""));
    assert!(
        stderr.contains("RangeError: Maximum call stack size exceeded"),
        "{stderr}"
    );
}

#[tokio::test]
async fn freeing_deep_structures_does_not_recurse() {
    for build in ["x = [x]", "x = { x }", "{ const y = x; x = () => y }"] {
        let code = format!("let x = null; for (let i = 0; i < 1e6; i++) {build}; x = null; console.log('freed')");
        assert_eq!(answer(&code).await.1, "freed\n", "{build}");
    }
}
