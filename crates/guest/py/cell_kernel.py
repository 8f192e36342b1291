"""The Python process that keeps the variables of cells.

PID 1 starts it as `python3 -I -c <this text>` and talks to it on descriptors 3 and 4; every frame is a kind, the length
of its body in four bytes, and the body.

    to PID 1    r  ready for a cell                              from PID 1   !  the bell, one byte: a cell is coming
                b  the bell was heard; what the streams held                  c  nonce of 32 characters, code
                   is not the coming cell's
                d  nonce and one character: 0 ran, 1 raised; what the cell wrote is in the streams

From `d` to the next code nothing of the guest's runs in this thread: signals that come meanwhile are the next cell's.
Threads, and programs that cells have started, go on until PID 1 stops them.

Cells share one namespace, that of a module `__main__` which is not this one. The kernel has builtins of its own and
writes to the descriptors themselves: what a cell overwrites in `builtins` or `sys` harms no more than its own output.
"""

from __future__ import annotations

import builtins
import sys
from _ast import Expr, Expression
from _signal import SIG_BLOCK, SIG_SETMASK, pthread_sigmask, valid_signals  # type: ignore[import-not-found]
from posix import _exit, getcwd, getpid, mkdir, read, set_blocking, set_inheritable, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine
    from types import CodeType, TracebackType
    from typing import Any

# Where functions find builtins is settled when they are defined: those below have this copy.
globals()["__builtins__"] = dict(vars(builtins))

# Flags of `compile`, and of what it returns.
ONLY_AST = 0x400
TOP_LEVEL_AWAIT = 0x2000
FUTURE_ANNOTATIONS = 0x1000000
IS_COROUTINE = 0x80

FROM_PID_1, TO_PID_1 = 3, 4
NONCE_LENGTH = 32
RAN, RAISED = b"0", b"1"
# Characters of source that tracebacks can show; beyond it the oldest cells are forgotten.
SOURCES_LENGTH = 16 << 20

KERNEL = globals()
PID = getpid()
ALL_SIGNALS = valid_signals()
# Absent before Python 3.11, as are groups.
GROUP: Any = vars(builtins).get("BaseExceptionGroup", ())
getprofile, gettrace, setprofile, settrace = sys.getprofile, sys.gettrace, sys.setprofile, sys.settrace
STDOUT, STDERR = sys.stdout, sys.stderr


def attempt(function: Callable[..., object], *arguments: object) -> bool:
    """Calls what may fail, be interrupted by a signal handler of a cell, or not be a function at all."""
    try:
        function(*arguments)
    except BaseException:
        return False
    return True


# --- to and from PID 1 ---


def tell(kind: bytes, body: bytes = b"") -> None:
    """Sends a frame."""
    frame = kind + len(body).to_bytes(4, "big") + body
    while frame:
        try:
            frame = frame[write(TO_PID_1, frame) :]
        except OSError:
            _exit(0)


def hear(length: int) -> bytes:
    """Waits for so many bytes; without PID 1 there is nothing to wait for."""
    heard = b""
    while len(heard) < length:
        try:
            data = read(FROM_PID_1, length - len(heard))
        except OSError:
            _exit(0)
        if not data:
            _exit(0)
        heard += data
    return heard


# Signal handlers run in cells alone; in between they could tear a frame.


def hold_signals() -> set[int]:
    """Keeps signals pending and returns the mask that there was."""
    mask: set[int] | None = None
    while True:
        try:
            if mask is None:
                mask = pthread_sigmask(SIG_BLOCK, ())
            pthread_sigmask(SIG_BLOCK, ALL_SIGNALS)
        except BaseException:
            continue
        return mask


# --- output ---


def flush() -> None:
    """Empties the streams as they are now and as they were at the start."""
    streams: list[Any] = [getattr(sys, "stdout", None), getattr(sys, "stderr", None), STDOUT, STDERR]
    for stream in streams:
        # It may be closed, or not a stream.
        attempt(lambda stream=stream: stream.flush())


def block() -> None:
    """Lets writes wait for their turn: a cell may have made the descriptors non-blocking."""
    for descriptor in (1, 2):
        attempt(set_blocking, descriptor, True)


def put(descriptor: int, text: str) -> None:
    """Writes after everything that is in the streams, and past them."""
    block()
    flush()
    data = text.encode("utf-8", "backslashreplace")
    while data:
        try:
            data = data[write(descriptor, data) :]
        except OSError:
            return


# --- errors ---


def report(error: BaseException) -> None:
    """Tells of an error as the interpreter does, from the cell's frame on."""
    if isinstance(error, SystemExit):
        # A number is a status, and every way out of a cell has the same.
        if error.code is not None and not isinstance(error.code, int):
            put(2, f"{error.code}\n")
        return
    try:
        cut(error)
        put(2, "".join(format_exception(type(error), error, error.__traceback__)))
    except BaseException:
        # Something that this needs was overwritten.
        if not attempt(lambda: put(2, f"{type(error).__name__}: {error}\n")):
            put(2, f"{type(error).__name__}\n")


def cut(error: BaseException) -> None:
    """Lets tracebacks begin in a cell: that of the error, and those of the errors it came of or holds."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = from_cell(one.__traceback__)
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, GROUP):
            waiting += one.exceptions


def from_cell(traceback: TracebackType | None) -> TracebackType | None:
    """What is left of a traceback without the frames that led to the cell."""
    if traceback is None or traceback.tb_frame.f_globals is not KERNEL:
        return traceback
    found: TracebackType | None = traceback
    while found is not None and not found.tb_frame.f_code.co_filename.startswith("<cell "):
        found = found.tb_next
    if found is not None:
        return found
    while traceback is not None and traceback.tb_frame.f_globals is KERNEL:
        traceback = traceback.tb_next
    return traceback


# --- what cells share ---


class Session:
    """The namespace, the event loop and the sources of the cells so far."""

    def __init__(self) -> None:
        """Makes the module that cells take for the main one."""
        self.main = type(sys)("__main__")
        self.names = vars(self.main)
        self.count = 0
        self.future = 0
        self.sources: dict[str, int] = {}
        self.sources_length = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        self.directory = getcwd()

    def furnish(self) -> None:
        """Sets up the interpreter as a program would find it."""
        sys.modules["__main__"] = self.main
        sys.argv[:] = [""]
        sys.orig_argv[:] = sys.orig_argv[:1]
        # Time stamps of bytecode have a second's precision: a module edited and imported again would be the old one.
        sys.dont_write_bytecode = True
        sys.path.insert(0, self.directory)
        # Where a figure may be saved without further ado.
        attempt(mkdir, "artifacts")
        # A line that was printed is out, even if the deadline comes next.
        for stream in (STDOUT, STDERR):
            stream.reconfigure(encoding="utf-8", errors=stream.errors, line_buffering=True)  # type: ignore[union-attr]

    def cell(self, source: str) -> bytes:
        """Runs a cell; what it raises is told and does not get out."""
        self.count += 1
        name = f"<cell {self.count}>"
        try:
            self.remember(name, source)
            # A cell may have emptied the namespace.
            self.names["__builtins__"] = builtins
            self.names.setdefault("__name__", "__main__")
            attempt(self.look_again)
            try:
                value = self.run(source, name)
            finally:
                stop_tracing()
            if value is not None:
                self.names["_"] = value
                put(1, f"{value!r}\n")
        except BaseException as error:
            report(error)
            return RAISED
        return RAN

    def run(self, source: str, name: str) -> Any:
        """Runs a cell and returns the value of the expression at its end."""
        flags = TOP_LEVEL_AWAIT | self.future
        tree = compile(source.removeprefix("\ufeff"), name, "exec", flags | ONLY_AST, True)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], Expr) else None
        parts = [compile(tree, name, "exec", flags, True)]
        flags |= parts[0].co_flags & FUTURE_ANNOTATIONS
        if last is not None:
            parts.append(compile(Expression(last.value), name, "eval", flags, True))
        self.future = flags & FUTURE_ANNOTATIONS
        if any(part.co_flags & IS_COROUTINE for part in parts):
            return self.wait(self.run_in_loop(parts))
        if self.loop is not None:
            attempt(self.set_event_loop, self.loop)
        value = None
        for part in parts:
            value = eval(part, self.names)
        return self.wait(value) if type(value) is COROUTINE else value

    async def run_in_loop(self, parts: list[CodeType]) -> Any:
        """Runs the parts of a cell of which at least one waits."""
        value = None
        for part in parts:
            value = eval(part, self.names)
            if part.co_flags & IS_COROUTINE:
                value = await value
        return await value if type(value) is COROUTINE else value

    def wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Waits in the session's event loop, and leaves nothing of the cell in it but tasks of its own."""
        loop = self.event_loop()
        task = loop.create_task(coroutine)
        try:
            return loop.run_until_complete(task)
        except BaseException:
            if not task.done():
                task.cancel()
                attempt(loop.run_until_complete, task)
            raise

    def event_loop(self) -> asyncio.AbstractEventLoop:
        """The one event loop of the session."""
        if self.loop is None:
            self.import_asyncio()
        if self.loop is None or self.loop.is_closed():
            self.loop = self.new_event_loop()
        self.set_event_loop(self.loop)
        return self.loop

    def import_asyncio(self) -> None:
        """Takes what cells already have as the current event loop."""
        path = sys.path[:]
        # Not from the work directory.
        sys.path[:] = [each for each in path if each not in ("", self.directory)]
        try:
            from asyncio import events
        finally:
            sys.path[:] = path
        self.new_event_loop = events.new_event_loop
        self.set_event_loop = events.set_event_loop
        self.loop = getattr(getattr(events.get_event_loop_policy(), "_local", None), "_loop", None)

    def remember(self, name: str, source: str) -> None:
        """Gives tracebacks and `inspect` the source."""
        # Ended as the tokenizer ends them; tracebacks count on the last one's end.
        lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        cache[name] = (len(source), None, [f"{line}\n" for line in lines], name)
        self.sources[name] = len(source)
        self.sources_length += len(source)
        while self.sources_length > SOURCES_LENGTH:
            oldest = next(iter(self.sources))
            self.sources_length -= self.sources.pop(oldest)
            cache.pop(oldest, None)

    def look_again(self) -> None:
        """Lets `import` see files of the work directory that are younger than its last look at it."""
        finder = sys.path_importer_cache.get(self.directory)
        if finder is not None:
            finder.invalidate_caches()  # type: ignore[attr-defined]


def stop_tracing() -> None:
    """Keeps the trace and profile functions of a cell out of the kernel."""
    if getprofile() is not None:
        attempt(setprofile, None)
    if gettrace() is not None:
        attempt(settrace, None)


async def nothing() -> None:
    """Only its type is of use."""


def serve() -> None:
    """Runs cells as long as PID 1 is there."""
    session = Session()
    session.furnish()
    mask = hold_signals()
    while True:
        hear(1)
        tell(b"b")
        header = hear(5)
        body = hear(int.from_bytes(header[1:], "big"))
        status = RAISED
        try:
            pthread_sigmask(SIG_SETMASK, mask)
            status = session.cell(body[NONCE_LENGTH:].decode("utf-8", "replace"))
        except BaseException as error:
            # A signal handler, while the cell's own error was told.
            attempt(report, error)
        mask = hold_signals()
        block()
        flush()
        if getpid() != PID:
            # A child that a cell forked has come to the end of the program.
            _exit(int(status))
        tell(b"d", body[:NONCE_LENGTH] + status)


for end in (FROM_PID_1, TO_PID_1):
    set_inheritable(end, False)
tell(b"r")
from linecache import cache  # noqa: E402
from traceback import format_exception  # noqa: E402

sample = nothing()
COROUTINE = type(sample)
sample.close()
serve()
