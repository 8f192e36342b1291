"""The record: recomputed by hand, checked by the published client, and useless to anyone who changes the answer."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from typing import Any

import pytest
from plimsoll_client import (
    AnswerNotBoundError,
    Client,
    DataLossError,
    InsufficientIsolationError,
    IsolationEvidenceMismatchError,
    MalformedResponseError,
    NoRecordError,
    PlimsollError,
    RecordMismatchError,
    RecordVersionError,
    ResultKindMismatchError,
)

from harness import TOKEN, Daemon, run_raw
from proxy import Exchange, Proxy
from recompute import record_digest, request_digest, result_digest


@pytest.mark.parametrize(
    "request_body",
    [
        {"protocol": 4, "javascript": {"code": "console.log(6*7)"}},
        {"protocol": 4, "timeoutMs": 50, "javascript": {"code": "console.log('é');while(true){}"}},
        {"protocol": 4, "minimumIsolation": "process", "traceId": "t-1", "javascript": {"code": "process.exit(3)"}},
        {"protocol": 4, "timeoutMs": -5, "javascript": {"code": "process.stderr.write('x'.repeat(70000))"}},
        {"protocol": 4, "javascript": {"code": "process.stdout.write(new Uint8Array([255, 0, 254]))"}},
        {"protocol": 4, "softwareRule": {}, "javascript": {"code": "1"}},
    ],
)
def test_anyone_can_recompute_a_record_by_hand(daemon: Daemon, request_body: dict[str, Any]) -> None:
    before = time.time_ns() // 1_000_000
    answer = run_raw(daemon, request_body)
    after = time.time_ns() // 1_000_000
    record = answer["record"]
    assert record["version"] == 4
    assert record["requestSha256"] == request_digest(request_body)
    assert record["resultSha256"] == result_digest(answer)
    assert record["recordSha256"] == record_digest(record)
    assert (record["provider"], record["isolation"]) == (answer["sandbox"], answer["isolation"])
    assert record["environment"] == answer["environment"]
    assert before <= int(record["startedUnixMs"]) <= int(record["endedUnixMs"]) <= after
    absent = {"session", "sequence", "previousSha256", "unanswered", "instance", "policy", "softwareIdentity"}
    assert absent.isdisjoint(record)


def test_published_digest_vectors_come_out_of_a_live_run(client: Client) -> None:
    record = client.run_javascript("console.log(6*7)").record
    assert record is not None
    assert record.request_sha256 == "f65090a97b59925602246c3a7ab3e5d05dfde6cae06c13365cbd0e6be4986dc3"
    assert record.result_sha256 == "9a471e25396d4e0a2ef3124f138007aadce1a73d746dd4b99c38c50c0df2a7a5"
    assert (record.provider, record.isolation, record.policy, record.instance) == ("wasm", "process", "", "")
    assert (record.session, record.sequence, record.previous_sha256, record.unanswered) == ("", 0, "", "")
    assert record.started_unix_ms <= record.ended_unix_ms


def changed(member: str, content: object) -> Callable[[Exchange], None]:
    """Sets one member of the answer; a dot enters a nested message."""

    def change(exchange: Exchange) -> None:
        *path, last = member.split(".")
        target = exchange.answer
        for name in path:
            target = target[name]
        target[last] = content

    return change


def run_through(daemon: Daemon, on_answer: Callable[[Exchange], None], floor: str | None = "process") -> Any:
    """One run whose answer passes the change on its way back."""
    with Proxy(daemon.address, on_answer=on_answer) as proxy:
        return Client(proxy.base_url, TOKEN).run_javascript("console.log(6*7)", minimum_isolation=floor)


@pytest.mark.parametrize(
    ("member", "content"),
    [("durationMs", "123456"), ("diagnostics", {"limitHit": "memory", "stdoutBytes": "9"}), ("somethingNew", [1, 2])],
)
def test_what_no_digest_covers_may_differ(daemon: Daemon, member: str, content: object) -> None:
    assert run_through(daemon, changed(member, content)).stdout == b"42\n"


@pytest.mark.parametrize(
    ("member", "content"),
    [
        ("javascript.stdout", base64.b64encode(b"43\n").decode()),
        ("javascript.stderr", base64.b64encode(b"x").decode()),
        ("javascript.exitCode", 1),
        ("javascript.timedOut", True),
        ("javascript.stdoutTruncated", True),
        ("javascript.stderrTruncated", True),
        ("sandbox", "docker"),
        ("isolation", "vm"),
        ("environment", "quickjs-wasm:sha256:" + "0" * 64),
        ("softwareIdentity", "oci-manifest:linux/amd64@sha256:" + "a" * 64),
        ("record.requestSha256", "0" * 64),
        ("record.resultSha256", "0" * 64),
        ("record.recordSha256", "0" * 64),
        ("record.provider", "docker"),
        ("record.isolation", "vm"),
        ("record.environment", ""),
        ("record.policy", "policy:sha256:" + "0" * 64),
        ("record.softwareIdentity", "oci-manifest:linux/amd64@sha256:" + "a" * 64),
        ("record.softwareRuleId", "exact:x"),
        ("record.unanswered", "internal"),
        ("record.startedUnixMs", "1"),
        ("record.endedUnixMs", "9999999999999"),
        ("record.session", "0" * 64),
        ("record.sequence", "1"),
        ("record.previousSha256", "0" * 64),
    ],
)
def test_a_changed_answer_fails_the_record_check(daemon: Daemon, member: str, content: object) -> None:
    with pytest.raises(RecordMismatchError) as error:
        run_through(daemon, changed(member, content))
    assert (error.value.code, error.value.not_dispatched) == ("data_loss", None)
    assert error.value.result.record is None


def test_an_answer_without_a_record_is_not_believed(daemon: Daemon) -> None:
    def drop(exchange: Exchange) -> None:
        del exchange.answer["record"]

    with pytest.raises(NoRecordError):
        run_through(daemon, drop)


@pytest.mark.parametrize("version", [3, 5])
def test_another_record_version_is_refused(daemon: Daemon, version: int) -> None:
    with pytest.raises(RecordVersionError):
        run_through(daemon, changed("record.version", version))


def test_an_answer_of_another_kind_is_not_a_snippets_result(daemon: Daemon) -> None:
    def swap(exchange: Exchange) -> None:
        exchange.answer["project"] = {"outcome": "PROJECT_OUTCOME_COMPLETED"}
        del exchange.answer["javascript"]

    with pytest.raises(ResultKindMismatchError):
        run_through(daemon, swap)
    with pytest.raises(MalformedResponseError):
        run_through(daemon, changed("project", {"outcome": "PROJECT_OUTCOME_COMPLETED"}))


def test_a_consistent_record_below_the_floor_is_an_evidence_mismatch(daemon: Daemon) -> None:
    def weaken(exchange: Exchange) -> None:
        record = exchange.answer["record"]
        exchange.answer["isolation"] = record["isolation"] = "none"
        record["recordSha256"] = record_digest(record)

    with pytest.raises(IsolationEvidenceMismatchError) as error:
        run_through(daemon, weaken)
    assert error.value.result.stdout == b"42\n"


def test_the_answer_to_another_request_is_data_loss(daemon: Daemon) -> None:
    def replay(exchange: Exchange) -> None:
        for name in exchange.headers:
            if name.lower() == "plimsoll-request-id":
                exchange.headers[name] = "0" * 32

    before = daemon.metric("plimsoll_runs_total")
    with pytest.raises(AnswerNotBoundError) as error:
        run_through(daemon, replay)
    assert isinstance(error.value, DataLossError)
    assert (error.value.not_dispatched, error.value.answer_not_bound) == (None, True)
    assert daemon.metric("plimsoll_runs_total") == before + 1

    # A refusal that answers another request proves nothing about this one: it loses its mark.
    with pytest.raises(PlimsollError) as replayed:
        run_through(daemon, replay, floor="vm")
    assert (replayed.value.not_dispatched, replayed.value.answer_not_bound) == (None, True)
    with pytest.raises(InsufficientIsolationError) as honest:
        run_through(daemon, lambda _exchange: None, floor="vm")
    assert honest.value.not_dispatched == "isolation"
