"""What the node process that keeps the variables of cells promises about them."""

from __future__ import annotations

import re
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from driver import RAISED, RAN, STUCK, Kernel, converse, javascript_kernel, node

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    with Kernel("javascript", tmp_path) as started:
        yield started


def test_what_a_cell_defines_the_next_finds(kernel: Kernel) -> None:
    converse(
        kernel,
        [
            ("const x = 20, f = (n) => n * 2; let y; var z = 1; class A { m() { return 'm' } }", ""),
            ("function g() { return f(x) + 2 }", ""),
            ("g()", "42\n"),
            ("y = new A(); y.m() + z", "'m1'\n"),
            ("globalThis.w = [x]; w", "[ 20 ]\n"),
            ("this === globalThis", "true\n"),
        ],
    )


def test_names_can_be_declared_again_in_every_way(kernel: Kernel) -> None:
    ways = [
        "const x = {}; x",
        "let x = {}; x",
        "var x = {}; x",
        "function x() { return {} } x()",
        "class x { static value = {} } x.value",
        "const { x } = {{ x: {} }}; x",
        "const [x] = [{}]; x",
        "const x = await {}; x",
        "let {{ y: [{{ x }}] }} = await {{ y: [{{ x: {} }}] }}; x",
        "class x { static value = {} } await x.value",
        "async function x() { return {} } await x()",
    ]
    value = 0
    for first in ways:
        for second in ways:
            for way in (first, second):
                value += 1
                code = way.replace("{}", str(value)).replace("{{", "{").replace("}}", "}")
                answer = kernel.cell(code)
                assert (answer.status, answer.out, answer.err) == (RAN, f"{value}\n", ""), code


def test_names_of_node_can_be_declared(kernel: Kernel) -> None:
    converse(
        kernel,
        [
            ("const crypto = require('crypto'); crypto.createHash('md5').update('').digest('hex').length", "32\n"),
            ("const process = require('process'), fs = require('fs'), path = require('node:path'); path.sep", "'/'\n"),
            ("const navigator = 1, performance = 2, fetch = 3; navigator + performance + fetch", "6\n"),
            ("const { Buffer } = await import('node:buffer'); Buffer.from('a').length", "1\n"),
            ("let module = 1, exports = 2, require = 3, __dirname = 4; module + exports + require + __dirname", "10\n"),
        ],
    )


def test_a_fresh_let_is_undefined(kernel: Kernel) -> None:
    converse(
        kernel,
        [
            ("let count = 5, other = 6", ""),
            ("let count, other = 1; [count, other]", "[ undefined, 1 ]\n"),
            ("count = 5", "5\n"),
            ("let count\n;[1].forEach(() => {}); count", ""),
            ("count = 5; await 1; let count2; let count; count", ""),
            ("var kept = 5", ""),
            ("var kept; kept", "5\n"),
        ],
    )


def test_a_cell_that_throws_leaves_no_name_stuck_and_keeps_earlier_ones(kernel: Kernel) -> None:
    for wait in ("", "await 1; "):
        answer = kernel.cell(f"{wait}const kept = 1; const lost = (() => {{ throw new Error('boom') }})()")
        assert (answer.status, answer.out) == (RAISED, "")
        assert "Error: boom" in answer.err
        converse(kernel, [("const lost = kept + 1; lost", "2\n")])
    for code in (
        "const again = 1; const again = 2",
        "await 1; let again; var again",
        "const nothing",
        "let again; again(",
    ):
        answer = kernel.cell(code)
        assert (answer.status, answer.out) == (RAISED, "")
        assert "SyntaxError" in answer.err
        converse(kernel, [("typeof again", "'undefined'\n")])


def test_scopes_inside_a_cell_stay_what_they_are(kernel: Kernel) -> None:
    converse(
        kernel,
        [
            ("let a = 1; { let a = 2; const b = 3 } [a, typeof b]", "[ 1, 'undefined' ]\n"),
            ("const fs_ = []; for (let i = 0; i < 3; i++) fs_.push(() => i); fs_.map((f) => f())", "[ 0, 1, 2 ]\n"),
            (
                "await 1; const g_ = []; for (let i = 0; i < 3; i++) g_.push(() => i); g_.map((f) => f())",
                "[ 0, 1, 2 ]\n",
            ),
            ("class Self { static only = new Self(); make() { return new Self() } } const Old = Self", ""),
            ("class Self {} ; new Old().make() instanceof Old", "true\n"),
            ("'use strict'; const strict = 1; (function () { return this })() === undefined", "true\n"),
            ("'use strict'; await 1; (function () { return this })() === undefined", "true\n"),
            ("(function () { return this })() === globalThis", "true\n"),
        ],
    )


def test_a_waiting_cell_declares_for_the_next(kernel: Kernel) -> None:
    code = """const foo = () => 1
foo()
const {b, c = 2} = {b: 1}
const [d] = [3]
await 1
var [e, f] = [1, 2], {g: {h}} = {g: {h: 5}}
if (b) var {i} = {i: 7}
for (var j = 0, {k} = {k: 2}; j < 3; j++);
for (const l of [1, 2]) { var m = l }
for (var [n] of [[4]]);
for await (var o of [9]);
let p, r = 4
class S { static inst = new S() }
function t() { return b + i }
label: for (;;) { break label }
const names = [b, c, d, e, f, h, i, j, k, m, n, o, p, r, S.inst.constructor === S, t(), foo.name]
names.join()"""
    converse(
        kernel,
        [
            (code, "'1,2,3,1,2,5,7,3,2,2,4,9,,4,true,8,foo'\n"),
            (
                "[b, c, d, e, f, h, i, j, k, m, n, o, p, r, S.name, t(), foo.name].join()",
                "'1,2,3,1,2,5,7,3,2,2,4,9,,4,S,8,foo'\n",
            ),
        ],
    )


SHOWN = [
    ("1 + 1", "2\n"),
    ("'it\\'s'", '"it\'s"\n'),
    ("undefined", ""),
    ("null", "null\n"),
    ("-0", "-0\n"),
    ("10n ** 20n", "100000000000000000000n\n"),
    ("Symbol('s')", "Symbol(s)\n"),
    ("if (true) 5", "5\n"),
    ("5; var declared = 1", "5\n"),
    ("let declared2 = 1", ""),
    ("class Declared {}", ""),
    ("function declared3() {}", ""),
    ("{ a: 1 }", "1\n"),
    ("({ a: 1 })", "{ a: 1 }\n"),
    ("({ a: { b: { c: { d: { e: 1 } } } } })", "{\n  a: {\n    b: { c: { d: { e: 1 } } }\n  }\n}\n"),
    ("({ a: { b: { c: { d: { e: { f: 1 } } } } } }).a.b.c", "{ d: { e: { f: 1 } } }\n"),
    ("({ a: { b: { c: { d: { e: { f: 1 } } } } } })", "{\n  a: {\n    b: { c: { d: { e: [Object] } } }\n  }\n}\n"),
    ("(function named() {})", "[Function: named]\n"),
    ("Buffer.from('hi')", "<Buffer 68 69>\n"),
    ("new Date(0)", "1970-01-01T00:00:00.000Z\n"),
    ("for (var i = 0; i < 3; i++) i", "2\n"),
    ("await Promise.resolve(5)", "5\n"),
    ("Promise.resolve(6)", "6\n"),
    ("await 1; Promise.resolve(7)", "7\n"),
    ("(async () => ({ then: 1 }))()", "{ then: 1 }\n"),
    ("({ then() { throw new Error('called') } })", "{ then: [Function: then] }\n"),
    ("await 1; ({ then() { throw new Error('called') } })", "{ then: [Function: then] }\n"),
    ("await new Promise((done) => setTimeout(done, 5, 'late'))", "'late'\n"),
    ("await undefined", ""),
    ("await 1; (function () {})", "[Function (anonymous)]\n"),
    ("if (await 1) { 'yes' } else 'no'", "'yes'\n"),
    ("for await (const i of [1, 2]) i", "2\n"),
    ("try { await Promise.reject(1) } catch (e) { e + 1 } finally { 9 }", "2\n"),
    ("switch (await 2) { case 1: 'a'; case 2: 'b'; break; default: 'c' }", "'b'\n"),
    ("await 1; 5; const after = 6", "5\n"),
    ("console.log('out'); 8", "out\n8\n"),
    ("Promise.resolve().then(() => console.log('job')); 9", "job\n9\n"),
    (
        "process.nextTick(() => console.log('tick')); Promise.resolve().then(() => console.log('job')); 10",
        "tick\njob\n10\n",
    ),
    ("await 1; process.nextTick(() => console.log('tick')); 11", "tick\n11\n"),
    ("#!/usr/bin/env node\n12", "12\n"),
    ("#!/usr/bin/env node\nconst waited = await 13; waited", "13\n"),
    ("`a\u2028b`.length // \u2029\n+ 1", "4\n"),
    ("'\ud83d\ude00 caf\u00e9'", "'\ud83d\ude00 caf\u00e9'\n"),
]


def test_the_last_value_is_shown_as_node_shows_it(kernel: Kernel) -> None:
    converse(
        kernel,
        [
            (
                code.encode("utf-16", "surrogatepass").decode("utf-16"),
                printed.encode("utf-16", "surrogatepass").decode("utf-16"),
            )
            for code, printed in SHOWN
        ],
    )
    assert kernel.cell("Array.from({ length: 101 }, () => 7)").out.endswith("... 1 more item\n]\n")
    assert kernel.cell("'x'.repeat(10001)").out == f"'{'x' * 10000}'... 1 more character\n"


def test_the_last_value_is_kept_in_underscore(kernel: Kernel) -> None:
    converse(
        kernel,
        [
            ("[1, 2]", "[ 1, 2 ]\n"),
            ("_.length", "2\n"),
            ("var nothing = 1", ""),
            ("_ + 1", "3\n"),
            ("await 7", "7\n"),
            ("_", "7\n"),
        ],
    )


def test_errors_name_cell_and_line_and_show_no_frame_of_the_kernel(kernel: Kernel) -> None:
    for code, expected in [
        ("function thrower() {\n  null.x\n}", ""),
        (
            "let a = 1;\nthrow new Error('boom')",
            "cell2.js:2\nthrow new Error('boom')\n      ^\n\nError: boom\n    at cell2.js:2:7\n",
        ),
        (
            "null.x",
            (
                "cell3.js:1\nnull.x\n     ^\n\nTypeError: Cannot read properties of null (reading 'x')\n"
                "    at cell3.js:1:6\n"
            ),
        ),
        (
            "1;\nthrower()",
            (
                "TypeError: Cannot read properties of null (reading 'x')\n    at thrower (cell1.js:2:8)\n"
                "    at cell4.js:2:1\n"
            ),
        ),
        ("throw 5", "Uncaught 5\n"),
        ("throw { a: 1 }", "Uncaught { a: 1 }\n"),
        ("throw undefined", "Uncaught undefined\n"),
        ("await Promise.reject('no')", "Uncaught 'no'\n"),
        (
            "await 1; null.x",
            (
                "cell9.js:1\nawait 1; null.x\n              ^\n\n"
                "TypeError: Cannot read properties of null (reading 'x')\n    at cell9.js:1:15\n"
            ),
        ),
        (
            "async function deep() { await null; throw new Error('deep') }\nawait deep()",
            "cell10.js:1\nasync function deep() { await null; throw new Error('deep') }\n"
            "                                          ^\n\nError: deep\n"
            "    at deep (cell10.js:1:43)\n    at async cell10.js:2:1\n",
        ),
        (
            "throw new Error('outer', { cause: new TypeError('inner') })",
            "cell11.js:1\nthrow new Error('outer', { cause: new TypeError('inner') })\n      ^\n\n"
            "Error: outer\n    at cell11.js:1:7 {\n  [cause]: TypeError: inner\n      at cell11.js:1:35\n}\n",
        ),
        (
            "throw new AggregateError([new Error('a')], 'all')",
            "cell12.js:1\nthrow new AggregateError([new Error('a')], 'all')\n      ^\n\n"
            "AggregateError: all\n    at cell12.js:1:7 {\n  [errors]: [\n    Error: a\n"
            "        at cell12.js:1:27\n  ]\n}\n",
        ),
        (
            "throw Object.assign(new Error('coded'), { code: 'E_X' })",
            "cell13.js:1\nthrow Object.assign(new Error('coded'), { code: 'E_X' })\n                    ^\n\n"
            "Error: coded\n    at cell13.js:1:21 {\n  code: 'E_X'\n}\n",
        ),
        (
            "Promise.reject(new Error('value'))",
            (
                "cell14.js:1\nPromise.reject(new Error('value'))\n               ^\n\nError: value\n"
                "    at cell14.js:1:16\n"
            ),
        ),
    ]:
        answer = kernel.cell(code)
        assert (answer.status, answer.out, answer.err) == (RAISED if expected else RAN, "", expected), code


def test_an_error_in_a_file_shows_the_files_line(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "bad.cjs").write_text("\nexports.fail = () => {\n  null.x\n}\n")
    (tmp_path / "bad.mjs").write_text("export const fail = () => {\n  null.x\n}\n")
    answer = kernel.cell("require('./bad.cjs').fail()")
    assert answer.err == (
        f"{tmp_path}/bad.cjs:3\n  null.x\n       ^\n\nTypeError: Cannot read properties of null (reading 'x')\n"
        f"    at exports.fail ({tmp_path}/bad.cjs:3:8)\n    at cell1.js:1:22\n"
    )
    answer = kernel.cell("(await import('./bad.mjs')).fail()")
    assert answer.err == (
        f"file://{tmp_path}/bad.mjs:2\n  null.x\n       ^\n\nTypeError: Cannot read properties of null (reading 'x')\n"
        f"    at Module.fail (file://{tmp_path}/bad.mjs:2:8)\n    at cell2.js:1:29\n"
    )


def test_columns_are_those_of_the_text_as_written(kernel: Kernel) -> None:
    for number, code in enumerate(
        [
            "class Long { get y() { throw new Error('y') } }; new Long().y",
            "let one, two; class A {} ; null.x",
            "let one; await 1; class B {} ; [1]; null.x",
            "const { q } = await { q: 1 }; null.x; 5",
        ],
        start=1,
    ):
        answer = kernel.cell(code)
        column = (code.index("new Error") if "new Error" in code else code.index("null.") + 5) + 1
        assert answer.err.startswith(f"cell{number}.js:1\n{code}\n{' ' * (column - 1)}^\n"), answer.err
        assert f"cell{number}.js:1:{column}" in answer.err


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("\n\nlet x = ;", "cell1.js:3\nlet x = ;\n        ^\n\nSyntaxError: Unexpected token ';'\n"),
        (
            "const a = 1; const a = 2",
            (
                "cell1.js:1\nconst a = 1; const a = 2\n                   ^\n\n"
                "SyntaxError: Identifier 'a' has already been declared\n"
            ),
        ),
        ("await 1;\nfoo(;", "cell1.js:2\nfoo(;\n    ^\n\nSyntaxError: Unexpected token ';'\n"),
        ("if (await 1) {", "cell1.js:1\n\nSyntaxError: Unexpected end of input\n"),
        ("return 5", "cell1.js:1\nreturn 5\n^^^^^^\n\nSyntaxError: Illegal return statement\n"),
        (
            "import x from 'y'",
            "cell1.js:1\nimport x from 'y'\n^^^^^^\n\nSyntaxError: Cannot use import statement outside a module\n",
        ),
        (f"let x = '{'y' * 500}' ;;; let ]", "SyntaxError: Unexpected token ']'\n"),
    ],
)
def test_a_syntax_error_shows_its_place(kernel: Kernel, code: str, expected: str) -> None:
    answer = kernel.cell(code)
    assert (answer.status, answer.out, answer.err) == (RAISED, "", expected)


def test_a_stack_that_a_cell_looks_at_has_no_frame_of_the_kernel(kernel: Kernel) -> None:
    look = "try { throw new Error('x') } catch (e) { console.log(e.stack) }"
    for code in (
        look,
        f"await 1; {look}",
        f"{look}; await 1",
        f"setTimeout(() => {{ {look} }}, 1); await new Promise((done) => setTimeout(done, 5))",
        f"process.once('custom', () => {{ {look} }}); process.emit('custom'); undefined",
        (
            f"process.once('uncaughtException', () => {{ {look} }}); setTimeout(() => {{ throw 1 }}, "
            f"1); await new Promise((done) => setTimeout(done, 5))"
        ),
    ):
        answer = kernel.cell(code)
        assert answer.status == RAN
        assert re.search(r"at .*cell\d+\.js:1:\d+", answer.out), answer.out
        assert "plimsoll" not in answer.out, answer.out
        assert "[eval]" not in answer.out, answer.out


def test_what_callbacks_throw_is_told_and_ends_nothing(kernel: Kernel) -> None:
    for code, printed, text in [
        ("queueMicrotask(() => { throw new Error('micro') }); 1", "1\n", "Error: micro"),
        ("Promise.reject(new Error('lost')); 2", "2\n", "Error: lost"),
        ("Promise.reject(new Error('lost')); await 1; 2", "2\n", "Error: lost"),
        ("Promise.reject(7); 2", "2\n", 'The promise rejected with the reason "7"'),
        (
            "setTimeout(() => { throw new Error('late') }, 1); await new Promise((done) => setTimeout(done, 5)); 3",
            "3\n",
            "Error: late",
        ),
        ("process.nextTick(() => { throw new Error('tick') }); 4", "4\n", "Error: tick"),
        ("await 1; process.nextTick(() => { throw new Error('tick') }); 5", "5\n", "Error: tick"),
        ("setTimeout(() => { throw 9 }, 1); await new Promise((done) => setTimeout(done, 5)); 6", "6\n", "Uncaught 9"),
    ]:
        answer = kernel.cell(code)
        assert (answer.status, answer.out) == (RAN, printed), code
        assert text in answer.err, code
        assert answer.err.count("\n    at ") <= 3, answer.err


def test_what_came_due_between_cells_runs_in_the_next(kernel: Kernel) -> None:
    converse(
        kernel,
        [
            (
                "var ticks = 0; const timer = setInterval(() => ticks++, 1); "
                "setTimeout(() => console.log('late'), 5); undefined",
                "",
            ),
            ("setTimeout(() => { throw new Error('left behind') }, 5); undefined", ""),
        ],
    )
    time.sleep(0.1)
    answer = kernel.cell("await new Promise((done) => setTimeout(done, 50)); clearInterval(timer); ticks > 5")
    assert (answer.status, answer.out) == (RAN, "late\ntrue\n")
    assert "Error: left behind" in answer.err
    converse(kernel, [("const ticked = ticks; undefined", ""), ("ticks === ticked", "true\n")])


def test_a_timer_that_nobody_waits_for_does_not_run_in_its_cell(kernel: Kernel) -> None:
    for number in range(20):
        later = f"console.log('later {number}')"
        answer = kernel.cell(f"setTimeout(() => {later}, 0); setImmediate(() => {later}); {number}")
        assert (answer.status, answer.err) == (RAN, "")
        assert answer.out.endswith(f"{number}\n")
        assert f"later {number}" not in answer.out
        time.sleep(0.005)


def test_handlers_of_the_cell_are_used(kernel: Kernel) -> None:
    converse(
        kernel,
        [
            ("process.on('uncaughtException', (e) => console.log('handled', e.message)); undefined", ""),
            (
                "setTimeout(() => { throw new Error('late') }, 1); await new Promise((done) => setTimeout(done, 5))",
                "handled late\n",
            ),
            ("process.on('unhandledRejection', (e) => console.log('rejected', e)); undefined", ""),
            ("Promise.reject(3); 1", "rejected 3\n1\n"),
        ],
    )
    answer = kernel.cell("throw new Error('own')")
    assert (answer.status, answer.out) == (RAISED, "")
    assert "Error: own" in answer.err
    converse(
        kernel,
        [
            (
                (
                    "process.removeAllListeners(); process.on('uncaughtExceptionMonitor', (e) => "
                    "console.log('seen', e.message)); 1"
                ),
                "1\n",
            ),
        ],
    )
    answer = kernel.cell("process.nextTick(() => { throw new Error('late') }); 1")
    assert (answer.status, answer.out) == (RAN, "seen late\n1\n")
    assert "Error: late" in answer.err


def test_a_wait_that_nothing_can_end_ends_at_once(kernel: Kernel) -> None:
    for code in (
        "var kept = 1; await new Promise(() => {})",
        "new Promise(() => {})",
        "setTimeout(() => {}, 5); await new Promise(() => {})",
        "setInterval(() => {}, 1).unref(); await new Promise(() => {})",
        "process.on('beforeExit', () => console.log('before')); process.emit('x'); await new Promise(() => {})",
    ):
        began = time.monotonic()
        answer = kernel.cell(code)
        assert (answer.status, answer.out) == (STUCK, ""), code
        assert answer.err == "Warning: Detected unsettled top-level await\n"
        assert time.monotonic() - began < 2
        converse(kernel, [("kept", "1\n")])
    # What would have ended it is no matter of a later cell's, unless it fails there.
    assert (
        kernel.cell("var end, fail; await new Promise((resolve, reject) => { end = resolve; fail = reject }); 5").status
        == STUCK
    )
    converse(kernel, [("end(1); kept", "1\n"), ("await 1; kept", "1\n")])
    assert kernel.cell("await new Promise((resolve, reject) => { fail = reject })").status == STUCK
    answer = kernel.cell("fail(new Error('late')); await 1; kept")
    assert (answer.status, answer.out) == (RAN, "1\n")
    assert "Error: late" in answer.err
    # What an earlier cell left running may still end it.
    converse(kernel, [("var done; setTimeout(() => done('now'), 50); undefined", "")])
    converse(kernel, [("await new Promise((resolve) => { done = resolve })", "'now'\n")])


def test_modules_come_from_the_work_directory(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "local.cjs").write_text(
        "module.exports = { name: __filename.split('/').pop(), main: require.main === module }"
    )
    (tmp_path / "local.mjs").write_text("export const where = import.meta.dirname; export default 5")
    (tmp_path / "node_modules" / "dep").mkdir(parents=True)
    (tmp_path / "node_modules" / "dep" / "index.js").write_text("module.exports = 'dep'")
    converse(
        kernel,
        [
            ("require('./local.cjs')", "{ name: 'local.cjs', main: false }\n"),
            ("require('dep') + (await import('dep')).default", "'depdep'\n"),
            ("const local = await import('./local.mjs'); [local.default, local.where === __dirname]", "[ 5, true ]\n"),
            ("import('./local.mjs').then((found) => found.default)", "5\n"),
            ("const load = (name) => import(name)", ""),
            ("(await load('node:os')).EOL", "'\\n'\n"),
            (
                "[__dirname, __filename, process.cwd()]",
                f"[\n  '{tmp_path}',\n  '{tmp_path}/cell.js',\n  '{tmp_path}'\n]\n",
            ),
            (
                "typeof module + require.main?.filename.endsWith('cell.js') + (require.main === module)",
                "'objecttruetrue'\n",
            ),
            ("module.exports.x = 1; exports.x", "1\n"),
        ],
    )
    answer = kernel.cell("require('./nope')")
    assert answer.status == RAISED
    assert "Cannot find module './nope'" in answer.err
    assert "code: 'MODULE_NOT_FOUND'" in answer.err
    answer = kernel.cell("await import('./nope.mjs')")
    assert answer.status == RAISED
    assert "ERR_MODULE_NOT_FOUND" in answer.err


def test_the_global_scope_is_that_of_a_program(kernel: Kernel, tmp_path: Path) -> None:
    names = "Object.getOwnPropertyNames(globalThis).sort().join('\\n')"
    program = tmp_path / "names.js"
    program.write_text(f"console.log({names})")
    plain = subprocess.run([node(), program], capture_output=True, text=True, check=True).stdout.split()
    found = kernel.cell(f"console.log({names}); undefined").out.split()
    assert sorted(set(found) ^ set(plain)) == ["__dirname", "__filename", "exports", "module", "require"]
    converse(
        kernel,
        [
            ("Object.keys(globalThis).includes('require') || typeof fs", "'undefined'\n"),
            ("[process.execArgv, process._eval, process.argv.length]", "[ [], undefined, 2 ]\n"),
        ],
    )


def test_programs_that_a_cell_starts_do_not_hold_the_pipes(kernel: Kernel) -> None:
    code = (
        "require('child_process').execFileSync('ls', ['-l', '/proc/self/fd'], { stdio: "
        "['ignore', 'pipe', 'inherit'] }).toString()"
    )
    answer = kernel.cell(f"console.log({code}); undefined")
    assert answer.status == RAN
    # Standard error and, by a pipe of its own, standard output.
    assert answer.out.count("pipe:") <= 2, answer.out


def test_a_fork_runs_its_file_and_not_the_kernel(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "child.js").write_text("process.send(process.argv.length)")
    code = "await new Promise((done) => require('child_process').fork('./child.js').on('message', done))"
    converse(kernel, [(code, "2\n")])


def test_a_worker_runs(kernel: Kernel) -> None:
    code = (
        "const { Worker } = require('worker_threads'); await new Promise((done, fail) => new "
        "Worker(\"require('worker_threads').parentPort.postMessage(6 * 7)\", { eval: true "
        "}).on('message', done).on('error', fail))"
    )
    converse(kernel, [(code, "42\n")])


def test_an_exit_ends_the_process(tmp_path: Path) -> None:
    for code, status in (
        ("console.log('a'); process.exit(3)", 3),
        ("console.log('a'); process.kill(process.pid, 'SIGKILL')", -9),
    ):
        with Kernel("javascript", tmp_path) as kernel:
            answer = kernel.cell(code)
            assert (answer.status, answer.out, answer.err) == (None, "a\n", "")
            assert kernel.process.returncode == status


def test_output_is_exact_and_complete(kernel: Kernel) -> None:
    for size in (1, 65536, 3_000_000):
        answer = kernel.cell(
            f"process.stdout.write(Buffer.alloc({size}, 0xff)); process.stderr.write('\\0e'); undefined"
        )
        assert (answer.status, answer.stdout, answer.stderr) == (RAN, b"\xff" * size, b"\0e")
    answer = kernel.cell(
        "for (let i = 0; i < 1e5; i++) console.log(i); fs_ = require('fs'); fs_.writeSync(1, 'sync\\n'); undefined"
    )
    assert answer.out == "".join(f"{number}\n" for number in range(100_000)) + "sync\n"
    # Another stream on the descriptor makes it non-blocking.
    assert kernel.cell("const more = new (require('net').Socket)({ fd: 1, writable: true }); undefined").status == RAN
    answer = kernel.cell("console.log('z'.repeat(3e6)); 5")
    assert (answer.status, answer.out, answer.err) == (RAN, f"{'z' * 3_000_000}\n5\n", "")


HOSTILE = [
    "Object.defineProperty(Object.prototype, 'value', { get() { throw 1 }, set() { throw 2 }, configurable: true })",
    "Object.prototype.then = function () {}",
    "Promise.prototype.then = null; queueMicrotask = null",
    "Object.defineProperty(globalThis, '_', { set() { throw 1 }, get() { return 1 } })",
    "process.listenerCount = () => { throw 1 }; process.emit = null",
    "process.on('uncaughtException', () => {}); process.on('exit', () => { throw 1 })",
    "Error.prepareStackTrace = () => { throw 1 }; Error.prototype.toString = null",
    "require('util').inspect.defaultOptions.depth = 0; Symbol.for = null",
    "console = null; process.stdout.write = null; globalThis.process = null",
    "JSON = null; Array.prototype.push = null; for (const k of ['bind', 'call', 'apply']) Function.prototype[k] = null",
    "Array.prototype[Symbol.iterator] = null; Map.prototype.get = null; String.prototype.split = null",
    "for (const key of Reflect.ownKeys(String.prototype)) if (key !== 'constructor') String.prototype[key] = null",
    (
        "for (const key of Reflect.ownKeys(RegExp.prototype)) if (key !== 'constructor') try { "
        "RegExp.prototype[key] = null } catch {}"
    ),
    "const E = require('events').prototype; for (const key of Object.keys(E)) E[key] = () => { throw 1 }",
    "for (const key of Reflect.ownKeys(process)) try { process[key] = () => { throw 1 } } catch {}",
    "const m = require('fs'); for (const key of Object.keys(m)) try { m[key] = () => { throw 1 } } catch {}",
    (
        "let p = require('net').Socket.prototype; for (; p; p = Object.getPrototypeOf(p)) for "
        "(const key of Reflect.ownKeys(p)) try { p[key] = () => { throw 1 } } catch {}"
    ),
    "setImmediate = setTimeout = clearImmediate = null; process.nextTick = null",
    "require('domain').create().on('error', () => {}).enter(); undefined",
    "require('async_hooks').createHook({ init() {}, before() {}, after() {} }).enable(); undefined",
    "process.stdout.end(); process.stderr.destroy(); undefined",
    "Error.stackTraceLimit = 0",
    "Error = null",
    "Object.prototype.type = 3; Object.prototype.filename = 'x'; Object.prototype.get = 5",
    "process._exiting = true",
    "process.nextTick(() => { throw 1 }); setImmediate(() => { throw 2 }); Promise.reject(3); undefined",
]


@pytest.mark.parametrize("spoiled", HOSTILE)
def test_a_hostile_cell_cannot_stop_later_cells_from_running_and_telling(kernel: Kernel, spoiled: str) -> None:
    assert kernel.cell(spoiled).status in (RAN, RAISED)
    answer = kernel.cell("throw 7")
    assert (answer.status, answer.out) == (RAISED, "")
    assert "7" in answer.err
    for code, status, printed in (
        ("6 * 7", RAN, "42\n"),
        ("const waited = await 5; waited", RAN, "5\n"),
        ("await new Promise(() => {})", STUCK, ""),
        ("waited", RAN, "5\n"),
    ):
        answer = kernel.cell(code)
        assert (answer.status, answer.out) == (status, printed), (code, answer.err)


def test_globals_that_take_nothing_more_are_an_error_of_the_cell(kernel: Kernel) -> None:
    assert kernel.cell("Object.preventExtensions(globalThis); undefined").status == RAN
    for code in ("const a = 1", "const a = await 1"):
        answer = kernel.cell(code)
        assert answer.status == RAISED
        assert "TypeError" in answer.err
    converse(kernel, [("6 * 7", "42\n"), ("await 5", "5\n")])


def test_deep_nesting_is_an_error_of_the_cell(kernel: Kernel) -> None:
    for code in (f"let x = {'(' * 100_000}1{')' * 100_000}", f"const y = {'[' * 50_000}{']' * 50_000}; y.length"):
        answer = kernel.cell(code)
        assert answer.status == RAISED
        assert "RangeError: Maximum call stack size exceeded" in answer.err
    answer = kernel.cell("(function f(n) { return n <= 0 ? 0 : 1 + f(n - 1) })(200000)")
    assert answer.status == RAISED
    assert "RangeError: Maximum call stack size exceeded" in answer.err
    converse(kernel, [("1", "1\n")])


def test_the_kernel_names_no_module_that_node_would_hand_in() -> None:
    assert "crypto" not in javascript_kernel()
