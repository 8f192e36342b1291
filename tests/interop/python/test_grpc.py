"""gRPC with stubs that grpcio-tools makes of proto/plimsoll/v1/plimsoll.proto."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from grpc_status import rpc_status
from plimsoll.v1 import plimsoll_pb2 as pb
from plimsoll.v1 import plimsoll_pb2_grpc

from harness import TOKEN, Daemon

BEARER = [("authorization", f"Bearer {TOKEN}")]
REQUEST_ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def stub(daemon: Daemon) -> Iterator[Any]:
    """The generated stub on one cleartext HTTP/2 connection."""
    with grpc.insecure_channel(daemon.address) as channel:
        yield plimsoll_pb2_grpc.SandboxServiceStub(channel)


def snippet(code: str, **fields: Any) -> pb.RunRequest:
    """A request that states the protocol."""
    return pb.RunRequest(protocol=4, javascript=pb.JavaScriptRun(code=code), **fields)


def refused(call: Any) -> tuple[grpc.StatusCode, int | None]:
    """The status of a refused call and the reason in its `grpc-status-details-bin`, if there is one."""
    with pytest.raises(grpc.RpcError) as error:
        call()
    value: Any = error.value
    status = rpc_status.from_call(value)
    if status is None:
        return (value.code(), None)
    assert (status.code, status.message) == (value.code().value[0], value.details())
    assert len(status.details) == 1
    detail = pb.NotDispatched()
    assert status.details[0].Unpack(detail)
    return (value.code(), detail.reason)


def test_describe(stub: Any) -> None:
    answer = stub.Describe(pb.DescribeRequest(), metadata=BEARER)
    assert (answer.sandbox, answer.isolation, answer.protocol) == ("wasm", "process", 4)
    assert list(answer.javascript_environment.languages) == ["javascript"]


def test_run_carries_bytes_exit_code_and_record(stub: Any) -> None:
    code = "process.stdout.write(new Uint8Array([255, 0, 254])); process.exit(3)"
    answer = stub.Run(snippet(code, minimum_isolation="process"), metadata=BEARER)
    assert answer.WhichOneof("result") == "javascript"
    assert (answer.javascript.stdout, answer.javascript.exit_code) == (b"\xff\x00\xfe", 3)
    assert (answer.sandbox, answer.isolation, answer.record.version) == ("wasm", "process", 4)
    assert answer.record.environment == answer.environment


def test_the_request_id_is_echoed(stub: Any) -> None:
    metadata = [*BEARER, ("plimsoll-request-id", REQUEST_ID)]
    _, call = stub.Describe.with_call(pb.DescribeRequest(), metadata=metadata)
    headers = {name: value for name, value in call.initial_metadata() if name.startswith("plimsoll-")}
    assert headers == {"plimsoll-request-id": REQUEST_ID}


@pytest.mark.parametrize(
    ("request_message", "code", "reason"),
    [
        (snippet("1", minimum_isolation="vm"), grpc.StatusCode.FAILED_PRECONDITION, pb.NOT_DISPATCHED_REASON_ISOLATION),
        (snippet("1", minimum_isolation="Kernel"), grpc.StatusCode.INVALID_ARGUMENT, pb.NOT_DISPATCHED_REASON_REQUEST),
        (snippet(""), grpc.StatusCode.INVALID_ARGUMENT, pb.NOT_DISPATCHED_REASON_REQUEST),
        (snippet("a" * 262_145), grpc.StatusCode.INVALID_ARGUMENT, pb.NOT_DISPATCHED_REASON_REQUEST),
        (pb.RunRequest(protocol=4), grpc.StatusCode.INVALID_ARGUMENT, pb.NOT_DISPATCHED_REASON_REQUEST),
        (pb.RunRequest(), grpc.StatusCode.INVALID_ARGUMENT, pb.NOT_DISPATCHED_REASON_PROTOCOL),
        (pb.RunRequest(protocol=3), grpc.StatusCode.UNIMPLEMENTED, pb.NOT_DISPATCHED_REASON_PROTOCOL),
        (
            pb.RunRequest(protocol=4, cell=pb.CellRun(language="javascript", code="1")),
            grpc.StatusCode.INVALID_ARGUMENT,
            pb.NOT_DISPATCHED_REASON_REQUEST,
        ),
        (
            pb.RunRequest(protocol=4, project=pb.ProjectRun(steps=["ls"])),
            grpc.StatusCode.UNIMPLEMENTED,
            pb.NOT_DISPATCHED_REASON_UNSUPPORTED,
        ),
        (
            snippet("1", software_rule=pb.SoftwareRule(mode="exact", identities=["image:a"])),
            grpc.StatusCode.FAILED_PRECONDITION,
            pb.NOT_DISPATCHED_REASON_ENVIRONMENT,
        ),
    ],
    ids=[
        "floor",
        "floor-syntax",
        "empty",
        "long",
        "no-payload",
        "no-protocol",
        "protocol-3",
        "cell",
        "project",
        "rule",
    ],
)
def test_a_refusal_travels_in_the_trailers_with_its_reason(
    stub: Any, daemon: Daemon, request_message: pb.RunRequest, code: grpc.StatusCode, reason: int
) -> None:
    before = daemon.metric("plimsoll_runs_total")
    assert refused(lambda: stub.Run(request_message, metadata=BEARER)) == (code, reason)
    assert daemon.metric("plimsoll_runs_total") == before


def test_session_procedures_are_unsupported(stub: Any) -> None:
    expected = (grpc.StatusCode.UNIMPLEMENTED, pb.NOT_DISPATCHED_REASON_UNSUPPORTED)
    assert refused(lambda: stub.OpenSession(pb.OpenSessionRequest(protocol=4), metadata=BEARER)) == expected
    assert refused(lambda: stub.SessionRun(pb.SessionRunRequest(protocol=4), metadata=BEARER)) == expected
    assert refused(lambda: stub.CloseSession(pb.CloseSessionRequest(protocol=4), metadata=BEARER)) == expected


def test_a_missing_or_wrong_token_is_unauthenticated(stub: Any) -> None:
    for metadata in ([], [("authorization", "Bearer " + "wrong" * 8)], [("authorization", TOKEN)]):
        with pytest.raises(grpc.RpcError) as error:
            stub.Describe(pb.DescribeRequest(), metadata=metadata)
        value: Any = error.value
        assert value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_the_runs_own_deadline_is_a_result(stub: Any) -> None:
    answer = stub.Run(snippet("console.log(1);while(true){}", timeout_ms=50), metadata=BEARER)
    result = answer.javascript
    assert (result.timed_out, result.exit_code, result.stdout) == (True, 124, b"1\n")


def test_the_calls_deadline_ends_the_run(stub: Any, daemon: Daemon) -> None:
    started = time.monotonic()
    with pytest.raises(grpc.RpcError) as error:
        stub.Run(snippet("while(true){}", timeout_ms=20_000), metadata=BEARER, timeout=0.3)
    value: Any = error.value
    assert value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert time.monotonic() - started < 2
    daemon.wait_for_metric("plimsoll_inflight", 0)


def test_cancelling_the_call_ends_the_run(stub: Any, daemon: Daemon) -> None:
    call = stub.Run.future(snippet("while(true){}", timeout_ms=20_000), metadata=BEARER)
    daemon.wait_for_metric("plimsoll_inflight", 1)
    call.cancel()
    daemon.wait_for_metric("plimsoll_inflight", 0)


def test_fifty_calls_at_once_on_one_connection(stub: Any) -> None:
    barrier = threading.Barrier(50)

    def call(number: int) -> bytes:
        barrier.wait(30)
        output: bytes = stub.Run(snippet(f"console.log({number})"), metadata=BEARER).javascript.stdout
        return output

    with ThreadPoolExecutor(50) as pool:
        assert list(pool.map(call, range(50))) == [f"{number}\n".encode() for number in range(50)]


def test_an_undecodable_message_carries_the_header_mark(daemon: Daemon) -> None:
    with grpc.insecure_channel(daemon.address) as channel:
        raw: Any = channel.unary_unary("/plimsoll.v1.SandboxService/Run")
        with pytest.raises(grpc.RpcError) as error:
            raw(b"\x0a\xff\xff\xff\xff", metadata=BEARER)
    value: Any = error.value
    assert value.code() == grpc.StatusCode.INVALID_ARGUMENT
    headers = {*value.initial_metadata(), *value.trailing_metadata()}
    assert ("plimsoll-not-dispatched", "request") in {(name, text) for name, text in headers}
