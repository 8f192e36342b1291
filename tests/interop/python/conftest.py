"""Fixtures shared by the suites of this folder."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

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


def openssl(folder: Path, *arguments: str) -> None:
    """Debian's openssl, in the folder of the certificates."""
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority (`ca.pem`), and a certificate and key that it has signed for this host."""
    folder = tmp_path_factory.mktemp("certificates")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl(folder, "req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority", "-days", "2")
    openssl(folder, "req", *key, "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=daemon")
    extensions = "subjectAltName=IP:127.0.0.1,DNS:localhost\nauthorityKeyIdentifier=keyid\n"
    (folder / "extensions").write_text(extensions)
    authority = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions")
    openssl(folder, "x509", "-req", "-in", "request.pem", *authority, "-days", "2", "-out", "cert.pem")
    return folder
