"""Plays PID 1 of a sandbox towards one interpreter that keeps the variables of cells."""

from __future__ import annotations

import os
import re
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

GUEST = Path(__file__).resolve().parents[2] / "crates" / "guest"
RAN, RAISED, STUCK = "0", "1", "3"
READY_WITHIN = 20.0
# Far more than any cell of the suite takes, on a machine that does other things as well.
TIMEOUT = 30.0


def node() -> str:
    """The node that the suites run with."""
    found = os.environ.get("NODE") or shutil.which("node")
    assert found, "node 22 is needed: put it into PATH or name it in NODE"
    return found


def javascript_kernel() -> str:
    """The text of the kernel for JavaScript, put together as PID 1's own source says."""
    source = (GUEST / "src" / "interpreter.rs").read_text(encoding="utf-8")
    parts = re.search(r"JAVASCRIPT_KERNEL: &str = concat!\((.*?)\n\);", source, re.DOTALL)
    assert parts
    text = []
    for quoted, file in re.findall(r'^    (?:"(.*)"|include_str!\("(.*)"\)),$', parts[1], re.MULTILINE):
        text.append((GUEST / "src" / file).read_text(encoding="utf-8") if file else quoted.replace("\\n", "\n"))
    return "".join(text)


def command(language: str) -> list[str]:
    """How PID 1 starts the interpreter of a language."""
    if language == "javascript":
        return [node(), "-e", javascript_kernel()]
    source = (GUEST / "py" / "cell_kernel.py").read_text(encoding="utf-8")
    return [sys.executable, "-I", "-c", source]


@dataclass(frozen=True)
class Answer:
    """What one cell led to. Without a status its interpreter has ended."""

    status: str | None
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        """Standard output as text."""
        return self.stdout.decode()

    @property
    def err(self) -> str:
        """Standard error as text."""
        return self.stderr.decode()


class Gone(Exception):  # noqa: N818
    """The interpreter closed its end."""


class Kernel:
    """An interpreter and PID 1's ends of its four pipes."""

    def __init__(self, language: str, directory: Path) -> None:
        """Starts the interpreter and waits until it is ready."""
        self.language = language
        self.directory = directory
        words_in, self._words = os.pipe()
        self._frames, frames_out = os.pipe()
        self._stdout, stdout = os.pipe()
        self._stderr, stderr = os.pipe()
        arguments = command(language)

        def place() -> None:
            for number in (words_in, frames_out):
                os.set_inheritable(number, True)
            # Out of the way first: either may be 3 or 4 itself.
            aside = os.dup(words_in), os.dup(frames_out)
            os.dup2(aside[0], 3)
            os.dup2(aside[1], 4)
            os.closerange(5, 256)
            # As PID 1 does. Whoever runs the suite in the background of a shell ignores it.
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        self.process = subprocess.Popen(
            arguments,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            close_fds=False,
            preexec_fn=place,
            env={"PATH": os.environ["PATH"], "HOME": "/", "LANG": "C.UTF-8", "MPLBACKEND": "Agg"},
        )
        for number in (words_in, frames_out, stdout, stderr):
            os.close(number)
        os.set_blocking(self._stdout, False)
        os.set_blocking(self._stderr, False)
        self._pending = b""
        self._output = {self._stdout: bytearray(), self._stderr: bytearray()}
        self._selector = selectors.DefaultSelector()
        for number in (self._frames, self._stdout, self._stderr):
            self._selector.register(number, selectors.EVENT_READ)
        try:
            ready = self._frame(READY_WITHIN)
        except Gone:
            self._drain()
            ready = b"", bytes(self._output[self._stderr])
        assert ready == (b"r", b""), ready

    def __enter__(self) -> Self:
        """Nothing is left to do."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the interpreter."""
        self.process.kill()
        self.process.wait()
        self._selector.close()
        for number in (self._words, self._frames, self._stdout, self._stderr):
            if number >= 0:
                os.close(number)

    def cell(self, code: str | bytes, timeout: float = TIMEOUT) -> Answer:
        """Runs one cell to its end or the interpreter's."""
        try:
            self.ring(timeout)
        except (Gone, BrokenPipeError):
            return self._gone()
        return self.send(code, timeout)

    def ring(self, timeout: float = TIMEOUT) -> None:
        """Rings the bell and throws away what the streams hold when it has been heard."""
        os.write(self._words, b"!")
        assert self._frame(timeout) == (b"b", b"")
        self._drain()
        for output in self._output.values():
            output.clear()

    def send(self, code: str | bytes, timeout: float = TIMEOUT) -> Answer:
        """Sends the code of the cell that was rung for."""
        nonce = secrets.token_hex(16).encode()
        body = nonce + (code.encode() if isinstance(code, str) else code)
        try:
            self._send(b"c" + len(body).to_bytes(4, "big") + body)
            kind, told = self._frame(timeout)
        except (Gone, BrokenPipeError):
            return self._gone()
        assert kind == b"d"
        assert told[:32] == nonce
        assert len(told) == 33
        return Answer(told[32:].decode(), *self.taken())

    def _gone(self) -> Answer:
        self.process.wait()
        return Answer(None, *self.taken())

    def taken(self) -> tuple[bytes, bytes]:
        """What the streams have carried since the last cell began."""
        self._drain()
        return bytes(self._output[self._stdout]), bytes(self._output[self._stderr])

    def hang_up(self) -> int:
        """Closes PID 1's end and returns the exit status of the interpreter."""
        os.close(self._words)
        self._words = -1
        return self.process.wait(timeout=TIMEOUT)

    def _send(self, frame: bytes) -> None:
        while frame:
            frame = frame[os.write(self._words, frame) :]

    def _frame(self, timeout: float) -> tuple[bytes, bytes]:
        deadline = time.monotonic() + timeout
        while True:
            if len(self._pending) >= 5:
                length = int.from_bytes(self._pending[1:5], "big")
                if len(self._pending) >= 5 + length:
                    frame, self._pending = self._pending[: 5 + length], self._pending[5 + length :]
                    return frame[:1], frame[5:]
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(bytes(self._output[self._stderr]).decode())
            for key, _ in self._selector.select(left):
                number = key.fd
                if number in self._output:
                    self._read(number)
                    continue
                data = os.read(number, 65536)
                if not data:
                    raise Gone
                self._pending += data

    def _drain(self) -> None:
        for number in self._output:
            while self._read(number):
                pass

    def _read(self, number: int) -> bool:
        try:
            data = os.read(number, 65536)
        except BlockingIOError:
            return False
        if not data and number in self._selector.get_map():
            self._selector.unregister(number)
        self._output[number] += data
        return bool(data)


def converse(kernel: Kernel, cells: list[tuple[str, str]]) -> None:
    """Runs cells one after the other; none raises or says anything on standard error."""
    for code, printed in cells:
        answer = kernel.cell(code)
        assert (answer.status, answer.out, answer.err) == (RAN, printed, ""), code
