"""Deadlines, cancellation and many calls at once, through the published client."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from plimsoll_client import CancelHandle, Client, RequestCanceledError, RequestTimeoutError

from harness import TOKEN, Daemon


def test_an_endless_loop_ends_at_its_deadline_with_its_output_kept(client: Client) -> None:
    started = time.monotonic()
    result = client.run_javascript("console.log('kept');while(true){}", timeout=0.05)
    assert time.monotonic() - started < 2
    assert (result.timed_out, result.exit_code, result.stdout, result.stderr) == (True, 124, b"kept\n", b"")


@pytest.mark.parametrize(
    "code", ["/(a+)+$/.test('a'.repeat(40) + 'b')", "for(;;) [3,1,2].sort(() => Math.random() - 0.5)"]
)
def test_work_inside_the_engine_ends_at_the_deadline_too(client: Client, code: str) -> None:
    started = time.monotonic()
    result = client.run_javascript(code, timeout=0.2)
    assert time.monotonic() - started < 2
    assert (result.timed_out, result.exit_code) == (True, 124)


def test_waiting_on_the_virtual_clock_takes_no_time(client: Client) -> None:
    started = time.monotonic()
    result = client.run_javascript("setTimeout(() => console.log('an hour later'), 3600_000)", timeout=5)
    assert time.monotonic() - started < 2
    assert (result.stdout, result.timed_out) == (b"an hour later\n", False)


def test_the_clients_own_timeout_leaves_the_call_unmarked(daemon: Daemon) -> None:
    client = Client(daemon.base_url, TOKEN, request_timeout=0.3)
    with pytest.raises(RequestTimeoutError) as error:
        client.run_javascript("while(true){}", timeout=20)
    assert error.value.not_dispatched is None
    # The daemon notices the hang-up long before the run's own deadline.
    daemon.wait_for_metric("plimsoll_inflight", 0)


def test_cancelling_a_call_in_flight_ends_the_run(client: Client, daemon: Daemon) -> None:
    handle = CancelHandle()
    seen: list[BaseException] = []

    def call() -> None:
        try:
            client.run_javascript("while(true){}", timeout=20, cancel=handle)
        except RequestCanceledError as error:
            seen.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    daemon.wait_for_metric("plimsoll_inflight", 1)
    cancelled = time.monotonic()
    handle.cancel()
    thread.join(10)
    assert time.monotonic() - cancelled < 1
    assert len(seen) == 1
    assert isinstance(seen[0], RequestCanceledError)
    assert seen[0].not_dispatched is None
    daemon.wait_for_metric("plimsoll_inflight", 0)


def test_a_cancelled_handle_sends_nothing(client: Client, daemon: Daemon) -> None:
    handle = CancelHandle()
    handle.cancel()
    before = daemon.metric("plimsoll_runs_total")
    with pytest.raises(RequestCanceledError) as error:
        client.run_javascript("1", cancel=handle)
    assert error.value.not_dispatched == "request"
    assert daemon.metric("plimsoll_runs_total") == before


def test_fifty_calls_at_once_each_get_their_own_answer(client: Client, daemon: Daemon) -> None:
    before = daemon.metric("plimsoll_runs_total")

    def call(number: int) -> tuple[int, bytes, int]:
        code = (
            f"let n = 0; for (let i = 0; i < 50000; i++) n += i % 7; console.log({number}, n); process.exit({number})"
        )
        result = client.run_javascript(code, minimum_isolation="process", timeout=20)
        return (number, result.stdout, result.exit_code)

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(call, range(50)))
    assert answers == [(number, f"{number} 149997\n".encode(), number) for number in range(50)]
    assert daemon.metric("plimsoll_runs_total") == before + 50
    daemon.wait_for_metric("plimsoll_inflight", 0)
