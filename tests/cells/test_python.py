"""What the Python process that keeps the variables of cells promises about them."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest
from driver import RAISED, RAN, Kernel, converse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    with Kernel("python", tmp_path) as started:
        yield started


def test_what_a_cell_defines_the_next_finds(kernel: Kernel) -> None:
    converse(
        kernel,
        [
            ("x = 20\ndef f(n): return n * 2", ""),
            ("class A:\n    def m(self): return f(x)", ""),
            ("A().m() + 2", "42\n"),
            ("import math as m; m.floor(2.5)", "2\n"),
            ("from __main__ import x as y; y is x", "True\n"),
            ("__name__", "'__main__'\n"),
            ("if __name__ == '__main__':\n    print('main')", "main\n"),
        ],
    )


SHOWN = [
    ("1+1", "2\n"),
    ("None", ""),
    ("x = 1", ""),
    ("'text'", "'text'\n"),
    ("1; 2", "2\n"),
    ("2; y = 3", ""),
    ("print('out'); 8", "out\n8\n"),
    ("print('no newline', end=''); 8", "no newline8\n"),
    ("'''a docstring alone'''", "'a docstring alone'\n"),
    ("'caf\u00e9 \U0001f600'", "'caf\u00e9 \U0001f600'\n"),
    ("'\\ud800'", "'\\ud800'\n"),
    ("", ""),
    ("# nothing", ""),
    ("\ufeff5", "5\n"),
    ("6\r\n7", "7\n"),
    ("if True:\n    5", ""),
    ("lambda_ = (lambda: 5)(); lambda_", "5\n"),
    ("import asyncio; await asyncio.sleep(0, 5)", "5\n"),
    ("await asyncio.sleep(0, 5); 6", "6\n"),
    ("await asyncio.sleep(0); None", ""),
]


def test_the_last_value_is_printed_and_kept_in_underscore(kernel: Kernel) -> None:
    converse(kernel, SHOWN)
    converse(
        kernel,
        [
            ("[1, 2]", "[1, 2]\n"),
            ("len(_)", "2\n"),
            ("nothing = None", ""),
            ("None", ""),
            ("_ + 1", "3\n"),
            ("_", "3\n"),
        ],
    )


def test_errors_begin_at_the_cell(kernel: Kernel) -> None:
    for code, expected in [
        ("def thrower(n):\n    return 1 / n\n", ""),
        (
            "\nthrower(0)",
            'Traceback (most recent call last):\n  File "<cell 2>", line 2, in <module>\n    thrower(0)\n'
            '  File "<cell 1>", line 2, in thrower\n    return 1 / n\n           ~~^~~\n'
            "ZeroDivisionError: division by zero\n",
        ),
        (
            '{}["k"]',
            'Traceback (most recent call last):\n  File "<cell 3>", line 1, in <module>\n    {}["k"]\n    ~~^^^^^\n'
            "KeyError: 'k'\n",
        ),
        (
            "import asyncio\nawait asyncio.sleep(0)\nthrower(0)",
            'Traceback (most recent call last):\n  File "<cell 4>", line 3, in <module>\n    thrower(0)\n'
            '  File "<cell 1>", line 2, in thrower\n    return 1 / n\n           ~~^~~\n'
            "ZeroDivisionError: division by zero\n",
        ),
        (
            "async def deep(): raise KeyError('k')\nawait deep()",
            'Traceback (most recent call last):\n  File "<cell 5>", line 2, in <module>\n    await deep()\n'
            "  File \"<cell 5>\", line 1, in deep\n    async def deep(): raise KeyError('k')\n"
            "                      ^^^^^^^^^^^^^^^^^^^\n"
            "KeyError: 'k'\n",
        ),
        (
            "deep()",
            'Traceback (most recent call last):\n  File "<cell 5>", line 1, in deep\n'
            "    async def deep(): raise KeyError('k')\n                      ^^^^^^^^^^^^^^^^^^^\nKeyError: 'k'\n",
        ),
        ("let x = ;", '  File "<cell 7>", line 1\n    let x = ;\n        ^\nSyntaxError: invalid syntax\n'),
        (
            "if True:\nx",
            (
                '  File "<cell 8>", line 2\n    x\n    ^\nIndentationError: expected an indented block '
                "after 'if' statement on line 1\n"
            ),
        ),
        (
            "class Odd:\n    def __repr__(self): raise ValueError('repr')\nOdd()",
            'Traceback (most recent call last):\n  File "<cell 9>", line 2, in __repr__\n'
            "    def __repr__(self): raise ValueError('repr')\n"
            "                        ^^^^^^^^^^^^^^^^^^^^^^^^\nValueError: repr\n",
        ),
        (
            "raise KeyboardInterrupt",
            (
                'Traceback (most recent call last):\n  File "<cell 10>", line 1, in <module>\n'
                "    raise KeyboardInterrupt\nKeyboardInterrupt\n"
            ),
        ),
    ]:
        answer = kernel.cell(code)
        assert (answer.status, answer.out, answer.err) == (RAISED if expected else RAN, "", expected), code


def test_chained_errors_and_groups_begin_at_the_cell(kernel: Kernel) -> None:
    answer = kernel.cell("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('outer') from e")
    assert answer.err == (
        'Traceback (most recent call last):\n  File "<cell 1>", line 2, in <module>\n    1 / 0\n    ~~^~~\n'
        "ZeroDivisionError: division by zero\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "<cell 1>", line 4, in <module>\n'
        "    raise ValueError('outer') from e\nValueError: outer\n"
    )
    answer = kernel.cell("await_ = 1\nraise ExceptionGroup('group', [ValueError(1)])")
    assert answer.status == RAISED
    assert '|   File "<cell 2>", line 2, in <module>' in answer.err
    assert "ValueError: 1" in answer.err
    group = """import asyncio
async def bad():
    raise KeyError('k')
async with asyncio.TaskGroup() as tasks:
    tasks.create_task(bad())"""
    answer = kernel.cell(group)
    assert (answer.status, answer.out) == (RAISED, "")
    assert '|   File "<cell 3>", line 4, in <module>' in answer.err
    assert '|   File "<cell 3>", line 3, in bad' in answer.err
    assert "<string>" not in answer.err


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("raise SystemExit", ""),
        ("import sys; sys.exit(3)", ""),
        ("import sys; sys.exit(0)", ""),
        ("import sys; sys.exit('bye')", "bye\n"),
        ("exit()", ""),
        ("import asyncio; await asyncio.sleep(0); raise SystemExit(2)", ""),
    ],
)
def test_an_exit_ends_the_cell_and_not_the_interpreter(kernel: Kernel, code: str, told: str) -> None:
    kernel.cell("kept = 1")
    answer = kernel.cell(code)
    assert (answer.status, answer.out, answer.err) == (RAISED, "", told)
    converse(kernel, [("kept", "1\n")])


def test_a_hard_exit_ends_the_process(tmp_path: Path) -> None:
    for code, status in (
        ("print('a'); import os; os._exit(3)", 3),
        ("print('a'); import os; os.kill(os.getpid(), 9)", -9),
    ):
        with Kernel("python", tmp_path) as kernel:
            answer = kernel.cell(code)
            assert (answer.status, answer.out, answer.err) == (None, "a\n", "")
            assert kernel.process.returncode == status


def test_cells_that_wait_share_one_event_loop(kernel: Kernel) -> None:
    converse(
        kernel,
        [
            ("import asyncio\nasync def f(): return 7", ""),
            ("t = asyncio.create_task(f()); await t", "7\n"),
            ("loop = asyncio.get_running_loop(); await f()", "7\n"),
            ("asyncio.run(f())", "7\n"),
            ("asyncio.get_running_loop() is loop and await f()", "7\n"),
            ("f()", "7\n"),
            ("asyncio.get_event_loop() is loop", "True\n"),
            ("asyncio.get_event_loop().run_until_complete(f())", "7\n"),
            ("[await f() for _ in range(2)]", "[7, 7]\n"),
            ("async def agen():\n    yield 1\n    yield 2", ""),
            ("async for n in agen():\n    print(n)", "1\n2\n"),
            ("[n async for n in agen()]", "[1, 2]\n"),
            ("async with asyncio.timeout(5):\n    print(await f())", "7\n"),
        ],
    )


def test_the_event_loop_that_a_cell_already_has_is_the_sessions(kernel: Kernel) -> None:
    code = (
        "import asyncio, warnings; warnings.simplefilter('ignore'); mine = "
        "asyncio.get_event_loop(); done = mine.create_future()"
    )
    converse(
        kernel,
        [
            (code, ""),
            ("asyncio.get_running_loop() is mine and await asyncio.sleep(0, True)", "True\n"),
            ("mine.close()", ""),
            ("await asyncio.sleep(0, 5)", "5\n"),
        ],
    )


def test_background_tasks_advance_only_while_a_cell_waits(kernel: Kernel) -> None:
    ticker = """import asyncio
ticks = 0
async def tick():
    global ticks
    while True:
        ticks += 1
        await asyncio.sleep(0.001)
task = asyncio.create_task(tick())
await asyncio.sleep(0)"""
    converse(kernel, [(ticker, ""), ("seen = ticks", "")])
    time.sleep(0.1)
    converse(
        kernel,
        [
            ("ticks == seen", "True\n"),
            ("await asyncio.sleep(0.05); ticks > seen", "True\n"),
            ("task.cancel()", "True\n"),
        ],
    )


def test_a_wait_that_was_cut_short_does_not_go_on_in_a_later_cell(kernel: Kernel) -> None:
    converse(
        kernel,
        [
            (
                (
                    "import asyncio, signal\nsignal.signal(signal.SIGALRM, lambda *_: (_ for _ in "
                    "()).throw(KeyboardInterrupt))\nNone"
                ),
                "",
            )
        ],
    )
    answer = kernel.cell("signal.setitimer(signal.ITIMER_REAL, 0.05)\nawait asyncio.sleep(1)\nprint('went on')")
    assert answer.status == RAISED
    assert "KeyboardInterrupt" in answer.err
    converse(kernel, [("await asyncio.sleep(1.2)", "")])


def test_modules_come_from_the_work_directory_but_not_at_the_start(tmp_path: Path) -> None:
    for name in ("json", "traceback", "linecache", "tokenize", "re", "types", "_ast", "posix"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('ran')")
    (tmp_path / "asyncio.py").write_text("print('mine')")
    with Kernel("python", tmp_path) as kernel:
        assert "ZeroDivisionError: division by zero" in kernel.cell("1/0").err
        # The kernel's own asyncio, which waits for the value.
        converse(kernel, [("async def f(): return 5", ""), ("f()", "5\n")])
        (tmp_path / "mymod.py").write_text("value = 1")
        converse(kernel, [("import mymod; mymod.value", "1\n")])
        for number in range(5):
            (tmp_path / f"later{number}.py").write_text(f"value = {number}")
            converse(kernel, [(f"import later{number}; later{number}.value", f"{number}\n")])
        (tmp_path / "mymod.py").write_text("value = 2")
        converse(kernel, [("import importlib; importlib.reload(mymod).value", "2\n")])
        assert not (tmp_path / "__pycache__").exists()


def test_output_is_exact_and_complete(kernel: Kernel) -> None:
    for size in (1, 65536, 3_000_000):
        answer = kernel.cell(f"import sys; sys.stdout.buffer.write(b'\\xff' * {size}); sys.stderr.write('\\0e'); None")
        assert (answer.status, answer.stdout, answer.stderr) == (RAN, b"\xff" * size, b"\0e")
    answer = kernel.cell(
        "import os\nprint('one')\nos.system('echo two')\nprint('three', end=''); os.set_blocking(1, False); 4"
    )
    assert answer.out == "one\ntwo\nthree4\n"
    answer = kernel.cell("print('z' * 3_000_000); 5")
    assert (answer.status, answer.out) == (RAN, "z" * 3_000_000 + "\n5\n")


def test_a_printed_line_is_out_before_the_cell_ends(kernel: Kernel) -> None:
    with pytest.raises(TimeoutError):
        kernel.cell("print('a')\nwhile True: pass", timeout=0.5)
    assert kernel.taken() == (b"a\n", b"")


def test_threads_children_and_input(kernel: Kernel) -> None:
    converse(
        kernel,
        [
            ("import threading; t = threading.Thread(target=lambda: print('thread')); t.start(); t.join()", "thread\n"),
            ("def square(n): return n * n", ""),
            (
                "import multiprocessing as mp\nwith mp.Pool(2) as pool: print(pool.map(square, [1, 2, 3]))",
                "[1, 4, 9]\n",
            ),
            ("import os\npid = os.fork()\nif pid == 0: print('child')\nelse: os.waitpid(pid, 0)[1]", "child\n"),
            ("if os.fork() == 0: raise SystemExit\nos.wait()[1]", "256\n"),
            (
                (
                    "import subprocess; subprocess.run(['ls', '/proc/self/fd'], capture_output=True, "
                    "text=True).stdout.split()"
                ),
                "['0', '1', '2', '3']\n",
            ),
        ],
    )
    answer = kernel.cell("input()")
    assert answer.status == RAISED
    assert answer.err.endswith("EOFError: EOF when reading a line\n")


def test_what_the_standard_library_asks_of_a_main_module(kernel: Kernel) -> None:
    converse(
        kernel,
        [
            (
                (
                    "from dataclasses import dataclass\n@dataclass\nclass P:\n    a: 'int'\n\n"
                    "import pickle; pickle.loads(pickle.dumps(P(3)))"
                ),
                "P(a=3)\n",
            ),
            ("import typing; typing.get_type_hints(P)", "{'a': <class 'int'>}\n"),
            (
                "def source():\n    return 1\n\nimport inspect; inspect.getsource(source)",
                "'def source():\\n    return 1\\n'\n",
            ),
            ("from __future__ import annotations\ndef f(x: Undefined): pass", ""),
            ("def g(x: AlsoUndefined): pass\ng.__annotations__", "{'x': 'AlsoUndefined'}\n"),
            ("n: int = 5; __annotations__", "{'n': 'int'}\n"),
            ("import sys; sys.argv, len(sys.orig_argv)", "([''], 1)\n"),
            ("import enum\nclass E(enum.Enum):\n    A = 1\nE.A", "<E.A: 1>\n"),
        ],
    )
    answer = kernel.cell("import warnings\nwarnings.warn('careful')")
    assert (answer.status, answer.out) == (RAN, "")
    assert answer.err == "<cell 9>:2: UserWarning: careful\n  warnings.warn('careful')\n"
    answer = kernel.cell(
        "import unittest\nclass T(unittest.TestCase):\n    def test_it(self): self.assertEqual(1, 1)\nunittest.main()"
    )
    assert answer.status == RAISED
    assert "Ran 1 test" in answer.err
    assert "OK" in answer.err


def test_nothing_of_the_kernel_is_in_the_namespace(kernel: Kernel) -> None:
    converse(
        kernel,
        [
            ("sorted(globals())", "['__builtins__', '__doc__', '__loader__', '__name__', '__package__', '__spec__']\n"),
            ("__builtins__ is __import__('builtins')", "True\n"),
        ],
    )


HOSTILE = [
    "import sys; sys.stdout = sys.stderr = None",
    "import sys; del sys.stdout, sys.stderr, sys.modules['__main__']",
    "import sys; sys.stdout = 5",
    "import builtins\nfor n in dir(builtins):\n    if n[0] != '_': setattr(builtins, n, None)",
    (
        "import builtins\nfor n in ('compile', 'exec', 'eval', 'len', 'isinstance', 'repr', "
        "'BaseException', 'type'): delattr(builtins, n)"
    ),
    "import os, posix\nfor m in (os, posix):\n    for n in ('read', 'write', 'getpid', '_exit'): setattr(m, n, None)",
    (
        "import traceback, linecache\ntraceback.format_exception = traceback.TracebackException "
        "= None; linecache.cache = None; linecache.getlines = None"
    ),
    "globals().clear()",
    "__builtins__ = None",
    "__name__ = 5",
    "import sys; sys.setrecursionlimit(20)",
    "import sys; sys.settrace(lambda *a: 1 / 0)",
    "import sys; sys.setprofile(lambda *a: 1 / 0)",
    "import sys; sys.excepthook = sys.displayhook = sys.unraisablehook = None",
    "import sys; sys.path = sys.modules = sys.path_importer_cache = None",
    "import sys; sys.addaudithook(lambda *a: None)",
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); None",
    "import gc; gc.disable(); gc.freeze()",
    "import _ast; _ast.Expr = _ast.Expression = None",
    "import asyncio; asyncio.events.new_event_loop = asyncio.set_event_loop_policy = None",
    "import threading; threading.stack_size(32768); None",
]


@pytest.mark.parametrize("spoiled", HOSTILE)
def test_a_hostile_cell_cannot_stop_later_cells_from_running_and_telling(kernel: Kernel, spoiled: str) -> None:
    assert kernel.cell(spoiled).status in (RAN, RAISED)
    answer = kernel.cell("1 / 0")
    assert (answer.status, answer.out) == (RAISED, "")
    assert "division by zero" in answer.err
    for code, printed in (("6 * 7", "42\n"), ("x = 5", ""), ("x", "5\n")):
        answer = kernel.cell(code)
        assert (answer.status, answer.out) == (RAN, printed), (code, answer.err)


def test_signals_in_cells_and_between_them(kernel: Kernel) -> None:
    converse(kernel, [("1", "1\n")])
    for _ in range(3):
        os.kill(kernel.process.pid, signal.SIGINT)
    # What came between two cells is the next one's.
    answer = kernel.cell("while True: pass")
    assert (answer.status, answer.out) == (RAISED, "")
    assert answer.err.endswith("KeyboardInterrupt\n")
    converse(
        kernel,
        [("import signal\ndef alarm(*_): raise TimeoutError('alarm')\nsignal.signal(signal.SIGALRM, alarm)\nNone", "")],
    )
    answer = kernel.cell("signal.setitimer(signal.ITIMER_REAL, 0.05)\nwhile True: pass")
    assert (answer.status, answer.out) == (RAISED, "")
    assert answer.err.endswith("TimeoutError: alarm\n")
    converse(kernel, [("signal.setitimer(signal.ITIMER_REAL, 0.05); None", "")])
    time.sleep(0.1)
    answer = kernel.cell("while True: pass")
    assert (answer.status, answer.out) == (RAISED, "")
    assert answer.err.endswith("TimeoutError: alarm\n")
    converse(kernel, [("6 * 7", "42\n")])


def test_deep_nesting_is_an_error_of_the_cell(kernel: Kernel) -> None:
    for code in ("(" * 100_000, "x = " + "[" * 5000 + "]" * 5000, "-" * 50_000 + "1"):
        answer = kernel.cell(code)
        assert (answer.status, answer.out) == (RAISED, "")
        assert "Error" in answer.err
    answer = kernel.cell("def f(): f()\nf()")
    assert answer.status == RAISED
    assert "RecursionError: maximum recursion depth exceeded" in answer.err
    converse(kernel, [("1", "1\n")])


def test_old_sources_are_forgotten(kernel: Kernel) -> None:
    padding = "#" * (256 * 1024 - 10)
    kernel.cell("def first(): 1 / 0")
    for _ in range(70):
        kernel.cell(f"1\n{padding}")
    answer = kernel.cell("first()")
    assert 'File "<cell 1>", line 1, in first\nZeroDivisionError' in answer.err
    converse(
        kernel, [("import linecache; sum(1 for name in linecache.cache if name.startswith('<cell ')) < 70", "True\n")]
    )
