"""Starts the real `plimsolld` for one test session and stops it again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]

TOKEN = "interop-token-0123456789abcdef0123456789abcdef"

# No limiter in the way: most suites are about answers, not about admission.
UNLIMITED = {
    "SANDBOX_PROVIDER": "wasm",
    "SANDBOX_MAX_CONCURRENT": "64",
    "SANDBOX_PER_KEY_CONCURRENT": "0",
    "SANDBOX_RATE_PER_MIN": "0",
    "PLIMSOLL_TOKEN": TOKEN,
}

START_SECONDS = 30.0
STOP_SECONDS = 30.0


class Daemon:
    """A running daemon: where it listens, what it logs, what its metrics say."""

    def __init__(self, variables: dict[str, str]) -> None:
        """Starts the program of `PLIMSOLLD` on free ports with exactly these variables and waits until it serves."""
        program = os.environ["PLIMSOLLD"]
        environment = {"PLIMSOLL_ADDR": "127.0.0.1:0", "PLIMSOLL_METRICS_ADDR": "127.0.0.1:0", **variables}
        self.lines: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [program], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        if not self._listening.wait(START_SECONDS):
            self._process.kill()
            self._reader.join()
            raise AssertionError(f"plimsolld wrote no listening line in {START_SECONDS} s; its log: {self.lines}")
        line = self.log_line("listening")
        self.address: str = line["addr"]
        scheme = "https" if line["tls"] else "http"
        self.base_url = f"{scheme}://{self.address}"
        self.metrics_url = f"http://{line['metrics_addr']}/metrics"

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        for raw in self._process.stderr:
            line = json.loads(raw)
            self.lines.append(line)
            if "listening" in line["msg"]:
                self._listening.set()
        # The end of the log before the line: the wait above ends at once and reports what was written.
        if not any("listening" in line["msg"] for line in self.lines):
            self.lines.append({"msg": "listening was never reached", "addr": "", "metrics_addr": ""})
            self._listening.set()

    def log_line(self, text: str) -> dict[str, Any]:
        """The first log line whose message contains the text."""
        for line in self.lines:
            if text in line["msg"]:
                assert line.get("addr") != "", f"plimsolld stopped before it served; its log: {self.lines}"
                return line
        raise AssertionError(f"no log line says {text!r}: {self.lines}")

    def metric(self, series: str) -> float:
        """The value of one series, written as in the metrics text: `name` or `name{label="x"}`."""
        with urllib.request.urlopen(self.metrics_url, timeout=10) as answer:
            text = answer.read().decode()
        found = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
        assert found is not None, f"no series {series} in:\n{text}"
        return float(found.group(1))

    def wait_for_metric(self, series: str, value: float, seconds: float = 5.0) -> None:
        """Waits until the series has the value."""
        deadline = time.monotonic() + seconds
        while (seen := self.metric(series)) != value:
            assert time.monotonic() < deadline, f"{series} is {seen} and not {value} after {seconds} s"
            time.sleep(0.01)

    def wait_for_line(self, member: str, content: object, seconds: float = 5.0) -> dict[str, Any]:
        """The one log line that has this content in this member; the log may lag behind the answer."""
        deadline = time.monotonic() + seconds
        while not (found := [line for line in self.lines if line.get(member) == content]):
            assert time.monotonic() < deadline, f"no log line has {member} = {content!r} after {seconds} s"
            time.sleep(0.01)
        assert len(found) == 1, f"more than one log line has {member} = {content!r}: {found}"
        return found[0]

    def hang_up(self) -> None:
        """Sends SIGHUP."""
        self._process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        """Asks the daemon to drain and requires a clean end."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        self._reader.join(STOP_SECONDS)
        assert self._process.stderr is not None
        self._process.stderr.close()
        assert code == 0, f"plimsolld ended with exit code {code}; its last lines: {self.lines[-5:]}"


@contextmanager
def running(variables: dict[str, str]) -> Iterator[Daemon]:
    """A daemon for the length of a `with` block."""
    daemon = Daemon(variables)
    try:
        yield daemon
    finally:
        daemon.stop()


def run_raw(daemon: Daemon, request: dict[str, Any]) -> dict[str, Any]:
    """One Run as plain JSON, with no client in between."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    url = daemon.base_url + "/plimsoll.v1.SandboxService/Run"
    call = urllib.request.Request(url, json.dumps(request).encode(), headers)
    with urllib.request.urlopen(call, timeout=30) as response:
        answer: dict[str, Any] = json.load(response)
    return answer
