"""The published client and grpcio against a daemon under TLS whose certificate a private authority has signed."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from plimsoll.v1 import plimsoll_pb2 as pb
from plimsoll.v1 import plimsoll_pb2_grpc
from plimsoll_client import Client, PlimsollError

from harness import TOKEN, UNLIMITED, Daemon, running


@pytest.fixture(scope="module")
def secured(certificates: Path) -> Iterator[Daemon]:
    """A daemon that serves with that certificate."""
    pair = {
        "PLIMSOLL_TLS_CERT": str(certificates / "cert.pem"),
        "PLIMSOLL_TLS_KEY": str(certificates / "key.pem"),
        "PLIMSOLL_METRICS_ADDR": "off",
    }
    with running({**UNLIMITED, **pair}) as started:
        assert started.base_url.startswith("https://")
        yield started


def test_the_published_client_runs_with_a_context_of_the_callers_own(secured: Daemon, certificates: Path) -> None:
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    client = Client(secured.base_url, TOKEN, ssl_context=context)
    for _ in range(3):
        assert client.run_javascript("console.log(6 * 7)").stdout == b"42\n"


def test_the_published_client_sends_nothing_to_a_daemon_it_does_not_believe(secured: Daemon) -> None:
    with pytest.raises(PlimsollError) as error:
        Client(secured.base_url, TOKEN).run_javascript("console.log('must not run')")
    assert error.value.not_dispatched == "environment"


def test_grpc_runs_over_http2_with_alpn(secured: Daemon, certificates: Path) -> None:
    credentials = grpc.ssl_channel_credentials((certificates / "ca.pem").read_bytes())
    with grpc.secure_channel(secured.address, credentials) as channel:
        stub: Any = plimsoll_pb2_grpc.SandboxServiceStub(channel)
        request = pb.RunRequest(protocol=4, javascript=pb.JavaScriptRun(code="console.log(6 * 7)"))
        answer = stub.Run(request, metadata=[("authorization", f"Bearer {TOKEN}")], timeout=30)
    assert answer.javascript.stdout == b"42\n"
