"""Fixtures shared by the suites of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from plimsoll_client import Client

from harness import TOKEN, UNLIMITED, Daemon, running


@pytest.fixture(scope="session")
def daemon() -> Iterator[Daemon]:
    """One daemon on wasm with a shared token and no admission limits."""
    with running(UNLIMITED) as started:
        yield started


@pytest.fixture
def client(daemon: Daemon) -> Client:
    """The published client, pointed at that daemon."""
    return Client(daemon.base_url, TOKEN)
